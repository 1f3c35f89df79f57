"""The graph is a function of the documents and of the curations in force, in whatever order they came."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.ingest import (
    STORIES,
    Background,
    canonical,
    corpus_id,
    delete,
    new_corpus,
    put,
    put_all,
    refused,
    rows,
    search,
    value,
    wait_for_lock,
    work,
    worker,
)
from tests.sql.llm import provider

MORE = STORIES | {
    "lady": "Lady Lovelace met Charles Babbage in Turin. Lady Lovelace admired London.",
    "countess": "The Countess of Lovelace, Ada Lovelace, and Lady Lovelace wrote to Michael Faraday.",
}
# What documents said of whom was deleted is kept, out of sight.
HIDDEN = """
SELECT d.source_key, m.raw_key FROM graphrag.entity_mentions m JOIN graphrag.documents d ON d.id = m.document_id
 WHERE m.corpus_id = %s AND m.entity_id IS NULL
 UNION ALL
SELECT d.source_key, concat_ws('|', m.source_key, m.target_key) FROM graphrag.relationship_mentions m
  JOIN graphrag.documents d ON d.id = m.document_id WHERE m.corpus_id = %s AND m.relationship_id IS NULL ORDER BY 1, 2
"""
CURATED = """
SELECT e.key, e.curated, (SELECT array_agg(concat_ws(':', v.kind, v.count, v.tokens, v.value) ORDER BY v.kind, v.value)
                            FROM graphrag.entity_values v WHERE v.entity_id = e.id)
  FROM graphrag.entities e WHERE e.corpus_id = %s
 UNION ALL
SELECT concat_ws('|', least(s.key, t.key), greatest(s.key, t.key)), r.curated,
       (SELECT array_agg(concat_ws(':', v.kind, v.count, v.tokens, v.value) ORDER BY v.kind, v.value)
          FROM graphrag.relationship_values v WHERE v.relationship_id = r.id)
  FROM graphrag.relationships r JOIN graphrag.entities s ON s.id = r.source_id
  JOIN graphrag.entities t ON t.id = r.target_id WHERE r.corpus_id = %s ORDER BY 1
