"""Graphs in and out: networkx, GraphML, GEXF. Runs in the client."""
