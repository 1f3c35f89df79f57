"""What users call: every view and function of the reference, and what pages send, with usual arguments, on a corpus with rows.

bench/load/surface.py measures them, tests/sql/test_surface_plans.py looks at their plans. Views and functions are those of the
catalog, each signature one, modes and what pages read those of the package: one without an entry here is an error that names it.
"""

from __future__ import annotations

import inspect
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from pg_graphrag.beside.client.blocking import GraphRAG
from pg_graphrag.beside.client.graph_items import stream
from pg_graphrag.beside.exchange.graphrag_export import Export
from pg_graphrag.beside.serve import graph_parts, reading
from pg_graphrag.ground.mode_names import MODES
from psycopg import sql
from psycopg.types.json import Jsonb

Connection = psycopg.Connection[Any]

CORPUS, PLAIN, HISTORY = "shop", "letters", "letters before"
# Sees every other document and every other row.
READER = "surface_reader"
# Role and corpora of calls that give and take.
OTHER_ROLE = "surface_other"

OF_NO_CORPUS = ("metrics",)
# What a view is sorted by.
SORTED_BY = {
    "attached_tables": "attached_at",
    "budgets": "spent",
    "community_entities": "entity_id",
    "community_overview": "size",
    "document_coverage": "entities",
    "entity_attributes": "mention_count",
    "entity_timeline": "mentions",
    "failed_jobs": "created_at",
    "granted_corpora": "corpus",
    "graph_claims": "claim_id",
    "graph_edges": "weight",
    "graph_growth": "entities",
    "graph_mentions": "name",
    "graph_nodes": "degree",
    "llm_usage": "cost",
    "llm_usage_by_role": "cost",
    "metrics": "value",
    "progress": "documents",
    "query_stats": "queries",
    "unfit_extractions": "reason",
    "versions": "written_at",
    "workers": "since",
}

_Q = "'Why did the pump of Berta Arnheim leak?', 'shop'"
_QUESTIONS = """'[{"question": "Why did the pump of Berta Arnheim leak?", "evidence": ["ticket/2"]}]'"""
# The arguments of a call: two entities of documents alone, one of rows, none of which is a hub.
_PERSON, _OTHER_PERSON, _MACHINE = "'Arno Zeller 3'", "'Arno Zeller 4'", "'RZ-7K'"

