"""Which ranked chunks are returned, and the context that a language model gets."""
