"""What a reader sees of a graph is what a corpus of his documents alone would hold: texts, weights, counts and paths."""

from typing import Any

import pytest

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.security.portrait import Reader, restricted
from tests.security.test_what_readers_see import concepts, described, fill, reply
from tests.sql.curating import curate
from tests.sql.ingest import rows, work

REPLY = reply

# Entities of one mention and of several, of one spelling and of several, best described by a visible sentence or by a hidden one.
VISIBLE = {
    "ada": "Ada Lovelace admired Charles Babbage. Charles Babbage met Ada Lovelace in London.",
    "ada again": "ADA LOVELACE wrote of the Analytical Engine. Charles Babbage built the Analytical Engine.",
    "london": "The Analytical Engine stood in London. Charles Babbage died in London.",
    "grace": "Grace Hopper taught at Harvard. Harvard honoured Grace Hopper.",
}
HIDDEN = {
    "secret": "ADA LOVELACE despised CHARLES BABBAGE. ADA LOVELACE owned London.",
    "shout": "CHARLES BABBAGE sold the Analytical Engine to ADA LOVELACE. LONDON paid CHARLES BABBAGE.",
    "turing": "Alan Turing broke Enigma at Bletchley Park. Alan Turing met Grace Hopper in London.",
}
VIEWS = {
    "graph_nodes": "key, name, type, description, degree, mention_count",
    "graph_edges": "source, source_type, target, target_type, keywords, keyword_list, description, weight, mention_count, pmi",
}
NEIGHBORS = "hop, name, type, description, degree, relationship, keywords, weight, path"


def said_before(db: Any, corpus: str) -> None:
    """What people say before documents state it too."""
    for name in ("ADA Lovelace", "Charles Babbage"):
        curate(db, corpus, "create_entity", name, type="genius", description="Well known.")
    curate(
        db,
        corpus,
        "create_relationship",
        "ADA Lovelace",
        "Charles Babbage",
        description="They wrote.",
        keywords=["letters"],
    )


def curations(db: Any, corpus: str) -> None:
    """What people say of what visible documents state: of the rest a reader sees nothing."""
    curate(db, corpus, "merge_entities", ["Grace Hopper"], "Charles Babbage")
    curate(db, corpus, "edit_entity", "London", type="city", description="A city.")
    curate(db, corpus, "edit_relationship", "Charles Babbage", "London", weight=7)
    work(db)


@pytest.mark.sample(2)
@pytest.mark.parametrize("is_curated", [False, True], ids=["as it is", "curated"])
@pytest.mark.parametrize("made", [concepts, described], ids=["concepts", "described"])
def test_a_reader_sees_what_a_corpus_of_his_documents_holds(
    db: Database, endpoint: Endpoint, made: Any, is_curated: bool
) -> None:
    shared, alone = made(db, endpoint), made(db, endpoint)
    for corpus in (shared, alone):
        if is_curated:
            said_before(db, corpus)
        fill(db, corpus, VISIBLE, visible=True)
    fill(db, shared, HIDDEN, visible=False)
    for corpus in (shared, alone) if is_curated else ():
        curations(db, corpus)

    with restricted(db, shared, "protect", "curious_reader"):
        reader = Reader(db.url, "curious_reader").connection
        for view, columns in VIEWS.items():
            read = f"SELECT {columns} FROM graphrag.{view} WHERE corpus = %s ORDER BY {columns}"
            of_part, of_alone = rows(reader, read, shared), rows(db, read, alone)
            assert of_alone
            assert of_part == of_alone
            # Again, from memory.
            assert rows(reader, read, shared) == of_part
        for name in ("Ada Lovelace", "Charles Babbage", "London", "Alan Turing"):
            for hops in (1, 2, 3):
                read = f"SELECT {NEIGHBORS} FROM graphrag.neighbors(%s, %s, %s)"
                assert rows(reader, read, name, shared, hops) == rows(db, read, name, alone, hops), (name, hops)
        reader.close()
