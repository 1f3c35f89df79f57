"""What is made of documents and curations: chunks, graph, postings, vectors, communities."""
