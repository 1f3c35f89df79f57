"""A table that is attached to a corpus."""

from __future__ import annotations

from django.db import models
from pg_graphrag.integrations.django import GraphRAGModel


class Article(GraphRAGModel):
    headline = models.CharField(max_length=200)
    body = models.TextField(db_column="body_text")
    language = models.CharField(max_length=2, default="en")

    graphrag_corpus = "articles"
    graphrag_key_prefix = "article/"

    class Meta:
        app_label = "django_app"
