"""Corpora that are embedded by the local model of many languages."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.sql.ingest import new_corpus, put_all, search, value, work

MODEL = "multilingual-e5-small"
PAGES = {
    "price": "導入により、運用コストは三割削減された。",
    "weather": "明日は全国的に晴れ、気温は二十度まで上がる見込みです。",
    "music": "この交響曲は一八二四年にウィーンで初演された。",
}
ASKED = {
    "How much did operating expenses fall?": "price",
    "Will it be sunny tomorrow?": "weather",
    "When was the symphony first performed?": "music",
    "费用减少了多少？": "price",
}


@pytest.mark.parametrize("mode", ["naive", "hybrid"])
def test_questions_find_pages_in_another_language(module_db: Database, mode: str) -> None:
    corpus = new_corpus(module_db, embedding={"model": MODEL})
    put_all(module_db, corpus, PAGES)
    work(module_db)
    assert {question: search(module_db, question, corpus, mode)[0]["source_key"] for question in ASKED} == ASKED
    assert "dense" not in search(module_db, next(iter(ASKED)), corpus, mode)[0]["explain"]


def test_a_corpus_is_embedded_anew_by_it(module_db: Database) -> None:
    corpus = new_corpus(module_db)
    put_all(module_db, corpus, PAGES)
    work(module_db)
    module_db.execute("SELECT graphrag.reembed(%s, %s)", [corpus, Jsonb({"model": MODEL})])
    work(module_db)
    assert search(module_db, "Will it be sunny tomorrow?", corpus, "naive")[0]["source_key"] == "weather"
    assert (
        value(module_db, "SELECT options -> 'embedding' ->> 'model' FROM graphrag.corpora WHERE name = %s", corpus)
        == MODEL
    )


def test_a_local_model_that_does_not_exist_is_refused(module_db: Database) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="e5-large") as caught:
        new_corpus(module_db, embedding={"model": "e5-large"})
    assert MODEL in str(caught.value.diag.message_hint)
