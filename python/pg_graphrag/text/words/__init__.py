"""Words, search terms, noun phrases and names, by language."""
