"""A node subscribes to tables of another server by logical replication: what each side is asked and does."""
