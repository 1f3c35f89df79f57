"""GraphRAG as a PostgreSQL extension: the package that runs inside the server, and its client and CLI."""

__version__ = "0.1.0"
