"""Every text that a caller gives is answered or refused within its statement_timeout, whatever its shape and length."""

import json
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from pg_graphrag.ground.mode_names import MODES
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.security import hostile
from tests.security.interrupting import PROMISED, compile_statements
from tests.sql.ingest import put, value, work

# Every shape at the first length, every eighth of those of a function at the others.
LENGTHS = (8_192, 60_000, 1_000_000)
EVERY = 8
TIMEOUT = 1.0
# What says that the text is at fault, or that time is up; and that the statement was too large for the server's own parts.
REFUSALS = {"22", "3F", "P0", "42", "54", "55", "57", "23"}


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> Database:
    compile_statements(module_db)
    module_db.execute("SELECT graphrag.create_corpus('c')")
    for number in range(12):
        put(
            module_db,
            "c",
            str(number),
            f"Ann Lee{number} founded Acme Rockets in Osaka in 199{number % 10}. Bob Stone designed the Kestrel engine with Acme"
            f" Rockets. 東京{number}駅は大きい。",
            title=f"Rockets {number}",
        )
    work(module_db)
    return module_db


def _pieces(text: str) -> list[str]:
    return [text[at : at + 81] for at in range(0, len(text), 81)]


def _written(json_value: Jsonb) -> Jsonb:
    written = json.dumps(json_value.obj)
    return Jsonb(json_value.obj, dumps=lambda _: written)


