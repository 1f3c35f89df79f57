"""Communities: hierarchical Leiden over the graph of a corpus, kept up to date, and reports of what each is about."""
