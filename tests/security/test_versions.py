"""What is shown of a document is of the version whose permission was asked."""

from collections.abc import Iterator

import pytest

from tests.runtime.cluster import Database
from tests.security.portrait import MODES, VIEWS, Reader
from tests.sql.ingest import put, rows, work

OLD = "Mata Hari met Alan Turing. Mata Hari paid Project Zephyr."
NEW = "Alan Turing met Grace Hopper. Alan Turing praised the Bombe."
OPEN = "Ada Lovelace met Charles Babbage. Alan Turing read Ada Lovelace."
CORPUS = "versions"


@pytest.fixture
def reader(db: Database) -> Iterator[Reader]:
    """A reader of open documents, of which a second is hidden yet."""
    db.execute("SELECT graphrag.create_corpus(%s, '{\"communities\": false}')", [CORPUS])
    put(db, CORPUS, "open", OPEN, metadata={"open": True})
    put(db, CORPUS, "draft", OLD, metadata={"open": False})
    work(db)
    db.execute("SELECT graphrag.protect(%s, '(metadata ->> ''open'')::boolean')", [CORPUS])
    reader = Reader(db.url, "graphrag_reader")
    yield reader
    reader.connection.close()


def everything(reader: Reader) -> str:
    """All modes, entities and views."""
    searches = [
        reader.gives(f"SELECT x::text FROM graphrag.search('Who met Alan Turing and the spy?', %s, '{mode}') x", CORPUS)
        for mode in MODES
    ]
    graph = [
        reader.gives(f"SELECT graphrag.to_dot('{entity}', %s, 2)", CORPUS).replace(f'entity "{entity}"', "entity")
        for entity in ("Mata Hari", "Alan Turing", "Ada Lovelace", "Project Zephyr")
    ]
    views = [reader.gives(f"SELECT x::text FROM graphrag.{view} x") for view in VIEWS]
    context = reader.gives("SELECT graphrag.context('Alan Turing', %s, 'mix')::text", CORPUS)
    return "\n".join([*searches, *graph, *views, context])


def test_released_text_is_the_redacted_text(db: Database, reader: Reader) -> None:
    assert "Mata" not in everything(reader)
    db.execute(
        "UPDATE graphrag.documents SET content = %s, metadata = '{\"open\": true}' WHERE source_key = 'draft'", [NEW]
    )
    waiting = everything(reader)
    assert not [word for word in ("Mata", "Zephyr", "Hopper", "Bombe") if word in waiting]
    work(db)
    released = everything(reader)
    assert "Grace Hopper" in released
    assert "Mata" not in released
    assert "Zephyr" not in released


def test_a_document_released_without_a_change_is_shown_at_once(db: Database, reader: Reader) -> None:
    everything(reader)
    db.execute("UPDATE graphrag.documents SET metadata = '{\"open\": true}' WHERE source_key = 'draft'")
    assert "Mata Hari" in everything(reader)
    db.execute("UPDATE graphrag.documents SET metadata = '{\"open\": false}' WHERE source_key = 'draft'")
    assert "Mata" not in everything(reader)


@pytest.mark.sample(1)
@pytest.mark.parametrize("indexed", [False, True], ids=["as inserted", "said to be indexed"])
def test_who_takes_the_number_of_a_deleted_document_sees_nothing_of_it(
    db: Database, reader: Reader, indexed: bool
) -> None:
    ((number, hash_),) = rows(db, "SELECT id, content_hash FROM graphrag.documents WHERE source_key = 'draft'")
    db.execute("DELETE FROM graphrag.documents WHERE id = %s", [number])
    db.execute("DROP ROLE IF EXISTS thief")
    db.execute("CREATE ROLE thief IN ROLE graphrag_reader")
    db.execute("GRANT INSERT, UPDATE ON graphrag.documents TO thief")
    thief = Reader(db.url, "thief")
    taken = {"id": number, "corpus": CORPUS, "source_key": "mine", "content": NEW}
    if indexed:
        taken |= {"content_hash": hash_, "indexed_hash": hash_, "status": "indexed"}
    columns, places = ", ".join(taken), ", ".join(["%s"] * len(taken))
    thief.gives(
        f"INSERT INTO graphrag.documents ({columns}, metadata) OVERRIDING SYSTEM VALUE"
        f" VALUES ({places}, '{{\"open\": true}}') RETURNING id",
        *taken.values(),
    )
    assert "Zephyr" not in everything(thief)
    work(db)
    assert "Mata" not in everything(thief)
    thief.connection.close()
    db.execute("DROP OWNED BY thief")
    db.execute("DROP ROLE thief")
