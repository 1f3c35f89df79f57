"""The public data of ../shared/data as corpora of the extension, and their questions as graphrag.evaluate takes them."""

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pg_graphrag import GraphRAG

from tests.endpoint import Endpoint, Recorded

SETS = {
    "nlp": ("musique", "musique-own", "lihua-jan-jun", "lihua-other"),
    "llm": ("musique", "musique-own", "lihua-jan-jun"),
}
# Roles that a model has, by set: what was recorded of it.
ROLES = {"musique": ("extract",), "musique-own": ("extract",), "lihua-jan-jun": ("extract", "keywords")}
# Questions of two steps, written for this benchmark over passages that no dev question rests on: question, tab, passages.
OWN_QUESTIONS = Path(__file__).parent / "questions" / "musique-own.tsv"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def documents(data: Path, name: str) -> list[dict[str, Any]]:
    if name in ("musique", "musique-own"):
        return [
            {"source_key": document["id"], "title": document["title"], "content": document["text"]}
            for document in lines(data / "musique/docs.jsonl")
        ]
    chats = lines(data / "lihua-world/docs.jsonl")
    wanted = [document for document in chats if name == "lihua-other" or document["id"][:6] <= "202606"]
    return [{"source_key": document["id"], "content": document["text"]} for document in wanted]


def questions(data: Path, name: str) -> list[dict[str, Any]]:
    """The dev questions of a set; Null questions have no evidence."""
    if name == "musique":
        return lines(data / "musique/queries_dev.jsonl")
    if name == "musique-own":
        rows = (line.split("\t") for line in OWN_QUESTIONS.read_text(encoding="utf-8").splitlines())
        return [{"question": question, "evidence": passages.split()} for question, passages in rows]
    asked = lines(data / "lihua-world/queries_dev.jsonl")
    return [
        item | {"evidence": [] if item["type"] == "Null" else item["evidence"]}
        for item in asked
        if item["jan_jun"] == (name == "lihua-jan-jun")
    ]


def corpus_of(name: str, extractor: str) -> str:
    return name if extractor == "nlp" else f"{name}-{extractor}"


@contextlib.contextmanager
def recorded_models(rag: GraphRAG, data: Path) -> Iterator[None]:
    """Serve what models said, for as long as it lasts."""
    with Endpoint(keep=False) as endpoint:
        endpoint.reply(Recorded(data))
        set_provider(rag, "recorded", "openai", endpoint.url)
        yield


def set_provider(rag: GraphRAG, name: str, kind: str, url: str) -> None:
    with rag._connection() as connection:
        connection.execute("SELECT graphrag.set_provider(%s, %s, %s)", [name, kind, url])


def load(rag: GraphRAG, data: Path, name: str, extractor: str, **options: Any) -> float:
    """Make the corpus of the client anew, with these options; return the seconds that indexing took."""
    with rag._connection() as connection:
        if connection.execute("SELECT FROM graphrag.corpora WHERE name = %s", [rag.corpus]).rowcount:
            rag.drop_corpus()
    if extractor == "llm":
        model = {"provider": "recorded", "model": "recorded"}
        options |= {"extractor": "llm", "llm": {"roles": dict.fromkeys(ROLES[name], model)}}
    rag.create_corpus(**options)
    rag.insert(documents(data, name))
    start = time.perf_counter()
    rag.process_jobs()
    with rag._connection() as connection:
        connection.execute("SELECT graphrag.optimize(%s)", [rag.corpus])
    seconds = time.perf_counter() - start
    if extractor == "llm":
        for question in questions(data, name):
            rag.understand(question["question"])  # from now on in the cache, as in use
    return seconds
