"""Tables that are attached to a corpus."""

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


class Feature(Article):
    """A model within another, whose table is attached."""

    section = models.CharField(max_length=20)

    class Meta:
        app_label = "django_app"


class Note(GraphRAGModel):
    """A table in a schema of its own, by texts without prefix, beside documents of others."""

    code = models.CharField(max_length=20, primary_key=True)
    article = models.ForeignKey(Article, models.CASCADE, null=True, related_name="notes")
    body = models.TextField()

    graphrag_corpus = "notes"

    class Meta:
        app_label = "django_app"
        db_table = 'app"."note'
