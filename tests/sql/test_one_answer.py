"""The same question on the same data as the same visible set has one answer.

Whatever the session cached and whoever asked before, with a filter that keeps all documents or none, and under protect() that
hides nothing; on both sides of every threshold that chooses an algorithm. Sessions move a threshold instead of a corpus growing
past it.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.security.readers import readers
from tests.sql.ingest import Connection, new_corpus, put, rows, value, work
from tests.sql.llm import provider

OPEN_MODES = ("naive", "bm25", "local", "global", "hybrid", "mix", "path", "ppr")
# They read communities, which are closed to who may not see a whole corpus, whatever is hidden from him.
COMMUNITY_MODES = ("graph_local", "graph_global", "drift", "lazy")
NAMES = ("Ada Lovelace", "Alan Turing", "Bletchley Park", "Enigma", "Joan Clarke", "Grace Hopper", "Harvard", "London")
# Of few documents, where the others are hubs: a question names a title, and a name leads on.
RARE = ("Otto Krug", "Nora Falk")
BRIDGED = "Whom did the friend of Otto Krug admire?"
DEEDS = ("admired", "visited", "described", "remembered", "left")
QUESTION = "Whom did Ada Lovelace admire, and who visited Bletchley Park?"
LOW, HIGH = ["Ada Lovelace", "Enigma"], ["admiration", "travel to parks"]
DOCUMENTS = 120
# Where the threshold is by default, and where a corpus of this size is beyond it.
THRESHOLDS = {
    "as shipped": "",
    "vectors of the whole": "from pg_graphrag.server.corpus import spaces as vectors; vectors.MAX_ROWS = 70",
    "vectors": "from pg_graphrag.server.corpus import spaces as vectors; vectors.MAX_ROWS = 0",
    "mentions": "from pg_graphrag.server.corpus import spaces as vectors; vectors.MAX_MENTION_BYTES = 0",
    "texts of the graph": "from pg_graphrag.search.graph_view import cached_graph; cached_graph.MAX_ITEMS = 0",
    "graph": "from pg_graphrag.search.graph_view import cached_graph; cached_graph.MAX_ITEMS = cached_graph.MAX_LINKS = 0",
    "graph of a part": "from pg_graphrag.search.graph_view import visible_graph as v; v.FEW_CHUNKS = v.LINKS_PER_QUERY = 0",
    "graph of a part, and vectors": "from pg_graphrag.server.corpus import spaces as vectors;"
    " from pg_graphrag.search.graph_view import visible_graph as v;"
    " v.FEW_CHUNKS = v.LINKS_PER_QUERY = vectors.MAX_ROWS = 0",
    "postings": "from pg_graphrag.index.bm25 import index; index.MAX_CACHED_ITEMS = 0",
    "chunks of an item": "from pg_graphrag.search.retrievers import evidence_chunks; evidence_chunks.MAX_CHUNKS_EACH = 3",
}
# Each corpus with the thresholds that choose something else there: what was extracted is read alike, whoever extracted it.
MOVED = (
    *(
        ("concepts", threshold)
        for threshold in ("as shipped", "vectors", "texts of the graph", "graph of a part", "postings")
    ),
    *(
        ("described", threshold)
        for threshold in THRESHOLDS
        if threshold not in ("vectors", "texts of the graph", "postings")
    ),
)
# It keeps all documents; the filter {} is none.
WHOLE = {"$not": {"even": "never"}}
# They all keep the even documents.
FILTERS: tuple[dict[str, Any], ...] = (
    {"even": True},
    {"even": {"$ne": False}},
    {"$not": {"even": {"$in": [False, None]}}},
    {"$or": [{"number": {"$lt": 50}, "even": True}, {"number": {"$gte": 50}, "even": {"$eq": True}}]},
    {"$source_key": {"$in": [f"{number:03}" for number in range(0, DOCUMENTS, 2)]}},
    {"$relation": "public.even_documents"},
    {"$not": {"$relation": "public.odd_documents"}},
    {"day": {"$gte": "2024-01-01"}},
    {"$contains": {"even": True}},
)


class Score(float):
    """A number that equals those nearer than 1e-6, of which scores are rounded to multiples."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (int, float)) and abs(float(self) - float(other)) < 1.1e-6

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = float.__hash__


