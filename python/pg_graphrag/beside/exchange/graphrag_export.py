"""Writes a corpus as GraphRAG's parquet output (microsoft/graphrag 3, ``graphrag/data_model/schemas.py``).

`human_readable_id` is the number of our row. The id of a chunk is GraphRAG's hash of its text, that of a document its
source key. All other ids are made of names, so they stay the same from one export to the next.
"""

import hashlib
import json
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg

from pg_graphrag.beside.client.graph_items import FOR_ALL_ROWS
from pg_graphrag.beside.exchange.graphrag import parquet
from pg_graphrag.ground.errors import GraphRAGError

# What ids are made with, so that they differ from those of other programs.
_NAMESPACE = uuid.UUID("6f1c2f0e-5d0b-5e0a-9d5c-70675f677261")
_BATCH = 1000

_DOCUMENTS = """
SELECT d.source_key, d.id, coalesce(d.title, d.source_key), d.content,
       ARRAY(SELECT c.id FROM graphrag.chunks c WHERE c.document_id = d.id AND c.picture_id IS NULL ORDER BY c.ordinal),
       coalesce(d.metadata ->> 'creation_date', d.created_at::text)
  FROM graphrag.documents d
 WHERE d.corpus = %(corpus)s AND d.retracted_at IS NULL
 ORDER BY d.id
"""
# Read first, because the other statements return numbers alone. Joined there, these keys would be scanned for each chunk.
_KEYS = """
SELECT e.id, e.key, e.type = 'UNKNOWN'
  FROM graphrag.entities e JOIN graphrag.corpora c ON c.id = e.corpus_id WHERE c.name = %(corpus)s
"""
_ROW_NAMES = """
SELECT n.name_id, n.entity_id
  FROM graphrag._row_names n JOIN graphrag.corpora c ON c.id = n.corpus_id WHERE c.name = %(corpus)s
"""
_ENDS = """
SELECT r.id, r.low_id, r.high_id
  FROM graphrag.relationships r JOIN graphrag.corpora c ON c.id = r.corpus_id WHERE c.name = %(corpus)s
"""
_CLAIMS = """
SELECT k.chunk_id, k.id
  FROM graphrag.claims k JOIN graphrag.documents d ON d.id = k.document_id WHERE d.corpus = %(corpus)s ORDER BY k.id
"""
_MEMBERS = """
SELECT o.id, pg_catalog.array_agg(m.entity_id)
  FROM graphrag.corpora c
  JOIN graphrag.communities o ON o.corpus_id = c.id
  JOIN graphrag.community_members m ON m.community_id = o.id
 WHERE c.name = %(corpus)s
 GROUP BY o.id
"""
# OFFSET 0: no plan pairs all members of a community first.
_WITHIN = """
SELECT o.id, pg_catalog.array_agg(r.id)
  FROM graphrag.corpora c
  JOIN graphrag.communities o ON o.corpus_id = c.id
  JOIN graphrag.community_members l ON l.community_id = o.id
 CROSS JOIN LATERAL (SELECT x.id, x.high_id FROM graphrag.relationships x WHERE x.low_id = l.entity_id OFFSET 0) r
 WHERE c.name = %(corpus)s
   AND EXISTS (SELECT FROM graphrag.community_members h WHERE h.community_id = o.id AND h.entity_id = r.high_id OFFSET 0)
 GROUP BY o.id
"""
# {head}: lines that the importing system had put before a chunk. Texts of pictures are left out: the document's text,
# in which text units are looked up, does not have them.
_TEXT_UNITS = """
SELECT c.id, {head} || c.content, c.token_count, d.source_key,
       ARRAY(SELECT m.entity_id FROM graphrag.entity_mentions m
              WHERE m.chunk_id = c.id AND m.entity_id IS NOT NULL AND {listed}),
       ARRAY(SELECT m.entity_id FROM graphrag.entity_mentions m
              WHERE m.chunk_id = c.id AND m.entity_id IS NOT NULL AND NOT {listed}),
       ARRAY(SELECT m.relationship_id FROM graphrag.relationship_mentions m
              WHERE m.chunk_id = c.id AND m.relationship_id IS NOT NULL ORDER BY 1)
  FROM graphrag.chunks c
  JOIN graphrag.documents d ON d.id = c.document_id
{join}
 WHERE d.corpus = %(corpus)s AND c.picture_id IS NULL
 ORDER BY d.id, c.ordinal
"""
# Mentions made only for a relationship do not describe the entity, unless there are no others.
_LISTED = "(m.type <> 'UNKNOWN' OR m.description <> '' OR m.description IS NULL)"
_ENTITIES = """
WITH given AS (
    SELECT DISTINCT ON (a.entity_id, a.attribute) a.entity_id, a.attribute, a.value
      FROM graphrag.entity_attributes a
     WHERE a.corpus = %(corpus)s
     ORDER BY a.entity_id, a.attribute, a.mention_count DESC, a.value::text COLLATE "C"
), attributes AS MATERIALIZED (
    SELECT g.entity_id, pg_catalog.jsonb_object_agg(g.attribute, g.value)::text AS values FROM given g GROUP BY g.entity_id
)
SELECT n.key, n.entity_id, n.name, n.type, n.description, n.degree, n.origin, a.values
  FROM graphrag.graph_nodes n
  LEFT JOIN attributes a ON a.entity_id = n.entity_id
 WHERE n.corpus = %(corpus)s
 ORDER BY n.entity_id
"""
# A pair has one relationship; statements about a row's name may make two.
_RELATIONSHIPS = """
SELECT x.ids, x.source_id, x.target_id, x.description, x.weight, x.keywords, x.origin
  FROM (SELECT pg_catalog.array_agg(e.relationship_id ORDER BY e.weight DESC, e.relationship_id) AS ids,
               (pg_catalog.array_agg(e.source_id ORDER BY e.weight DESC, e.relationship_id))[1] AS source_id,
               (pg_catalog.array_agg(e.target_id ORDER BY e.weight DESC, e.relationship_id))[1] AS target_id,
               pg_catalog.string_agg(e.description, E'\n' ORDER BY e.weight DESC, e.relationship_id) AS description,
               pg_catalog.sum(e.weight) AS weight,
               pg_catalog.string_agg(nullif(e.keywords, ''), ', ' ORDER BY e.weight DESC, e.relationship_id) AS keywords,
               CASE pg_catalog.count(DISTINCT e.origin) WHEN 1 THEN pg_catalog.min(e.origin) ELSE 'documents, rows' END AS origin
          FROM graphrag.graph_edges e
         WHERE e.corpus = %(corpus)s
         GROUP BY least(e.source_id, e.target_id), greatest(e.source_id, e.target_id)) x
 ORDER BY x.ids[1]
"""
_COVARIATES = """
SELECT k.id, k.type, k.description, k.subject, k.object, k.status, k.start_date, k.end_date, k.source_text, k.chunk_id
  FROM graphrag.claims k
  JOIN graphrag.documents d ON d.id = k.document_id
  JOIN graphrag.chunks c ON c.id = k.chunk_id AND c.picture_id IS NULL
 WHERE d.corpus = %(corpus)s
 ORDER BY k.id
"""

