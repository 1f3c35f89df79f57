"""Markup languages: LaTeX, AsciiDoc, reStructuredText, Org, MediaWiki, DocBook, Rich Text."""