# By name, the arguments of one call or more, at least one for each signature.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "add_node": ("'there', 'postgresql://there.example:5432/app'",),
    "alter_corpus": ("""'shop', '{"query_log": true}'""",),
    "attach_entities": ("'shop.spares', 'shop', '{id}', 'name'",),
    "attach_relationships": ("'shop.machines', 'shop', 'was moved to', '{moved_to}', 'shop.plants'",),
    "attach_table": ("'shop.notes', 'letters', 'id', '{body}'",),
    "audit": (f"'{READER}'",),
    "backfill_table": ("'shop.machines', 'shop'",),
    "bm25_search": (_Q,),
    "check": ("'shop'",),
    "check_provider": ("'surface', 'm', 'shop'",),
    "clone_corpus": ("'letters', 'letters too'",),
    "clustered_relationships": ("'shop'",),
    "compare_corpora": ("""'letters', 'letters', '[{"question": "Who wrote to whom?", "evidence": ["letter/1"]}]'""",),
    "context": tuple(f"{_Q}, '{mode}'" for mode in MODES),
    "create_corpus": ("'surface new'",),
    "create_entity": ("'Quite New', 'shop'",),
    "create_relationship": (f"{_PERSON}, {_OTHER_PERSON}, 'shop'",),
    "cypher": ("'shop', 'MATCH (n:Entity) RETURN n.name AS name LIMIT 100'",),
    "delete_entity": (f"{_PERSON}, 'shop'",),
    "delete_relationship": ("'Arno Zeller 1', 'Arno Zeller 2', 'shop'",),
    "detach_table": ("'shop.machines', 'shop'",),
    "drop_corpus": ("'shop'",),
    "drop_node": ("'surface'",),
    "drop_provider": ("'idle'",),
    "edit_entity": (f"{_PERSON}, 'shop', description => 'He repairs.'",),
    "edit_relationship": ("'Arno Zeller 1', 'Arno Zeller 2', 'shop', description => 'He works there.'",),
    "embed": ("'Why did the pump leak?', 'shop'",),
    "embedding_engine": ("",),
    "end_history": ("'letters'",),
    "estimate_ask": (_Q,),
    "estimate_cost": ("'shop'",),
    "evaluate": (f"'shop', {_QUESTIONS}::jsonb", f"'shop', {_QUESTIONS}::text", "'shop', 'shop.questions'::regclass"),
    "feedback": ("'Why did the pump leak?', 'good', 'shop', '{ticket/2}'",),
    "fingerprint": ("'shop'",),
    "fingerprint_sections": ("'shop'",),
    "forget": ("'shop', 'ticket/1'",),
    "global_search": (_Q,),
    "golden_questions": ("'shop'",),
    "grant_corpus": (f"'letters', '{OTHER_ROLE}'",),
    "graph_edges_at": ("'shop', now()",),
    "graph_nodes_at": ("'shop', now()",),
    "health": ("",),
    "hybrid_search": (_Q,),
    "import_communities": (
        """'letters', '[{"number": 0, "level": 0, "parent": null, "entities": ["Ada Quill 1", "Ada Quill 2"],"""
        """ "report": {"title": "Letters", "summary": "Of letters.", "content": "Of letters."}}]'""",
    ),
    "import_documents": (
        """'letters', '[{"source_key": "imported", "content": "Ada Quill 1 wrote.", "chunks": [{"start": 0, "end": 18,"""
        """ "entities": [{"name": "Ada Quill 1", "type": "PERSON", "description": "She wrote."}]}]}]'""",
    ),
    "insert_graph": ("""'shop', '{"entities": [{"name": "Quite New", "type": "PERSON", "description": "New."}]}'""",),
    "keep_history": ("'shop', 'shop before'",),
    "local_search": (_Q,),
    "log_query": ("'Why did the pump leak?', 'shop', 'search', 'hybrid', 12.5",),
    "merge_entities": (f"ARRAY[{_PERSON}], {_OTHER_PERSON}, 'shop'",),
    "naive_search": (_Q,),
    "neighbors": (
        f"{_PERSON}, 'shop', 2",
        f"{_MACHINE}, 'shop', 2",
        f"""{_MACHINE}, '{{"team": 0}}'::jsonb, 2, 'shop'""",
    ),
    "optimize": ("'shop'",),
    "place_corpus": ("'elsewhere', 'surface'",),
    "process_jobs": ("",),
    "protect": ("'letters', 'source_key IS NOT NULL'",),
    "prune": ("'shop'",),
    "rebuild_graph": ("'shop'",),
    "reembed": ("""'letters', '{"provider": "local", "model": "multilingual-e5-small"}'""",),
    "refresh_communities": ("'shop'",),
    "reindex": ("'shop'", "'shop', 'stood in'"),
    "rename_entity": (f"{_PERSON}, 'Quite New', 'shop'",),
    "repair": ("",),
    "repair_corpora": ("",),
    "retract": ("'shop', 'ticket/1', 'It was wrong.'",),
    "retry_failed": ("'shop'",),
    "revoke_corpus": (f"'shop', '{OTHER_ROLE}'",),
    "search": (
        *(f"{_Q}, '{mode}'" for mode in MODES),
        "'Why did the pump of Berta Arnheim leak?', ARRAY['shop', 'letters']",
    ),
    "search_entities": (_Q,),
    "search_relationships": (_Q,),
    "search_reports": (_Q,),
    "set_provider": ("'surface too', 'openai', 'http://127.0.0.1:9/v1'",),
    "suggest_attachments": ("'shop', 'shop'",),
    "suggest_merges": ("'shop', 50",),
    "to_dot": (f"{_MACHINE}, 'shop'", "(SELECT max(id) FROM graphrag.communities)"),
    "to_mermaid": (f"{_MACHINE}, 'shop'", "(SELECT max(id) FROM graphrag.communities)"),
    "understand": (_Q,),
    "undo_curation": ("(SELECT max(id) FROM graphrag.curations)",),
    "undo_retraction": ("'shop', 'ticket/3'",),
    "uninstall": ("",),
    "unprotect": ("'shop'",),
    "visible_documents": ("",),
    "wait_indexed": ("'shop'",),
    "wait_until_indexed": ("'letters'",),
    "warm": ("'shop'",),
}
# Why a function is not called.
LEFT_OUT = {
    "ask": "asks a model for its answer; of the rest context() has the most",
    "ask_stream": "as ask()",
    "schedule_worker": "needs pg_cron",
    "uninstall_corpora": "is uninstall(), committed in between",
}
# What takes more from a size on, once: an exponent between sizes on either side of it, and why.
STEPS = {"rebuild_graph": (1.3, "makes indexes of the graph for Cypher where a label has 2 MB")}
# What is of attached rows, and nothing without any.
OF_ROWS = ("attach_relationships", "backfill_table", "detach_table")
_DOCUMENT = f"id) FROM graphrag.documents WHERE corpus = '{CORPUS}' AND attached_id IS NULL"
# What the pages, exports and networkx read: those of serve by their names.
PAGES: dict[str, Callable[[Connection], object]] = {
    "graph_parts.overview": lambda connection: graph_parts.overview(connection, CORPUS, 500, None),
    "graph_parts.overview of a community": lambda connection: [
        graph_parts.overview(connection, CORPUS, 500, community["id"])
        for community in graph_parts.communities(connection, CORPUS, None, 1)
    ],
    "graph_parts.map_of": lambda connection: graph_parts.map_of(connection, CORPUS, None),
    "graph_parts.names": lambda connection: graph_parts.names(connection, CORPUS, "ann", 8),
    "graph_parts.community": lambda connection: [
        graph_parts.community(connection, CORPUS, community["id"])
        for community in graph_parts.communities(connection, CORPUS, None, 1)
    ],
    "graph_parts.communities": lambda connection: graph_parts.communities(connection, CORPUS, None, 50),
    "graph_parts.entity": lambda connection: graph_parts.entity(
        GraphRAG(connection, CORPUS),
        connection,
        _number(connection, f"entity_id) FROM graphrag.graph_nodes WHERE name = {_PERSON}"),
        50,
    ),
    "graph_parts.path": lambda connection: graph_parts.path(
        GraphRAG(connection, CORPUS), connection, _PERSON.strip("'"), _OTHER_PERSON.strip("'")
    ),
    "reading.names": reading.names,
    "reading.corpora": reading.corpora,
    "reading.check_corpora": lambda connection: reading.check_corpora(connection, [CORPUS]),
    "reading.status": lambda connection: reading.status(GraphRAG(connection, CORPUS), connection),
    "reading.elsewhere": lambda connection: reading.elsewhere(connection, [CORPUS]),
    "reading.other_nodes": reading.other_nodes,
    "reading.documents": lambda connection: reading.documents(connection, CORPUS, None, 0, 50),
    "reading.documents with a text": lambda connection: reading.documents(connection, CORPUS, "Ticket", 0, 50),
    "reading.document": lambda connection: reading.document(
        connection, CORPUS, _number(connection, _DOCUMENT), 0, 5000
    ),
    "reading.documents by size": lambda connection: reading.documents(
        connection, CORPUS, status="indexed", sort="size", is_descending=True, offset=50
    ),
    "reading.keys": lambda connection: reading.keys(connection, CORPUS, [_number(connection, _DOCUMENT)]),
    "reading.places": lambda connection: reading.places(connection, CORPUS, [(_number(connection, _DOCUMENT), "pump")]),
    "reading.picture": lambda connection: reading.picture(
        connection, CORPUS, _number(connection, "id) FROM graphrag.pictures")
    ),
    "reading.picture_types": lambda connection: reading.picture_types(
        connection, [_number(connection, "id) FROM graphrag.pictures")]
    ),
    "reading.verdicts": lambda connection: reading.verdicts(connection, CORPUS, None, 50),
    "reading.curations": lambda connection: reading.curations(connection, CORPUS, None, 50),
    "export, plot": lambda connection: list(stream(connection, CORPUS)),
}
# Functions of serve that send what they are given, or functions of the reference.
NO_PAGE = ("reading.rows", "reading.undo")
_BI = Path(__file__).resolve().parents[2] / "docs/bi.md"

