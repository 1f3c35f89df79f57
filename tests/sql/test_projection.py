"""The AGE projection equals the tables, whatever happened to them."""

import threading
from typing import Any

import psycopg
import pytest

from tests.sql.graph_rows import chunk, corpus, cypher, document, entity, mention, project, project_all, relationship

LABELS = ("Entity", "Chunk", "Document", "RELATED", "MENTIONED_IN", "PART_OF")


def dump(db: Any, corpus_id: int) -> dict[str, list[Any]]:
    """Every row of every label, as text."""
    return {
        label: sorted(
            db.execute(f'SELECT to_jsonb(ARRAY(SELECT v::text FROM graphrag_{corpus_id}."{label}" AS v))').fetchone()[0]
        )
        for label in LABELS
    }


def small_graph(db: Any) -> tuple[int, dict[str, int]]:
    c = corpus(db)
    ids = {"d": document(db, "c", "a/1", "One")}
    ids["k"] = chunk(db, c, ids["d"])
    ids["a"], ids["b"] = entity(db, c, "Alice"), entity(db, c, "Bob")
    ids["ma"], ids["mb"] = (
        mention(db, c, ids["d"], ids["k"], ids["a"], tf=3),
        mention(db, c, ids["d"], ids["k"], ids["b"]),
    )
    ids["r"] = relationship(db, c, ids["b"], ids["a"], "2.50", ["friends", "work"])
    project_all(db, c)
    return c, ids


def test_every_row_has_its_vertex_or_edge_with_its_properties(db: Any) -> None:
    _, ids = small_graph(db)
    assert cypher(
        db,
        "MATCH (d:Document)<-[:PART_OF]-(k:Chunk)<-[m:MENTIONED_IN]-(e:Entity {key: 'alice'}) "
        "RETURN d, k, m.tf AS tf, e",
    )[0] == {
        "d": {
            "id": 5 << 48 | ids["d"],
            "label": "Document",
            "properties": {"document_id": ids["d"], "source_key": "a/1", "title": "One"},
        },
        "k": {
            "id": 4 << 48 | ids["k"],
            "label": "Chunk",
            "properties": {"chunk_id": ids["k"], "document_id": ids["d"], "ordinal": 0},
        },
        "tf": 3,
        "e": {
            "id": 3 << 48 | ids["a"],
            "label": "Entity",
            "properties": {
                "entity_id": ids["a"],
                "key": "alice",
                "name": "Alice",
                "type": "NAME",
                "description": "",
                "degree": 0,
            },
        },
    }


def test_a_relationship_is_seen_from_both_ends(db: Any) -> None:
    _, ids = small_graph(db)
    for first, other in (("Alice", "Bob"), ("Bob", "Alice")):
        rows = cypher(
            db, "MATCH (a:Entity {name: $name})-[r:RELATED]->(b) RETURN b.name AS b, r", f'{{"name": "{first}"}}'
        )
        assert [row["b"] for row in rows] == [other]
        assert rows[0]["r"]["properties"] == {
            "relationship_id": ids["r"], "weight": 2.5, "keywords": ["friends", "work"], "description": "they meet"
        }  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        'it\'s "quoted"',
        "back\\slash \\u0041 \\n",
        "$$ $cypher$ {} [] :: ::vertex",
        "'; DROP TABLE x; --",
        "\x01\t\n\r\x1f\x7f",
        "😀 日本語 עברית",
        "`",
    ],
)
def test_hard_names_survive_exactly(db: Any, name: str) -> None:
    c = corpus(db)
    e = entity(db, c, "x")
    db.execute("UPDATE graphrag.entities SET name = %s, description = %s WHERE id = %s", [name, name, e])
    project(db, c, entities=[e])
    assert cypher(db, "MATCH (e:Entity) RETURN e.name AS name, e.description AS d") == [{"name": name, "d": name}]


def test_projecting_again_writes_nothing(db: Any) -> None:
    c, _ = small_graph(db)
    before = {
        label: db.execute(f'SELECT array_agg(ctid ORDER BY ctid) FROM graphrag_{c}."{label}"').fetchone()
        for label in LABELS
    }
    project_all(db, c)
    assert before == {
        label: db.execute(f'SELECT array_agg(ctid ORDER BY ctid) FROM graphrag_{c}."{label}"').fetchone()
        for label in LABELS
    }


