"""A node that subscribes to tables of another server by logical replication: what is asked of both ends, and what is done there."""
