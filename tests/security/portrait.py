"""All that a reader can get of a corpus, as texts to be compared."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from pg_graphrag.ground.mode_names import MODES

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.ingest import Connection, rows

# Modes, with options, in which nothing depends on statistics of BM25, which are of the whole corpus by contract.
WITHOUT_BM25 = {"naive": "{}", "path": '{"path_weighting": "vector", "fuse": "none", "profile": "paper"}'}
# What there is besides scores.
_COLUMNS = {
    "entities": "name, type, description, degree",
    "relationships": "source, target, keywords, description, weight",
}
QUESTIONS = ("Who admired Ada Lovelace in London?", "Project Zephyr of Bletchley Park and its budget")
# Entities that visible documents mention, that hidden ones mention, and that nobody does.
ENTITIES = ("Ada Lovelace", "Charles Babbage", "London", "Enigma", "Bletchley Park", "Project Zephyr", "Nobody At All")
# By what hidden documents have, and by what all have.
FILTERS = (
    '{"$source_key": "secret"}',
    '{"$source_key": {"$nin": ["ada"]}}',
    '{"open": {"$exists": true}}',
    '{"$not": {"open": true}}',
    '{"$or": [{"$ids": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]}, {"open": {"$ne": true}}]}',
)
VIEWS = (
    "graph_nodes", "graph_edges", "graph_claims", "graph_mentions", "document_coverage", "graph_growth",
    "entity_timeline", "community_overview",
)  # fmt: skip
# Every view and table that members may read, and what no reader is meant to call, as which he may.
_RELATIONS = """
SELECT c.oid::regclass::text FROM pg_class c
 WHERE c.relnamespace = 'graphrag'::regnamespace AND c.relkind IN ('r', 'v')
   AND has_table_privilege('graphrag_member', c.oid, 'SELECT') AND c.relname NOT IN ('corpora', 'documents')
 UNION ALL
SELECT p.oid::regproc || '()' FROM pg_proc p
 WHERE p.pronamespace = 'graphrag'::regnamespace AND p.prokind = 'f' AND p.pronargs = p.pronargdefaults
   AND p.proname ~ '^_|^visible_'
   AND has_function_privilege('graphrag_member', p.oid, 'EXECUTE')
 ORDER BY 1
