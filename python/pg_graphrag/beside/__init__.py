"""Programs that run beside the server and speak SQL to it. Only `process` imports the server's code."""