_VIEWS = """
SELECT c.relname, has_table_privilege(%s, c.oid, 'SELECT') FROM pg_class c
 WHERE c.relnamespace = 'graphrag'::regnamespace AND c.relkind IN ('v', 'm') AND c.relname !~ '^_' ORDER BY 1
"""
_FUNCTIONS = """
SELECT p.proname, p.prokind = 'p', has_function_privilege(%s, min(p.oid), 'EXECUTE') FROM pg_proc p
 WHERE p.pronamespace = 'graphrag'::regnamespace AND p.proname !~ '^_'
   AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
 GROUP BY 1, 2 ORDER BY 1
"""
_CALLED = """
SELECT d.refobjid::int8 FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
 WHERE r.ev_class = 'call'::regclass AND d.refclassid = 'pg_proc'::regclass
"""
_UNCALLED = """
SELECT p.oid::regprocedure::text FROM pg_proc p
 WHERE p.pronamespace = 'graphrag'::regnamespace AND p.proname = ANY (%s) AND p.oid <> ALL (%s::oid[])
   AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
 ORDER BY 1
"""


@dataclass(frozen=True)
class Call:
    """What a user sends. What commits runs outside a transaction, where nothing is left for it to do."""

    name: str
    send: Callable[[Connection], object]
    commits: bool = False

    def run(self, connection: Connection) -> None:
        """Run it, and leave nothing of it."""
        if self.commits:
            self.send(connection)
        else:
            with connection.transaction(force_rollback=True):
                self.send(connection)


