"""Two sides of a call: the caller's, which decides what he may see, and the owner's, which reads what was made of it."""