"""


class Portrait(dict[str, str]):
    """{call: what it gave, NOTICEs, WARNINGs and errors among it}."""

    def difference(self, other: Portrait) -> dict[str, tuple[str, str]]:
        """Return what differs, to be shown by a failing test."""
        assert self.keys() == other.keys()
        return {name: (self[name], other[name]) for name in self if self[name] != other[name]}


class Reader:
    """A session of a reader: what its statements give, as text."""

    def __init__(self, url: str, role: str, *before: str) -> None:
        self.connection = Database.connect(url, autocommit=True)
        for statement in before:
            self.connection.execute(statement.encode())
        self.connection.execute(f"SET ROLE {role}".encode())
        self._notices: list[str] = []
        self.connection.add_notice_handler(
            lambda diag: self._notices.append(f"{diag.severity}: {diag.message_primary} {diag.message_hint}")
        )

    def gives(self, sql: str, *values: Any) -> str:
        """What a statement gives: rows in their order, messages, or the error."""
        self._notices.clear()
        try:
            given = "\n".join(str(row[0]) for row in rows(self.connection, sql, *values))
        except psycopg.Error as error:
            diag = error.diag
            given = f"{diag.sqlstate} {diag.message_primary} | {diag.message_detail} | {diag.message_hint}"
        # Who asked before is no document's secret: SECURITY.md says what caches tell.
        return re.sub(r"""(["']by["']: ["'])cache""", r"\1model", "\n".join([given, *self._notices]))


def portrait(
    reader: Reader, corpus: str, endpoint: Endpoint | None = None, *, exact: bool = True, communities: Any = ()
) -> Portrait:
    """Ask everything. `exact`: statistics of BM25 are equal to those it is compared with; else of what rests on them only
    which chunks, entities and relationships there are. `communities`: numbers of some, of which none is shown."""
    picture = Portrait()
    whole = "to_jsonb(x) #>> '{}'"
    chosen = whole if exact else "jsonb_build_array(x.chunk_id, x.content, x.title)::text"
    order = "" if exact else " ORDER BY 1"
    for question in QUESTIONS:
        for mode in MODES:
            sql = f"SELECT {chosen} FROM graphrag.search(%s, %s, %s, 100) x{order}"
            picture[f"search {mode}: {question}"] = reader.gives(sql, question, corpus, mode)
            if exact:
                context = reader.gives("SELECT graphrag.context(%s, %s, %s)", question, corpus, mode)
                picture[f"context {mode}: {question}"] = context
            # It gathers as context() does, for a count: of one question.
            if exact and question == QUESTIONS[0]:
                sql = "SELECT to_jsonb(x) #>> '{}' FROM graphrag.estimate_ask(%s, %s, %s) x"
                picture[f"estimate {mode}: {question}"] = reader.gives(sql, question, corpus, mode)
        for mode, options in WITHOUT_BM25.items():
            sql = f"SELECT {whole} FROM graphrag.search(%s, %s, %s, 100, options => %s) x"
            picture[f"search {mode} {options}: {question}"] = reader.gives(sql, question, corpus, mode, options)
        for kind, columns in _COLUMNS.items():
            sql = f"SELECT {whole} FROM graphrag.search_{kind}(%s, %s, 50) x"
            if not exact:
                some = f"SELECT {columns} FROM graphrag.search_{kind}(%s, %s, 50)"
                sql = f"SELECT to_jsonb(x)::text FROM ({some}) x ORDER BY 1"
            picture[f"search_{kind}: {question}"] = reader.gives(sql, question, corpus)
        sql = f"SELECT {whole} FROM graphrag.search_reports(%s, %s, 50) x"
        picture[f"search_reports: {question}"] = reader.gives(sql, question, corpus)
    for entity in ENTITIES:
        for hops in (1, 3):
            sql = f"SELECT {whole} FROM graphrag.neighbors(%s, %s, %s) x"
            picture[f"neighbors {hops}: {entity}"] = reader.gives(sql, entity, corpus, hops)
        for function in ("to_dot", "to_mermaid"):
            picture[f"{function}: {entity}"] = reader.gives(f"SELECT graphrag.{function}(%s, %s, 2)", entity, corpus)
    for filter_ in FILTERS:
        sql = f"SELECT {whole} FROM graphrag.search(%s, %s, 'naive', 100, %s) x"
        picture[f"search by {filter_}"] = reader.gives(sql, QUESTIONS[0], corpus, filter_)
        sql = f"SELECT {whole} FROM graphrag.neighbors(%s, %s::jsonb, 2, %s) x"
        picture[f"neighbors by {filter_}"] = reader.gives(sql, ENTITIES[0], filter_, corpus)
    sql = f"SELECT {whole} FROM graphrag.search(%s, %s, 'naive', 2, options => '{{\"offset\": 1}}') x"
    picture["a page"] = reader.gives(sql, QUESTIONS[0], corpus)
    for keys in (None, ["ada"], ["secret"], ["nobody"]):
        sql = "SELECT to_jsonb(x)::text FROM graphrag.wait_indexed(%s, %s, '0 s') x"
        picture[f"wait for {keys}"] = reader.gives(sql, corpus, keys)
    picture["warm"] = reader.gives("SELECT (graphrag.warm(%s) - 'ms')::text", corpus)
    for place, number in enumerate(communities):
        context = reader.gives("SELECT graphrag.to_dot(%s::bigint)", number)
        picture[f"to_dot of community {place}"] = re.sub("community -?[0-9]+", "community N", context)
    for (name,) in rows(reader.connection, _RELATIONS):
        picture[name] = reader.gives(f"SELECT {whole} FROM {name} x ORDER BY x::text")
    judged = json.dumps([{"id": str(n), "question": value, "evidence": ["ada"]} for n, value in enumerate(QUESTIONS)])
    # The retrievers are those of search: what evaluate() adds does not depend on the mode.
    modes = ["bm25", "graph_local", *WITHOUT_BM25] if exact else list(WITHOUT_BM25)
    # seconds are the machine's.
    sql = "SELECT (to_jsonb(x) - 'p50_ms' - 'p95_ms' - 'mean_ms')::text FROM graphrag.evaluate(%s, %s::jsonb, %s) x"
    picture["evaluate"] = reader.gives(sql, corpus, judged, modes)
    hidden = json.dumps([{"question": QUESTIONS[0], "evidence": ["secret"]}])
    nobody = json.dumps([{"question": QUESTIONS[0], "evidence": ["nobody"]}])
    for name, evidence in (("hidden", hidden), ("unknown", nobody)):
        picture[f"evaluate by {name} evidence"] = reader.gives(sql, corpus, evidence, ["naive"])
    for table in ("entities", "chunks", "communities", "curated", "llm_cache", "bm25_tail", "query_log", "jobs"):
        picture[table] = reader.gives(f"SELECT to_jsonb(x)::text FROM graphrag.{table} x")
    for call in ("fingerprint", "suggest_merges", "check", "clustered_relationships", "fingerprint_sections"):
        picture[call] = reader.gives(f"SELECT to_jsonb(x)::text FROM graphrag.{call}(%s) x", corpus)
    if endpoint is not None:
        picture |= _asked(reader, corpus, endpoint, exact)
    return picture


def _asked(reader: Reader, corpus: str, endpoint: Endpoint, exact: bool) -> dict[str, str]:
    """What asking gives, and which prompts reach the model. Usage tells what the cache had: SECURITY.md."""
    answers = {}
    for mode in MODES if exact else ("naive",):
        functions = {"ask": "jsonb_build_array(x.answer, x.citations, x.context)"}
        if mode in ("naive", "hybrid"):
            functions["ask_stream"] = "to_jsonb(x)"
        for function, row in functions.items():
            before = len(endpoint.requests)
            sql = f"SELECT ({row})::text FROM graphrag.{function}(%s, %s, %s) x"
            answers[f"{function} {mode}"] = reader.gives(sql, QUESTIONS[0], corpus, mode)
            prompts = sorted(request.text for request in endpoint.requests[before:] if request.kind == "chat")
            answers[f"prompts of {function} {mode}"] = "\n---\n".join(prompts)
    return answers


@contextmanager
def restricted(db: Connection, corpus: str, how: str, role: str) -> Iterator[None]:
    """A reader who sees the documents whose metadata say {"open": true}: by protect(), or by a policy of the user's own."""
    db.execute(f"DROP ROLE IF EXISTS {role}".encode())
    db.execute(f"CREATE ROLE {role} IN ROLE graphrag_reader".encode())
    condition = "(metadata ->> 'open')::boolean"
    if how == "protect":
        db.execute("SELECT graphrag.protect(%s, %s)", [corpus, condition])
    else:
        db.execute("ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY")
        db.execute(f"CREATE POLICY own ON graphrag.documents FOR SELECT USING ({condition})".encode())
    try:
        yield
    finally:
        db.execute(f"DROP OWNED BY {role}".encode())
        db.execute(f"DROP ROLE {role}".encode())
