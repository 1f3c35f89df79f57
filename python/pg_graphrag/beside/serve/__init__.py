"""``pg-graphrag serve``: HTTP API, MCP, an OpenAI-compatible front and pages, in one process beside a database.

It is a client: what a call may see, the database decides, by the role that the call runs as (`callers`).
"""
