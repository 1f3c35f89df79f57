"""Question making, judging of answers, and charts, for the command line. Nothing of it runs in the server."""
