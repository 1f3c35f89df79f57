"""A node that subscribes to tables of another server by logical replication: what is asked and done at both ends."""
