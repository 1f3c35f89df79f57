"""Documents of the rows that were there."""

from __future__ import annotations

from django.db import migrations
from pg_graphrag.integrations.django import BackfillTable


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("django_app", "0001_initial")]
    operations = [BackfillTable("Article", corpus="articles")]
