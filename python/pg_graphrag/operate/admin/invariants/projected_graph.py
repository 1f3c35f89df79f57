"""The Apache AGE projection equals the tables: what graphrag._project() makes, compared row by row."""

from collections.abc import Iterator

from pg_graphrag.index.graph.cypher import flaw_of_graph
from pg_graphrag.operate.admin.invariants.violations import violations
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus

MENDS = "graphrag.rebuild_graph() makes the graph anew"
# Labels in the order in which _ensure_graph() makes them; AGE numbers them from 3.
_LABELS = ("Entity", "Chunk", "Document", "RELATED", "MENTIONED_IN", "PART_OF")

# The rows each label should have, as 110_project.sql makes them: (id, start_id, end_id, properties); ids without their label.
# A change of a waiting document (changed, renamed or removed) appears when its job is done.
_MAP = "ag_catalog.agtype_build_map"
_EXPECTED = {
    "Entity": f"""
        SELECT e.id, NULL::bigint AS start_id, NULL::bigint AS end_id,
               {_MAP}_nonull('entity_id', e.id, 'key', e.key, 'name', e.name, 'type', e.type, 'description', e.description,
                             'degree', e.degree,
                             'attributes', graphrag._graph_attributes(a.attributes)::text::ag_catalog.agtype) AS properties
          FROM graphrag.entities e
          LEFT JOIN (SELECT v.entity_id, pg_catalog.jsonb_object_agg(v.key, v.value::jsonb) AS attributes
                       FROM (SELECT x.entity_id, x.key,
                                    pg_catalog.mode() WITHIN GROUP (ORDER BY x.value::text COLLATE "C") AS value
                               FROM (SELECT DISTINCT m.entity_id, m.chunk_id, a.key, a.value
                                       FROM graphrag.entity_mentions m
                                      CROSS JOIN LATERAL pg_catalog.jsonb_each(m.attributes) a
                                      WHERE m.corpus_id = $1 AND m.attributes IS NOT NULL) x (entity_id, chunk_id, key, value)
                              GROUP BY x.entity_id, x.key) v
                      GROUP BY v.entity_id) a ON a.entity_id = e.id
         WHERE e.corpus_id = $1""",
    "Chunk": f"""
        SELECT c.id, NULL::bigint AS start_id, NULL::bigint AS end_id,
               {_MAP}('chunk_id', c.id, 'document_id', c.document_id, 'ordinal', c.ordinal) AS properties
          FROM graphrag.chunks c WHERE c.corpus_id = $1""",
    "Document": f"""
        SELECT d.id, NULL::bigint AS start_id, NULL::bigint AS end_id,
               {_MAP}_nonull('document_id', d.id, 'source_key', d.source_key, 'title', d.title) AS properties
          FROM graphrag.documents d WHERE d.corpus_id = $1 AND d.indexed_at IS NOT NULL""",
    "RELATED": f"""
        SELECT 2 * r.id + b.back AS id, CASE b.back WHEN 0 THEN r.low_id ELSE r.high_id END AS start_id,
               CASE b.back WHEN 0 THEN r.high_id ELSE r.low_id END AS end_id,
               {_MAP}('relationship_id', r.id, 'weight', r.weight, 'keywords', r.keywords, 'description', r.description)
                   AS properties
          FROM graphrag.relationships r CROSS JOIN (VALUES (0), (1)) AS b (back) WHERE r.corpus_id = $1""",
    "MENTIONED_IN": f"""
        SELECT m.id, m.entity_id AS start_id, m.chunk_id AS end_id, {_MAP}('mention_id', m.id, 'tf', m.tf) AS properties
          FROM graphrag.entity_mentions m WHERE m.corpus_id = $1 AND m.entity_id IS NOT NULL""",
    "PART_OF": f"""
        SELECT c.id, c.id AS start_id, c.document_id AS end_id, {_MAP}() AS properties
          FROM graphrag.chunks c WHERE c.corpus_id = $1""",
}
_ENDS = {"RELATED": ("Entity", "Entity"), "MENTIONED_IN": ("Entity", "Chunk"), "PART_OF": ("Chunk", "Document")}

