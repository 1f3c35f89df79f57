"""The queue: claim, prepare without a transaction, write."""
