"""Where a model gives nothing of use, a chunk has the graph of NLP, which is said wherever one looks; names are the text's."""

import json
from typing import Any

import pytest

from tests.endpoint import Endpoint
from tests.endpoint.server import Messages
from tests.runtime.cluster import Database
from tests.sql.extracting import NOTHING, chats, entities, extracted_texts, knows, relationships, text_of
from tests.sql.ingest import (
    STORIES,
    canonical,
    corpus_id,
    delete,
    index_all,
    long_text,
    put,
    refused,
    rows,
    value,
    work,
)

REPLY = knows
# The prompt's own example.
TEMPLATE = (
    '{"entities": [{"name": "…", "type": "…", "description": "…"}], "relationships": [{"source": "…", "target": "…",'
    ' "keywords": ["…"], "description": "…", "strength": 5}]}'
)
NAMED_TEMPLATE = json.dumps(
    {
        "entities": [
            {
                "name": "Hopper",
                "type": "one of person, organization",
                "description": "what this text says of it, complete in itself, with dates and numbers",
            }
        ],
        "relationships": [
            {
                "source": "Hopper",
                "target": "Harvard",
                "keywords": ["one to four words"],
                "description": "how they are connected, according to this text",
                "strength": 5,
            }
        ],
    }
)
INVENTED = json.dumps(
    {"entities": [{"name": "Sakura", "type": "aircraft", "description": "One of the most iconic aircraft of Japan."}]}
)


def sets(db: Database, corpus: str) -> dict[str, set[str]]:
    """{extraction: the names that graph_mentions has of such chunks}"""
    found: dict[str, set[str]] = {}
    for name, extraction in rows(db, "SELECT name, extraction FROM graphrag.graph_mentions WHERE corpus = %s", corpus):
        found.setdefault(extraction, set()).add(name)
    return found


def reasons(db: Database, corpus: str) -> list[str]:
    sql = "SELECT reason FROM graphrag.unfit_extractions WHERE corpus = %s AND kind = 'reply' ORDER BY chunk_id"
    return [reason for (reason,) in rows(db, sql, corpus)]


def spoiling(reply: str) -> Any:
    """A model that knows all stories but Hopper's, of which it says `reply`."""
    return lambda messages: reply if "compiler" in text_of(messages) else knows(messages)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("I would rather not.", "the reply is no extraction"),
        ("", "the reply is no extraction"),
        (TEMPLATE, "the model found nothing"),
        (NAMED_TEMPLATE, "the reply repeats the prompt"),
        (INVENTED, "the reply names nothing of the text"),
        (NOTHING, "the model found nothing"),
        ('{"entities": [{"name": "' + "Ace-Laser-" * 3000, "the reply repeats itself"),
    ],
)
def test_a_chunk_without_a_usable_reply_has_the_graph_of_nlp_and_everybody_says_so(
    module_db: Database, endpoint: Endpoint, reply: str, reason: str
) -> None:
    endpoint.reply(spoiling(reply))
    corpus = index_all(module_db, extracted_texts(module_db, endpoint), STORIES)
    nlp = index_all(module_db, extracted_texts(module_db, endpoint, extractor="nlp"), {"hopper": STORIES["hopper"]})
    assert sets(module_db, corpus)["stood in"] == set(entities(module_db, nlp)) != set()
    assert sets(module_db, nlp).keys() == {"nlp"}
    assert reasons(module_db, corpus) == [reason]
    progress = "SELECT indexed, failed, stood_in FROM graphrag.progress WHERE corpus = %s"
    assert rows(module_db, progress, corpus) == [(5, 0, 1)]
    ((severity, detail, hint),) = rows(
        module_db, "SELECT severity, detail, hint FROM graphrag.health() WHERE subject = %s", f'corpus "{corpus}"'
    )
    assert severity == "warning"
    assert detail.startswith("1 chunks") and detail.endswith(reason)
    assert f"graphrag.reindex('{corpus}', extraction => 'stood in')" in hint
    assert value(module_db, "SELECT count(*) FROM graphrag.check(%s)", corpus) == 0
    assert value(module_db, "SELECT count(*) FROM graphrag.failed_jobs WHERE corpus = %s", corpus) == 0