def test_change_and_removal_leave_what_a_rebuild_makes(db: Any) -> None:
    c, ids = small_graph(db)
    d2 = document(db, "c", "a/2")
    k2 = chunk(db, c, d2)
    e3 = entity(db, c, "Carol")
    mention(db, c, d2, k2, e3)
    r2 = relationship(db, c, ids["a"], e3)
    project(db, c, [d2], [e3, e3], [r2])
    # The first document is replaced: a new chunk, one mention; Bob and the first relationship go, Alice changes.
    db.execute("DELETE FROM graphrag.entity_mentions WHERE document_id = %s", [ids["d"]])
    db.execute("DELETE FROM graphrag.chunks WHERE document_id = %s", [ids["d"]])
    db.execute("DELETE FROM graphrag.relationships WHERE id = %s", [ids["r"]])
    db.execute("DELETE FROM graphrag.entities WHERE id = %s", [ids["b"]])
    db.execute("UPDATE graphrag.entities SET description = 'new' WHERE id = %s", [ids["a"]])
    k1 = chunk(db, c, ids["d"])
    mention(db, c, ids["d"], k1, ids["a"])
    project(db, c, [ids["d"]], [ids["a"], ids["b"]], [ids["r"]])
    after = dump(db, c)
    assert [len(after[label]) for label in LABELS] == [2, 2, 2, 2, 2, 2]
    db.execute("SELECT graphrag.rebuild_graph('c')")
    assert dump(db, c) == after


def test_a_removed_document_leaves_nothing(db: Any) -> None:
    c, ids = small_graph(db)
    db.execute("DELETE FROM graphrag.entity_mentions")
    db.execute("DELETE FROM graphrag.chunks")
    db.execute("DELETE FROM graphrag.relationships")
    db.execute("DELETE FROM graphrag.entities")
    db.execute("DELETE FROM graphrag.documents")
    project(db, c, [ids["d"]], [ids["a"], ids["b"]], [ids["r"]])
    assert all(not rows for rows in dump(db, c).values())


def test_a_mention_that_moves_to_another_entity_moves_its_edge(db: Any) -> None:
    c, ids = small_graph(db)
    db.execute("UPDATE graphrag.entity_mentions SET entity_id = %s WHERE id = %s", [ids["a"], ids["mb"]])
    project(db, c, [ids["d"]])
    assert {row["e"] for row in cypher(db, "MATCH (e:Entity)-[:MENTIONED_IN]->() RETURN e.name AS e")} == {"Alice"}


def test_what_cypher_creates_never_meets_the_projection(db: Any) -> None:
    c, _ = small_graph(db)
    db.execute("SELECT '1'::ag_catalog.agtype")
    db.execute(
        f"SELECT * FROM ag_catalog.cypher('graphrag_{c}', $$ CREATE (e:Entity {{key: 'mine'}}) $$) "
        "AS (x ag_catalog.agtype)"
    )
    for i in range(5):
        entity(db, c, f"later {i}")
    project_all(db, c)
    assert len(cypher(db, "MATCH (e:Entity) RETURN DISTINCT id(e) AS id")) == 8
    assert len(cypher(db, "MATCH (e:Entity {key: 'mine'}) RETURN e")) == 1


def test_a_rolled_back_graph_can_be_made_again_in_the_same_session(db: Any) -> None:
    c = corpus(db)
    e = entity(db, c, "Alice")
    with pytest.raises(ZeroDivisionError), db.transaction():
        project(db, c, entities=[e])
        assert len(cypher(db, "MATCH (e:Entity) RETURN e")) == 1
        raise ZeroDivisionError
    assert cypher(db, "MATCH (e:Entity) RETURN e") == []
    project(db, c, entities=[e])
    assert len(cypher(db, "MATCH (e:Entity) RETURN e")) == 1


def test_two_sessions_make_one_graph(db: Any) -> None:
    c = corpus(db)
    errors: list[Exception] = []

    def make() -> None:
        try:
            with psycopg.connect(db.url) as connection:
                connection.execute("SELECT graphrag._ensure_graph(%s)", [c])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert db.execute("SELECT count(*) FROM ag_catalog.ag_graph").fetchone() == (1,)


