"""Models: at endpoints and in the package, and how they are asked."""
