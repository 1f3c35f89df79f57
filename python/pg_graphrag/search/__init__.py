"""From a question to rows, contexts and answers."""
