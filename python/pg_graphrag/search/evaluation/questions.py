"""Questions with known evidence, in the form that graphrag.evaluate takes."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pg_graphrag.ground import bounds
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.json_reading import read_json
from pg_graphrag.search import modes
from pg_graphrag.search.query.query import question as question_of
from pg_graphrag.search.search import parse_search_options as parse_options
from pg_graphrag.server import Database
from pg_graphrag.server.access.caller import Caller
from pg_graphrag.server.corpus.corpora import Corpus

_HINT = (
    'Each is an object {"id", "question", "evidence": [source_key, …], "low_level_keywords", "high_level_keywords",'
    ' "query_entities", "answer_types"}, of which the question must be there.'
)
# Search options that a question may have, and a mode that knows them.
_OPTIONS = ("query_entities", "answer_types")
_MODE = "path"


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """A question and the source keys of the documents with its evidence (none: it is not judged).

    `low`, `high`: its keywords; `options`: its search options, for modes that know them.
    """

    id: str
    question: str
    evidence: frozenset[str]
    low: list[str] | None
    high: list[str] | None
    options: Mapping[str, Any]


def parse_questions(questions: str | None) -> list[JudgedQuestion]:
    """Return the questions of a JSON array by id, so that their order in the array does not matter.

    Raises GraphRAGError: 22023 if it is no array of such objects, or empty, or ids occur twice.
    """
    items = read_json(questions) if questions else None
    if not isinstance(items, list) or not items:
        raise GraphRAGError("there are no questions", hint=f"Give a JSON array, or a table with rows. {_HINT}")
    parsed = [_question(item, place) for place, item in enumerate(items, 1)]
    twice = next(_repeated(question.id for question in parsed), None)
    if twice is not None:
        raise GraphRAGError(f'two questions have the id "{twice}"', hint="Give each its own, or leave ids out.")
    return sorted(parsed, key=lambda question: question.id)


def _question(item: Any, place: int) -> JudgedQuestion:
    if not isinstance(item, Mapping):
        raise GraphRAGError(f"question {place} is {json.dumps(item)[:100]}, not an object", hint=_HINT)
    name = str(place) if item.get("id") is None else str(item["id"])
    text = item.get("question")
    if not isinstance(text, str) or not text.strip():
        raise GraphRAGError(f'question "{name}" has no text: its "question" is {json.dumps(text)[:100]}', hint=_HINT)
    low, high = (_strings(item, name, field) for field in ("low_level_keywords", "high_level_keywords"))
    options = {field: item[field] for field in _OPTIONS if item.get(field) is not None}
    try:
        question_of(text)
        bounds.keywords(low, "low_level_keywords")
        bounds.keywords(high, "high_level_keywords")
        parse_options(json.dumps(options), modes.find(_MODE))
    except GraphRAGError as error:
        raise GraphRAGError(f'question "{name}": {error.message}', hint=error.hint) from None
    return JudgedQuestion(name, text, frozenset(_strings(item, name, "evidence") or ()), low, high, options)


def _strings(item: Mapping[str, Any], name: str, field: str) -> list[str] | None:
    value = item.get(field)
    if value is not None and not (isinstance(value, list) and all(isinstance(element, str) for element in value)):
        raise GraphRAGError(
            f'question "{name}": "{field}" is {json.dumps(value)[:100]}, not an array of strings', hint=_HINT
        )
    return value


def _repeated(names: Iterable[str]) -> Iterator[str]:
    earlier: set[str] = set()
    for name in names:
        if name in earlier:
            yield name
        earlier.add(name)


def check_evidence(db: Database, caller: Caller, corpus: Corpus, questions: Iterable[JudgedQuestion]) -> None:
    """Check that all evidence can be found; a WARNING counts documents that are not indexed yet.

    Raises GraphRAGError: 22023 naming the first question with a source key that no document of the corpus has (or the caller
      may see).
    """
    questions = list(questions)
    evidence_keys = sorted({key for question in questions for key in question.evidence})
    rows = db.query(
        "SELECT d.source_key, d.indexed_at IS NULL AND d.retracted_at IS NULL AS pending FROM graphrag.documents d"
        " WHERE d.corpus_id = $1 AND d.source_key = ANY ($2) AND ($3 IS NULL OR d.id = ANY ($3))",
        ["int4", "text[]", "int8[]"],
        [corpus.id, evidence_keys, None if caller.documents is None else caller.documents.tolist()],
    )
    missing_keys = set(evidence_keys).difference(row["source_key"] for row in rows)
    for question in questions:
        if question_keys := sorted(missing_keys.intersection(question.evidence)):
            raise GraphRAGError(
                f'question "{question.id}": no document of corpus "{corpus.name}" has the source_key "{question_keys[0]}"',
                detail=f"{len(missing_keys)} of {len(evidence_keys)} documents of the evidence are missing.",
                hint="Evidence names documents by their source_key; insert them first, or leave the question out.",
            )
    if pending := sum(row["pending"] for row in rows):
        db.warning(
            f"{pending} documents of the evidence are not indexed as they are now, and may not be found",
            hint="CALL graphrag.process_jobs(), then evaluate again.",
        )
