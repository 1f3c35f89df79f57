"""The table, and one row that is there before it is attached."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models
from pg_graphrag.integrations.django import AttachTable, CreateCorpus, CreateGraphRAG


def add(apps: Any, schema_editor: Any) -> None:
    apps.get_model("django_app", "Article").objects.create(
        headline="Loom", body="The Jacquard loom wove patterns from punched cards."
    )


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [
        migrations.CreateModel(
            "Article",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("headline", models.CharField(max_length=200)),
                ("body", models.TextField(db_column="body_text")),
                ("language", models.CharField(max_length=2, default="en")),
            ],
        ),
        migrations.RunPython(add, migrations.RunPython.noop),
        CreateGraphRAG(),
        CreateCorpus("articles"),
        AttachTable(
            "Article",
            content=["body"],
            title="headline",
            metadata=["language"],
            corpus="articles",
            options={"key_prefix": "article/"},
        ),
    ]
