"""What an administrator asks: whether the graph is what the documents say."""
