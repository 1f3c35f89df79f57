"""What runs beside the server: it speaks SQL to it, and imports nothing of it but for `process`."""
