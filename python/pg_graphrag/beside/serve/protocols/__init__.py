"""The protocols of `serve`: the HTTP API for pages and programs, OpenAI's and Ollama's APIs, and MCP."""
