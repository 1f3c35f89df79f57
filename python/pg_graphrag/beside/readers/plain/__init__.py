"""Text without marks, rows, JSON Lines and notebooks."""
