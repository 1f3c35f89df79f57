"""Requests to models for searches and answers: tasks, the requests they make, and the parsing of replies."""
