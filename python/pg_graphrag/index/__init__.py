"""What is made of documents and of what people change: chunks, graph, postings, vectors, communities."""
