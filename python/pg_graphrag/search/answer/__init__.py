"""Models at work on questions: understanding, cited answers, and the accounts of both."""
