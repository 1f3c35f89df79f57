"""An administrator's functions: corpora, embedding spaces, checks and fingerprints of the graph."""