def statement(name: str, text: str, commits: bool = False) -> Call:
    return Call(name, lambda connection: connection.execute(text.encode()).rowcount, commits)


def calls(connection: Connection, role: str) -> list[Call]:
    """Return what a role may call."""
    views = connection.execute(_VIEWS, [role]).fetchall()
    functions = connection.execute(_FUNCTIONS, [role]).fetchall()
    unknown = [view for view, _ in views if view not in SORTED_BY]
    unknown += uncalled(connection, [(name, is_procedure) for name, is_procedure, _ in functions])
    unknown += unread_pages()
    if unknown:
        raise LookupError(f"bench/load/public_surface.py does not say how these are used: {', '.join(unknown)}")
    found = [call for view, may in views if may for call in of_view(view)]
    found += [Call(f"page: {name}", send) for name, send in PAGES.items()]
    found.append(Call("export-graphrag", export_graphrag, commits=True))
    found += of_bi_tools()
    has_rows = connection.execute("SELECT FROM graphrag.attached_tables").rowcount > 0
    for name, is_procedure, may in functions:
        if may and name not in LEFT_OUT and (has_rows or name not in OF_ROWS):
            verb = "CALL" if is_procedure else "SELECT * FROM"
            found += [
                statement(f"{name}({arguments})", f"{verb} graphrag.{name}({arguments})", is_procedure)
                for arguments in ARGUMENTS[name]
            ]
    return found


def _number(connection: Connection, of: str) -> int:
    return int(connection.execute(f"SELECT min({of}".encode()).fetchall()[0][0])


