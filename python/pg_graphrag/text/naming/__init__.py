"""What a document's noun phrases name: which of them are names, of what, and which are one thing."""
