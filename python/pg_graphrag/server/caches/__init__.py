"""What sessions cache of corpora, and what they share of it in files."""
