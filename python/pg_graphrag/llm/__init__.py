"""Models: at endpoints and beside the package, and how they are asked."""
