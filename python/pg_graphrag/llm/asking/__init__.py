"""Models as searches and answers ask them: tasks, the requests they make, and what replies say."""
