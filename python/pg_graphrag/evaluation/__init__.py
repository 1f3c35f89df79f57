"""Evaluation: retrieval against known evidence, answers side by side by a judge, and questions to do either with."""