def _nested(text: str) -> str:
    """JSON as deep as the server's parser lets through, around a text."""
    depth = min(len(text) // 10, 5000)
    return '{"a":[' * depth + json.dumps(text) + "]}" * depth


# Filters made of a text, in each place that one can hold.
FILTERS: dict[str, Callable[[str], Any]] = {
    "$prefix": lambda text: {"a": {"$prefix": text}},
    "$eq": lambda text: {"a": {"$eq": text}},
    "$gt": lambda text: {"a": {"$gt": text}},
    "a date and a text": lambda text: {"$and": [{"a": {"$lt": "2024-02-29"}}, {"a": {"$gte": text}}]},
    "$in": lambda text: {"a": {"$in": _pieces(text)[:10_001]}},
    "few $in": lambda text: {"a": {"$in": [text, text[::-1]]}},
    "$nin": lambda text: {"a": {"$nin": _pieces(text)[:60]}},
    "name of a field": lambda text: {text: {"$exists": True}},
    "names of fields": lambda text: {"a": {text: {"b": {"$prefix": text}}}},
    "name of an operator": lambda text: {"$" + text: 1, "a": {"$" + text: 1}},
    "$source_key": lambda text: {"$source_key": {"$in": _pieces(text)[:10_000], "$ne": text}},
    "prefix of $source_key": lambda text: {"$source_key": {"$prefix": text}},
    "$relation": lambda text: {"$relation": text},
    "quoted $relation": lambda text: {"$relation": '"' + text.replace('"', '""')[:290] + '".x'},
    "$contains": lambda text: {"$not": {"$contains": {text: [text]}}},
    "many conditions": lambda text: {"$or": [{"a": {"$prefix": piece}} for piece in _pieces(text)[:999]]},
    "nested conditions": lambda text: _within({"a": {"$prefix": text}}, 40),
    "numbers": lambda text: {"$or": [{"a": {"$gte": 10 ** min(len(text), 4000)}}, {"$ids": [len(text)]}]},
}


def _within(filter_: Any, depth: int) -> Any:
    return filter_ if depth == 0 else {"$not": {"$and": [_within(filter_, depth - 1)]}}


# What takes a text: SQL, and the arguments made of it.
TAKES: dict[str, tuple[str, Callable[[str], list[Any]]]] = {
    **{f"search {mode}": (f"graphrag.search(%s, 'c', '{mode}')", lambda text: [text]) for mode in MODES},
    "context": ("graphrag.context(%s, 'c')", lambda text: [text]),
    "understand": ("graphrag.understand(%s, 'c')", lambda text: [text]),
    "ask": ("graphrag.ask(%s, 'c')", lambda text: [text]),
    "ask_stream": ("graphrag.ask_stream(%s, 'c')", lambda text: [text]),
    "estimate_ask": ("graphrag.estimate_ask(%s, 'c')", lambda text: [text]),
    "search_entities": ("graphrag.search_entities(%s, 'c')", lambda text: [text]),
    "search_relationships": ("graphrag.search_relationships(%s, 'c')", lambda text: [text]),
    "search_reports": ("graphrag.search_reports(%s, 'c')", lambda text: [text]),
    "evaluate": (
        "graphrag.evaluate('c', %s::jsonb, ARRAY['bm25', 'path'])",
        lambda text: [Jsonb([{"question": text, "evidence": ["1"]}])],
    ),
    "a keyword": ("graphrag.search('who', 'c', low_level_keywords => ARRAY[%s])", lambda text: [text]),
    "low-level keywords": (
        "graphrag.search('who', 'c', 'path', low_level_keywords => ARRAY(SELECT jsonb_array_elements_text(%s)))",
        lambda text: [Jsonb(_pieces(text))],
    ),
    "high-level keywords": (
        "graphrag.search('who', 'c', 'global', high_level_keywords => ARRAY(SELECT jsonb_array_elements_text(%s)))",
        lambda text: [Jsonb(_pieces(text))],
    ),
    "filter": ("graphrag.search('who', 'c', filter => %s)", lambda text: [Jsonb({text: text})]),
    **{
        f"filter by {name}": (
            f"graphrag.search('Ann Lee', 'c', '{mode}', filter => %s)",
            lambda text, make=make: [Jsonb(make(text))],  # type: ignore[misc]
        )
        for mode, (name, make) in zip((*MODES, *MODES), FILTERS.items(), strict=False)
    },
    "number of many digits in a filter": (
        "graphrag.search('who', 'c', 'bm25', filter => %s::jsonb)",
        lambda text: [f'{{"a": {{"$gt": {"7" * min(len(text), 100_000)}.{"3" * min(len(text), 16_000)}}}}}'],
    ),
    "neighbors by a filter": (
        "graphrag.neighbors(%s, %s, 2, 'c')",
        lambda text: [text, Jsonb({"a": {"$prefix": text}})],
    ),
    "neighbors of somebody by a filter": (
        "graphrag.neighbors('Acme Rockets', %s, 2, 'c')",
        lambda text: [Jsonb({"a": {"$not": {"$in": [text]}}})],
    ),
    "context by a filter": ("graphrag.context('who', 'c', filter => %s)", lambda text: [Jsonb({text: {"$ne": text}})]),
    "keys to wait for": (
        "graphrag.wait_indexed('c', ARRAY(SELECT jsonb_array_elements_text(%s)), '0 s')",
        lambda text: [Jsonb(_pieces(text))],
    ),
    "key to wait for": ("graphrag.wait_indexed('c', ARRAY[%s], '10 s')", lambda text: [text]),
    "question of a verdict": ("graphrag.feedback(%s, 'good', 'c')", lambda text: [text]),
    "texts of a verdict": (
        "graphrag.feedback('who', %s, 'c', ARRAY[%s], %s, %s, %s, %s)",
        lambda text: ["bad", "1", text, text[:50], text[:200], text[:2000]],
    ),
    "evidence of a verdict": (
        "graphrag.feedback('who', 'good', 'c', ARRAY(SELECT jsonb_array_elements_text(%s)))",
        lambda text: [Jsonb(_pieces(text))],
    ),
    "verdict and author": (
        "graphrag.feedback('who', %s, 'c', ARRAY[%s], author => %s)",
        lambda text: [text, text, text],
    ),
    "questions of a comparison": (
        "graphrag.compare_corpora('c', %s, %s)",
        lambda text: ["c", Jsonb([{"question": text, "evidence": ["1"]}])],
    ),
    "corpora of a comparison": (
        'graphrag.compare_corpora(%s, %s, \'[{"question": "who", "evidence": ["1"]}]\')',
        lambda text: [text, text],
    ),
    "name of a clone": ("graphrag.clone_corpus('c', %s)", lambda text: [text]),
    "options of a clone": ("graphrag.clone_corpus('c', 'd', %s)", lambda text: [Jsonb({text: text})]),
    "words of names": ("graphrag.search_entities(%s, 'c')", lambda text: ["Acme " + text[:8000]]),
    "warm": ("graphrag.warm(%s)", lambda text: [text]),
    "name of an option": ("graphrag.search('who', 'c', options => %s)", lambda text: [Jsonb({text: 1})]),
    "value of an option": ("graphrag.search('who', 'c', options => %s)", lambda text: [Jsonb({"profile": text})]),
    "query_entities": (
        "graphrag.search('who', 'c', 'path', options => %s)",
        lambda text: [Jsonb({"query_entities": _pieces(text)[:5]})],
    ),
    **{
        f"history of {function}": (
            f"graphrag.{function}('who', 'c', history => %s)",
            lambda text: [Jsonb([{"role": "user", "content": text}])],
        )
        for function in ("ask", "ask_stream", "estimate_ask")
    },
    "history of many turns": (
        "graphrag.ask('who', 'c', history => %s)",
        lambda text: [Jsonb([{"role": "assistant", "content": piece} for piece in _pieces(text)])],
    ),
    "role of a turn": (
        "graphrag.ask('who', 'c', history => %s)",
        lambda text: [Jsonb([{"role": text, "content": "x"}])],
    ),
    "nested filter": ("graphrag.search('who', 'c', filter => %s::jsonb)", lambda text: [_nested(text)]),
    "nested options": ("graphrag.search('who', 'c', options => %s::jsonb)", lambda text: [_nested(text)]),
    "nested history": ("graphrag.ask('who', 'c', history => %s::jsonb)", lambda text: [_nested(text)]),
    "nested documents": ("graphrag.import_documents('c', %s::jsonb)", lambda text: [_nested(text)]),
    "nested metadata": (
        "graphrag.import_documents('c', jsonb_build_array(jsonb_build_object('source_key', 's', 'content', 'c', 'chunks',"
        " '[]'::jsonb, 'metadata', %s::jsonb)))",
        lambda text: [_nested(text)],
    ),
    "nested options of a corpus": ("graphrag.create_corpus('d', %s::jsonb)", lambda text: [_nested(text)]),
    "value of a filter": ("graphrag.search('who', 'c', filter => %s)", lambda text: [Jsonb({"a": [text]})]),
    "metadata": (
        "graphrag.import_documents('c', %s)",
        lambda text: [Jsonb([{"source_key": "s", "content": "c", "chunks": [], "metadata": {text: text}}])],
    ),
    "source_key": (
        "graphrag.import_documents('c', %s)",
        lambda text: [Jsonb([{"source_key": text, "content": "c", "chunks": []}])],
    ),
    "claims": (
        "graphrag.import_documents('c', %s)",
        lambda text: [
            Jsonb(
                [
                    {
                        "source_key": "s",
                        "content": "c",
                        "chunks": [
                            {
                                "start": 0,
                                "end": 1,
                                "claims": [{"subject": text, "object": text, "start": text, "description": text}],
                                "relationships": [{"source": text[:300], "target": "b", "keywords": _pieces(text)}],
                            }
                        ],
                    }
                ]
            )
        ],
    ),
    "references": ("graphrag.import_communities('c', '[]', %s)", lambda text: [Jsonb({"Entities": {text: text}})]),
    "edit_entity": ("graphrag.edit_entity('Osaka', 'c', %s, %s)", lambda text: [text, text]),
    "edit_relationship": (
        "graphrag.edit_relationship('Osaka', 'Acme Rockets', 'c', ARRAY(SELECT jsonb_array_elements_text(%s)), %s)",
        lambda text: [Jsonb(_pieces(text)), text],
    ),
    "delete_relationship": ("graphrag.delete_relationship(%s, %s, 'c')", lambda text: [text, text]),
    "evidence": (
        "graphrag.evaluate('c', %s::jsonb, ARRAY['bm25'])",
        lambda text: [Jsonb([{"id": text, "question": "who", "evidence": _pieces(text)}])],
    ),
    "modes of evaluate": (
        'graphrag.evaluate(\'c\', \'[{"question": "who", "evidence": ["1"]}]\'::jsonb, ARRAY[%s], baseline => %s)',
        lambda text: [text, text],
    ),
    "name of a table of questions": ("graphrag.evaluate('c', %s::text)", lambda text: [text]),
    "log_query": (
        "graphrag.log_query(%s, 'c', 'search', %s, 1.0, 1, 1, 1, %s)",
        lambda text: [text, text, Jsonb({"x": text})],
    ),
    "drop_provider": ("graphrag.drop_provider(%s)", lambda text: [text]),
    "nodes": ("graphrag.add_node(%s, %s)", lambda text: [text, text]),
    "drop_node": ("graphrag.drop_node(%s)", lambda text: [text]),
    "place_corpus": ("graphrag.place_corpus(%s, %s)", lambda text: [text, text]),
    "options of a provider": (
        "graphrag.set_provider('p', 'openai', 'http://h/v1', options => %s)",
        lambda text: [Jsonb({"headers": text, text: 1})],
    ),
    "alter_corpus": ("graphrag.alter_corpus('c', %s)", lambda text: [Jsonb({"prompts": {"extract": text}, text: 1})]),
    "reembed": ("graphrag.reembed('c', %s)", lambda text: [Jsonb({"provider": text, text: 1})]),
    "estimate_cost": ("graphrag.estimate_cost('c', %s)", lambda text: [text]),
    "level of a grant": ("graphrag.grant_corpus('c', 'pg_monitor', %s)", lambda text: [text]),
    **{
        f"corpus of {function}": (f"graphrag.{function}(%s)", lambda text: [text])
        for function in (
            "check",
            "fingerprint",
            "optimize",
            "prune",
            "rebuild_graph",
            "refresh_communities",
            "retry_failed",
            "unprotect",
            "drop_corpus",
            "suggest_merges",
            "clustered_relationships",
        )
    },
    "protect by a value": ("graphrag.protect('c', 'title <> ' || quote_literal(%s))", lambda text: [text]),
    "protect by a pattern": ("graphrag.protect('c', 'title ~ ' || quote_literal(%s))", lambda text: [text]),
    "response_type": ("graphrag.ask('who', 'c', response_type => %s)", lambda text: [text]),
    "name of a corpus": ("graphrag.search('who', %s)", lambda text: [text]),
    "mode": ("graphrag.search('who', 'c', %s)", lambda text: [text]),
    "neighbors": ("graphrag.neighbors(%s, 'c')", lambda text: [text]),
    "to_dot": ("graphrag.to_dot(%s, 'c')", lambda text: [text]),
    "to_mermaid": ("graphrag.to_mermaid(%s, 'c')", lambda text: [text]),
    "cypher": ("graphrag.cypher('c', %s)", lambda text: [text]),
    "cypher after RETURN": ("graphrag.cypher('c', %s)", lambda text: ["RETURN " + text]),
    "cypher in a string": ("graphrag.cypher('c', %s)", lambda text: [f"RETURN {json.dumps(text)} AS x"]),
    "cypher as a parameter": (
        "graphrag.cypher('c', 'MATCH (e:Entity) WHERE e.name = $x RETURN e.name AS x', %s)",
        lambda text: [Jsonb({"x": text})],
    ),
    "embed": ("graphrag.embed(%s, 'c')", lambda text: [text]),
    "create_entity": ("graphrag.create_entity(%s, 'c')", lambda text: [text]),
    "type and description": ("graphrag.create_entity('N', 'c', %s, %s)", lambda text: [text, text]),
    "rename_entity": ("graphrag.rename_entity('Osaka', %s, 'c')", lambda text: [text]),
    "merge_entities": (
        "graphrag.merge_entities(ARRAY(SELECT jsonb_array_elements_text(%s)), 'Osaka', 'c')",
        lambda text: [Jsonb(_pieces(text))],
    ),
    "create_relationship": (
        "graphrag.create_relationship('Osaka', 'Rockets 1', 'c', ARRAY(SELECT jsonb_array_elements_text(%s)), %s)",
        lambda text: [Jsonb(_pieces(text)), text],
    ),
    "insert_graph": (
        "graphrag.insert_graph('c', %s)",
        lambda text: [Jsonb({"entities": [{"name": text[:500], "type": text, "description": text}]})],
    ),
    "import_documents": (
        "graphrag.import_documents('c', %s)",
        lambda text: [
            Jsonb(
                [
                    {
                        "source_key": text[:100],
                        "title": text,
                        "content": text,
                        "chunks": [{"start": 0, "end": len(text), "entities": [{"name": text, "description": text}]}],
                    }
                ]
            )
        ],
    ),
    "import_communities": (
        "graphrag.import_communities('c', %s)",
        lambda text: [
            Jsonb([{"number": 1, "level": 0, "entities": [text], "report": {"title": text, "content": text}}])
        ],
    ),
    "name of a new corpus": ("graphrag.create_corpus(%s)", lambda text: [text]),
    "prompts": ("graphrag.create_corpus('d', %s)", lambda text: [Jsonb({"prompts": {"extract": text}})]),
    "set_provider": ("graphrag.set_provider(%s, 'openai', %s)", lambda text: [text, text]),
    "protect": ("graphrag.protect('c', %s)", lambda text: [text]),
}


# The shapes take turns: each meets every fourth function, or every tenth of those that embed texts, which takes most of the time.
# What reads texts meets them all: tests/unit/test_linear_patterns.py.
EMBEDDED = {
    *(f"search {mode}" for mode in MODES if mode not in ("bm25", "hybrid")),
    *("context by a filter", "words of names", "questions of a comparison"),
    *("context", "search_entities", "search_relationships", "search_reports", "evaluate", "query_entities", "embed"),
}
TURNS, TURNS_EMBEDDED = 4, 10


@pytest.mark.sample(18)
@pytest.mark.parametrize("what", TAKES)
def test_any_text_is_answered_or_refused_in_time(corpus: Database, what: str) -> None:
    call, arguments = TAKES[what]
    corpus.execute(f"SET statement_timeout = '{TIMEOUT}s'".encode())
    late, strange = {}, {}
    turns = TURNS_EMBEDDED if what in EMBEDDED else TURNS
    shapes = [*hostile.REPEATED, *hostile.ENDED][list(TAKES).index(what) % turns :: turns]
    for number, shape in enumerate(shapes):
        for length in LENGTHS[: 1 if number % EVERY else None]:
            # Written as JSON once, and not in the time of the statement.
            values = [
                _written(each) if isinstance(each, Jsonb) else each for each in arguments(hostile.text(shape, length))
            ]
            # What is late on a busy machine is not late three times.
            for _ in range(3):
                with corpus.transaction(force_rollback=True):
                    started = time.monotonic()
                    try:
                        with corpus.transaction():
                            corpus.execute(f"SELECT count(*) FROM {call}".encode(), values)
                    except psycopg.Error as error:
                        if (error.sqlstate or "")[:2] not in REFUSALS:
                            strange[shape, length] = f"{error.sqlstate} {error}"[:200]
                    seconds = time.monotonic() - started
                if seconds <= TIMEOUT + PROMISED:
                    break
            else:
                late[shape, length] = seconds
    corpus.execute("SET statement_timeout = 0")
    assert late == {}
    assert strange == {}


@pytest.mark.parametrize("length", [8_193, 1_000_000])
@pytest.mark.parametrize(
    "call",
    [
        *(f"graphrag.search(%s, 'c', '{mode}')" for mode in MODES),
        "graphrag.context(%s, 'c')",
        "graphrag.ask(%s, 'c')",
        "graphrag.ask_stream(%s, 'c')",
        "graphrag.estimate_ask(%s, 'c')",
        "graphrag.understand(%s, 'c')",
        "graphrag.search_entities(%s, 'c')",
        "graphrag.search_relationships(%s, 'c')",
        "graphrag.search_reports(%s, 'c')",
        "graphrag.evaluate('c', jsonb_build_array(jsonb_build_object('question', %s::text, 'evidence', '[\"1\"]'::jsonb)))",
    ],
)
def test_a_question_that_is_too_long_is_refused_with_its_length(corpus: Database, call: str, length: int) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"{length:,} characters") as raised:
        corpus.execute(f"SELECT count(*) FROM {call}".encode(), ["東" * length])
    assert raised.value.diag.message_hint


