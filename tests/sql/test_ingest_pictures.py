"""ingest --pictures: pictures of a slide deck, a manual and a web page are found by what they show, and shown to who answers."""

import base64
import io
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.ground.errors import GraphRAGError
from PIL import Image

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.asking import ask, is_keywords
from tests.sql.ingest import Connection, put, rows, searched_corpus, value, work
from tests.sql.llm import provider
from tests.sql.picture_rows import png
from tests.unit import files

# By the tens of red of the drawing.
SEEN = {
    6: "A bar chart: launches from Osaka.\n\n| year | launches |\n|---|---|\n| 2011 | 3 |\n| 2012 | 9 |",
    12: "A red pump stands beside the valve of the Heron launcher.",
    18: "A map of the harbour of Rotterdam, with nine piers.",
}
FOLDER = {
    "deck.pptx": files.picture_deck(60),
    "manual.pdf": files.picture_manual(120),
    "page.html": files.picture_page(180),
}


def shown(messages: Sequence[dict[str, Any]]) -> list[int]:
    """The pictures that a request shows, by the tens of their red."""
    reds = []
    for message in messages:
        for part in message["content"] if isinstance(message["content"], list) else ():
            if part["type"] == "image_url":
                data = base64.b64decode(part["image_url"]["url"].partition(",")[2])
                with Image.open(io.BytesIO(data)) as image:
                    width, height = image.size
                    reds.append(round(image.convert("RGB").getpixel((width * 3 // 10, height * 3 // 10))[0] / 10))
    return reds


def REPLY(messages: Sequence[dict[str, Any]]) -> str:
    if is_keywords(messages):
        return json.dumps({"low_level_keywords": [], "high_level_keywords": [], "entities": [], "answer_types": []})
    if "Describe a picture" in str(messages[0]["content"]):
        (red,) = shown(messages)
        return SEEN[red]
    return "The harbour has nine piers [1]."


def seeing(db: Connection, endpoint: Endpoint) -> str:
    model = {"provider": provider(db, endpoint, timeout=3), "model": "eye-1"}
    return searched_corpus(db, llm=model | {"roles": {"vision": {}}})


def ingest(db: Database, corpus: str, folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "pg_graphrag.beside.cli", "ingest", "--url", db.url, "--corpus", corpus, *options]
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in FOLDER.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def test_pictures_are_found_by_what_they_show(db: Database, endpoint: Endpoint, folder: Path) -> None:
    corpus = seeing(db, endpoint)
    ingest(db, corpus, folder, "--pictures")
    work(db)
    sql = "SELECT source_key, explain ->> 'pages', p.media_type FROM graphrag.search(%s, %s, %s, 1) s"
    sql += " LEFT JOIN graphrag.pictures p ON p.id = (s.explain ->> 'picture')::bigint"
    for question, key, page in (
        ("How many launches from Osaka were there in 2012?", "deck.pptx", "2"),
        ("a red pump beside the valve", "manual.pdf", "2"),
        ("harbour with piers", "page.html", None),
    ):
        for mode in ("hybrid", "bm25", "naive"):
            assert rows(db, sql, question, corpus, mode) == [(key, page, "image/png")], mode
    # Again costs nothing.
    asked, before = len(endpoint.requests), rows(db, "SELECT id FROM graphrag.pictures ORDER BY id")
    assert "3 unchanged" in ingest(db, corpus, folder, "--pictures")
    work(db)
    assert len(endpoint.requests) == asked
    assert rows(db, "SELECT id FROM graphrag.pictures ORDER BY id") == before
    assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []


@pytest.mark.slow
def test_without_the_option_none_is_kept(db: Database, endpoint: Endpoint, folder: Path) -> None:
    corpus = seeing(db, endpoint)
    ingest(db, corpus, folder)
    assert value(db, "SELECT count(*) FROM graphrag.pictures") == 0


def test_an_answer_cites_the_picture_and_its_model_is_shown_it_on_demand(
    db: Database, endpoint: Endpoint, folder: Path
) -> None:
    corpus = seeing(db, endpoint)
    ingest(db, corpus, folder, "--pictures")
    work(db)
    picture = value(
        db,
        "SELECT p.id FROM graphrag.pictures p JOIN graphrag.documents d ON d.id = p.document_id"
        " WHERE d.source_key = 'page.html'",
    )
    question = "How many piers does the harbour of Rotterdam have?"
    answer, citations, _, context = ask(db, question, corpus, options={"chunk_top_k": 1})
    assert (citations[0]["source_key"], citations[0]["picture"]) == ("page.html", picture)
    assert shown(endpoint.requests[-1].messages) == [] and "pictures" not in context
    answer, _, _, context = ask(db, question, corpus, options={"chunk_top_k": 1, "pictures": True})
    assert answer == "The harbour has nine piers [1]."
    assert shown(endpoint.requests[-1].messages) == [18] and context["pictures"] == [picture]


def test_pictures_are_a_few_and_of_few_bytes(db: Database, endpoint: Endpoint) -> None:
    corpus = seeing(db, endpoint)
    for number in range(7):
        put(db, corpus, f"page {number}", f"Page {number}.")
        with Image.effect_noise((64 + number, 64), 50) as image, io.BytesIO() as file:
            image.save(file, "PNG")
            content = file.getvalue() + (bytes(4 << 20) if number == 0 else b"")
        db.execute(
            "INSERT INTO graphrag.pictures (document_id, content, caption, description)"
            " SELECT id, %s, 'A harbour of Rotterdam with piers.', 'Piers.' FROM graphrag.documents WHERE corpus = %s"
            "   AND source_key = %s",
            [content, corpus, f"page {number}"],
        )
    work(db)
    _, _, _, context = ask(db, "piers of the harbour of Rotterdam", corpus, options={"pictures": True})
    assert len(context["pictures"]) == 4


def test_the_client_keeps_what_is_there(db: Database) -> None:
    corpus = searched_corpus(db)
    rag = GraphRAG(db, corpus)
    rag.insert({"source_key": "a", "content": "Text."})
    first, second = ({"content": png(n), "caption": f"Drawing {n}"} for n in range(2))
    assert rag.set_pictures("a", [first, second]) == 2
    ids = rows(db, "SELECT id FROM graphrag.pictures ORDER BY id")
    db.execute("UPDATE graphrag.pictures SET description = 'Seen.'")
    assert rag.set_pictures("a", [second]) == 0
    assert rows(db, "SELECT id, description FROM graphrag.pictures") == [(ids[1][0], "Seen.")]
    assert rag.set_pictures("a", []) == 0
    assert value(db, "SELECT count(*) FROM graphrag.pictures") == 0
    with pytest.raises(GraphRAGError, match="no document"):
        rag.set_pictures("b", [first])
    with pytest.raises(GraphRAGError, match="no field"):
        rag.set_pictures("a", [{"content": png(), "colour": "red"}])


@pytest.mark.parametrize("content", [None, "text", 7])
def test_pictures_without_bytes_are_refused(db: Database, content: Any) -> None:
    corpus = searched_corpus(db)
    put(db, corpus, "a", "A manual.")
    given: list[dict[str, Any]] = [{"caption": "x"}] if content is None else [{"content": content}]
    with pytest.raises(GraphRAGError) as caught:
        GraphRAG(db.url, corpus).set_pictures("a", given)
    assert caught.value.sqlstate == "22023" and caught.value.hint


def test_many_large_pictures_come_in_parts(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = searched_corpus(db)
    put(db, corpus, "a", "A manual.")
    given = [
        {"content": png(color) + bytes(5 << 20), "page": color + 1, "caption": f"{color}" if color % 2 else None}
        for color in range(8)
    ]
    assert GraphRAG(db.url, corpus).set_pictures("a", given) == 8
    sql = (
        "SELECT count(*), count(DISTINCT xmin::text), count(DISTINCT cmin::text), count(caption) FROM graphrag.pictures"
    )
    assert rows(db, sql) == [(8, 1, 3, 4)]
    assert GraphRAG(db.url, corpus).set_pictures("a", given) == 0