def uncalled(connection: Connection, names: list[tuple[str, bool]]) -> list[str]:
    """Return the signatures of functions that no call here has; a view that has the call tells which one that is."""
    called = []
    with connection.transaction(force_rollback=True):
        for name, is_procedure in names:
            for arguments in () if is_procedure else ARGUMENTS.get(name, ()):
                connection.execute(
                    f"CREATE TEMP VIEW call AS SELECT count(*) FROM graphrag.{name}({arguments})".encode()
                )
                called += [oid for (oid,) in connection.execute(_CALLED).fetchall()]
                connection.execute("DROP VIEW call")
        needed = [
            name for name, is_procedure in names if name not in LEFT_OUT and not (is_procedure and name in ARGUMENTS)
        ]
        return [signature for (signature,) in connection.execute(_UNCALLED, [needed, called]).fetchall()]


def unread_pages() -> list[str]:
    """Return the functions of serve that read the database, and are not in PAGES."""
    functions = {
        f"{module.__name__.rpartition('.')[2]}.{name}"
        for module in (graph_parts, reading)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and "connection" in inspect.signature(function).parameters
    }
    return sorted(
        name
        for name in functions - {page.split()[0] for page in PAGES} - {*NO_PAGE}
        if not name.split(".")[1].startswith("_")
    )


def of_view(view: str) -> list[Call]:
    """Return how a view is read: counted, its first rows, one of none, sorted, as a whole, and of one corpus alone."""
    select, order = f"SELECT * FROM graphrag.{view}", f"ORDER BY {SORTED_BY[view]} DESC LIMIT 20"
    ways = {
        "count(*)": f"SELECT count(*) FROM graphrag.{view}",
        "LIMIT 20": f"{select} LIMIT 20",
        # The planner expects a third of all rows, and that the first is soon found.
        "LIMIT 1 of none": f"{select} WHERE length({SORTED_BY[view]}::text) > 1000 LIMIT 1",
        order: f"{select} {order}",
        "all": select,
    }
    if view not in OF_NO_CORPUS:
        ways["of a corpus"] = f"{select} WHERE corpus = '{CORPUS}' {order}"
    return [statement(f"{view}: {way}", text) for way, text in ways.items()]


def export_graphrag(connection: Connection) -> None:
    """Write GraphRAG's tables, in a transaction of its own."""
    with tempfile.TemporaryDirectory() as folder:
        Export(connection, CORPUS, Path(folder)).write()