def indexes(db: Any, corpus_id: int) -> list[str]:
    """What is indexed of labels; each of AGE's own has an index of its own. AGE 1.8 makes some with the label."""
    query = (
        "SELECT t.relname || ' ' || a.attname FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid"
        "  JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = i.indkey[0]"
        " WHERE t.relnamespace = %s::regnamespace AND t.relname NOT LIKE E'\\\\_ag\\\\_%%' ORDER BY 1"
    )
    return [row[0] for row in db.execute(query, [f"graphrag_{corpus_id}"])]


def test_a_label_gets_its_indexes_with_two_megabytes(db: Any) -> None:
    c, ids = small_graph(db)
    from_the_beginning = indexes(db, c)
    words = "(SELECT string_agg(md5(n || '/' || x), ' ') FROM generate_series(1, 40) x)"
    db.execute(
        "INSERT INTO graphrag.entities (corpus_id, key, name, type, description)"
        f" SELECT %s, 'k' || n, 'K' || n, 'NAME', {words} FROM generate_series(1, 2000) n",
        [c],
    )
    project_all(db, c)
    assert indexes(db, c) == from_the_beginning  # looked at before the rows are there
    # What follows is planned for the index; what was planned before finds it too.
    db.execute("UPDATE graphrag.entities SET degree = 7 WHERE key < 'k3'")
    db.execute("DELETE FROM graphrag.entities WHERE key > 'k8'")
    with_itself = (
        "SELECT graphrag._project(%(c)s, '{}', array_agg(v.id::ag_catalog.agtype::bigint & 281474976710655), '{}')"
        f' FROM graphrag_{c}."Entity" v'
    )
    db.execute(with_itself, {"c": c})  # while the label is in use, it gets none
    assert indexes(db, c) == from_the_beginning
    db.execute("UPDATE graphrag.entities SET degree = 8 WHERE key < 'k3'")
    project_all(db, c)
    of_entities = {"Entity id", "Entity properties"}
    assert indexes(db, c) == sorted({*from_the_beginning, *of_entities})
    db.execute(
        "INSERT INTO graphrag.relationships"
        " (corpus_id, low_id, high_id, source_id, target_id, weight, keywords, description, mention_count)"
        " SELECT %s, %s, e.id, %s, e.id, 1, '{}',"
        "        (SELECT string_agg(md5(e.id || '/' || x), ' ') FROM generate_series(1, 20) x), 1"
        "   FROM graphrag.entities e WHERE e.key > 'k'",
        [c, ids["a"], ids["a"]],
    )
    for _ in range(2):
        project_all(db, c)
    of_edges = {"RELATED id", "RELATED start_id", "RELATED end_id"}
    assert indexes(db, c) == sorted({*from_the_beginning, *of_entities, *of_edges})
    projected = dump(db, c)
    db.execute("SELECT graphrag.rebuild_graph('c')")
    assert dump(db, c) == projected


def test_a_graph_is_nobody_elses(db: Any) -> None:
    c, _ = small_graph(db)
    assert db.execute("SELECT nspacl FROM pg_namespace WHERE nspname = %s", [f"graphrag_{c}"]).fetchone() == (None,)
    assert db.execute(
        "SELECT count(*) FROM pg_depend d JOIN pg_class c ON c.oid = objid "
        "WHERE deptype = 'e' AND relnamespace = %s::regnamespace",
        [f"graphrag_{c}"],
    ).fetchone() == (0,)


def test_an_unknown_corpus_is_an_error_with_a_hint(db: Any) -> None:
    with pytest.raises(psycopg.errors.UndefinedObject) as caught:
        project(db, 4711)
    assert caught.value.diag.message_hint


def test_a_graph_dropped_by_hand_is_rebuilt(db: Any) -> None:
    c, _ = small_graph(db)
    before = dump(db, c)
    db.execute("SELECT graphrag._drop_graph(%s)", [c])
    db.execute("SELECT graphrag._drop_graph(%s)", [c])
    db.execute("SELECT graphrag.rebuild_graph('c')")
    assert dump(db, c) == before
