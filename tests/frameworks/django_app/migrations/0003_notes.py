"""A model within another, and a table in a schema of its own."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models
from pg_graphrag.integrations.django import AttachTable, CreateCorpus


class Migration(migrations.Migration):
    dependencies = [("django_app", "0002_backfill")]
    operations = [
        migrations.CreateModel(
            "Feature",
            [
                (
                    "article_ptr",
                    models.OneToOneField(
                        auto_created=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        parent_link=True,
                        primary_key=True,
                        serialize=False,
                        to="django_app.article",
                    ),
                ),
                ("section", models.CharField(max_length=20)),
            ],
            options={},
            bases=("django_app.article",),
        ),
        migrations.RunSQL("CREATE SCHEMA app", "DROP SCHEMA app"),
        migrations.CreateModel(
            "Note",
            [
                ("code", models.CharField(max_length=20, primary_key=True, serialize=False)),
                (
                    "article",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notes",
                        to="django_app.article",
                    ),
                ),
                ("body", models.TextField()),
            ],
            options={"db_table": 'app"."note'},
        ),
        CreateCorpus("notes", query_log=True),
        migrations.SeparateDatabaseAndState(
            database_operations=[AttachTable("Note", content=["body"], metadata=["article"], corpus="notes")]
        ),
    ]