def of_bi_tools() -> list[Call]:
    """Return the queries of docs/bi.md that ask for a corpus, each named by its place."""
    queries = re.findall(r"^```sql\n(SELECT .*?)^```$", _BI.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [
        statement(f"docs/bi.md: query {number}", query.rstrip().rstrip(";").replace("'news'", f"'{CORPUS}'"))
        for number, query in enumerate(queries, 1)
        if "'news'" in query
    ]


_TABLES = """
CREATE SCHEMA shop;
CREATE TABLE shop.plants (id int PRIMARY KEY, name text NOT NULL UNIQUE);
CREATE TABLE shop.machines (id int PRIMARY KEY, code text NOT NULL UNIQUE, nickname text, plant_id int REFERENCES shop.plants,
                            moved_to int REFERENCES shop.plants, built date, status text);
CREATE TABLE shop.spares (id int PRIMARY KEY, name text NOT NULL UNIQUE);
CREATE TABLE shop.notes (id int PRIMARY KEY, body text NOT NULL);
CREATE TABLE shop.questions (question text, evidence text[]);
INSERT INTO shop.questions VALUES ('Why did the pump of Berta Arnheim leak?', '{ticket/2}');
"""
_ROWS = """
INSERT INTO shop.plants SELECT n, (ARRAY['Osaka', 'Lyon', 'Turku', 'Porto'])[n %% 4 + 1] || ' Works ' || n
  FROM generate_series((%(first)s + 19) / 20 + 1, (%(last)s + 19) / 20) n;
INSERT INTO shop.machines
SELECT n, 'RZ-' || n || 'K', (ARRAY['Berta', 'Clara', 'Dora', 'Emma', 'Frida'])[n %% 5 + 1] || ' Arnheim ' || n, (n - 1) / 20 + 1,
       NULL, date '2001-01-01' + n, (ARRAY['running', 'broken', 'sold'])[n %% 3 + 1]
  FROM generate_series(%(first)s + 1, %(last)s) n
"""
_ATTACHED = (
    "attach_entities('shop.plants', 'shop', '{id}', 'name')",
    "attach_entities('shop.machines', 'shop', '{id}', 'code', '{nickname}', 'machine', '{built,status}')",
    "attach_relationships('shop.machines', 'shop', 'stands in', '{plant_id}', 'shop.plants')",
)
# A ticket names its row by code or by nickname, the plant, one of the persons who repair, and a neighbour of the row.
_TICKETS = """
INSERT INTO graphrag.documents (corpus, source_key, title, content, metadata, valid_from)
SELECT 'shop', 'ticket/' || n, 'Ticket ' || n,
       format('%%s of %%s leaked oil during the night shift. Arno Zeller %%s repaired its pump with a Kestrel Valve.'
              || ' %%s stood still meanwhile.',
              CASE n %% 2 WHEN 0 THEN m.code ELSE m.nickname END, p.name, (n - 1) / 4 + 1, o.code),
       jsonb_build_object('team', n %% 2), timestamptz '2024-01-01' + n %% 90 * interval '1 day'
  FROM generate_series(%(first)s + 1, %(last)s) n
  JOIN shop.machines m ON m.id = n
  JOIN shop.machines o ON o.id = CASE n WHEN %(last)s THEN 1 ELSE n + 1 END
  JOIN shop.plants p ON p.id = m.plant_id
"""
# What a tenth of them shows.
_PICTURES = r"""
INSERT INTO graphrag.pictures (document_id, content, caption)
SELECT d.id, '\x89504e470d0a1a0a', 'The pump of ' || d.title
  FROM graphrag.documents d
 WHERE d.corpus = 'shop'
   AND d.source_key IN (SELECT 'ticket/' || n FROM generate_series(%(first)s + 1, %(last)s) n WHERE n %% 10 = 0)
"""
_LETTERS = """
INSERT INTO graphrag.documents (corpus, source_key, content)
SELECT 'letters', 'letter/' || n,
       format('Ada Quill %%s wrote to Boris Quill %%s in Vienna. Boris Quill %%s answered in March.', n, n / 2, n / 2)
  FROM generate_series(%(first)s / 8 + 1, %(last)s / 8) n
"""
# What nothing but a model, and people who ask, would bring.
_REST = (
    "INSERT INTO graphrag.claims (corpus_id, document_id, chunk_id, subject_key, subject, type, status, description)"
    " SELECT k.corpus_id, k.document_id, k.id, e.key, e.name, 'repair', 'TRUE', 'It leaked.'"
    "   FROM graphrag.chunks k"
    "   JOIN graphrag.entity_mentions m ON m.chunk_id = k.id JOIN graphrag.entities e ON e.id = m.entity_id"
    "  WHERE e.name ~ '^Arno'",
    "INSERT INTO graphrag.query_log (corpus_id, kind, mode, question, milliseconds)"
    " SELECT c.id, 'search', 'hybrid', 'Why did pump ' || n || ' leak?', n % 50"
    "   FROM graphrag.corpora c, generate_series(1, {size}) n WHERE c.name = 'shop'",
    "INSERT INTO graphrag.llm_calls (corpus_id, provider, model, purpose, tokens_in, tokens_out, cost, seconds)"
    " SELECT c.id, 'surface', 'small', 'answer', 1000, 100, .001, n % 7 FROM graphrag.corpora c, generate_series(1, {size}) n"
    "  WHERE c.name = 'shop'",
    "INSERT INTO graphrag.answer_feedback (corpus_id, role, question, verdict, evidence)"
    " SELECT c.id, 'role ' || n % 3, 'Why did pump ' || n || ' leak?', 'good', ARRAY['ticket/' || n]"
    "   FROM graphrag.corpora c, generate_series(1, {size}) n WHERE c.name = 'shop'",
    "SELECT graphrag.set_provider(name, 'openai', 'http://127.0.0.1:9/v1') FROM unnest(ARRAY['surface', 'idle']) name",
    "SELECT graphrag.add_node('surface', 'postgresql://surface.example/app')",
    """SELECT graphrag.alter_corpus('shop', '{"llm": {"roles": {"answer": {"provider": "surface", "model": "small"}}}}')""",
    "SELECT graphrag.retract('shop', 'ticket/' || n, 'It was wrong.') FROM generate_series(3, {size}, 50) n",
    "UPDATE graphrag.documents SET content = content || ' So it was.' WHERE corpus = 'letters'",
    "SELECT graphrag.create_relationship('Arno Zeller 1', 'Arno Zeller 2', 'shop')",
    "SELECT graphrag.grant_corpus('shop', 'surface_other')",
)
_READER = """
GRANT USAGE ON SCHEMA shop TO {reader};
GRANT SELECT ON ALL TABLES IN SCHEMA shop TO {reader};
ALTER TABLE shop.machines ENABLE ROW LEVEL SECURITY;
CREATE POLICY half ON shop.machines FOR SELECT TO {reader} USING (id % 2 = 0);
"""
_CONDITION = """attached_id IS NOT NULL OR metadata @> '{"team": 0}'"""


def make_roles(connection: Connection) -> None:
    for role, group in ((READER, "graphrag_reader"), (OTHER_ROLE, "graphrag_member")):
        connection.execute(
            sql.SQL(
                "DO $$ BEGIN CREATE ROLE {0}; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;"
                " GRANT {1} TO {0}"
            ).format(sql.Identifier(role), sql.Identifier(group))
        )


# While it is on, when a server analyzes tables is chance.
WITHOUT_AUTOVACUUM = """
DO $$
DECLARE
    name regclass;
BEGIN
    FOR name IN SELECT c.oid FROM pg_class c
                 WHERE c.relnamespace::regnamespace::text IN ('graphrag', 'graphrag_attached', 'shop') AND c.relkind = 'r' LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', name);
    END LOOP;
END
$$
"""


def fill(connection: Connection, sizes: list[int], rows: bool = True) -> None:
    """Make a corpus of so many tickets, and, with `rows`, as many machines attached: size after size.

    Tables are analyzed after all sizes but the last.
    """
    connection.execute("SET client_min_messages = warning")
    make_roles(connection)
    connection.execute(_TABLES.encode())
    connection.execute("SELECT graphrag.create_corpus(%s)", [CORPUS])
    connection.execute("SELECT graphrag.create_corpus(%s, %s)", [PLAIN, Jsonb({"communities": False})])
    connection.execute("SELECT graphrag.keep_history(%s, %s)", [PLAIN, HISTORY])
    connection.execute(WITHOUT_AUTOVACUUM.encode())
    first = 0
    for size in sizes:
        bounds = {"first": first, "last": size}
        for part in _ROWS.split(";\n"):
            connection.execute(part.encode(), bounds)
        if rows and not first:
            for call in _ATTACHED:
                connection.execute(f"SELECT graphrag.{call}".encode())
        for part in (_TICKETS, _PICTURES, _LETTERS):
            connection.execute(part.encode(), bounds)
        connection.execute("CALL graphrag.process_jobs()")
        # Tables of vectors and of BM25 are made with the first document.
        connection.execute(WITHOUT_AUTOVACUUM.encode())
        if size < sizes[-1]:
            connection.execute("ANALYZE")
        first = size
    for part in _REST:
        connection.execute(part.replace("{size}", str(first)).encode())
    connection.execute("CALL graphrag.process_jobs()")
    connection.execute("SELECT graphrag.protect(%s, %s)", [CORPUS, _CONDITION])
    connection.execute(_READER.format(reader=READER).encode())