def extraction(messages: Sequence[dict[str, Any]]) -> str:
    """The names of a text, each with its sentence, and who stands beside whom."""
    text = str(messages[-1]["content"])
    names = [name for name in (*NAMES, *RARE, "Ada lovelace") if name in text]
    sentences = {name: next(part for part in text.split(".") if name in part).strip()[-150:] for name in names}
    entities = [{"name": name, "type": "thing", "description": sentences[name]} for name in names]
    pairs = [
        {"source": a, "target": b, "keywords": ["meeting"], "description": f"{a}: {sentences[b]}", "strength": 5}
        for a, b in pairwise(names)
    ]
    return json.dumps({"entities": entities, "relationships": pairs})


def text(number: int) -> str:
    """Three sentences; every fifth document writes the first name otherwise."""
    names = [NAMES[number * step % len(NAMES)] for step in (1, 3, 5, 7)]
    sentences = [f"{a} {DEEDS[(number + at) % 5]} {b} on day {number}." for at, (a, b) in enumerate(pairwise(names))]
    if number in (4, 5):
        sentences.append("Otto Krug is a friend of Nora Falk.")
    if number in (8, 9, 14):
        sentences.append(f"Nora Falk admired {NAMES[number % 8]}.")
    return " ".join(sentences).replace("Ada Lovelace", "Ada lovelace" if number % 5 == 0 else "Ada Lovelace")


def metadata(number: int) -> dict[str, Any]:
    day = "2024-01-01T00:00:00Z" if number % 2 == 0 else "2024-01-01T00:59:59+01:00"
    return {"even": number % 2 == 0, "number": number, "day": day}


@pytest.fixture(scope="module")
def corpora(module_db: Database) -> Iterator[Callable[[str], str]]:
    """What extracts a corpus: its name. Each is made once."""
    with Endpoint() as endpoint:
        endpoint.reply(extraction)
        names: dict[str, str] = {}

        def corpus_of(kind: str) -> str:
            if kind not in names:
                names[kind] = new_days(module_db, endpoint, kind)
            return names[kind]

        yield corpus_of


@pytest.fixture(params=["concepts", "described"])
def corpus(request: pytest.FixtureRequest, corpora: Callable[[str], str]) -> str:
    return corpora(request.param)


def new_days(db: Database, endpoint: Endpoint, kind: str) -> str:
    options: dict[str, Any] = {}
    if kind == "described":
        model = {"provider": provider(db, endpoint), "model": "model-1"}
        options = {"extractor": "llm", "max_gleaning": 0, "llm": {"roles": {"extract": model}}}
    name = new_corpus(db, communities=True, **options)
    for number in range(DOCUMENTS):
        title = RARE[0] if number in (4, 5) else f"Day {number}"
        put(db, name, f"{number:03}", text(number), title=title, metadata=metadata(number))
    work(db)
    number = value(db, "SELECT id FROM graphrag.corpora WHERE name = %s", name)
    # So that there is an index to be searched where a table counts as large.
    value(db, "SELECT graphrag._index_vectors(%s, 1)::text", number)
    for parity, of_parity in enumerate(("even", "odd")):
        db.execute(
            f"CREATE OR REPLACE VIEW public.{of_parity}_documents AS SELECT lpad(n::text, 3, '0') AS source_key"
            f" FROM generate_series({parity}, {DOCUMENTS}, 2) n; GRANT SELECT ON public.{of_parity}_documents TO PUBLIC"
        )
    return name


