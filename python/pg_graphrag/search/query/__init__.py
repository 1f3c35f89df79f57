"""A question as retrievers see it: the request, its terms and vectors, the caller, and the mode."""
