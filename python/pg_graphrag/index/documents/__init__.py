"""Where documents come from: attached tables, and imports with chunks and mentions."""