def answers(db: Connection, corpus: str, filter_: dict[str, Any] | None = None, modes: Sequence[str] = ()) -> Any:
    """What the session finds, by mode, with its explanations, and what it makes a context of."""
    results: dict[str, Any] = {}
    target = [corpus, Jsonb(filter_) if filter_ is not None else None]
    call = "graphrag.search(%s, %s, %s, 20, %s"
    for mode in modes or (*OPEN_MODES, *COMMUNITY_MODES):
        arguments = [QUESTION, corpus, mode, target[1]]
        results[mode] = rows(db, f"SELECT * FROM {call})", *arguments)
        if mode in ("hybrid", "ppr", "mix", "local", "global"):
            results[f"{mode} over a bridge"] = rows(db, f"SELECT * FROM {call})", BRIDGED, *arguments[1:])
            assert any("bridges" in row[-1] for row in results[f"{mode} over a bridge"])
        if mode in ("local", "global", "mix"):
            results[f"{mode} by keywords"] = rows(db, f"SELECT * FROM {call}, %s, %s)", *arguments, LOW, HIGH)
            results[f"{mode} of paper"] = rows(
                db, f'SELECT * FROM {call}, %s, %s, \'{{"profile": "paper"}}\')', *arguments, LOW, HIGH
            )
    results["context"] = rows(db, "SELECT graphrag.context(%s, %s, 'mix', NULL, %s)", QUESTION, *target)
    results["entities"] = rows(db, "SELECT * FROM graphrag.search_entities(%s, %s, 20, %s)", QUESTION, *target)
    results["relationships"] = rows(
        db, "SELECT * FROM graphrag.search_relationships(%s, %s, 20, %s)", QUESTION, *target
    )
    results["Ada"] = rows(db, "SELECT * FROM graphrag.search_entities('Ada Lovelace', %s, 5, %s)", *target)
    return json.loads(json.dumps(results, default=float), parse_float=Score)


def opened(db: Database, threshold: str, *settings: str) -> Connection:
    """Open a session with a threshold moved."""
    connection = psycopg.connect(db.url, autocommit=True)
    if THRESHOLDS[threshold]:
        connection.execute(f"DO LANGUAGE plpython3u '{THRESHOLDS[threshold]}'".encode())
    for setting in settings:
        connection.execute(setting.encode())
    return connection


@pytest.fixture
def session(module_db: Database) -> Iterator[Callable[..., Connection]]:
    """Sessions of one test, with a threshold moved."""
    connections: list[Connection] = []

    def open_session(threshold: str, *settings: str) -> Connection:
        connections.append(opened(module_db, threshold, *settings))
        return connections[-1]

    yield open_session
    for connection in connections:
        connection.close()


@pytest.fixture(scope="module")
def cold(module_db: Database) -> Iterator[Callable[[str], Connection]]:
    """Sessions without memory, one for each threshold."""
    connections: dict[str, Connection] = {}

    def session_of(threshold: str) -> Connection:
        if threshold not in connections:
            connections[threshold] = opened(module_db, threshold, "SET graphrag.session_memory = '0'")
        return connections[threshold]

    yield session_of
    for connection in connections.values():
        connection.close()


def assert_same(results: Any, expected: Any) -> None:
    for what, answer in results.items():
        assert len(answer) == len(expected[what]), what
        assert list(differences(answer, expected[what]))[:5] == [], what


def differences(left: Any, right: Any, *place: Any) -> Iterator[tuple[Any, ...]]:
    """Yield where two values differ, and how."""
    if isinstance(left, dict) and isinstance(right, dict):
        for name in {**left, **right}:
            yield from differences(left.get(name), right.get(name), *place, name)
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, pair in enumerate(zip(left, right, strict=True)):
            yield from differences(*pair, *place, number)
    elif left != right:
        yield (*place, left, right)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("corpus", "threshold"), MOVED, indirect=["corpus"])
