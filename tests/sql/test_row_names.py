"""What documents call a row by its name, an alias, a code or its key is one entity with the row, for who sees the row."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.runtime.cluster import Database
from tests.sql.rows import attach, edges, index

LOG = "Big Bertha stood still at Lyon Works. Carl Kent repaired Big Bertha."
NODES = "SELECT name, type, degree, mention_count, origin FROM graphrag.graph_nodes ORDER BY 1"
EDGES = "SELECT source, keywords, target, weight, pmi, strength, origin FROM graphrag.graph_edges ORDER BY 1, 3, 2"
AROUND = "SELECT hop, name, type, degree, keywords, relationship, path FROM graphrag.neighbors('Big Bertha', hops => 3)"
MENTIONS = "SELECT name, source_key FROM graphrag.graph_mentions ORDER BY 1, 2"
TIMELINE = "SELECT name, documents, mentions FROM graphrag.entity_timeline ORDER BY 1"
PICTURE = "SELECT graphrag.to_dot('Big Bertha', hops => 3)"


def make(db: Database) -> None:
    attach(db)
    db.execute("INSERT INTO graphrag.documents (source_key, content) VALUES ('log', %s)", [LOG])
    index(db)


@pytest.fixture(scope="module")
def shop(module_db: Database) -> Database:
    make(module_db)
    return module_db


@pytest.fixture
def own(db: Database) -> Database:
    """A shop to change."""
    make(db)
    return db


@contextmanager
def reader(db: Database, *statements: str) -> Iterator[Database]:
    """A reader of all tables of the shop, with these statements run before."""
    for statement in (
        "CREATE ROLE name_reader IN ROLE graphrag_reader",
        "GRANT USAGE ON SCHEMA shop TO name_reader",
        "GRANT SELECT ON ALL TABLES IN SCHEMA shop TO name_reader",
        *statements,
    ):
        db.execute(statement.encode())
    try:
        db.execute("SET ROLE name_reader")
        yield db
    finally:
        db.execute("RESET ROLE")
        db.execute("DROP OWNED BY name_reader")
        db.execute("DROP ROLE name_reader")


def names(db: Database) -> set[str]:
    return {name for (name,) in db.execute("SELECT name FROM graphrag.graph_nodes")}


def neighbors(db: Database, entity: str) -> set[tuple[str, int]]:
    return set(db.execute("SELECT name, hop FROM graphrag.neighbors(%s, hops => 2)", [entity]).fetchall())


def test_an_alias_a_code_and_a_key_are_the_row(shop: Database) -> None:
    assert names(shop) & {"RZ-500K", "Big Bertha", "RZ500K", "machines/7", "plants/1"} == {"RZ-500K"}
    assert {("RZ-500K", "stands in", "Osaka Works"), ("Ann Lee (persons/1)", "certified for", "RZ-500K")} <= edges(shop)
    untyped = set(shop.execute("SELECT source, target FROM graphrag.graph_edges WHERE keywords = ''").fetchall())
    assert {("Carl Kent", "RZ-500K"), ("RZ-500K", "Lyon Works")} <= untyped


@pytest.mark.parametrize("name", ["Big Bertha", "RZ500K", "rz-500k", "machines/7"])
def test_a_walk_from_any_name_is_that_from_the_row(shop: Database, name: str) -> None:
    around = neighbors(shop, "RZ-500K")
    assert {("Osaka Works", 1), ("Carl Kent", 1), ("Ann Lee (persons/1)", 1), ("LH 455", 2)} <= around
    assert neighbors(shop, name) == around


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "content",
    [
        "The RZ\u2011500K needs Orville oil.",
        "The RZ\u2013500K needs Orville oil.",
        "The ＲＺ－５００Ｋ needs Orville oil.",
        "ＲＺ－５００Ｋは東京で止まった。",
        "RZ‐500K在上海停机。",
    ],
)
def test_a_code_of_another_width_or_hyphen_is_the_row(own: Database, content: str) -> None:
    own.execute("INSERT INTO graphrag.documents (source_key, content) VALUES ('note', %s)", [content])
    index(own)
    mentions = own.execute("SELECT source_key FROM graphrag.graph_mentions WHERE name = 'RZ-500K'").fetchall()
    assert ("note",) in mentions


def test_degrees_and_mentions_are_those_of_all_names(shop: Database) -> None:
    counts = {
        name: numbers for name, *numbers in shop.execute("SELECT name, degree, mention_count FROM graphrag.graph_nodes")
    }
    # Of the row, the certificate, the log and the manual.
    assert counts["RZ-500K"] == [4, 4]
    shown = shop.execute("SELECT source, target FROM graphrag.graph_edges").fetchall()
    assert all(sum(name in edge for edge in shown) == degree for name, (degree, _) in counts.items())
    mentions = shop.execute("SELECT source_key FROM graphrag.graph_mentions WHERE name = 'RZ-500K'").fetchall()
    assert {key for (key,) in mentions} == {"machines/7", "certificates/1/7", "log", "manual"}
    assert shop.execute("SELECT sum(mentions) FROM graphrag.entity_timeline WHERE name = 'RZ-500K'").fetchall() == [
        (4,)
    ]


def test_views_say_whether_documents_or_rows_state_it(shop: Database) -> None:
    origins = dict(shop.execute("SELECT name, origin FROM graphrag.graph_nodes").fetchall())
    assert (
        origins
        | {"RZ-500K": "documents, rows", "Osaka Works": "rows", "Carl Kent": "documents", "Ann Lee (persons/1)": "rows"}
        == origins
    )
    stated = {
        (source, target): origin
        for source, target, origin in shop.execute("SELECT source, target, origin FROM graphrag.graph_edges")
    }
    assert stated["RZ-500K", "Osaka Works"] == "rows"
    assert stated["Carl Kent", "RZ-500K"] == "documents"
    ((curation,),) = shop.execute("SELECT graphrag.create_entity('Nobody')").fetchall()
    assert shop.execute("SELECT origin FROM graphrag.graph_nodes WHERE name = 'Nobody'").fetchall() == [("people",)]
    shop.execute("SELECT graphrag.undo_curation(%s)", [curation])


def test_who_sees_a_part_has_them_as_one_too(shop: Database) -> None:
    """The graph of all documents but one that shares nothing with the others is that of the whole without it."""
    looks = (NODES, EDGES, AROUND, MENTIONS, TIMELINE, PICTURE)
    with reader(shop) as caller:
        whole = [caller.execute(sql.encode()).fetchall() for sql in looks]
    shop.execute(
        "INSERT INTO graphrag.documents (source_key, content, metadata) VALUES ('other', 'Snow fell.', '{\"secret\": true}')"
    )
    index(shop)
    try:
        hiding = (
            "CREATE POLICY part ON graphrag.documents AS RESTRICTIVE FOR SELECT TO name_reader"
            " USING (NOT metadata ? 'secret')"
        )
        with reader(shop, hiding) as caller:
            part = [caller.execute(sql.encode()).fetchall() for sql in looks]
            at = caller.execute(
                "SELECT name, degree, mention_count FROM graphrag.graph_nodes_at('default', now()) ORDER BY 1"
            )
            assert at.fetchall() == [(name, *numbers) for name, _, *numbers, _ in part[0]]
    finally:
        shop.execute("DELETE FROM graphrag.documents WHERE source_key = 'other'")
        index(shop)
    for before, after in zip(whole, part, strict=True):
        assert after == before


def test_who_may_not_select_the_row_has_what_documents_say(shop: Database) -> None:
    with reader(shop, "REVOKE SELECT ON shop.machines, shop.certificates FROM name_reader") as caller:
        assert names(caller) & {"Big Bertha", "Carl Kent", "RZ-500K"} == {"Big Bertha", "Carl Kent"}
        assert neighbors(caller, "Big Bertha") == {("Carl Kent", 1), ("Lyon Works", 1)}


def test_a_question_finds_the_row_by_its_alias(shop: Database) -> None:
    rows = shop.execute("SELECT name, explain ->> 'because' FROM graphrag.search_entities('Where is Big Bertha?')")
    assert rows.fetchall()[0] == ("RZ-500K", "named: Big Bertha")
    keys = {key for (key,) in shop.execute("SELECT source_key FROM graphrag.search('Big Bertha', mode => 'local')")}
    assert {"machines/7", "log"} <= keys


def test_a_context_has_one_entity(shop: Database) -> None:
    ((context,),) = shop.execute("SELECT graphrag.context('Who repaired Big Bertha?', mode => 'local')").fetchall()
    entities = [entity["name"] for entity in context["entities"]]
    assert "RZ-500K" in entities and not {"Big Bertha", "RZ500K", "machines/7"} & set(entities)
    pairs = {(row["source"], row["target"]) for row in context["relationships"]}
    assert {("Carl Kent", "RZ-500K"), ("RZ-500K", "Osaka Works")} <= pairs


def test_relationships_of_two_names_of_a_row_come_in_one_order_by_any_plan(own: Database) -> None:
    """They have the same ends and may tie; the order in which a table is read says nothing."""
    text = "Carl Kent repaired RZ500K. Carl Kent repaired Big Bertha."
    own.execute("INSERT INTO graphrag.documents (source_key, content) VALUES ('again', %s)", [text])
    index(own)
    own.execute("SET graphrag.session_memory = '0'")
    orders = []
    for plan in ("enable_seqscan, enable_hashjoin, enable_mergejoin", "enable_indexscan, enable_bitmapscan"):
        for setting in plan.split(", "):
            own.execute(f"SET {setting} = off".encode())
        # What was read last is written anew: it stands behind the other.
        own.execute(
            f"UPDATE graphrag.relationships SET weight = weight WHERE id = {orders[0][0] if orders else 0}".encode()
        )
        ((context,),) = own.execute("SELECT graphrag.context('What did Carl Kent repair?', mode => 'local')").fetchall()
        ends = [
            row["relationship_id"]
            for row in context["relationships"]
            if {row["source"], row["target"]} == {"Carl Kent", "RZ-500K"}
        ]
        orders.append(ends)
        for setting in plan.split(", "):
            own.execute(f"RESET {setting}".encode())
    assert len(orders[0]) > 1 and orders[0] == orders[1]


def test_pictures_have_one_node(shop: Database) -> None:
    ((picture,),) = shop.execute("SELECT graphrag.to_mermaid('Big Bertha')").fetchall()
    assert '["RZ-500K<br/>' in picture and "Big Bertha" not in picture.replace("Big Bertha stood", "").replace(
        "repaired Big Bertha", ""
    )
    assert '"stands in"' in picture


def test_a_name_of_two_rows_is_neither(own: Database) -> None:
    """As long as there are two; which came first says nothing."""
    own.execute("UPDATE shop.machines SET nick = 'Big Bertha' WHERE id = 8")
    index(own)
    assert "Big Bertha" in names(own)
    suggested = own.execute(
        "SELECT entity, target, reason FROM graphrag.suggest_merges() WHERE entity = 'Big Bertha'"
    ).fetchall()
    assert {target for _, target, _ in suggested} == {"RZ-500K", "LH 455"}
    assert all("ambiguous" in reason and "machines/7, machines/8" in reason for _, _, reason in suggested)
    own.execute("DELETE FROM shop.machines WHERE id = 7")
    index(own)
    assert "Big Bertha" not in names(own)
    assert ("Carl Kent", 1) in neighbors(own, "LH 455")
    assert own.execute("SELECT * FROM graphrag.check('default')").fetchall() == []


def test_a_name_that_is_another_rows_own_is_not_joined(own: Database) -> None:
    own.execute("UPDATE shop.machines SET nick = 'Osaka Works' WHERE id = 8")
    index(own)
    assert {"Osaka Works", "LH 455"} <= names(own)
    assert ("LH 455", "alias", "Osaka Works") in edges(own)
    own.execute("INSERT INTO graphrag.documents (source_key, content) VALUES ('note', 'The Osaka Works burned.')")
    index(own)
    ((score, reason),) = own.execute(
        "SELECT score, reason FROM graphrag.suggest_merges() WHERE entity = 'Osaka Works' AND target = 'LH 455'"
    ).fetchall()
    assert score < 0.9 and "ambiguous, a name, alias or code of machines/8, and another row's own name" in reason


def test_one_row_of_a_name_is_what_documents_call_so(own: Database) -> None:
    assert "Ann Lee" in names(own)
    own.execute("DELETE FROM shop.persons WHERE id = 2")
    index(own)
    assert "Ann Lee" not in names(own)
    mentions = own.execute(
        "SELECT source_key FROM graphrag.graph_mentions WHERE name = 'Ann Lee (persons/1)'"
    ).fetchall()
    assert {key for (key,) in mentions} >= {"manual", "persons/1", "certificates/1/7"}


def test_what_is_one_already_is_not_suggested(shop: Database) -> None:
    suggested = {entity for entity, *_ in shop.execute("SELECT * FROM graphrag.suggest_merges()")}
    assert not suggested & {"Big Bertha", "RZ500K", "RZ-500K", "machines/7"}
    assert "Ann Lee" in suggested


def test_curations_stand_over_names(own: Database) -> None:
    fingerprint: list[Any] = own.execute("SELECT * FROM graphrag.fingerprint_sections('default')").fetchall()
    before = own.execute(NODES).fetchall()
    ((merge,),) = own.execute("SELECT graphrag.merge_entities(ARRAY['Carl Kent'], 'Big Bertha')").fetchall()
    assert "Carl Kent" not in names(own) and "RZ-500K" in names(own)
    assert own.execute("SELECT * FROM graphrag.check('default')").fetchall() == []
    own.execute("SELECT graphrag.undo_curation(%s)", [merge])
    ((merge,),) = own.execute("SELECT graphrag.merge_entities(ARRAY['Big Bertha'], 'RZ-500K')").fetchall()
    assert {name for name, *_ in own.execute(NODES)} == {name for name, *_ in before}
    own.execute("SELECT graphrag.undo_curation(%s)", [merge])
    assert own.execute(NODES).fetchall() == before
    after = own.execute("SELECT * FROM graphrag.fingerprint_sections('default')").fetchall()
    assert [row for row in after if row[0] != "curations"] == [row for row in fingerprint if row[0] != "curations"]


def test_a_row_keeps_its_type_however_often_documents_name_it(own: Database) -> None:
    own.cursor().executemany(
        "INSERT INTO graphrag.documents (source_key, content) VALUES (%s, %s)",
        [(f"visit {n}", "Osaka Works burned. Then Osaka Works was mended.") for n in range(3)],
    )
    index(own)
    assert ("plant",) in own.execute("SELECT type FROM graphrag.graph_nodes WHERE name = 'Osaka Works'").fetchall()
    assert own.execute("SELECT * FROM graphrag.check('default')").fetchall() == []
    with reader(own, "REVOKE SELECT ON shop.plants FROM name_reader") as hidden:
        # As if there were no row.
        ((kind,),) = hidden.execute("SELECT type FROM graphrag.graph_nodes WHERE name = 'Osaka Works'").fetchall()
        assert kind != "plant"


AROUND_WITH_ATTRIBUTES = """
SELECT n.name, n.type, a.attribute, a.value FROM graphrag.neighbors('Big Bertha', hops => 2) n
  JOIN graphrag.entity_attributes a USING (entity_id) ORDER BY 1, 3
"""
CITIES = [("Lyon Works", "plant", "city", "Lyon"), ("Osaka Works", "plant", "city", "Osaka")]


def test_neighbors_lead_to_the_attributes_of_rows_for_who_sees_these(own: Database) -> None:
    assert own.execute(AROUND_WITH_ATTRIBUTES).fetchall() == CITIES
    with reader(own) as seeing:
        assert seeing.execute(AROUND_WITH_ATTRIBUTES).fetchall() == CITIES
    in_part = ("REVOKE SELECT ON shop.plants FROM name_reader", "GRANT SELECT (id, name) ON shop.plants TO name_reader")
    with reader(own, *in_part) as hidden:
        assert hidden.execute(AROUND_WITH_ATTRIBUTES).fetchall() == []
