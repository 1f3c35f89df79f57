"""The graph that a query sees: of all documents or of the visible ones, from tables or from memory."""