def test_an_answer_does_not_depend_on_what_a_session_remembers(
    session: Callable[..., Connection], cold: Callable[[str], Connection], corpus: str, threshold: str
) -> None:
    expected = answers(cold(threshold), corpus)
    assert sum(bool(answer) for answer in expected.values()) >= len(expected) - 1
    warm = session(threshold)
    for _ in range(2):
        assert_same(answers(warm, corpus), expected)
    warm.execute("SET graphrag.session_memory = '60kB'")
    assert_same(answers(warm, corpus), expected)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("corpus", "threshold"), MOVED, indirect=["corpus"])
def test_an_answer_does_not_depend_on_how_a_restriction_is_said(
    module_db: Database,
    session: Callable[..., Connection],
    cold: Callable[[str], Connection],
    corpus: str,
    threshold: str,
) -> None:
    warm = session(threshold)
    with readers(module_db, 1) as (role,):
        reader = session(threshold, f"SET ROLE {role}")
        even = FILTERS[list(THRESHOLDS).index(threshold) % len(FILTERS)]
        for filter_, other in ((WHOLE, None), (even, {"even": True})):
            expected = answers(cold(threshold), corpus, filter_)
            assert_same(answers(warm, corpus, other), expected)
            condition = "true" if other is None else """metadata @> '{"even": true}'"""
            module_db.execute("SELECT graphrag.protect(%s, %s)", [corpus, condition])
            try:
                warm.execute(f"SET ROLE {role}".encode())
                open_to_him = {what: expected[what] for what in expected if what not in COMMUNITY_MODES}
                for asking in (reader, warm):
                    assert_same(answers(asking, corpus, modes=OPEN_MODES), open_to_him)
            finally:
                module_db.execute("SELECT graphrag.unprotect(%s)", [corpus])
                warm.execute("RESET ROLE")
        reader.close()


def test_a_part_is_answered_alike_however_large_the_rest_is(session: Callable[..., Connection], corpus: str) -> None:
    even = {"even": True}
    expected = answers(session("as shipped"), corpus, even)
    assert_same(answers(session("vectors of the whole"), corpus, even), expected)


@pytest.mark.sample(1)
@pytest.mark.parametrize("threshold", ["as shipped", "graph"])
def test_deleted_documents_count_no_more_before_a_worker_has_removed_them(
    session: Callable[..., Connection], cold: Callable[[str], Connection], corpus: str, threshold: str
) -> None:
    expected = answers(cold(threshold), corpus, {"even": True})
    warm = session(threshold)
    # What is cached of the whole is not for what is left of it.
    answers(warm, corpus, modes=["mix"])
    with warm.transaction(force_rollback=True):
        warm.execute(
            "DELETE FROM graphrag.documents WHERE corpus = %s AND metadata ->> 'even' IS DISTINCT FROM 'true'", [corpus]
        )
        assert_same(answers(warm, corpus), expected)
        assert_same(answers(warm, corpus, WHOLE), expected)


@pytest.mark.parametrize("corpus", ["concepts"], indirect=True)
def test_documents_whose_retraction_ended_count_no_sooner_than_they_are_indexed_again(
    session: Callable[..., Connection], cold: Callable[[str], Connection], corpus: str
) -> None:
    odd = "corpus = %s AND metadata ->> 'even' IS DISTINCT FROM 'true'"
    expected = answers(cold("as shipped"), corpus, {"even": True})
    warm = session("as shipped")
    with warm.transaction(force_rollback=True):
        for moment in ("now()", "NULL"):
            reason = "'wrong'" if moment == "now()" else "NULL"
            warm.execute(
                f"UPDATE graphrag.documents SET retracted_at = {moment}, retraction_reason = {reason} WHERE {odd}".encode(),
                [corpus],
            )
        assert_same(answers(warm, corpus), expected)
        # Newer content takes the job over, and not what it has to take out.
        warm.execute(f"UPDATE graphrag.documents SET content = content || ' Again.' WHERE {odd}".encode(), [corpus])
        assert_same(answers(warm, corpus), expected)
