"""Import and export of graphs: networkx, GraphML, GEXF. Runs in the client."""
