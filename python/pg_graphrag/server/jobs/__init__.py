"""The queue: due jobs, and the workers that hold them."""
