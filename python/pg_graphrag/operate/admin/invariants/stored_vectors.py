"""Every window, described mention and name that the active space's model embeds has its vector; no space has others."""

from collections.abc import Iterator

from pg_graphrag.index.indexing.item_vectors import SOURCES
from pg_graphrag.index.indexing.reembed import unembedded
from pg_graphrag.operate.admin.invariants.violations import violations
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus
from pg_graphrag.server.corpus.options import LOCAL_MODELS
from pg_graphrag.server.corpus.spaces import Space, of_state, spaces

_ORPHANS = """
SELECT pg_catalog.format('vector of %s %s', '{name}', v.{number}) AS object,
       CASE WHEN x.id IS NULL THEN 'is of nothing' ELSE 'is there twice, or of the wrong size or place' END AS detail
  FROM (SELECT v.*, pg_catalog.count(*) OVER (PARTITION BY v.{number}) AS copies
          -- OFFSET 0: or whole vectors are sorted.
          FROM (SELECT v.{columns}, v.space_id, {vector}.vector_dims(v.embedding) AS dimensions FROM {table} v OFFSET 0) v) v
  LEFT JOIN graphrag.{source} x ON x.id = v.{number}{only}
 WHERE x.id IS NULL OR v.copies > 1 OR v.space_id <> $1 OR v.dimensions <> $2{other}
"""
_LEFT = """
SELECT 'graphrag.{kind}_vectors' AS object, pg_catalog.format('has vectors of space %s, which has its own table', $1) AS detail
 WHERE EXISTS (SELECT FROM ONLY graphrag.{kind}_vectors v WHERE v.space_id = $1)
"""


_LENGTHS = """
SELECT pg_catalog.format('vector of %s %s', '{name}', v.{number}) AS object,
       pg_catalog.format('has the length %s', {vector}.vector_norm(v.embedding)) AS detail
  FROM {table} v
 WHERE {vector}.vector_norm(v.embedding) NOT BETWEEN 0.99 AND 1.01
"""
_REPORTS = """
SELECT pg_catalog.format('vector of the report on community %s', v.community_id) AS object,
       CASE WHEN r.corpus_id IS DISTINCT FROM $1 THEN 'is of no report of the corpus'
            ELSE 'is of the wrong size or length' END AS detail
  FROM graphrag.report_vectors v
  LEFT JOIN graphrag.community_reports r ON r.community_id = v.community_id
 WHERE v.space_id = $2
   AND (r.corpus_id IS DISTINCT FROM $1 OR {vector}.vector_dims(v.embedding) <> $3
        OR {vector}.vector_norm(v.embedding) NOT BETWEEN 0.99 AND 1.01)
"""
_UNKNOWN = """
SELECT pg_catalog.format('embedding space %s', s.id) AS object,
       pg_catalog.format('is of model "%s" of provider "%s", which does not exist', s.model, s.provider) AS detail
  FROM graphrag.embedding_spaces s
 WHERE s.corpus_id = $1
   AND CASE WHEN s.provider = 'local' THEN s.model <> ALL ($2)
            ELSE NOT EXISTS (SELECT FROM graphrag.providers p WHERE p.name = s.provider) END
"""


def check(db: Database, corpus: Corpus) -> Iterator[tuple[str, Iterator[tuple[str, str]]]]:
    """Yield each invariant with its violations."""
    all_spaces = spaces(db, corpus.id)
    active = of_state(all_spaces, "active")
    yield "a corpus with chunks has an embedding space with its tables", _space(db, corpus, all_spaces, active)
    yield (
        "an embedding space has its model",
        violations(db, _UNKNOWN, ["int4", "text[]"], [corpus.id, list(LOCAL_MODELS)]),
    )
    for space in all_spaces:
        for kind in SOURCES:
            if space.state == "retired" or not _exists(db, kind, space):
                continue
            if space is active:
                yield "everything that is searched has a vector", _without_vector(db, corpus, space, kind)
            yield "every vector is of something", _orphans(db, space, kind)
            yield (
                "every vector has the length 1",
                violations(db, _LENGTHS.format(vector=_vector(db), **_names(kind, space)), [], []),
            )
        yield (
            "a vector of a report is of one",
            violations(
                db,
                _REPORTS.format(vector=_vector(db)),
                ["int4", "int4", "int4"],
                [corpus.id, space.id, space.embedding.dimensions],
            ),
        )


def _exists(db: Database, kind: str, space: Space) -> bool:
    return bool(db.value("SELECT pg_catalog.to_regclass($1) IS NOT NULL", ["text"], [space.target(kind)]))


def _space(db: Database, corpus: Corpus, all_spaces: list[Space], active: Space | None) -> Iterator[tuple[str, str]]:
    if active is None and db.query("SELECT FROM graphrag.chunks WHERE corpus_id = $1 LIMIT 1", ["int4"], [corpus.id]):
        yield f"corpus {corpus.id}", "has chunks and no active embedding space"
    for space in all_spaces:
        for kind in SOURCES:
            if not _exists(db, kind, space):
                yield space.target(kind), "is missing"
            if space.own_tables:
                yield from violations(db, _LEFT.format(kind=kind), ["int4"], [space.id])


def _names(kind: str, space: Space) -> dict[str, str]:
    return {
        "name": kind.replace("_", " "),
        "source": SOURCES[kind],
        "table": space.rows(kind),
        "number": "entity_id" if kind == "entity" else f"{kind.split('_')[-1]}_id",
        "only": " AND x.tsv IS NOT NULL" if kind.endswith("mention") else "",
    }


def _without_vector(db: Database, corpus: Corpus, space: Space, kind: str) -> Iterator[tuple[str, str]]:
    # While an endpoint for vectors fails, a text is searchable without, and its job still to be done.
    for number in unembedded(db, corpus, space, kind, only_indexed=kind == "window"):
        yield f"{kind.replace('_', ' ')} {number}", "has no vector"


def _vector(db: Database) -> str:
    """Return the schema of pgvector."""
    return db.vector_type.rsplit(".", 1)[0]


def _orphans(db: Database, space: Space, kind: str) -> Iterator[tuple[str, str]]:
    names = _names(kind, space)
    columns, other_chunk = names["number"], ""
    if kind != "entity":
        columns += ", v.chunk_id, v.document_id"
        other_chunk = " OR (v.chunk_id, v.document_id) <> (x.chunk_id, x.document_id)"
    sql = _ORPHANS.format(columns=columns, other=other_chunk, vector=_vector(db), **names)
    return violations(db, sql, ["int4", "int4"], [space.id, space.embedding.dimensions])
