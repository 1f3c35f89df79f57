"""The queue: what is due, and who works on it."""
