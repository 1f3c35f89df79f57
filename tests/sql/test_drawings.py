"""graphrag.to_dot and to_mermaid draw what the caller may see."""

from typing import Any

import psycopg
import pydot
import pytest

from tests.sql.graph_rows import chunk, corpus, document, entity, mention, relationship

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pydot")


def community(db: Any, corpus_id: int, members: list[int]) -> int:
    sql = "INSERT INTO graphrag.communities (corpus_id, level, size) VALUES (%s, 0, %s) RETURNING id"
    number = int(db.execute(sql, [corpus_id, len(members)]).fetchone()[0])
    member = "INSERT INTO graphrag.community_members (corpus_id, community_id, entity_id) SELECT %s, %s, unnest(%s)"
    db.execute(member, [corpus_id, number, members])
    return number


@pytest.fixture(scope="module")
def square(module_db: Any) -> Any:
    """a - b - c - d - a, and b - d; everything about d is in a document of its own."""
    db = module_db
    c = corpus(db)
    documents = {key: document(db, "c", key) for key in ("open", "secret")}
    chunks = {key: chunk(db, c, number) for key, number in documents.items()}
    ids = {name: entity(db, c, name) for name in ("Ada", "Bob", "Cleo", "Dan")}
    for name, number in ids.items():
        key = "secret" if name == "Dan" else "open"
        mention(db, c, documents[key], chunks[key], number)
    for source, target, weight, key in (
        ("Ada", "Bob", "1", "open"),
        ("Bob", "Cleo", "2", "open"),
        ("Cleo", "Dan", "3", "secret"),
        ("Ada", "Dan", "4", "secret"),
        ("Bob", "Dan", "5", "secret"),
    ):
        number = relationship(db, c, ids[source], ids[target], weight, [source.lower(), target.lower()])
        db.execute(
            """INSERT INTO graphrag.relationship_mentions
                   (corpus_id, document_id, chunk_id, relationship_id, source_key, target_key, description, forward)
               VALUES (%s, %s, %s, %s, '', '', 'they meet', true)""",
            [c, documents[key], chunks[key], number],
        )
    community(db, c, [ids[name] for name in ("Ada", "Bob", "Cleo")])
    community(db, c, [ids["Dan"]])
    return db


def of(db: Any, name: str) -> int:
    """The number of the community that has an entity."""
    sql = "SELECT community_id FROM graphrag.community_members m JOIN graphrag.entities e ON e.id = m.entity_id WHERE name = %s"
    return int(db.execute(sql, [name]).fetchone()[0])


def drawn(db: Any, arguments: str) -> tuple[set[str], set[frozenset[str]]]:
    (graph,) = pydot.graph_from_dot_data(db.execute(f"SELECT graphrag.to_dot({arguments})").fetchone()[0]) or ()
    names = {node.get_name(): node.get_label()[1:-1] for node in graph.get_nodes() if node.get_label()}
    return set(names.values()), {
        frozenset((names[e.get_source()], names[e.get_destination()])) for e in graph.get_edges()
    }


def test_a_neighbourhood_has_its_entities_and_what_relates_them(square: Any) -> None:
    names, edges = drawn(square, "'ada', 'c'")
    assert names == {"Ada", "Bob", "Dan"}
    assert edges == {frozenset(pair) for pair in (("Ada", "Bob"), ("Ada", "Dan"), ("Bob", "Dan"))}


def test_hops_and_max_nodes_bound_it(square: Any) -> None:
    assert len(drawn(square, "'ada', 'c', hops => 2")[0]) == 4
    assert drawn(square, "'ada', 'c', max_nodes => 2")[0] == {"Ada", "Dan"}
    assert drawn(square, "'ada', 'c', max_nodes => 1") == ({"Ada"}, set())


def test_mermaid_draws_the_same(square: Any) -> None:
    lines = square.execute("SELECT graphrag.to_mermaid('ada', 'c')").fetchone()[0].splitlines()
    assert lines[0] == "graph LR"
    assert sum("[" in line for line in lines) == 3
    assert sum('---|"' in line for line in lines) == 3


def test_a_community_has_its_members_and_what_relates_them(square: Any) -> None:
    names, edges = drawn(square, f"{of(square, 'Ada')}")
    assert names == {"Ada", "Bob", "Cleo"}
    assert edges == {frozenset(("Ada", "Bob")), frozenset(("Bob", "Cleo"))}
    # The strongest within it come first.
    assert drawn(square, f"community_id => {of(square, 'Ada')}, max_nodes => 2")[0] == {"Bob", "Cleo"}
    text = square.execute("SELECT graphrag.to_mermaid(%s)", [of(square, "Ada")]).fetchone()[0]
    assert text.count(" ---") == 2 and text.count('["') == 3


@pytest.mark.parametrize("function", ["to_dot", "to_mermaid"])
def test_row_level_security_holds(square: Any, function: str) -> None:
    with square.transaction(force_rollback=True):
        square.execute("ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY")
        square.execute("CREATE POLICY p ON graphrag.documents TO graphrag_reader USING (source_key = 'open')")
        square.execute("SET LOCAL ROLE graphrag_reader")
        text = square.execute(f"SELECT graphrag.{function}('ada', 'c', 5)").fetchone()[0]
        assert "Dan" not in text and "dan" not in text
        # Of the visible mentions, which all are written n.
        assert text.count(" -- ") + text.count(" ---") == 2
        with pytest.raises(psycopg.errors.UndefinedObject):
            square.execute(f"SELECT graphrag.{function}('dan', 'c')")


@pytest.mark.parametrize("function", ["to_dot", "to_mermaid"])
def test_communities_are_not_drawn_for_who_sees_some_documents(square: Any, function: str) -> None:
    communities = [of(square, name) for name in ("Ada", "Dan")]
    with square.transaction(force_rollback=True):
        square.execute("ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY")
        square.execute("CREATE POLICY p ON graphrag.documents TO graphrag_reader USING (source_key = 'open')")
        square.execute("SET LOCAL ROLE graphrag_reader")
        for number in communities:
            with pytest.raises(psycopg.errors.UndefinedObject), square.transaction():
                square.execute(f"SELECT graphrag.{function}(%s)", [number])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("'nobody', 'c'", psycopg.errors.UndefinedObject),
        ("NULL, 'c'", psycopg.errors.UndefinedObject),
        ("'ada', 'nope'", psycopg.errors.UndefinedObject),
        ("'ada', 'c', 0", psycopg.errors.InvalidParameterValue),
        ("'ada', 'c', max_nodes => 0", psycopg.errors.InvalidParameterValue),
        ("'ada', 'c', max_nodes => 1001", psycopg.errors.InvalidParameterValue),
        ("'ada', 'c', max_nodes => NULL", psycopg.errors.InvalidParameterValue),
        ("0", psycopg.errors.UndefinedObject),
        ("NULL::bigint", psycopg.errors.UndefinedObject),
        ("1, 0", psycopg.errors.InvalidParameterValue),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_a_hint(square: Any, arguments: str, error: Any) -> None:
    with pytest.raises(error) as caught:
        square.execute(f"SELECT graphrag.to_dot({arguments})")
    assert caught.value.diag.message_hint
