"""What sessions cache of corpora in memory, and what they share in files."""
