"""The graph is a function of the documents and of the curations in force, in whatever order they came."""

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
from tests.sql.curating import MORE, curate, entity, ingest_anew, relationship, undo, whole
from tests.sql.ingest import STORIES, corpus_id, delete, index_all, new_corpus, put, rows, value, work
from tests.sql.llm import provider


@pytest.fixture
def corpus(module_db: Database) -> Iterator[str]:
    name = new_corpus(module_db)
    yield name
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])


def test_a_merge_makes_later_mentions_of_the_alias_land_on_the_merged_entity(module_db: Database, corpus: str) -> None:
    index_all(module_db, corpus, STORIES | {"lady": MORE["lady"]})
    curate(module_db, corpus, "merge_entities", ["Augusta King"], "Ada Lovelace")
    assert entity(module_db, corpus, "augusta king") is None
    before = entity(module_db, corpus, "ada lovelace")
    assert before is not None and before["name"] == "Ada Lovelace"
    index_all(module_db, corpus, {"later": "Augusta King visited Somerset. LADY LOVELACE loved Somerset."})
    assert entity(module_db, corpus, "augusta king") is None
    after = entity(module_db, corpus, "ada lovelace")
    assert after is not None and after["mentions"] == before["mentions"] + 1
    assert relationship(module_db, corpus, "ada lovelace", "somerset")


CHANGES = {
    "merge": [("merge_entities", (["Augusta King"], "Ada Lovelace"), {})],
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
        ("edit_entity", ("Augusta King",), {"description": "Another."}),
        ("merge_entities", (["Augusta King"], "Augusta"), {}),
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


def test_names_that_people_give_have_no_marks_that_nobody_sees(module_db: Database, corpus: str) -> None:
    curate(module_db, corpus, "create_entity", "Dora\u00ad Vance")
    curate(module_db, corpus, "create_entity", "Kestrel\u200b Works")
    curate(module_db, corpus, "rename_entity", "Kestrel Works", "Kes\u2060trel Foundry")
    names = rows(module_db, "SELECT name FROM graphrag.graph_nodes WHERE corpus = %s ORDER BY 1", corpus)
    assert names == [("Dora Vance",), ("Kestrel Foundry",)]


@pytest.mark.sample(3)
@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_curations_meet_documents_of_before_and_after_alike_and_undo_leaves_nothing(
    module_db: Database, corpus: str, changes: list[tuple[str, tuple[Any, ...], dict[str, Any]]]
) -> None:
    index_all(module_db, corpus, MORE)
    untouched = whole(module_db, corpus)
    curation_ids = [curate(module_db, corpus, function, *given, **named) for function, given, named in changes]
    curated = whole(module_db, corpus)
    assert curated != untouched
    ingest_anew(module_db, corpus, MORE)
    assert whole(module_db, corpus) == curated
    random.Random(len(curation_ids)).shuffle(curation_ids)
    for number in curation_ids:
        undo(module_db, number)
    assert whole(module_db, corpus) == untouched


def test_without_their_documents_only_what_people_added_is_left(module_db: Database, corpus: str) -> None:
    index_all(module_db, corpus, MORE)
    curate(module_db, corpus, "create_entity", "Somerset", type="county")
    curate(module_db, corpus, "create_relationship", "Somerset", "Ada Lovelace")
    curate(module_db, corpus, "merge_entities", ["Augusta King"], "Ada Lovelace")
    curate(module_db, corpus, "edit_entity", "London", type="city")
    module_db.execute("DELETE FROM graphrag.documents WHERE corpus = %s", [corpus])
    work(module_db)
    assert sorted(rows(module_db, "SELECT name, type, degree FROM graphrag.graph_nodes WHERE corpus = %s", corpus)) == [
        ("Ada Lovelace", "UNKNOWN", 1),
        ("Somerset", "county", 1),
    ]
    index_all(module_db, corpus, {"london": STORIES["babbage"]})
    node = entity(module_db, corpus, "london")
    assert node is not None and node["type"] == "city"


FUNCTIONS = (
    "merge_entities", "merge_entities", "rename_entity", "edit_entity", "delete_entity", "create_entity",
    "create_relationship", "edit_relationship", "delete_relationship", "insert_graph", "undo", "undo", "put", "delete",
)  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(3))
def test_any_sequence_of_changes_comes_to_what_its_curations_and_documents_come_to(
    module_db: Database, corpus: str, seed: int
) -> None:
    choose = random.Random(seed)
    documents: dict[str, str] = dict(STORIES)
    index_all(module_db, corpus, documents)
    ids: list[int] = []
    done = 0
    for _ in range(40):
        function = choose.choice(FUNCTIONS)
        names = [row[0] for row in rows(module_db, "SELECT name FROM graphrag.graph_nodes WHERE corpus = %s", corpus)]
        names = sorted([*names, "Ada Lovelace", "Augusta King", "Turin"])
        first, other, new = choose.choice(names), choose.choice(names), f"Name {choose.randrange(4)}"
        try:
            if function == "put":
                documents[key] = MORE[key := choose.choice(sorted(MORE))]
                index_all(module_db, corpus, {key: documents[key]})
            elif function == "delete":
                documents.pop(key := choose.choice(sorted(MORE)), None)
                delete(module_db, corpus, key)
                work(module_db)
            elif function == "undo":
                undo(module_db, ids.pop(choose.randrange(len(ids))) if ids else 0)
            elif function == "insert_graph":
                graph = {
                    "entities": [{"name": new, "description": first}],
                    "relationships": [{"source": first, "target": new}],
                }
                ids.append(int(value(module_db, "SELECT graphrag.insert_graph(%s, %s)", corpus, Jsonb(graph))))
            else:
                given: dict[str, Any] = {
                    "merge_entities": ([first], other),
                    "rename_entity": (first, choose.choice([new, first.upper()])),
                    "edit_entity": (first,),
                    "delete_entity": (first,),
                    "create_entity": (new,),
                }.get(function, (first, other))
                named = {"description": f"Said {choose.random()}."} if function.startswith("edit") else {}
                ids.append(curate(module_db, corpus, function, *given, **named))
            done += 1
        except psycopg.Error as error:
            assert error.sqlstate in ("42704", "22023", "23505", "55000"), error
    assert done > 10
    curated = whole(module_db, corpus)
    ingest_anew(module_db, corpus, documents)
    assert whole(module_db, corpus) == curated
    for number in ids:
        undo(module_db, number)
    assert rows(module_db, "SELECT * FROM graphrag.curated WHERE corpus_id = %s", corpus_id(module_db, corpus)) == []
    assert rows(module_db, "SELECT * FROM graphrag.aliases WHERE corpus_id = %s", corpus_id(module_db, corpus)) == []
    plain = index_all(module_db, new_corpus(module_db), documents)
    assert whole(module_db, corpus) == whole(module_db, plain)
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [plain])


