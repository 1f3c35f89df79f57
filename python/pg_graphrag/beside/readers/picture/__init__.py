"""Picture files."""
