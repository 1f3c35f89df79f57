"""What holds in every snapshot of a corpus, table by table."""
