"""What `serve` speaks: the HTTP API of the pages and of programs, OpenAI's and Ollama's, and MCP."""
