"""Communities: hierarchical Leiden over a corpus' graph, kept up to date, and reports about them."""
