"""The two sides of a call: the caller's rights decide what may be seen, the owner's rights read what was made of it."""