# {report}, {join}: what the table of reports has beside. A community is exported where its overview is shown.
_COMMUNITIES = """
SELECT o.community_id, o.level, coalesce(o.parent_id, -1),
       ARRAY(SELECT x.id FROM graphrag.communities x WHERE x.parent_id = o.community_id ORDER BY x.id),
       pg_catalog.to_char(c.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'), o.size{report}
  FROM graphrag.community_overview o
  JOIN graphrag.communities c ON c.id = o.community_id
{join}
 WHERE o.corpus = %(corpus)s
 ORDER BY o.level, o.community_id
"""
_REPORT = ", r.title, r.summary, r.content, r.rating, r.rating_explanation, r.findings"
_REPORTS = "  JOIN graphrag.community_reports r ON r.community_id = o.community_id"

_SCHEMAS = {
    "documents": "id human_readable_id title text text_unit_ids creation_date raw_data",
    "text_units": "id human_readable_id text n_tokens document_id entity_ids relationship_ids covariate_ids",
    "entities": "id human_readable_id title type description text_unit_ids frequency degree",
    "relationships": "id human_readable_id source target description weight combined_degree text_unit_ids",
    "covariates": "id human_readable_id covariate_type type description subject_id object_id status start_date end_date"
    " source_text text_unit_id",
    "communities": "id human_readable_id community level parent children title entity_ids relationship_ids text_unit_ids period"
    " size",
    "community_reports": "id human_readable_id community level parent children title summary full_content rank"
    " rating_explanation findings full_content_json period size",
}
# Behind GraphRAG's own columns, of a corpus to which rows are attached.
_OF_ROWS = {"entities": "origin attributes", "relationships": "keywords origin"}
_HAS_ROWS = """
SELECT EXISTS (SELECT FROM graphrag.graph_nodes n WHERE n.corpus = %(corpus)s AND n.origin IN ('rows', 'documents, rows'))
"""
_INTEGERS = {
    "human_readable_id",
    "n_tokens",
    "frequency",
    "degree",
    "combined_degree",
    "community",
    "level",
    "parent",
    "size",
}
_LISTS = {"text_unit_ids", "entity_ids", "relationship_ids", "covariate_ids"}


