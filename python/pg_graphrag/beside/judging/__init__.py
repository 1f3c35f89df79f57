"""Making questions, judging answers and drawing charts, for the command: nothing of it runs in the server."""
