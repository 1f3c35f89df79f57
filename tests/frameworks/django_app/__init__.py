"""An app with an attached table, for `tests/frameworks/django_suite.py`."""
