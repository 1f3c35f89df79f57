"""A question as retrievers see it: the request, its terms and vectors, who asks, and which mode."""
