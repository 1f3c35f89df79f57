"""Uploads: pictures follow their documents, batch by batch, and only those that went in."""

from typing import Any, cast

import psycopg
import pytest

pytest.importorskip("lxml")
pytest.importorskip("PIL")
pytest.importorskip("fastapi")

from pg_graphrag.beside.client import Document, GraphRAG, InsertSummary
from pg_graphrag.beside.readers import ReadOptions
from pg_graphrag.beside.serve import uploads
from pg_graphrag.beside.serve.settings import Settings

from tests.unit.scans import label


class Store:
    """Takes documents, but none with a title that it refuses."""

    def __init__(self, refused: str = "") -> None:
        self.refused, self.calls = refused, list[tuple[str, str, int]]()

    def insert(self, batch: list[Document]) -> InsertSummary:
        if any(document.title == self.refused for document in batch):
            raise psycopg.errors.CheckViolation("refused")
        self.calls += [("insert", str(document.source_key), 1) for document in batch]
        return InsertSummary(len(batch), 0, 0)

    def set_pictures(self, key: str, given: list[dict[str, Any]]) -> int:
        self.calls.append(("pictures", key, len(given)))
        return len(given)


def test_pictures_follow_each_batch_and_none_a_batch_that_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "batches", lambda documents: ([document] for document in documents))
    files = [uploads.Upload(f"{name}.png", label(name)) for name in ("a", "b")]
    store = Store(refused="b")
    results = uploads.insert(cast(GraphRAG, store), files, 60.0, ReadOptions(pictures=True))
    assert [(result["inserted"], bool(result["errors"])) for result in results] == [(1, False), (0, True)]
    assert store.calls == [("insert", "a.png", 1), ("pictures", "a.png", 1)]


def test_uploads_of_a_server_share_their_turns_at_ocr() -> None:
    first, second = (uploads.options_of(Settings(url="", ocr="auto")).ocr_turns for _ in range(2))
    assert first == second
    assert first is not None
    assert first.exists()