@pytest.mark.parametrize("function", ["ask", "ask_stream", "estimate_ask"])
@pytest.mark.parametrize(
    ("turns", "said"),
    [
        ([("user", "東" * 131_073)], "131,073 characters"),
        ([("user", "x" * 1000)] * 100 + [("assistant", "y" * 1000)] * 40, "140,000 characters"),
        ([("user", "")] * 201, "201 turns"),
    ],
)
def test_a_history_that_is_too_long_is_refused(
    corpus: Database, function: str, turns: list[tuple[str, str]], said: str
) -> None:
    history = Jsonb([{"role": role, "content": content} for role, content in turns])
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=said) as raised:
        corpus.execute(f"SELECT graphrag.{function}('who', 'c', history => %s)".encode(), [history])
    assert "latest" in str(raised.value.diag.message_hint)


def test_json_that_is_nested_too_deep_is_refused_as_what_it_is(corpus: Database) -> None:
    deep = '{"a":' * 2000 + f'"{"x" * 600_000}"' + "}" * 2000
    for call in (
        "search('who', 'c', filter => %s)",
        "search('who', 'c', options => %s)",
        "ask('who', 'c', history => %s)",
    ):
        with pytest.raises(psycopg.errors.StatementTooComplex) as raised:
            corpus.execute(f"SELECT graphrag.{call}".encode(), [deep])
        assert raised.value.diag.message_hint


