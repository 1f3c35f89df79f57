"""An agent answers ten questions on the PostgreSQL manual by MCP: the official client, and a model that keeps to a script."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.beside.client import Document
from pg_graphrag.beside.readers import read

from tests.runtime.cluster import POSTGRES, Database, Runtime
from tests.serve.serving import TOKEN, Serving, mcp_client, serving
from tests.serve.test_mcp import call

PAGES = (
    *("indexes-types", "indexes-multicolumn", "indexes-ordering", "indexes-bitmap-scans", "indexes-unique"),
    *("indexes-expressional", "indexes-partial", "indexes-index-only-scans", "indexes-collations", "indexes-examine"),
)
# Each question, the page that answers it, and words of the answer.
QUESTIONS = (
    ("Which comparisons can a hash index handle?", "indexes-types", "simple equality comparisons"),
    ("What are GIN indexes appropriate for?", "indexes-types", "multiple component values"),
    ("Up to how many columns can multicolumn indexes have?", "indexes-multicolumn", "up to 32 columns"),
    ("Which type of index can produce sorted output?", "indexes-ordering", "only B-tree can produce sorted output"),
    ("How does the system combine multiple indexes?", "indexes-bitmap-scans", "bitmap in memory"),
    ("Which indexes can be declared unique?", "indexes-unique", "only B-tree indexes can be declared unique"),
    ("How is an index on lower(col1) used for case-insensitive comparisons?", "indexes-expressional", "lower(col1)"),
    ("What is a partial index built over?", "indexes-partial", "subset of a table"),
    ("What is a covering index designed for?", "indexes-index-only-scans", "include the columns needed"),
    (
        "How many collations can an index support per column?",
        "indexes-collations",
        "only one collation per index column",
    ),
)


@pytest.fixture(scope="module")
def manual(runtime: Runtime, module_db: Database) -> Iterator[Serving]:
    folder = runtime.root / f"usr/share/doc/postgresql-doc-{POSTGRES}/html"
    module_db.execute("SELECT graphrag.create_corpus('manual')")
    with GraphRAG(module_db.url, "manual") as rag:
        for page in PAGES:
            rag.insert(item for item in read(folder / f"{page}.html", page) if isinstance(item, Document))
        rag.process_jobs()
    with serving(module_db.url, corpus="manual") as server:
        yield server


async def answer(client: Any, question: str) -> tuple[str, str]:
    """What the script does: search, read the best document whole, and answer by its sentence that shares most words."""
    results = await call(client, "search", query=question, limit=3)
    best = results["results"][0]
    text, offset = "", 0
    while offset is not None:
        part = await call(client, "read_document", document_id=best["document_id"], offset=offset)
        text, offset = text + part["content"], part["next_offset"]
    words = set(re.findall(r"\w{3,}", question.lower()))
    sentences = re.split(r"(?<=[.!?:])\s+", text)
    ranked = sorted(sentences, key=lambda sentence: -len(words & set(re.findall(r"\w{3,}", sentence.lower()))))
    return best["source_key"], " ".join(ranked[:5])


def test_ten_questions_are_answered(manual: Serving) -> None:
    async def main() -> list[str]:
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http, mcp_client(manual.url, http) as client:
            wrong = []
            for question, page, words in QUESTIONS:
                source, answered = await answer(client, question)
                if source != page or words.lower() not in " ".join(answered.split()).lower():
                    wrong.append(f"{question} {source}: {answered}")
            return wrong

    assert asyncio.run(main()) == []


async def counted(url: str, task: Any) -> int:
    """Have the script do a task with the tools of `url`; return how many calls it took."""
    calls = 0

    async def use(tool: str, **arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return await call(client, tool, **arguments)

    headers = {"authorization": f"Bearer {TOKEN}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http, mcp_client(url, http) as client:
        await task(use)
    return calls


async def see_the_whole(use: Any) -> None:
    """What is it about? Themes and entities of a context of the whole."""
    assert (await use("status"))["indexed"] == len(PAGES)
    context = await use("context", query="What are the main themes?", mode="graph_global")
    assert all(word in context["text"] for word in ("index", "B-tree"))


async def read_around_a_hit(use: Any) -> None:
    """What stands before and behind the passage on covering indexes?"""
    (hit,) = (await use("search", query="What is a covering index designed for?", limit=1))["results"]
    start = max(0, hit["offset"] - 200)
    length = hit["offset"] + hit["length"] + 200 - start
    page = await use("read_document", document_id=hit["document_id"], offset=start, limit=min(length, 8000))
    assert page["source_key"] == "indexes-index-only-scans"
    assert hit["excerpt"].removesuffix(" …") in page["content"]


async def know_an_entity_by_a_rough_name(use: Any) -> None:
    """What is an "oprator class" related to?"""
    found = (await use("find_entity", name="oprator class"))["entities"]
    assert found[0]["name"].lower() in ("operator class", "operator classes")
    near = await use("neighbors", entity=found[0]["name"])
    assert all(row["relationship"] for row in near["neighbors"])
    assert near["neighbors"]


async def connect_two(use: Any) -> None:
    """How do GIN and bitmaps hang together, whose names are known roughly?"""
    one, other = [(await use("find_entity", name=name, limit=1))["entities"][0]["name"] for name in ("gin", "B tree")]
    way = await use("path", source=one, target=other)
    assert [way["entities"][0]["name"], way["entities"][-1]["name"]] == [one, other]
    assert all(step["relationship"] for step in way["steps"])


async def list_a_part(use: Any) -> None:
    """Which documents on expressions and partial indexes are there?"""
    listed = await use("list_documents", prefix="indexes-partial")
    assert [row["source_key"] for row in listed["documents"]] == ["indexes-partial"]
    keys: list[str] = []
    page: dict[str, Any] = {"next": 0}
    while page["next"] is not None:
        page = await use("list_documents", prefix="indexes-", after=page["next"], limit=6)
        keys += [row["source_key"] for row in page["documents"]]
    assert sorted(keys) == sorted(PAGES)


@pytest.mark.parametrize(
    "task", [see_the_whole, read_around_a_hit, know_an_entity_by_a_rough_name, connect_two, list_a_part]
)
def test_a_task_takes_at_most_three_calls(manual: Serving, task: Any) -> None:
    assert asyncio.run(counted(manual.url, task)) <= 3