"""


@pytest.fixture
def corpus(module_db: Database) -> Iterator[str]:
    name = new_corpus(module_db)
    yield name
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])


def whole(db: Any, corpus: str) -> Any:
    """All that was made of documents and curations, without ids."""
    number = corpus_id(db, corpus)
    return canonical(db, corpus) | {
        "hidden": rows(db, HIDDEN, number, number),
        "curated": rows(db, CURATED, number, number),
    }


def curate(db: Any, corpus: str, function: str, *given: Any, **named: Any) -> int:
    arguments = ", ".join(["%s"] * len(given) + [f"{name} => %s" for name in {**named, "corpus": corpus}])
    return int(value(db, f"SELECT graphrag.{function}({arguments})", *given, *named.values(), corpus))


def undo(db: Any, number: int) -> None:
    db.execute("SELECT graphrag.undo_curation(%s)", [number])


def ingest_anew(db: Any, corpus: str, documents: dict[str, str]) -> None:
    """Delete all documents, then insert them in the opposite order, in two batches."""
    db.execute("DELETE FROM graphrag.documents WHERE corpus = %s", [corpus])
    work(db)
    keys = sorted(documents, reverse=True)
    for part in (keys[: len(keys) // 2], keys[len(keys) // 2 :]):
        put_all(db, corpus, {key: documents[key] for key in part})
        work(db)


def entity(db: Any, corpus: str, key: str) -> dict[str, Any] | None:
    found = rows(
        db,
        "SELECT jsonb_build_object('name', e.name, 'type', e.type, 'description', e.description, 'degree', e.degree,"
        " 'mentions', e.mention_count) FROM graphrag.entities e WHERE e.corpus_id = %s AND e.key = %s",
        corpus_id(db, corpus),
        key,
    )
    return found[0][0] if found else None


def relationship(db: Any, corpus: str, source: str, target: str) -> dict[str, Any] | None:
    found = rows(
        db,
        "SELECT jsonb_build_object('keywords', r.keywords, 'description', r.description, 'weight', r.weight)"
        "  FROM graphrag.relationships r JOIN graphrag.entities s ON s.id = r.source_id"
        "  JOIN graphrag.entities t ON t.id = r.target_id"
        " WHERE r.corpus_id = %s AND ARRAY[s.key, t.key] @> ARRAY[%s, %s]",
        corpus_id(db, corpus),
        source,
        target,
    )
    return found[0][0] if found else None


def test_a_merge_makes_later_mentions_of_the_alias_land_on_the_merged_entity(module_db: Database, corpus: str) -> None:
    put_all(module_db, corpus, STORIES | {"lady": MORE["lady"]})
    work(module_db)
    curate(module_db, corpus, "merge_entities", ["Lady Lovelace"], "Ada Lovelace")
    assert entity(module_db, corpus, "lady lovelace") is None
    before = entity(module_db, corpus, "ada lovelace")
    assert before is not None and before["name"] == "Ada Lovelace"
    put(module_db, corpus, "later", "Lady Lovelace visited Somerset. LADY LOVELACE loved Somerset.")
    work(module_db)
    assert entity(module_db, corpus, "lady lovelace") is None
    after = entity(module_db, corpus, "ada lovelace")
    assert after is not None and after["mentions"] == before["mentions"] + 1
    assert relationship(module_db, corpus, "ada lovelace", "somerset")


CHANGES = {
    "merge": [("merge_entities", (["Lady Lovelace"], "Ada Lovelace"), {})],
    "merge of related ones": [("merge_entities", (["Charles Babbage", "London"], "Ada Lovelace"), {})],
    "rename": [("rename_entity", ("Ada Lovelace", "Augusta Ada King"), {})],
    "rename back": [
        ("rename_entity", ("Ada Lovelace", "Augusta Ada King"), {}),
        ("rename_entity", ("Augusta Ada King", "ADA LOVELACE"), {}),
    ],
    "edit": [("edit_entity", ("Ada Lovelace",), {"type": "person", "description": "A mathematician."})],
    "edit, rename, merge": [
        ("edit_entity", ("Ada Lovelace",), {"description": "A mathematician."}),
        ("rename_entity", ("Ada Lovelace", "Augusta"), {}),
        ("edit_entity", ("Lady Lovelace",), {"description": "Another."}),
        ("merge_entities", (["Lady Lovelace"], "Augusta"), {}),
        ("merge_entities", (["Ada Lovelace"], "Charles Babbage"), {}),
    ],
    "delete": [("delete_entity", ("Ada Lovelace",), {})],
    "create": [
        ("create_entity", ("Difference Engine",), {"type": "machine", "description": "Made of brass."}),
        ("create_entity", ("Somerset",), {}),
        (
            "create_relationship",
            ("Difference Engine", "Charles Babbage"),
            {"keywords": ["made"], "description": "He did."},
        ),
        ("merge_entities", (["Difference Engine"], "Analytical Engine"), {}),
    ],
    "relationship": [
        (
            "edit_relationship",
            ("Ada Lovelace", "Charles Babbage"),
            {"weight": Decimal("9.5"), "description": "Friends."},
        ),
        ("delete_relationship", ("London", "Charles Babbage"), {}),
        ("create_relationship", ("Enigma", "Ada Lovelace"), {"weight": 2}),
        ("rename_entity", ("London", "Londinium"), {}),
        ("delete_entity", ("Enigma",), {}),
    ],
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_curations_meet_documents_of_before_and_after_alike_and_undo_leaves_nothing(
    module_db: Database, corpus: str, changes: list[tuple[str, tuple[Any, ...], dict[str, Any]]]
) -> None:
    put_all(module_db, corpus, MORE)
    work(module_db)
    untouched = whole(module_db, corpus)
    made = [curate(module_db, corpus, function, *given, **named) for function, given, named in changes]
    curated = whole(module_db, corpus)
    assert curated != untouched
    ingest_anew(module_db, corpus, MORE)
    assert whole(module_db, corpus) == curated
    random.Random(len(made)).shuffle(made)
    for number in made:
        undo(module_db, number)
    assert whole(module_db, corpus) == untouched


def test_without_their_documents_only_what_people_added_is_left(module_db: Database, corpus: str) -> None:
    put_all(module_db, corpus, MORE)
    work(module_db)
    curate(module_db, corpus, "create_entity", "Somerset", type="county")
    curate(module_db, corpus, "create_relationship", "Somerset", "Ada Lovelace")
    curate(module_db, corpus, "merge_entities", ["Lady Lovelace"], "Ada Lovelace")
    curate(module_db, corpus, "edit_entity", "London", type="city")
    module_db.execute("DELETE FROM graphrag.documents WHERE corpus = %s", [corpus])
    work(module_db)
    assert sorted(rows(module_db, "SELECT name, type, degree FROM graphrag.graph_nodes WHERE corpus = %s", corpus)) == [
        ("Ada Lovelace", "UNKNOWN", 1),
        ("Somerset", "county", 1),
    ]
    put(module_db, corpus, "london", STORIES["babbage"])
    work(module_db)
    found = entity(module_db, corpus, "london")
    assert found is not None and found["type"] == "city"


FUNCTIONS = (
    "merge_entities", "merge_entities", "rename_entity", "edit_entity", "delete_entity", "create_entity",
    "create_relationship", "edit_relationship", "delete_relationship", "insert_graph", "undo", "undo", "put", "delete",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_any_sequence_of_changes_comes_to_what_its_curations_and_documents_come_to(
    module_db: Database, corpus: str, seed: int
) -> None:
    choose = random.Random(seed)
    documents: dict[str, str] = dict(STORIES)
    put_all(module_db, corpus, documents)
    work(module_db)
    made: list[int] = []
    done = 0
    for _ in range(40):
        function = choose.choice(FUNCTIONS)
        names = [row[0] for row in rows(module_db, "SELECT name FROM graphrag.graph_nodes WHERE corpus = %s", corpus)]
        names = sorted([*names, "Ada Lovelace", "Lady Lovelace", "Turin"])
        one, other, new = choose.choice(names), choose.choice(names), f"Name {choose.randrange(4)}"
        try:
            if function == "put":
                documents[key] = MORE[key := choose.choice(sorted(MORE))]
                put(module_db, corpus, key, documents[key])
                work(module_db)
            elif function == "delete":
                documents.pop(key := choose.choice(sorted(MORE)), None)
                delete(module_db, corpus, key)
                work(module_db)
            elif function == "undo":
                undo(module_db, made.pop(choose.randrange(len(made))) if made else 0)
            elif function == "insert_graph":
                graph = {
                    "entities": [{"name": new, "description": one}],
                    "relationships": [{"source": one, "target": new}],
                }
                made.append(int(value(module_db, "SELECT graphrag.insert_graph(%s, %s)", corpus, Jsonb(graph))))
            else:
                given: dict[str, Any] = {
                    "merge_entities": ([one], other),
                    "rename_entity": (one, choose.choice([new, one.upper()])),
                    "edit_entity": (one,),
                    "delete_entity": (one,),
                    "create_entity": (new,),
                }.get(function, (one, other))
                named = {"description": f"Said {choose.random()}."} if function.startswith("edit") else {}
                made.append(curate(module_db, corpus, function, *given, **named))
            done += 1
        except psycopg.Error as error:
            assert error.sqlstate in ("42704", "22023", "23505", "55000"), error
    assert done > 10
    curated = whole(module_db, corpus)
    ingest_anew(module_db, corpus, documents)
    assert whole(module_db, corpus) == curated
    for number in made:
        undo(module_db, number)
    assert rows(module_db, "SELECT * FROM graphrag.curated WHERE corpus_id = %s", corpus_id(module_db, corpus)) == []
    assert rows(module_db, "SELECT * FROM graphrag.aliases WHERE corpus_id = %s", corpus_id(module_db, corpus)) == []
    plain = new_corpus(module_db)
    put_all(module_db, plain, documents)
    work(module_db)
    assert whole(module_db, corpus) == whole(module_db, plain)
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [plain])


def test_search_neighbors_cypher_and_views_show_the_curated_graph(module_db: Database, corpus: str) -> None:
    put_all(module_db, corpus, MORE)
    work(module_db)
    curate(module_db, corpus, "merge_entities", ["Lady Lovelace"], "Ada Lovelace")
    curate(module_db, corpus, "rename_entity", "Ada Lovelace", "Countess King")
    curate(module_db, corpus, "create_entity", "Ockham Park", type="house", description="A house in Surrey.")
    curate(module_db, corpus, "create_relationship", "Ockham Park", "Countess King", description="She lived there.")
    for name in ("Lady Lovelace", "ada lovelace", "Countess King"):
        neighbors = rows(module_db, "SELECT name FROM graphrag.neighbors(%s, %s)", name, corpus)
        assert ("Ockham Park",) in neighbors and ("Turin",) in neighbors
        found = rows(module_db, "SELECT name, score FROM graphrag.search_entities(%s, %s, 1)", name, corpus)
        assert found == [("Countess King", 1.0)]
    assert rows(module_db, "SELECT name, description FROM graphrag.search_entities('Ockham Park', %s, 1)", corpus) == [
        ("Ockham Park", "A house in Surrey.")
    ]
    query = "MATCH (a:Entity {key: 'ockham park'})-[r:RELATED]->(b:Entity) RETURN b.name AS name, r.description AS said"
    assert rows(module_db, "SELECT graphrag.cypher(%s, %s)", corpus, query) == [
        ({"name": "Countess King", "said": "She lived there."},)
    ]
    edges = "SELECT source, target FROM graphrag.graph_edges WHERE corpus = %s AND 'Ockham Park' IN (source, target)"
    assert rows(module_db, edges, corpus) == [("Ockham Park", "Countess King")]
    themes = "SELECT source, target FROM graphrag.search_relationships('living somewhere', %s, 1)"
    assert rows(module_db, themes, corpus) == [("Ockham Park", "Countess King")]
    surrey = "SELECT name FROM graphrag.search_entities('a house in Surrey', %s, 1)"
    assert rows(module_db, surrey, corpus) == [("Ockham Park",)]
    context = value(module_db, "SELECT graphrag.context('Where did Lady Lovelace live?', %s, 'local')", corpus)
    assert "She lived there." in json.dumps(context)
    assert search(module_db, "Lady Lovelace", corpus, "local")
    curate(module_db, corpus, "delete_entity", "Lady Lovelace")
    assert rows(module_db, "SELECT name FROM graphrag.neighbors('Ada Lovelace', %s)", corpus) == []
    assert search(module_db, "Lady Lovelace", corpus, "hybrid")


@pytest.fixture(params=["filter", "row-level security"])
def partly(module_db: Database, corpus: str, request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """A curated corpus of which only documents marked open are seen: by a filter, or by a policy."""
    for key, text in MORE.items():
        put(module_db, corpus, key, text, metadata={"open": key == "lady"})
    work(module_db)
    curate(module_db, corpus, "merge_entities", ["Lady Lovelace"], "Ada Lovelace")
    curate(module_db, corpus, "rename_entity", "Ada Lovelace", "Augusta King")
    curate(module_db, corpus, "edit_entity", "Augusta King", type="countess", description="Wife of William King.")
    given = {"corpus": corpus, "filter": Jsonb({"open": True}) if request.param == "filter" else None}
    if given["filter"] is not None:
        yield given
        return
    module_db.execute("CREATE ROLE partial IN ROLE graphrag_reader")
    module_db.execute("ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY")
    module_db.execute("CREATE POLICY open ON graphrag.documents FOR SELECT USING ((metadata ->> 'open')::boolean)")
    try:
        yield given
    finally:
        module_db.execute("RESET ROLE")
        module_db.execute("DROP POLICY open ON graphrag.documents")
        module_db.execute("ALTER TABLE graphrag.documents DISABLE ROW LEVEL SECURITY")
        module_db.execute("DROP ROLE partial")


def test_who_sees_some_documents_sees_what_people_say_of_what_these_mention(
    module_db: Database, partly: dict[str, Any]
) -> None:
    corpus = partly["corpus"]
    graph = {
        "entities": [{"name": "Ockham Park", "description": "A house nobody mentions."}],
        "relationships": [
            {
                "source": "Augusta King",
                "target": "Turin",
                "keywords": "travel",
                "description": "A journey.",
                "weight": 5,
            }
        ],
    }
    module_db.execute("SELECT graphrag.insert_graph(%s, %s)", [corpus, Jsonb(graph)])
    curate(module_db, corpus, "edit_relationship", "Augusta King", "London", keywords=["visiting", "capital"], weight=7)
    curate(module_db, corpus, "create_relationship", "Turin", "Analytical Engine", description="A lecture.")
    if partly["filter"] is None:
        module_db.execute("SET ROLE partial")

    def entities(text: str) -> Any:
        found = "SELECT name, type, description FROM graphrag.search_entities(%s, %s, 3, %s)"
        return rows(module_db, found, text, corpus, partly["filter"])

    def relationships(text: str) -> Any:
        found = "SELECT ARRAY[source, target], keywords, weight, description FROM graphrag.search_relationships(%s, %s, 3, %s)"
        return [({*ends}, *rest) for ends, *rest in rows(module_db, found, text, corpus, partly["filter"])]

    assert entities("Lady Lovelace")[0] == ("Augusta King", "countess", "Wife of William King.")
    assert entities("the wife of William King")[0][0] == "Augusta King"
    assert "Ockham Park" not in [name for name, _, _ in entities("a house nobody mentions")]
    told = [({end.lower() for end in ends}, *rest) for ends, *rest in relationships("visiting the capital")]
    assert ({"augusta king", "london"}, ["capital", "visiting"], 7) in [one[:3] for one in told]
    assert "A lecture." not in [one[3] for one in relationships("a lecture")]
    (journey,) = [one for one in relationships("a journey") if "turin" in {end.lower() for end in one[0]}]
    assert journey[1] == ["travel"] and journey[2] > 5 and "A journey." in journey[3]
    if partly["filter"] is None:
        assert rows(
            module_db,
            "SELECT name, type, description FROM graphrag.graph_nodes WHERE corpus = %s AND type = 'countess'",
            corpus,
        ) == [("Augusta King", "countess", "Wife of William King.")]
        assert rows(
            module_db,
            "SELECT keywords, weight FROM graphrag.graph_edges WHERE corpus = %s AND 'London' IN (source, target)"
            " AND 'Augusta King' IN (source, target)",
            corpus,
        ) == [("capital, visiting", 7.0)]
        assert rows(
            module_db,
            "SELECT keywords, weight > 5 FROM graphrag.graph_edges WHERE corpus = %s AND 'Turin' IN (source, target)"
            " AND 'Augusta King' IN (source, target)",
            corpus,
        ) == [("travel", True)]
        assert ("Augusta King",) not in rows(
            module_db, "SELECT name FROM graphrag.neighbors('Analytical Engine', %s)", corpus
        )


def test_a_graph_made_elsewhere_joins_what_documents_say_and_goes_as_it_came(module_db: Database, corpus: str) -> None:
    put_all(module_db, corpus, STORIES)
    work(module_db)
    before = whole(module_db, corpus)
    graph = {
        "entities": [
            {"name": "Ada Lovelace", "type": "person", "description": "Daughter of Lord Byron.", "source": "wiki"},
            {"name": "Lord Byron", "type": "person", "description": "A poet."},
        ],
        "relationships": [
            {"source": "Lord Byron", "target": "Ada Lovelace", "keywords": "family, poetry", "weight": 2.5},
            {"source": "Charles Babbage", "target": "Ada Lovelace", "description": "They wrote letters.", "weight": 3},
            {"source": "Lord Byron", "target": "Newstead"},
        ],
    }
    weight = relationship(module_db, corpus, "charles babbage", "ada lovelace")
    assert weight is not None
    number = int(value(module_db, "SELECT graphrag.insert_graph(%s, %s)", corpus, Jsonb(graph)))
    found = entity(module_db, corpus, "ada lovelace")
    assert found is not None and found["description"] == "Daughter of Lord Byron."
    newstead = entity(module_db, corpus, "newstead")
    assert newstead is not None and newstead["type"] == "UNKNOWN"
    byron = relationship(module_db, corpus, "lord byron", "ada lovelace")
    assert byron == {"keywords": ["family", "poetry"], "description": "", "weight": 2.5}
    letters = relationship(module_db, corpus, "charles babbage", "ada lovelace")
    assert letters is not None and letters["weight"] == weight["weight"] + 3
    assert letters["description"] == "They wrote letters."
    joined = whole(module_db, corpus)
    ingest_anew(module_db, corpus, STORIES)
    assert whole(module_db, corpus) == joined
    undo(module_db, number)
    assert whole(module_db, corpus) == before


def test_a_curation_is_recorded_with_who_and_when(module_db: Database, corpus: str) -> None:
    put_all(module_db, corpus, STORIES)
    work(module_db)
    number = curate(module_db, corpus, "edit_entity", "London", type="city")
    who = (
        "SELECT kind, arguments, made_by = session_user, made_at <= now(), undone_by, undone_at"
        " FROM graphrag.curations WHERE id = %s"
    )
    assert rows(module_db, who, number) == [
        ("edit_entity", {"entity": "london", "type": "city"}, True, True, None, None)
    ]
    undo(module_db, number)
    assert value(
        module_db,
        "SELECT undone_by = session_user AND undone_at <= now() FROM graphrag.curations WHERE id = %s",
        number,
    )
    assert refused(module_db, "SELECT graphrag.undo_curation(%s)", number).sqlstate == "55000"


BAD: dict[str, tuple[str, str, str]] = {
    "unknown": ("edit_entity('Atlantis', {c}, type => 'island')", "42704", "search_entities"),
    "unknown target": ("merge_entities('{{London}}', 'Atlantis', {c})", "42704", "search_entities"),
    "itself": ("merge_entities('{{london}}', 'London', {c})", "22023", "Leave the target"),
    "none": ("merge_entities('{{}}', 'London', {c})", "22023", "one or more"),
    "name of another": ("rename_entity('London', 'charles babbage', {c})", "23505", "merge_entities"),
    "empty name": ("rename_entity('London', ' “” ', {c})", "22023", "not empty"),
    "null name": ("create_entity(NULL, {c})", "22023", "not empty"),
    "created twice": ("create_entity('LONDON', {c})", "23505", "edit_entity"),
    "nothing": ("edit_entity('London', {c})", "22023", "type, description"),
    "self-loop": ("create_relationship('London', 'LONDON', {c})", "22023", "two entities"),
    "unrelated": ("edit_relationship('London', 'Enigma', {c}, weight => 1)", "42704", "create_relationship"),
    "related already": ("create_relationship('Ada Lovelace', 'Charles Babbage', {c})", "23505", "edit_relationship"),
    "weight": ("edit_relationship('Ada Lovelace', 'Charles Babbage', {c}, weight => 'NaN')", "22023", "0 or more"),
    "no graph": ("insert_graph({c}, '[]')", "22023", "For example"),
    "unknown field": ('insert_graph({c}, \'{{"entities": [{{"title": "A"}}]}}\')', "22023", "Known are"),
    "nameless": ('insert_graph({c}, \'{{"entities": [{{"type": "A"}}]}}\')', "22023", "name"),
    "no such curation": ("undo_curation(0)", "42704", "lists them"),
    "no such corpus": ("delete_entity('London', 'nowhere')", "42704", "Corpora"),
}


@pytest.mark.parametrize(("call", "sqlstate", "hint"), BAD.values(), ids=BAD)
def test_a_bad_call_is_refused_with_the_next_step(
    module_db: Database, corpus: str, call: str, sqlstate: str, hint: str
) -> None:
    put_all(module_db, corpus, STORIES)
    work(module_db)
    told = refused(module_db, f"SELECT graphrag.{call.format(c=repr(corpus))}")
    assert told.sqlstate == sqlstate, told.message_primary
    assert hint in (told.message_hint or ""), told.message_hint


def test_what_was_deleted_is_named_with_the_curation_that_did_it(module_db: Database, corpus: str) -> None:
    put_all(module_db, corpus, STORIES)
    work(module_db)
    number = curate(module_db, corpus, "delete_entity", "London")
    for call, sqlstate in (
        ("edit_entity('London', %s, type => 'city')", "42704"),
        ("create_entity('London', %s)", "55000"),
        ("rename_entity('Enigma', 'London', %s)", "55000"),
    ):
        told = refused(module_db, f"SELECT graphrag.{call}", corpus)
        assert (told.sqlstate, f"undo_curation({number})" in (told.message_hint or "")) == (sqlstate, True)


def test_curations_of_one_entity_wait_for_each_other(module_db: Database, corpus: str) -> None:
    put_all(module_db, corpus, MORE)
    work(module_db)
    with psycopg.connect(module_db.url) as first:
        first.execute("SELECT graphrag.merge_entities('{Lady Lovelace}', 'Ada Lovelace', %s)", [corpus])
        second = Background(module_db.url, f"SELECT graphrag.rename_entity('Lady Lovelace', 'Enigma 2', {corpus!r})")
        wait_for_lock(module_db, second.pid)
        first.commit()
        assert second.finish() is None
    # Lady Lovelace was an alias by then: the merged entity was renamed.
    assert entity(module_db, corpus, "ada lovelace") is None
    found = entity(module_db, corpus, "enigma 2")
    assert found is not None and found["name"] == "Enigma 2"


def test_a_curation_waits_for_documents_that_are_being_written_without_deadlock(
    module_db: Database, corpus: str
) -> None:
    put_all(module_db, corpus, MORE)
    work(module_db)
    with psycopg.connect(module_db.url) as holder:
        holder.execute("LOCK TABLE graphrag.chunk_windows IN SHARE MODE")
        put(module_db, corpus, "lady", "Lady Lovelace left Turin.")
        # It has taken away the mentions of what the document was, and not yet come to the merge.
        busy = worker(module_db.url)
        wait_for_lock(module_db, busy.pid)
        call = f"SELECT graphrag.merge_entities('{{Lady Lovelace}}', 'Ada Lovelace', {corpus!r})"
        curator = Background(module_db.url, call)
        wait_for_lock(module_db, curator.pid)
        holder.rollback()
        assert (busy.finish(), curator.finish()) == (None, None)
    found = entity(module_db, corpus, "ada lovelace")
    assert found is not None and relationship(module_db, corpus, "ada lovelace", "turin")
    assert rows(module_db, "SELECT * FROM graphrag.check(%s)", corpus) == []


def test_only_the_owner_curates(module_db: Database, corpus: str) -> None:
    module_db.execute("CREATE ROLE curious LOGIN IN ROLE graphrag_reader")
    try:
        module_db.execute("SET ROLE curious")
        for call in ("delete_entity('London')", "undo_curation(1)", "insert_graph('default', '{}')"):
            assert refused(module_db, f"SELECT graphrag.{call}").sqlstate == "42501"
        assert refused(module_db, "SELECT FROM graphrag.curations").sqlstate == "42501"
        assert rows(module_db, "SELECT key FROM graphrag.aliases WHERE corpus_id = 0") == []
    finally:
        module_db.execute("RESET ROLE")
        module_db.execute("DROP ROLE curious")


def said(messages: Sequence[dict[str, Any]]) -> str:
    """A model that describes every name of the text, and relates the first to the others."""
    text = str(messages[-1]["content"])
    if any(message["role"] == "assistant" for message in messages):
        return '{"entities": [], "relationships": []}'
    names = [name for name in ("Ann", "Annie", "Bob", "Cid") if f"{name}." in text or f"{name} " in text]
    entities = [{"name": name, "type": "person", "description": f"{name} of {len(text) % 97}."} for name in names]
    relationships = [
        {"source": names[0], "target": name, "keywords": ["k" + name[0]], "description": f"With {name}.", "strength": 3}
        for name in names[1:]
    ]
    return json.dumps({"entities": entities, "relationships": relationships})


def test_described_mentions_follow_their_entities_and_come_back(module_db: Database) -> None:
    texts = {"1": "Ann met Bob.", "2": "Annie met Cid.", "3": "Bob and Annie and Ann talk.", "4": "Cid sees Ann."}
    with Endpoint() as endpoint:
        endpoint.reply(said)
        model = {"provider": provider(module_db, endpoint), "model": "model-1"}
        corpus = new_corpus(module_db, extractor="llm", llm={"roles": {"extract": model}})
        put_all(module_db, corpus, texts)
        work(module_db)
        before = whole(module_db, corpus)
        made = [
            curate(module_db, corpus, "merge_entities", ["Annie"], "Ann"),
            curate(module_db, corpus, "create_relationship", "Bob", "Cid", keywords=["new"], description="They fish."),
            curate(module_db, corpus, "delete_relationship", "Ann", "Cid"),
        ]
        found = entity(module_db, corpus, "ann")
        assert found is not None and "Annie of" in found["description"] and "Ann of" in found["description"]
        assert found["mentions"] == 4
        curated = whole(module_db, corpus)
        ingest_anew(module_db, corpus, texts)
        assert whole(module_db, corpus) == curated
        deleted = curate(module_db, corpus, "delete_entity", "Annie")
        assert not [
            row
            for row in rows(module_db, "SELECT name FROM graphrag.search_entities('Ann', %s)", corpus)
            if row[0] == "Ann"
        ]
        for number in (deleted, *made):
            undo(module_db, number)
        assert whole(module_db, corpus) == before
        module_db.execute("SELECT graphrag.drop_corpus(%s)", [corpus])


def claiming(messages: Sequence[dict[str, Any]]) -> str:
    return json.dumps(
        {
            "entities": [{"name": name, "type": "person", "description": "."} for name in ("Ann", "Annie", "Bob")],
            "relationships": [],
            "claims": [{"subject": "Annie", "object": "Bob", "type": "debt", "status": "TRUE", "description": "Owes."}],
        }
    )


def test_a_claim_about_an_alias_is_about_the_entity_it_leads_to(module_db: Database) -> None:
    with Endpoint() as endpoint:
        endpoint.reply(claiming)
        model = {"provider": provider(module_db, endpoint), "model": "model-1"}
        corpus = new_corpus(module_db, extractor="llm", claims=True, max_gleaning=0, llm={"roles": {"extract": model}})
        put(module_db, corpus, "a", "Annie owes Bob.")
        work(module_db)
    about = (
        "SELECT s.key, o.key, g.subject FROM graphrag.graph_claims g LEFT JOIN graphrag.entities s ON s.id = g.subject_id"
        " LEFT JOIN graphrag.entities o ON o.id = g.object_id WHERE g.corpus = %s"
    )
    assert rows(module_db, about, corpus) == [("annie", "bob", "Annie")]
    merged = curate(module_db, corpus, "merge_entities", ["Annie"], "Ann")
    curate(module_db, corpus, "rename_entity", "Bob", "Robert")
    assert rows(module_db, about, corpus) == [("ann", "robert", "Annie")]
    deleted = curate(module_db, corpus, "delete_entity", "Ann")
    assert rows(module_db, about, corpus) == [(None, "robert", "Annie")]
    undo(module_db, deleted)
    undo(module_db, merged)
    assert rows(module_db, about, corpus) == [("annie", "robert", "Annie")]