def test_a_question_of_8192_characters_is_searched(corpus: Database) -> None:
    question = ("Kestrel engine? " * 600)[:8192]
    assert value(corpus, "SELECT count(*) FROM graphrag.search(%s, 'c')", question) > 0


@pytest.mark.parametrize("name", ["low_level_keywords", "high_level_keywords"])
@pytest.mark.parametrize("keywords", [["word"] * 101, ["w" * 8193], ["w" * 100] * 90])
def test_too_many_or_too_long_keywords_are_refused(corpus: Database, name: str, keywords: list[str]) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=name) as raised:
        corpus.execute(f"SELECT graphrag.search('who', 'c', {name} => %s)".encode(), [keywords])
    assert raised.value.diag.message_hint


@pytest.mark.parametrize(
    "call",
    [
        "graphrag.neighbors(%s, 'c')",
        "graphrag.to_dot(%s, 'c')",
        "graphrag.to_mermaid(%s, 'c')",
        "graphrag.create_entity(%s, 'c')",
        "graphrag.edit_entity(%s, 'c', 'person')",
        "graphrag.rename_entity('Osaka', %s, 'c')",
        "graphrag.delete_entity(%s, 'c')",
        "graphrag.merge_entities(ARRAY['Osaka'], %s, 'c')",
        "graphrag.create_relationship('Osaka', %s, 'c')",
        "graphrag.insert_graph('c', jsonb_build_object('entities', jsonb_build_array(jsonb_build_object('name', %s::text))))",
    ],
)
def test_a_name_that_is_too_long_is_refused(corpus: Database, call: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="2,049 characters") as raised:
        corpus.execute(f"SELECT count(*) FROM {call}".encode(), ["n" * 2049])
    assert raised.value.diag.message_hint
