"""Sources of documents: attached tables, and imports with chunks and mentions."""
