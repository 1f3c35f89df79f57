"""What the model is asked, and what a corpus may change about it: entity types, prompts, claims, models."""

import json
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.endpoint.server import Messages
from tests.runtime.cluster import Database
from tests.sql.extracting import chats, entities, extracted_texts, knows, relationships, saying, text_of, undisturbed
from tests.sql.ingest import (
    STORIES,
    canonical,
    corpus_id,
    delete,
    index_all,
    put,
    refused,
    rows,
    search,
    searched_corpus,
    statuses,
    value,
    work,
)

REPLY = knows
CLAIM = {
    "subject": "Ada Lovelace",
    "object": "Charles Babbage",
    "type": "Admiration",
    "status": "true",
    "start": "1833-06-05",
    "end": "",
    "description": "Ada Lovelace was admired by Charles Babbage.",
    "source_text": "Charles Babbage admired Ada Lovelace in London.",
}


def claiming(messages: Messages) -> str:
    """A model that finds a claim in what is said of Ada Lovelace and Charles Babbage."""
    if len(messages) > 2:
        return knows(messages)
    loaded = json.loads(knows(messages))
    text = text_of(messages)
    loaded["claims"] = [CLAIM, CLAIM | {"object": None, "status": "rumour"}] if "Babbage admired Ada" in text else []
    return json.dumps(loaded)


def prompts(endpoint: Endpoint) -> list[str]:
    return [request.text for request in chats(endpoint)]


