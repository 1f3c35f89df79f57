"""The graph's own rows, for people who look around in it."""