_COMPARE = """
SELECT pg_catalog.format('%s %s', '{label}', coalesce(s.id, v.id & 281474976710655)) AS object,
       CASE WHEN v.id IS NULL THEN 'is not in the graph'
            WHEN s.id IS NULL THEN 'is in the graph, and not in the tables'
            WHEN {moved} THEN pg_catalog.format('goes from %s to %s, should from %s to %s',
                                                v.start_id, v.end_id, {start} + s.start_id, {end} + s.end_id)
            ELSE pg_catalog.left(pg_catalog.format('has the properties %s, should have %s', v.properties, s.properties), 1000)
            END || '; {mends}' AS detail
  FROM ({expected}) s
  FULL JOIN (SELECT x.id::ag_catalog.agtype::bigint AS id, {ends}, x.properties FROM {graph}."{label}" x) v
    ON v.id = {number} + s.id
 WHERE v.id IS NULL OR s.id IS NULL AND NOT {waits} OR {moved}
    OR s.id IS NOT NULL AND pg_catalog.record_image_ne(ROW (v.properties), ROW (s.properties))
"""
# Until its job is done, the graph has the old version of a document.
_JOB = "EXISTS (SELECT FROM graphrag.jobs j WHERE j.document_id = v.id & 281474976710655 AND j.chunks {}"
# Each by its index.
_WAITS = (
    f"({_JOB.format('IS NULL)')} OR {_JOB.format('IS NOT NULL)')}"
    " OR EXISTS (SELECT FROM graphrag.jobs j WHERE j.corpus_id = $1 AND j.kind = 'sweep'))"
)
_REGISTERED = """
SELECT l.name::text AS label, l.id, l.relation = c.oid AS same
  FROM ag_catalog.ag_graph g
  JOIN ag_catalog.ag_label l ON l.graph = g.graphid
  JOIN pg_catalog.pg_namespace n ON n.oid = g.namespace AND n.nspname = g.name
  JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = l.name
 WHERE g.name = $1 AND l.id > 2
"""
# From the tables, as everything else: to_regclass() would see a graph that was made after this snapshot.
_EXISTING = """
SELECT c.relname::text AS label
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = $1 AND c.relname = ANY ($2)
"""
_UNWANTED = """
SELECT pg_catalog.format('graph graphrag_%s', g.corpus_id) AS object,
       'is there, though the option cypher is false; graphrag.rebuild_graph() drops it' AS detail
  FROM graphrag._graphs g WHERE g.corpus_id = $1
"""


def check(db: Database, corpus: Corpus) -> Iterator[tuple[str, Iterator[tuple[str, str]]]]:
    """Yield each invariant with its violations."""
    if not corpus.options.cypher:
        yield "a corpus without Cypher has no graph", violations(db, _UNWANTED, ["int4"], [corpus.id])
        return
    existing = {row["label"] for row in db.query(_EXISTING, ["text", "text[]"], [corpus.graph_name, list(_LABELS)])}
    exists, flaw = flaw_of_graph(db, corpus)
    yield "the corpus has its graph", _check_registration(db, corpus, existing, flaw)
    for label in _LABELS:
        # Code in a graph of somebody else must not run.
        if exists and flaw is None and label in existing:
            yield "the graph is what the tables are", violations(db, _compare(corpus, label), ["int4"], [corpus.id])


def _compare(corpus: Corpus, label: str) -> str:
    number = {name: f"{place << 48}" for place, name in enumerate(_LABELS, start=3)}
    start, end = (number[end_label] for end_label in _ENDS.get(label, ("Entity", "Entity")))
    ends = ", ".join(
        f"x.{name}::ag_catalog.agtype::bigint AS {name}" if label in _ENDS else f"NULL::bigint AS {name}"
        for name in ("start_id", "end_id")
    )
    is_elsewhere = (
        f"((v.start_id, v.end_id) <> ({start} + s.start_id, {end} + s.end_id))" if label in _ENDS else "false"
    )
    return _COMPARE.format(
        label=label,
        expected=_EXPECTED[label],
        graph=corpus.graph_name,
        number=number[label],
        start=start,
        end=end,
        ends=ends,
        moved=is_elsewhere,
        waits=_WAITS if label == "Document" else "false",
        mends=MENDS,
    )


def _check_registration(
    db: Database, corpus: Corpus, existing: set[str], flaw: str | None
) -> Iterator[tuple[str, str]]:
    if flaw is not None:
        yield f"graph {corpus.graph_name}", f"{flaw}; {MENDS}"
        return
    if not existing and not db.query("SELECT FROM graphrag.chunks WHERE corpus_id = $1 LIMIT 1", ["int4"], [corpus.id]):
        return
    if not existing:
        yield f"graph {corpus.graph_name}", f"is missing; {MENDS}"
        return
    registered = {row["label"]: row for row in db.query(_REGISTERED, ["text"], [corpus.graph_name])}
    for number, label in enumerate(_LABELS, start=3):
        row = registered.get(label)
        if label not in existing:
            yield f"label {label}", f"is missing; {MENDS}"
        elif row is None or row["id"] != number or not row["same"]:
            yield f"label {label}", f"is not registered with Apache AGE as it should be; {MENDS}"