def test_entity_types_stand_in_the_prompt(module_db: Database, endpoint: Endpoint) -> None:
    corpus = extracted_texts(module_db, endpoint, entity_types=["machine", "country house"])
    put(module_db, corpus, "ada", STORIES["ada"])
    work(module_db)
    assert "one of machine, country house;" in prompts(endpoint)[0]
    module_db.execute("SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"entity_types": ["ship"]})])
    work(module_db)
    assert "one of ship;" in prompts(endpoint)[1]


def test_names_and_descriptions_are_in_the_language_of_the_document(module_db: Database, endpoint: Endpoint) -> None:
    text = "エイダ・ラブレスはロンドンで解析機関について書いた。チャールズ・バベッジは彼女を称賛した。"
    reply = {
        "entities": [
            {"name": "エイダ・ラブレス", "type": "person", "description": "解析機関について書いた人。"},
            {"name": "「解析機関」", "type": "product", "description": "エイダが書いた機械。"},
        ],
        "relationships": [
            {
                "source": "エイダ・ラブレス",
                "target": "解析機関",
                "keywords": "執筆、機械",
                "description": "ロンドンで書いた。",
                "strength": "8",
            }
        ],
    }
    endpoint.reply(saying(reply))
    corpus = extracted_texts(module_db, endpoint)
    put(module_db, corpus, "ja", text, title="計算機の歴史")
    work(module_db)
    (prompt,) = prompts(endpoint)
    assert "Names and descriptions are in the language of the text." in prompt
    assert text in prompt
    assert "Title: 計算機の歴史\n" in prompt
    assert entities(module_db, corpus)["解析機関"] == ("product", "エイダが書いた機械。")
    assert relationships(module_db, corpus) == {
        ("エイダ・ラブレス", "解析機関"): (["執筆", "機械"], "ロンドンで書いた。", 8)
    }
    assert value(
        module_db,
        "SELECT tf FROM graphrag.entity_mentions WHERE corpus_id = %s AND raw_key = '解析機関'",
        corpus_id(module_db, corpus),
    ) == (1)
    assert [row["source_key"] for row in search(module_db, "解析機関", corpus, "bm25")] == ["ja"]


def test_claims_are_stored_and_go_with_their_document(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.reply(claiming)
    corpus = index_all(module_db, extracted_texts(module_db, endpoint, claims=True), STORIES)
    schema = chats(endpoint)[0].body["response_format"]["json_schema"]["schema"]
    assert "claims" in schema["required"]
    assert 'Add them to the object as "claims"' in prompts(endpoint)[0]
    records = rows(
        module_db,
        "SELECT d.source_key, x.subject, x.subject_key, x.object, x.type, x.status, x.start_date, x.end_date,"
        " x.description, position(x.source_text IN k.content) > 0 FROM graphrag.claims x"
        " JOIN graphrag.documents d ON d.id = x.document_id JOIN graphrag.chunks k ON k.id = x.chunk_id"
        " WHERE d.corpus = %s ORDER BY x.id",
        corpus,
    )
    claim = (CLAIM["description"], True)
    assert records == [
        ("ada", "Ada Lovelace", "ada lovelace", "Charles Babbage", "admiration", "TRUE", "1833-06-05", None, *claim),
        ("ada", "Ada Lovelace", "ada lovelace", None, "admiration", "SUSPECTED", "1833-06-05", None, *claim),
    ]
    index_all(module_db, corpus, {"turing": STORIES["ada"]})
    count = "SELECT count(*) FROM graphrag.claims WHERE corpus_id = %s"
    number = corpus_id(module_db, corpus)
    assert value(module_db, count, number) == 4
    delete(module_db, corpus, "ada")
    index_all(module_db, corpus, {"turing": STORIES["turing"]})
    assert value(module_db, count, number) == 0
    left = {key: text for key, text in STORIES.items() if key != "ada"}
    assert canonical(module_db, corpus) == undisturbed(module_db, left, claiming, claims=True, cypher=False)


def test_claims_that_nobody_asked_for_are_left_out(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.reply(claiming)
    corpus = index_all(module_db, extracted_texts(module_db, endpoint), {"ada": STORIES["ada"]})
    assert "claims" not in prompts(endpoint)[0]
    count = "SELECT count(*) FROM graphrag.claims WHERE corpus_id = %s"
    assert value(module_db, count, corpus_id(module_db, corpus)) == 0
    module_db.execute("SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"claims": True})])
    work(module_db)
    assert value(module_db, count, corpus_id(module_db, corpus)) == 2


OWN = "Nenne alles ({entity_types}) als JSON wie in {claims}. {Kein Platz}"


def test_a_prompt_of_a_corpus_is_what_is_sent(module_db: Database, endpoint: Endpoint) -> None:
    corpus = extracted_texts(module_db, endpoint, prompts={"extract": OWN}, entity_types=["Mensch"], max_gleaning=1)
    put(module_db, corpus, "ada", STORIES["ada"])
    work(module_db)
    assert chats(endpoint)[0].messages[0]["content"] == "Nenne alles (Mensch) als JSON wie in . {Kein Platz}"
    assert statuses(module_db, corpus) == {"ada": "indexed"}
    other = index_all(module_db, extracted_texts(module_db, endpoint), {"ada": STORIES["ada"]})
    assert "You read a text" in chats(endpoint)[2].messages[0]["content"]
    # Another prompt may give another graph: the documents are asked about anew. One for answers changes nothing here.
    endpoint.forget()
    module_db.execute(
        "SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"prompts": {"extract": OWN, "glean": "Mehr?"}})]
    )
    work(module_db)
    assert [request.messages[-1]["content"] for request in chats(endpoint)] == ["Mehr?"]
    summarize = {"summarize": "{subject} in {words}: {statements}"}
    module_db.execute("SELECT graphrag.alter_corpus(%s, %s)", [other, Jsonb({"prompts": summarize})])
    assert statuses(module_db, other) == {"ada": "indexed"}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("extract", "Find {entity_types}.", 'prompt "extract" differs in its places: {claims}'),
        ("extract", OWN + " {surprise}", 'prompt "extract" differs in its places: {surprise}'),
        ("extract_text", "{title}", 'prompt "extract_text" differs in its places: {text}'),
        ("extrakt", "x", 'unknown prompt "extrakt"'),
        ("glean", 7, 'prompt "glean" must be text'),
        ("glean", None, 'prompt "glean" must be text'),
    ],
)
def test_a_prompt_that_cannot_work_is_refused(module_db: Database, name: str, text: Any, message: str) -> None:
    corpus = searched_corpus(module_db)
    diagnostics = refused(module_db, "SELECT graphrag.alter_corpus(%s, %s)", corpus, Jsonb({"prompts": {name: text}}))
    assert (diagnostics.sqlstate, diagnostics.message_primary) == ("22023", f"graphrag: {message}")
    assert diagnostics.message_hint


def test_each_role_has_its_model(module_db: Database, endpoint: Endpoint) -> None:
    with Endpoint() as elsewhere:
        corpus = extracted_texts(module_db, elsewhere)
        name = value(module_db, "SELECT options #>> '{llm,provider}' FROM graphrag.corpora WHERE name = %s", corpus)
        corpus = extracted_texts(module_db, endpoint, llm={"provider": name, "roles": {"extract": {"model": "big"}}})
        elsewhere.reply(knows)
        index_all(module_db, corpus, {"ada": STORIES["ada"]})
        assert chats(endpoint) == []
        assert [request.body["model"] for request in chats(elsewhere)] == ["big"]


def test_an_extractor_without_a_model_is_refused(module_db: Database) -> None:
    diagnostics = refused(module_db, "SELECT graphrag.create_corpus('none', %s)", Jsonb({"extractor": "llm"}))
    assert diagnostics.sqlstate == "22023"
    assert "no model is set" in (diagnostics.message_primary or "")
