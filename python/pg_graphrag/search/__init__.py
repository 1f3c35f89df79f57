"""What is found for a question: from its terms to rows, contexts and answers."""
