"""What of the ranked chunks is returned, and what a language model is given."""
