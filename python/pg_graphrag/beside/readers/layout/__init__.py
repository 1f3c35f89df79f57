"""Pages of a PDF or scan: lines, columns, tables and their text."""
