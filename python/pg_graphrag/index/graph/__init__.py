"""The knowledge graph: merging mentions, and Cypher over the Apache AGE projection."""
