"""A schema of entities, attributes and relations: asked for, held against, kept apart, and shown where entities are."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.endpoint.server import Messages
from tests.runtime.cluster import Database
from tests.sql.asking import as_reader
from tests.sql.extracting import chats, extracted, text_of
from tests.sql.ingest import delete, keys, put, refused, rows, search, value, work

SCHEMA: dict[str, Any] = {
    "entities": {
        "Machine": {"attributes": {"serial": "text", "built": "date", "weight": "number", "axles": "integer"}},
        "plant": {},
        "person": {"attributes": {"retired": "boolean"}},
    },
    "relations": [["machine", "located_in", "plant"], ["person", "runs", "machine"]],
}
TEXTS = {
    "press": "The press P-7 stands in the Kobe plant. Mori runs it.",
    "lathe": "The lathe L-2 stands in the Akashi plant.",
    "again": "Press P-7 was moved.",
}


def entity(name: str, kind: str, **attributes: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "description": f"{name} is there.", "attributes": attributes}


def related(source: str, target: str, *keywords: str) -> dict[str, Any]:
    description = f"{source} and {target}."
    return {"source": source, "target": target, "keywords": list(keywords), "description": description, "strength": 5}


SAID: dict[str, dict[str, Any]] = {
    TEXTS["press"]: {
        "entities": [
            entity("P-7", "MACHINE", serial="X-100", built="1999-04-01", weight="12.50", colour="red", axles="some"),
            entity("Kobe plant", "plant"),
            entity("Mori", "person", retired="no"),
            entity("Freedom", "idea"),
        ],
        "relationships": [
            related("P-7", "Kobe plant", "stands", "located in"),
            related("P-7", "Kobe plant", "owned by", "history"),
            # Said the wrong way round.
            related("P-7", "Mori", "Runs"),
            related("Mori", "Kobe plant", "located_in"),
            related("Freedom", "Mori", "runs"),
            related("Mori", "Nobody", "runs"),
        ],
    },
    TEXTS["lathe"]: {
        # As a list, which endpoints that enforce a schema give.
        "entities": [
            entity("L-2", "machine")
            | {"attributes": [{"name": "Serial", "value": "Y-5"}, {"name": "axles", "value": 4}]},
            entity("Akashi plant", "plant"),
        ],
        "relationships": [related("L-2", "Akashi plant", "located_in")],
    },
    TEXTS["again"]: {"entities": [entity("P-7", "machine", serial="x-100")], "relationships": []},
}


def knowing(messages: Messages) -> str:
    nothing: dict[str, Any] = {"entities": [], "relationships": []}
    return json.dumps(nothing if len(messages) > 2 else SAID.get(text_of(messages).strip(), nothing))


REPLY = knowing


@pytest.fixture(scope="module")
def schemed(module_db: Database, module_endpoint: Endpoint) -> Iterator[str]:
    module_endpoint.reply(knowing)
    corpus = extracted(module_db, module_endpoint, entity_types=SCHEMA, language="en", grounding="off")
    for key in ("press", "lathe"):
        put(module_db, corpus, key, TEXTS[key], metadata={"open": key == "lathe"})
    work(module_db)
    yield corpus


def attributes(db: Any, corpus: str) -> set[tuple[str, str, str, str]]:
    records = rows(db, "SELECT name, type, attribute, value FROM graphrag.entity_attributes WHERE corpus = %s", corpus)
    return {(name, kind, attribute, json.dumps(content)) for name, kind, attribute, content in records}


def test_the_schema_is_asked_for_and_enforced(schemed: str, module_endpoint: Endpoint) -> None:
    prompt = chats(module_endpoint)[0]
    # As jsonb orders names.
    assert (
        "- plant\n- person: retired (boolean)\n- machine: axles (integer), built (date), serial (text)" in prompt.text
    )
    assert "- machine located_in plant\n- person runs machine\n" in prompt.text
    enforced = prompt.body["response_format"]["json_schema"]["schema"]["properties"]["entities"]["items"]
    assert set(enforced["properties"]["type"]["enum"]) == {"machine", "plant", "person"}
    assert "attributes" in enforced["required"]


def test_what_fits_is_typed_and_shown(module_db: Database, schemed: str) -> None:
    assert attributes(module_db, schemed) == {
        ("P-7", "machine", "serial", '"X-100"'),
        ("P-7", "machine", "built", '"1999-04-01"'),
        ("P-7", "machine", "weight", "12.5"),
        ("Mori", "person", "retired", "false"),
        ("L-2", "machine", "serial", '"Y-5"'),
        ("L-2", "machine", "axles", "4"),
    }
    edges = rows(module_db, "SELECT source, target, keyword_list FROM graphrag.graph_edges WHERE corpus = %s", schemed)
    assert sorted(edges) == [
        ("L-2", "Akashi plant", ["located_in"]),
        ("Mori", "P-7", ["runs"]),
        ("P-7", "Kobe plant", ["located_in", "stands"]),
    ]


def test_what_does_not_fit_is_kept_apart_and_counted(module_db: Database, schemed: str) -> None:
    unfit = rows(
        module_db,
        "SELECT kind, item, reason FROM graphrag.unfit_extractions WHERE corpus = %s AND source_key = 'press'",
        schemed,
    )
    assert sorted(
        (kind, item.get("attribute") or item.get("name") or item["source"], why) for kind, item, why in unfit
    ) == [
        ("attribute", "axles", "it is no integer"),
        ("attribute", "colour", "a machine has no such attribute"),
        ("entity", "Freedom", "the schema has no such type"),
        ("relationship", "freedom", "an end is no entity of the schema"),
        ("relationship", "mori", "an end is no entity of the schema"),
        ("relationship", "mori", "the schema has no such relation of person and plant"),
        ("relationship", "p-7", "the schema has no such relation of machine and plant"),
    ]
    names = {name for (name,) in rows(module_db, "SELECT name FROM graphrag.graph_nodes WHERE corpus = %s", schemed)}
    assert names == {"P-7", "Kobe plant", "Mori", "L-2", "Akashi plant"}
    assert "Freedom" not in str([row["explain"] for row in search(module_db, "Freedom", schemed, "local")])


def test_types_and_attributes_serve_in_cypher_filters_and_paths(module_db: Database, schemed: str) -> None:
    asked = "MATCH (m:Entity {type: 'machine'})-[r:RELATED]->(p:Entity) WHERE m.attributes.serial = 'X-100'"
    records = rows(
        module_db,
        f"SELECT r FROM graphrag.cypher(%s, $c${asked} AND 'located_in' IN r.keywords RETURN p.name AS name$c$) r",
        schemed,
    )
    assert len(records) == 1 and "Kobe plant" in str(records)
    module_db.execute(
        "CREATE VIEW public.with_four_axles AS SELECT source_key FROM graphrag.graph_mentions"
        " WHERE type = 'machine' AND attributes ->> 'axles' = '4'"
    )
    chosen = search(module_db, "plant", schemed, "bm25", filter={"$relation": "public.with_four_axles"})
    assert keys(chosen) == ["lathe"]
    weights = {
        kind: max(
            row["explain"]["path"]["weight"]
            for row in search(
                module_db, "Where does P-7 stand?", schemed, "path",
                options={"query_entities": ["P-7"], "answer_types": [kind], "fuse": "none"},
            )
            if "path" in row["explain"]
        )
        for kind in ("plant", "nothing")
    }  # fmt: skip
    assert weights["plant"] > weights["nothing"]


def test_a_reader_of_a_part_sees_what_his_documents_say(module_db: Database, schemed: str) -> None:
    module_db.execute("ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY")
    module_db.execute("CREATE POLICY open ON graphrag.documents FOR SELECT USING ((metadata ->> 'open')::boolean)")
    try:
        with as_reader(module_db):
            assert {row[0] for row in attributes(module_db, schemed)} == {"L-2"}
            assert value(module_db, "SELECT count(*) FROM graphrag.unfit_extractions") == 0
            assert {
                key
                for (key,) in rows(
                    module_db, "SELECT source_key FROM graphrag.graph_mentions WHERE corpus = %s", schemed
                )
            } == {"lathe"}
    finally:
        module_db.execute("DROP POLICY open ON graphrag.documents")
        module_db.execute("ALTER TABLE graphrag.documents DISABLE ROW LEVEL SECURITY")


def test_values_follow_their_chunks_in_any_order(module_db: Database, schemed: str, module_endpoint: Endpoint) -> None:
    module_endpoint.reply(knowing)
    other = extracted(module_db, module_endpoint, entity_types=SCHEMA, language="en", grounding="off")
    for key in ("again", "lathe", "press"):
        put(module_db, other, key, TEXTS[key], metadata={"open": key == "lathe"})
        work(module_db)
    # Two chunks, two values: the smaller one.
    cypher = "SELECT r FROM graphrag.cypher(%s, 'MATCH (m:Entity) WHERE m.key = ''p-7'' RETURN m.attributes AS a') r"
    ((merged,),) = rows(module_db, cypher, other)
    assert "X-100" in str(merged) and "x-100" not in str(merged)
    delete(module_db, other, "again")
    work(module_db)
    assert value(module_db, "SELECT graphrag.fingerprint(%s)", other) == value(
        module_db, "SELECT graphrag.fingerprint(%s)", schemed
    )
    assert rows(module_db, "SELECT * FROM graphrag.check(%s)", other) == []
    delete(module_db, other, "press")
    work(module_db)
    assert {row[0] for row in attributes(module_db, other)} == {"L-2"}
    assert value(module_db, "SELECT count(*) FROM graphrag.unfit_extractions WHERE corpus = %s", other) == 0


def test_a_changed_schema_is_extracted_anew(module_db: Database, module_endpoint: Endpoint) -> None:
    module_endpoint.reply(knowing)
    corpus = extracted(module_db, module_endpoint, entity_types=["machine"])
    put(module_db, corpus, "lathe", TEXTS["lathe"])
    work(module_db)
    assert attributes(module_db, corpus) == set()
    value(module_db, "SELECT graphrag.alter_corpus(%s, %s)", corpus, Jsonb({"entity_types": SCHEMA}))
    work(module_db)
    assert {row[2] for row in attributes(module_db, corpus)} == {"serial", "axles"}


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        ({}, "entity_types.entities"),
        ({"entities": {}}, "entity_types.entities"),
        ({"entities": {"a": []}}, "entity_types.entities.a"),
        ({"entities": {"a": {"fields": {}}}}, "fields"),
        ({"entities": {"a": {"attributes": {"b": "money"}}}}, "money"),
        ({"entities": {"a": {"attributes": ["b"]}}}, "entity_types.entities.a.attributes"),
        ({"entities": {"A": {}, "a": {}}}, "entity_types.entities"),
        ({"entities": {"a": {}}, "relations": [["a", "of"]]}, "entity_types.relations"),
        ({"entities": {"a": {}}, "relations": [["a", "of", "b"]]}, "'b'"),
        ({"entities": {"a": {}}, "relation": []}, "relation"),
        ({"entities": {"x" * 65: {}}}, "xxx"),
        ([], "entity_types"),
        ("person", "entity_types"),
    ],
)
def test_a_bad_schema_is_refused_by_name(module_db: Database, schema: Any, named: str) -> None:
    diag = refused(module_db, "SELECT graphrag.create_corpus('bad schema', %s)", Jsonb({"entity_types": schema}))
    assert diag.sqlstate == "22023" and named in str(diag.message_primary) and diag.message_hint
