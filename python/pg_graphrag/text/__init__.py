"""Text into chunks, windows, search terms and concepts. Pure functions of their input: no database, no network."""
