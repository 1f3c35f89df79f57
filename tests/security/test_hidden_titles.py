"""What hidden documents are called leads no walk of a reader, and neither raises nor counts among what the first chunk mentions.

Hidden documents swap their titles: statistics of the corpus stay as they are, so all that a reader gets stays, too.
"""

import json
from typing import Any

import psycopg
import pytest

from tests.runtime.cluster import Database
from tests.security.portrait import restricted
from tests.sql.ingest import put, searched_corpus, work

HILLS = [f"{name} Hill" for name in "Delta Epsilon Zeta Theta Kappa Lambda Sigma Omega Omicron".split()]
VALLEYS = [f"{name} Vale" for name in "Eta Iota Rho Tau Upsilon Chi Psi Phi Nu".split()]
# The first chunk of an answer mentions titles, visible and hidden ones; the question names one that a hidden document has, too.
VISIBLE = {
    "falls": ("Alpha Falls", "Alpha Falls is a town of Beta Valley, near Gamma Ridge. Its mayor is elected."),
    "valley": ("Beta Valley", "Beta Valley has rivers and woods."),
    "ridge": ("Gamma Ridge", "Gamma Ridge has a road."),
    "road": (None, f"The road goes to {', to '.join(HILLS)}. Alpha Falls has a fair of hats."),
    **{f"fair {number}": (f"Fair {number}", f"Alpha Falls has a fair of hats on day {number}.") for number in range(4)},
}
# Each hidden document's title, before and after.
SWAPS = {
    "named by the question": {"h1": ("Alpha Falls", "Zulu Falls"), "h2": ("Zulu Falls", "Alpha Falls")},
    "mentioned": {"h1": ("Beta Valley", "Zulu Valley"), "h2": ("Zulu Valley", "Beta Valley")},
    "many": {
        f"h{number}": (names if number % 2 else names[::-1])
        for number, names in enumerate(zip(HILLS, VALLEYS, strict=True))
    },
}
QUESTIONS = ("Where is the mayor of Alpha Falls elected?", "What does the road of hats go to?")
MODES = ("hybrid", "ppr", "path", "graph_local", "global")


@pytest.fixture
def db(reused_db: Database) -> Database:
    """A database that others have used; each test has a corpus of its own."""
    return reused_db


def look(session: psycopg.Connection[Any], corpus: str, filter_: str | None = None) -> dict[str, str]:
    return {
        f"{mode}: {question}": str(
            session.execute(
                "SELECT to_jsonb(s)::text FROM graphrag.search(%s, %s, %s, 50, filter => %s) s",
                [question, corpus, mode, filter_],
            ).fetchall()
        )
        for mode in MODES
        for question in QUESTIONS
    }


@pytest.mark.sample(3)
@pytest.mark.parametrize("how", ["protect", "policy", "filter"])
@pytest.mark.parametrize("swap", SWAPS)
def test_what_hidden_documents_are_called_is_in_no_walk(db: Database, swap: str, how: str) -> None:
    corpus = searched_corpus(db)
    for key, (title, text) in VISIBLE.items():
        put(db, corpus, key, text, title=title, metadata={"open": True})

    def put_hidden(place: int) -> None:
        for key, titles in SWAPS[swap].items():
            put(db, corpus, key, "It has a tower, a mayor and a road.", title=titles[place], metadata={"open": False})
        work(db)

    put_hidden(0)
    filter_ = json.dumps({"open": True}) if how == "filter" else None
    if how == "filter":
        before = look(db, corpus, filter_)
        whole = look(db, corpus)
        put_hidden(1)
        after = look(db, corpus, filter_)
    else:
        with restricted(db, corpus, how, "title_reader"), psycopg.connect(db.url, autocommit=True) as session:
            session.execute("SET ROLE title_reader")
            before = look(session, corpus)
            whole = look(db, corpus)
            put_hidden(1)
            after = look(session, corpus)
    assert {call: (text, after[call]) for call, text in before.items() if text != after[call]} == {}
    assert '"titles"' in str(before)
    # Who sees them all is led by them.
    assert look(db, corpus) != whole != before
