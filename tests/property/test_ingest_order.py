"""Order, batches and number of workers leave no trace: in the graph, in the scores, in what is found."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.endpoint import Endpoint, Recorded
from tests.property.graphs import broken, sections, settle
from tests.runtime.cluster import Database
from tests.sql.ingest import new_corpus, put, search, work, worker
from tests.sql.llm import provider

SIZE = 24
MODES = ("naive", "bm25", "local", "global", "hybrid", "mix")
QUESTIONS = {
    "nlp": ("When was the author of the novel born?", "university founded in the capital"),
    "llm": ("What did Li Hua arrange for lunch?", "guitar lesson with Wolfgang"),
}
SOURCES = {"nlp": "musique", "llm": "lihua-world"}


@pytest.fixture(scope="module")
def endpoint(shared_data: Path) -> Iterator[Endpoint]:
    with Endpoint() as server:
        server.reply(Recorded(shared_data))
        yield server


def documents(data: Path, extractor: str) -> dict[str, str]:
    with (data / SOURCES[extractor] / "docs.jsonl").open(encoding="utf-8") as file:
        return {
            document["id"]: document["text"]
            for document in (json.loads(line) for _, line in zip(range(SIZE), file, strict=False))
        }


def corpus_of(db: Database, endpoint: Endpoint, extractor: str) -> str:
    name = provider(db, endpoint)
    options: dict[str, Any] = {"embedding": {"provider": name, "model": "hash", "dimensions": 64}}
    if extractor == "llm":
        options |= {"extractor": "llm", "llm": {"roles": {"extract": {"provider": name, "model": "model-1"}}}}
    return new_corpus(db, **options)


def found(db: Database, corpus: str, extractor: str) -> list[Any]:
    """What searches find; scores apart, in whose last digits single precision shows."""
    return [
        (mode, question, row["rank"], row["source_key"], row["content"], row["score"])
        for mode in MODES
        for question in QUESTIONS[extractor]
        for row in search(
            db, question, corpus, mode, low_level_keywords=question.split(), high_level_keywords=[question]
        )
    ]


@pytest.mark.sample(1)
@pytest.mark.parametrize("extractor", ["nlp", "llm"])
def test_order_batches_and_workers_leave_no_trace(
    module_db: Database, endpoint: Endpoint, shared_data: Path, extractor: str
) -> None:
    texts = documents(shared_data, extractor)
    wanted: tuple[Any, Any] | None = None
    for number, workers in enumerate((1, 1, 8)):
        keys = sorted(texts)
        random.Random(number).shuffle(keys)
        corpus = corpus_of(module_db, endpoint, extractor)
        if number == 0:  # one batch
            with module_db.transaction():
                for key in keys:
                    put(module_db, corpus, key, texts[key])
        elif number == 1:  # a batch for every few documents, packed in between
            for place, key in enumerate(keys):
                put(module_db, corpus, key, texts[key])
                if place % 5 == 0:
                    work(module_db)
                if place % 10 == 0:
                    module_db.execute("SELECT graphrag.optimize(%s)", [corpus])
        else:
            running = [worker(module_db.url) for _ in range(workers)]
            for key in keys:
                put(module_db, corpus, key, texts[key])
            running += [worker(module_db.url) for _ in range(workers)]
            assert [session.finish() for session in running] == [None] * len(running)
        settle(module_db, corpus)
        assert broken(module_db, corpus) == []
        got = sections(module_db, corpus), found(module_db, corpus, extractor)
        if wanted is None:
            wanted = got
        assert got[0] == wanted[0]
        for session, other in zip(got[1], wanted[1], strict=True):
            assert session[:-1] == other[:-1]
            assert session[-1] == pytest.approx(other[-1], abs=1e-6)