class Export:
    """One export: all tables from one snapshot, as far as the caller may see."""

    def __init__(self, connection: psycopg.Connection[Any], corpus: str, folder: Path):
        self._connection = connection
        self._corpus = corpus
        self._folder = folder
        # Ids of chunks, by their numbers: what all other tables name them by.
        self._units: dict[int, str] = {}
        # Keys of entities, and the entities that nothing but relationships names.
        self._keys: dict[int, str] = {}
        self._unknown: set[int] = set()
        # The own entity of a row, by the entities that are its names.
        self._own: dict[int, int] = {}
        # Key, name and degree of entities.
        self._nodes: dict[int, tuple[str, str, int]] = {}
        # Keys of the ends of relationships, without those between names of one row.
        self._pairs: dict[int, tuple[str, str]] = {}
        # Chunks that list an entity, that name it otherwise, and that state a relationship.
        self._listed: dict[int, list[int]] = defaultdict(list)
        self._named: dict[int, list[int]] = defaultdict(list)
        self._stated: dict[int, list[int]] = defaultdict(list)
        # Claims of a chunk, members of a community and relationships within it.
        self._claims: dict[int, list[int]] = defaultdict(list)
        self._members: dict[int, list[int]] = {}
        self._within: dict[int, list[int]] = {}
        self._has_rows = False

    def write(self) -> dict[str, int]:
        """Write all tables; return how many rows each has.

        Raises GraphRAGError: 42704 for an unknown corpus, 58P01 without pyarrow.
        """
        parquet()
        with self._connection.transaction():
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            self._connection.execute(FOR_ALL_ROWS)
            if self._connection.execute("SELECT FROM graphrag.corpora WHERE name = %s", [self._corpus]).rowcount == 0:
                raise GraphRAGError(
                    f'corpus "{self._corpus}" does not exist',
                    sqlstate="42704",
                    hint="SELECT name FROM graphrag.corpora lists the corpora.",
                )
            self._has_rows = bool(
                (self._connection.execute(_HAS_ROWS, {"corpus": self._corpus}).fetchone() or (False,))[0]
            )
            self._read_graph()
            self._folder.mkdir(parents=True, exist_ok=True)
            # Chunks first: their ids are in all the others.
            return {
                "text_units": self._table("text_units", self._text_units(), self._text_unit),
                "documents": self._table("documents", _DOCUMENTS, self._document),
                "entities": self._table("entities", _ENTITIES, self._entity),
                "relationships": self._table("relationships", _RELATIONSHIPS, self._relationship),
                "covariates": self._table("covariates", _COVARIATES, self._covariate),
                "communities": self._table("communities", _COMMUNITIES.format(report="", join=""), self._community),
                "community_reports": self._table(
                    "community_reports", _COMMUNITIES.format(report=_REPORT, join=_REPORTS), self._report
                ),
            }

    def _read_graph(self) -> None:
        for batch in self._batches(_ROW_NAMES):
            self._own.update(batch)
        for batch in self._batches(_KEYS):
            self._keys.update((number, key) for number, key, _ in batch)
            self._unknown.update(number for number, _, is_unknown in batch if is_unknown)
        for batch in self._batches(_ENDS):
            for number, *ends in batch:
                low, high = (self._keys[self._own.get(end, end)] for end in ends)
                if low != high:
                    self._pairs[number] = (min(low, high), max(low, high))
        for batch in self._batches(_CLAIMS):
            for chunk, claim in batch:
                self._claims[chunk].append(claim)
        for batch in self._batches(_MEMBERS):
            self._members.update(batch)
        for batch in self._batches(_WITHIN):
            self._within.update(batch)

    def _table(self, name: str, query: str, row_of: Callable[..., Sequence[Any]]) -> int:
        """Write a table batch by batch; it appears when it is whole."""
        pq = parquet()
        import pyarrow as pa

        columns = _SCHEMAS[name].split() + (_OF_ROWS.get(name, "").split() if self._has_rows else [])
        schema = pa.schema([(column, _type(pa, column)) for column in columns])
        path = self._folder / f"{name}.parquet"
        part = path.with_name(f".{path.name}.part")
        count = 0
        try:
            with pq.ParquetWriter(part, schema) as writer:
                for batch in self._batches(query):
                    rows = [row_of(*row)[: len(columns)] for row in batch]
                    count += len(rows)
                    arrays = [
                        pa.array(column, field.type)
                        for column, field in zip(zip(*rows, strict=True), schema, strict=True)
                    ]
                    writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        return count

    def _batches(self, query: str) -> Iterator[list[tuple[Any, ...]]]:
        with self._connection.cursor("graphrag_export", row_factory=psycopg.rows.tuple_row) as cursor:
            cursor.execute(query, {"corpus": self._corpus})
            while batch := cursor.fetchmany(_BATCH):
                yield batch

    def _text_units(self) -> str:
        row = self._connection.execute(
            "SELECT pg_catalog.has_table_privilege('graphrag.imported_extractions', 'SELECT')"
        ).fetchone()
        join = "  LEFT JOIN graphrag.imported_extractions i ON i.document_id = d.id"
        head = "coalesce(i.chunks -> c.ordinal ->> 'head', '')"
        if row is None or not row[0]:
            join, head = "", "''"
        return _TEXT_UNITS.format(head=head, join=join, listed=_LISTED)

    def _text_unit(
        self,
        number: int,
        text: str,
        tokens: int,
        document: str,
        listed: list[int],
        others: list[int],
        relationships: list[int],
    ) -> Sequence[Any]:
        name = self._units[number] = hashlib.sha512(text.encode()).hexdigest()
        own, other = self._owners(listed), self._owners(others)
        for chunks, items in ((self._listed, own), (self._named, other), (self._stated, relationships)):
            for item in items:
                chunks[item].append(number)
        entity_ids = [self._id("entity", self._keys[entity]) for entity in sorted(own | other & self._unknown)]
        pairs = dict.fromkeys(self._pairs[item] for item in relationships if item in self._pairs)
        relationship_ids = [self._id("relationship", *pair) for pair in pairs]
        claim_ids = [self._id("claim", str(claim)) for claim in self._claims[number]]
        return name, number, text, tokens, document, entity_ids, relationship_ids, claim_ids

    def _document(
        self, source_key: str, number: int, title: str, content: str, chunks: list[int], created_at: str
    ) -> Sequence[Any]:
        return source_key, number, title, content, self._names(chunks), created_at, None

    def _entity(
        self, key: str, number: int, name: str, type_: str, description: str, degree: int, *more: Any
    ) -> Sequence[Any]:
        self._nodes[number] = (key, name, degree)
        units = self._names(sorted(self._listed[number] or self._named[number]))
        return self._id("entity", key), number, name, type_.upper(), description, units, len(units), degree, *more

    def _relationship(
        self, numbers: list[int], source: int, target: int, description: str, weight: float, *more: Any
    ) -> Sequence[Any]:
        (source_key, source_name, source_degree), (target_key, target_name, target_degree) = (
            self._nodes[end] for end in (source, target)
        )
        head = self._id("relationship", *sorted((source_key, target_key))), numbers[0], source_name, target_name
        return *head, description, weight, source_degree + target_degree, self._names(self._chunks_of(numbers)), *more

    def _covariate(
        self, number: int, type_: str, description: str, subject: str, object_: str | None, *rest: Any
    ) -> Any:
        status, start, end, source_text, chunk = rest
        dates = start or "NONE", end or "NONE"
        head = self._id("claim", str(number)), number, "claim", type_.upper(), description
        return *head, subject, object_ or "NONE", status, *dates, source_text, self._units[chunk]

    def _community(
        self, number: int, level: int, parent: int, children: list[int], period: str, size: int
    ) -> Sequence[Any]:
        members = sorted(self._owners(self._members.get(number, [])))
        entities = [self._id("entity", self._keys[entity]) for entity in members]
        within = [relationship for relationship in self._within.get(number, ()) if relationship in self._pairs]
        pairs = sorted({self._pairs[relationship] for relationship in within})
        relationships = [self._id("relationship", *pair) for pair in pairs]
        head = self._id("community", str(number)), number, number, level, parent, children, f"Community {number}"
        return (*head, entities, relationships, self._names(self._chunks_of(within)), period, size)

    def _report(
        self, number: int, level: int, parent: int, children: list[int], period: str, size: int, *report: Any
    ) -> Sequence[Any]:
        title, summary, content, rating, explanation, raw_findings = report
        findings = [{"summary": finding["summary"], "explanation": finding["explanation"]} for finding in raw_findings]
        fields = {
            "title": title,
            "summary": summary,
            "findings": findings,
            "rating": rating,
            "rating_explanation": explanation,
        }
        text = json.dumps(fields, ensure_ascii=False, indent=4)
        head = self._id("report", str(number)), number, number, level, parent, children
        return *head, title, summary, content, rating, explanation, findings, text, period, size

    def _owners(self, entities: list[int]) -> set[int]:
        return {self._own.get(entity, entity) for entity in entities}

    def _chunks_of(self, relationships: list[int]) -> list[int]:
        return sorted({chunk for relationship in relationships for chunk in self._stated[relationship]})

    def _names(self, chunks: Sequence[int]) -> list[str]:
        return [self._units[chunk] for chunk in chunks]

    def _id(self, kind: str, *names: str) -> str:
        return str(uuid.uuid5(_NAMESPACE, "\0".join((self._corpus, kind, *names))))


def _type(pa: Any, column: str) -> Any:
    if column in _INTEGERS:
        return pa.int64()
    if column in _LISTS:
        return pa.list_(pa.string())
    if column == "children":
        return pa.list_(pa.int64())
    if column == "findings":
        return pa.list_(pa.struct([("explanation", pa.string()), ("summary", pa.string())]))
    if column == "raw_data":
        return pa.null()
    return pa.float64() if column in ("weight", "rank") else pa.string()