def test_only_what_stood_in_is_asked_about_again(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.reply(spoiling("No."))
    corpus = index_all(module_db, extracted_texts(module_db, endpoint), STORIES)
    before = entities(module_db, corpus)
    endpoint.forget()
    endpoint.reply(knows)
    assert value(module_db, "SELECT graphrag.reindex(%s, extraction => 'stood in')", corpus) == 1
    # Until it is asked, what there is stays.
    assert entities(module_db, corpus) == before
    work(module_db)
    assert [text_of(request.messages) for request in chats(endpoint)] == [STORIES["hopper"]]
    assert sets(module_db, corpus).keys() == {"complete"}
    assert value(module_db, "SELECT stood_in FROM graphrag.progress WHERE corpus = %s", corpus) == 0
    assert relationships(module_db, corpus)["Grace Hopper", "Harvard"][2] == 4
    assert value(module_db, "SELECT graphrag.reindex(%s, extraction => 'stood in')", corpus) == 0
    error = refused(module_db, "SELECT graphrag.reindex(%s, extraction => 'repaired')", corpus)
    assert (error.sqlstate, "stood in" in (error.message_hint or "")) == ("22023", True)


def test_mentions_of_both_kinds_are_merged_and_taken_away_again(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.reply(spoiling("No."))
    corpus = index_all(module_db, extracted_texts(module_db, endpoint), STORIES)
    # What the model says goes before the sentence that NLP has of the same name.
    assert entities(module_db, corpus)["Ada Lovelace"][0] == "person"
    count = "SELECT mention_count FROM graphrag.graph_nodes WHERE corpus = %s AND name = 'Ada Lovelace'"
    assert value(module_db, count, corpus) == 3
    whole = canonical(module_db, corpus)
    other = extracted_texts(module_db, endpoint)
    for key in ("hopper", "turing", "ada", "enigma", "babbage"):
        index_all(module_db, other, {key: STORIES[key]})
    assert canonical(module_db, other) == whole
    delete(module_db, corpus, "hopper")
    work(module_db)
    index_all(module_db, corpus, {"hopper": STORIES["hopper"]})
    assert canonical(module_db, corpus) == whole
    assert value(module_db, "SELECT count(*) FROM graphrag.check(%s)", corpus) == 0


def test_a_part_of_a_long_document_stands_in_by_itself(module_db: Database, endpoint: Endpoint) -> None:
    def reply(messages: Messages) -> str:
        return "No." if "number 3 " in text_of(messages) else knows(messages)

    endpoint.reply(reply)
    corpus = extracted_texts(module_db, endpoint, chunk_token_size=50, chunk_overlap=0)
    put(module_db, corpus, "long", long_text(160))
    work(module_db)
    sql = "SELECT extraction, count(*) FROM graphrag.chunks WHERE corpus_id = %s GROUP BY 1"
    counts = dict(rows(module_db, sql, corpus_id(module_db, corpus)))
    assert counts["complete"] > 64
    assert counts["stood in"] == 1
    assert sets(module_db, corpus)["stood in"]
    assert value(module_db, "SELECT count(*) FROM graphrag.check(%s)", corpus) == 0


def test_what_is_complete_before_a_cut_is_kept_and_the_rest_is_asked_for(
    module_db: Database, endpoint: Endpoint
) -> None:
    full = json.dumps(
        {
            "entities": [
                {"name": "Grace Hopper", "type": "person", "description": "Grace Hopper wrote the first compiler."},
                {"name": "Harvard", "type": "organization", "description": "Where she wrote it."},
            ],
            "relationships": [],
        }
    )

    def reply(messages: Messages) -> str:
        return full[: full.index('{"name": "Harvard"') + 30] if len(messages) == 2 else full

    endpoint.reply(reply)
    corpus = index_all(module_db, extracted_texts(module_db, endpoint), {"hopper": STORIES["hopper"]})
    assert entities(module_db, corpus).keys() == {"Grace Hopper", "Harvard"}
    first, second = (request.messages for request in chats(endpoint))
    assert second[:2] == first
    known = json.loads(second[2]["content"])
    assert [entity["name"] for entity in known["entities"]] == ["Grace Hopper"]
    assert sets(module_db, corpus).keys() == {"repaired"}


def test_a_chunk_of_which_only_a_part_of_the_reply_came_has_what_nlp_finds_besides(
    module_db: Database, endpoint: Endpoint
) -> None:
    endpoint.reply('{"entities": [{"name": "Grace Hopper", "type": "admiral", "description": "G."}, {"name": "Har')
    corpus = index_all(module_db, extracted_texts(module_db, endpoint), {"hopper": STORIES["hopper"]})
    nlp = index_all(module_db, extracted_texts(module_db, endpoint, extractor="nlp"), {"hopper": STORIES["hopper"]})
    assert sets(module_db, corpus) == {"cut off": {"Grace Hopper"} | set(entities(module_db, nlp))}
    assert entities(module_db, corpus)["Grace Hopper"] == ("admiral", "G.")
    assert relationships(module_db, corpus).keys() == relationships(module_db, nlp).keys() != set()
    said = "SELECT detail FROM graphrag.health() WHERE subject = %s"
    assert value(module_db, said, f'corpus "{corpus}"').startswith("1 chunks have a part of the model's reply")
    assert value(module_db, "SELECT count(*) FROM graphrag.check(%s)", corpus) == 0
    endpoint.reply(knows)
    assert value(module_db, "SELECT graphrag.reindex(%s, extraction => 'stood in')", corpus) == 1
    work(module_db)
    assert sets(module_db, corpus).keys() == {"complete"}
    assert rows(module_db, said, f'corpus "{corpus}"') == []


def test_where_a_reply_does_not_end_the_halves_of_a_long_text_are_asked_about(
    module_db: Database, endpoint: Endpoint
) -> None:
    text = long_text(20)
    looping = '{"entities": [{"name": "' + "Ace-Laser-" * 3000
    endpoint.reply(lambda messages: looping if len(text_of(messages)) == len(text) else knows(messages))
    corpus = index_all(module_db, extracted_texts(module_db, endpoint), {"long": text})
    whole, *halves = [text_of(request.messages) for request in chats(endpoint)]
    assert whole == text == "".join(halves)
    assert len(halves) == 2
    assert sets(module_db, corpus).keys() == {"complete"}


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_a_chunk_is_never_asked_about_more_than_its_rounds_and_two_more(
    module_db: Database, endpoint: Endpoint, rounds: int
) -> None:
    torn = '{"entities": [{"name": "Grace Hopper", "type": "person", "description": "G."}, {"name": "Har'
    for reply in ("No.", torn, lambda messages: knows(messages) if len(messages) == 2 else torn):
        endpoint.forget()
        endpoint.reply(reply)
        corpus = extracted_texts(module_db, endpoint, max_gleaning=rounds)
        put(module_db, corpus, "hopper", STORIES["hopper"])
        work(module_db)
        asked = [json.dumps(request.body, sort_keys=True) for request in chats(endpoint)]
        assert 1 <= len(asked) <= 1 + rounds + 2
        assert len(set(asked)) == len(asked), "never the same twice"


def test_of_a_closed_schema_nlp_gives_what_it_has_types_for(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.reply("No.")
    corpus = extracted_texts(module_db, endpoint, entity_types={"entities": {"person": {}}, "relations": []})
    put(module_db, corpus, "mori", "Dr. Mori met Mr. Tanaka. Dr. Mori left Kobe.")
    work(module_db)
    assert {kind for kind, _ in entities(module_db, corpus).values()} <= {"person"}
    assert relationships(module_db, corpus) == {}
    assert sets(module_db, corpus).keys() <= {"stood in"}


GROUNDED = {
    "en": (
        "Bob Stone designed the Kestrel engine at Acme Rockets.",
        ["Bob Stone", "Kestrel engines", "Rockets, Acme"],
        "Sakura",
    ),
    "de": (
        "In den Häusern des Bürgermeisters Müller tagte der Rat von Straßburg.",
        ["Haus", "Bürgermeister Müller"],
        "Wien",
    ),
    "ja": ("東京大学の山田太郎教授は大阪でスミス・ジョンと会った。", ["山田太郎", "ジョン・スミス"], "京都大学"),
    "zh": ("臺灣積體電路製造公司由張忠謀於1987年創立。", ["张忠谋", "台湾积体电路制造公司"], "华为"),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("language", GROUNDED)
@pytest.mark.parametrize("grounding", ["strict", "marked", "off"])
def test_names_that_do_not_stand_in_the_text_are_left_out_marked_or_let_be(
    module_db: Database, endpoint: Endpoint, grounding: str, language: str
) -> None:
    text, good, bad = GROUNDED[language]
    reply = {
        "entities": [{"name": name, "type": "concept", "description": ""} for name in (*good, bad)],
        "relationships": [
            {"source": good[0], "target": target, "keywords": ["x"], "description": "", "strength": 3}
            for target in (good[1], bad)
        ],
    }
    endpoint.reply(lambda messages: NOTHING if len(messages) > 2 else json.dumps(reply))
    corpus = extracted_texts(module_db, endpoint, grounding=grounding, language=language)
    put(module_db, corpus, "one", text)
    work(module_db)
    assert set(entities(module_db, corpus)) == ({*good} if grounding == "strict" else {*good, bad})
    assert set(relationships(module_db, corpus)) == {(good[0], good[1])} | (
        set() if grounding == "strict" else {(good[0], bad)}
    )
    unfit = rows(
        module_db,
        "SELECT kind, reason, is_kept FROM graphrag.unfit_extractions WHERE corpus = %s ORDER BY kind",
        corpus,
    )
    assert (
        unfit
        == {
            "strict": [("entity", "not in the text", False), ("relationship", "not in the text", False)],
            "marked": [("entity", "not in the text", True)],
            "off": [],
        }[grounding]
    )
    assert value(module_db, "SELECT count(*) FROM graphrag.check(%s)", corpus) == 0


def test_a_description_that_adds_numbers_or_names_is_kept_and_marked(module_db: Database, endpoint: Endpoint) -> None:
    said = "Grace Hopper wrote the first compiler in 1952 at Yale."
    reply = {"entities": [{"name": "Grace Hopper", "type": "person", "description": said}], "relationships": []}
    endpoint.reply(lambda messages: NOTHING if len(messages) > 2 else json.dumps(reply))
    corpus = index_all(module_db, extracted_texts(module_db, endpoint), {"hopper": STORIES["hopper"]})
    assert entities(module_db, corpus)["Grace Hopper"][1] == said
    unfit = rows(
        module_db, "SELECT kind, item, reason, is_kept FROM graphrag.unfit_extractions WHERE corpus = %s", corpus
    )
    assert unfit == [
        ("description", {"name": "Grace Hopper", "lacking": ["1952", "Yale"]}, "says what the text does not", True)
    ]


def test_another_grounding_makes_the_graph_anew_without_a_call(module_db: Database, endpoint: Endpoint) -> None:
    both = {"entities": [{"name": name, "type": "concept", "description": ""} for name in ("Harvard", "Sakura")]}
    endpoint.reply(json.dumps(both))
    corpus = index_all(module_db, extracted_texts(module_db, endpoint), {"hopper": STORIES["hopper"]})
    assert set(entities(module_db, corpus)) == {"Harvard"}
    endpoint.forget()
    module_db.execute('SELECT graphrag.alter_corpus(%s, \'{"grounding": "off"}\')', [corpus])
    work(module_db)
    assert set(entities(module_db, corpus)) == {"Harvard", "Sakura"}
    assert chats(endpoint) == []
    assert refused(module_db, 'SELECT graphrag.alter_corpus(%s, \'{"grounding": "some"}\')', corpus).sqlstate == (
        "22023"
    )
