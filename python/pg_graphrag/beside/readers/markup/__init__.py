"""Text with marks: LaTeX, AsciiDoc, reStructuredText, Org, wikis, DocBook, Rich Text."""