def test_a_graph_made_elsewhere_joins_what_documents_say_and_goes_as_it_came(module_db: Database, corpus: str) -> None:
    index_all(module_db, corpus, STORIES)
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
    node = entity(module_db, corpus, "ada lovelace")
    assert node is not None and node["description"] == "Daughter of Lord Byron."
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
        corpus = index_all(module_db, new_corpus(module_db, extractor="llm", llm={"roles": {"extract": model}}), texts)
        before = whole(module_db, corpus)
        curation_ids = [
            curate(module_db, corpus, "merge_entities", ["Annie"], "Ann"),
            curate(module_db, corpus, "create_relationship", "Bob", "Cid", keywords=["new"], description="They fish."),
            curate(module_db, corpus, "delete_relationship", "Ann", "Cid"),
        ]
        node = entity(module_db, corpus, "ann")
        assert node is not None and "Annie of" in node["description"] and "Ann of" in node["description"]
        assert node["mentions"] == 4
        curated = whole(module_db, corpus)
        ingest_anew(module_db, corpus, texts)
        assert whole(module_db, corpus) == curated
        deleted = curate(module_db, corpus, "delete_entity", "Annie")
        assert not [
            row
            for row in rows(module_db, "SELECT name FROM graphrag.search_entities('Ann', %s)", corpus)
            if row[0] == "Ann"
        ]
        for number in (deleted, *curation_ids):
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
        put(module_db, corpus, "a", "Ann says that Annie owes Bob.")
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
