"""Invariants that hold in every snapshot of a corpus, table by table."""
