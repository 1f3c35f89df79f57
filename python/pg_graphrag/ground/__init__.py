"""The lowest layer: errors, bounds, numbers, JSON, statistics, and documents as applications give them."""
