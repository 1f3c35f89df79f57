"""Bridges: from a name in a passage that the question names by its title to the passage that answers it."""

from typing import Any

import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import search, searched_corpus
from tests.sql.test_seeds import put_titled

FILMS = {
    "Harbour Song": "Harbour Song is a film of 1998. Mina Vale was its director.",
    "Tom Reed": "Tom Reed is a carpenter in Bergen. Mina Vale has been his spouse since 2004.",
    "Ines Holt": "Ines Holt is a film director. The spouse of Ines Holt is a director too.",
    "Karl Munk": "Karl Munk was the director of a song contest. His spouse sang there.",
    "Harbour Days": "Harbour Days is a novel about a port and a spouse.",
    "Vale Theatre": "The director of the theatre is the spouse of a singer of the song.",
    **{f"Film {number}": f"Film {number} is a film with a song about a harbour." for number in range(6)},
}
QUESTION = "Who is the spouse of the director of Harbour Song?"


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    corpus = searched_corpus(module_db)
    put_titled(module_db, corpus, FILMS)
    return corpus


def hits(db: Database, question: str, corpus: str, **arguments: Any) -> list[dict[str, Any]]:
    return search(db, question, corpus, "hybrid", **arguments)


def test_a_name_leads_from_the_titled_passage_to_the_one_that_answers(module_db: Database, corpus: str) -> None:
    first, second, *_ = hits(module_db, QUESTION, corpus)
    assert [first["source_key"], second["source_key"]] == ["Harbour Song", "Tom Reed"]
    assert "bridges" not in first["explain"]
    bridge = second["explain"]["bridges"]
    assert bridge["over"]["key"] == "mina vale"
    assert bridge["from_chunk"] == first["chunk_id"]


@pytest.mark.parametrize("question", ["Who is the spouse of a director?", "Where does a carpenter live?"])
def test_a_question_that_names_no_title_is_answered_in_one_place(
    module_db: Database, corpus: str, question: str
) -> None:
    assert not any("bridges" in row["explain"] for row in hits(module_db, question, corpus))


def test_documents_that_the_question_names_stay_in_front(module_db: Database, corpus: str) -> None:
    rows = hits(module_db, "Is Mina Vale the director of Harbour Song or of Harbour Days?", corpus)
    assert {row["source_key"] for row in rows[:2]} == {"Harbour Song", "Harbour Days"}


def test_a_bridge_over_a_name_in_hidden_documents_is_none(module_db: Database, corpus: str) -> None:
    rows = hits(module_db, QUESTION, corpus, filter={"$source_key": {"$nin": ["Harbour Song"]}})
    assert not any("bridges" in row["explain"] for row in rows)


@pytest.mark.parametrize("mode", ["ppr", "mix", "local"])
def test_other_modes_have_bridges_too(module_db: Database, corpus: str, mode: str) -> None:
    rows = search(module_db, QUESTION, corpus, mode)
    assert [row["source_key"] for row in rows[:2]] == ["Harbour Song", "Tom Reed"]
    assert rows[1]["explain"]["bridges"]["over"]["key"] == "mina vale"
    assert all(0 < row["score"] < rows[0]["score"] for row in rows[1:])


def test_the_papers_profile_has_no_bridges(module_db: Database, corpus: str) -> None:
    rows = hits(module_db, QUESTION, corpus, options={"profile": "paper"})
    assert rows
    assert not any("bridges" in row["explain"] for row in rows)
