"""``pg-graphrag serve``: HTTP API, MCP, an OpenAI-compatible API and web pages, in one process beside a database.

It is a client. The database decides what a call may see, by the role that the call runs as (`callers`).
"""
