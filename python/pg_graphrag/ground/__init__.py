"""What knows of nothing else: errors, bounds, numbers, JSON, statistics, documents as they are handed in."""
