"""The graph as a query sees it: of all documents or of the visible ones, from tables or from memory."""
