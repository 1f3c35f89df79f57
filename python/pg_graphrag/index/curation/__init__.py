"""Curation: people's changes of the graph. They are recorded, can be undone, and apply whatever documents say
(graphrag.curations).
"""
