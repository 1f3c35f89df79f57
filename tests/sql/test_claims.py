"""Claims in what a model is given: about the entities in graph_local and drift, of the relevant chunks in lazy."""

import json
import re
from typing import Any

import pytest

from tests.endpoint import Endpoint
from tests.endpoint.server import Messages
from tests.runtime.cluster import Database
from tests.sql.asking import ask
from tests.sql.extracting import extracted_texts, knows, said_of, text_of
from tests.sql.ingest import STORIES, put_all, rows, value, work
from tests.sql.themes import asked, context, points, task

ADMIRED = "Babbage said in London that he admired Ada Lovelace."
HIRED = "Bletchley Park hired Alan Turing in secret."


def claim(subject: str, object_: str, status: str, description: str, start: str = "", end: str = "") -> dict[str, str]:
    fields = {"subject": subject, "object": object_, "type": "act", "status": status, "start": start, "end": end}
    return fields | {"description": description, "source_text": ""}


VERDICTS = (("relevant", True), ("irrelevant", False))


def reply(messages: Messages) -> str:
    """Extraction with claims; keywords of Ada; chunks about Ada are relevant; what is asked is what is said."""
    if "Text:" not in str(messages[0]["content"]) and "low_level_keywords" in str(messages[0]["content"]):
        return json.dumps(
            {"low_level_keywords": ["Ada Lovelace"], "high_level_keywords": ["admiration"], "entities": []}
        )
    if len(messages) > 1 and "to the end of the message" in str(messages[1]["content"]):
        if len(messages) > 2:
            return knows(messages)
        text = text_of(messages)
        result: dict[str, Any] = said_of(text) | {"claims": []}
        if "admired Ada Lovelace in London" in text:
            result["claims"] = [claim("Charles Babbage", "Ada Lovelace", "TRUE", ADMIRED, "1833-06-05", "1852-11-27")]
        if "hired Alan Turing" in text:
            result["claims"] = [claim("Bletchley Park", "Alan Turing", "SUSPECTED", HIRED)]
        return json.dumps(result)
    what = task(messages)
    if what == "keywords":
        return json.dumps(
            {"low_level_keywords": ["Ada Lovelace"], "high_level_keywords": ["admiration"], "entities": []}
        )
    if what == "relevant_passages":
        data = str(messages[-1]["content"]).partition("Question: ")[0]
        passages = re.findall(r"^\[(\d+)\] (.*)$", data, re.M)
        of_ada = {int(number): "Ada Lovelace" in text for number, text in passages}
        chosen = {word: [n for n, helps in of_ada.items() if helps is is_relevant] for word, is_relevant in VERDICTS}
        return json.dumps(chosen)
    if what == "relevant":
        return json.dumps({"relevant": "Ada Lovelace" in str(messages[-1]["content"]).partition("Question: ")[0]})
    if what == "refine":
        return json.dumps({"queries": ["Who admired Ada Lovelace?"], "expanded": "Who admired Ada Lovelace?"})
    return points(("He did [1].", 90)) if what == "map" else "He admired her [1]."


REPLY = reply


@pytest.fixture(scope="module")
def claimed(module_db: Database, module_endpoint: Endpoint) -> str:
    name = extracted_texts(module_db, module_endpoint, claims=True, summaries=True, embedding={"provider": "local"})
    put_all(module_db, name, STORIES)
    work(module_db)
    number = "SELECT count(*) FROM graphrag.graph_claims WHERE corpus = %s AND subject_id IS NOT NULL"
    assert value(module_db, number, name) == 2
    return name


@pytest.mark.parametrize("mode", ["graph_local", "drift", "lazy"])
def test_claims_stand_in_the_context_with_the_number_of_their_document(
    module_db: Database, claimed: str, mode: str
) -> None:
    parts = context(module_db, "Who admired Ada Lovelace?", claimed, mode)
    admired = next(claim for claim in parts["claims"] if claim["description"] == ADMIRED)
    references = {claim["number"]: claim for claim in parts["references"]}
    assert references[admired["reference"]]["source_key"] == "ada"
    assert list(references) == list(range(1, len(references) + 1))
    line = f"- [{admired['reference']}] Charles Babbage → Ada Lovelace (act, TRUE, 1833-06-05 to 1852-11-27): {ADMIRED}"
    assert line in parts["prompt"].partition("Claims:\n")[2].partition("\n\n")[0].splitlines()
    ids = [claim["claim_id"] for claim in parts["claims"]]
    assert rows(module_db, "SELECT count(*) FROM graphrag.claims WHERE id = ANY (%s)", ids) == [(len(ids),)]


@pytest.mark.parametrize("mode", ["graph_local", "lazy"])
@pytest.mark.parametrize("max_tokens", [0, 40, 100, 200, 400])
def test_claims_keep_to_their_share_of_the_budget(
    module_db: Database, claimed: str, mode: str, max_tokens: int
) -> None:
    parts = context(module_db, "Who admired Ada Lovelace?", claimed, mode, max_tokens)
    assert parts["tokens"] <= max_tokens
    assert {claim["reference"] for claim in [*parts["claims"], *parts["chunks"]]} == {
        claim["number"] for claim in parts["references"]
    }


def test_a_claim_keeps_its_entity_when_that_is_merged_and_goes_with_what_a_reader_may_not_see(
    module_db: Database, claimed: str
) -> None:
    module_db.execute("SELECT graphrag.merge_entities('{Charles Babbage}', 'Grace Hopper', %s)", [claimed])
    parts = context(module_db, "What did Grace Hopper do?", claimed, "graph_local")
    assert ADMIRED in [claim["description"] for claim in parts["claims"]]
    module_db.execute("SELECT graphrag.undo_curation(max(id)) FROM graphrag.curations")
    sql = "SELECT graphrag.context(%s, %s, 'graph_local', filter => '{\"nobody\": true}')"
    assert value(module_db, sql, "Who admired Ada Lovelace?", claimed)["claims"] == []
    others = context(module_db, "Who admired Ada Lovelace?", claimed, "hybrid")
    assert others["claims"] == [] and "Claims:" not in others["prompt"]


def test_an_answer_cites_the_chunk_of_a_claim(module_db: Database, claimed: str) -> None:
    answer, citations, _, parts = ask(
        module_db, "Who admired Ada Lovelace?", claimed, mode="graph_local", options={"include_chunks": False}
    )
    assert parts["chunks"] == [] and parts["claims"] and answer == "He admired her [1]."
    (cited,) = citations
    assert cited["chunk_id"] in {claim["chunk_id"] for claim in parts["claims"] if claim["reference"] == 1}


def test_lazy_reads_the_claims_of_relevant_chunks_first(
    module_db: Database, claimed: str, module_endpoint: Endpoint
) -> None:
    module_endpoint.forget()
    ask(module_db, "Who admired Ada?", claimed, mode="lazy", options={"relevance_test_budget": 20})
    (mapped,) = asked(module_endpoint, "map")
    assert ADMIRED in mapped.text
    # A claim stands before the text of its community, behind a number that the text has too.
    assert mapped.text.index(f"→ Ada Lovelace (act, TRUE, 1833-06-05 to 1852-11-27): {ADMIRED}") < mapped.text.index(
        "Charles Babbage admired Ada Lovelace in London."
    )
