"""Plain text, rows, JSON Lines and notebooks."""
