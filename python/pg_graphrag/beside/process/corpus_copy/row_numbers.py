"""Which columns hold row numbers, and of which table: a copy replaces them by numbers of the target."""

from dataclasses import dataclass, field

from pg_graphrag.ground.numeric import Ids, np

# By column name, whichever table has it; `id` is the table's own number.
_OF_TABLE = {
    "batch_id": "llm_batches",
    "call_id": "llm_calls",
    "chunk_id": "chunks",
    "community_id": "communities",
    "corpus_id": "corpora",
    "curation_id": "curations",
    "document_id": "documents",
    "entity_id": "entities",
    "high_id": "entities",
    "history_id": "corpora",
    "low_id": "entities",
    "name_id": "entities",
    "parent_id": "communities",
    "picture_id": "pictures",
    "relationship_id": "relationships",
    "segment_id": "bm25_segments",
    "source_id": "entities",
    "space_id": "embedding_spaces",
    "target_id": "entities",
    "version_of": "documents",
    "window_id": "chunk_windows",
}
_OF_COLUMN = {
    ("entity_mention_vectors", "mention_id"): "entity_mentions",
    ("relationship_mention_vectors", "mention_id"): "relationship_mentions",
}
# Items of BM25, by the kind that their row says.
ITEMS = {"chunk": "chunks", "entity_mention": "entity_mentions", "relationship_mention": "relationship_mentions"}
_ITEM_COLUMNS = {("bm25_tail", "item_id"), ("bm25_tombstones", "item_id")}
# In reports: lists within each finding.
FINDINGS = ("community_reports", "findings")
FINDING_LISTS = {"entity_ids": "entities", "relationship_ids": "relationships", "chunk_ids": "chunks"}
# Packed ones, which SQL does not read: of segments items and documents, of states of communities the ends of edges.
PACKED = {("bm25_segments", "item_ids"), ("bm25_segments", "document_ids"), ("community_states", "edges")}


def domain_of(table: str, column: str) -> str | None:
    """Return the table whose rows a column numbers, both without schema; None where it holds no numbers, or `holds_many`."""
    if column == "id":
        return table
    return _OF_COLUMN.get((table, column)) or _OF_TABLE.get(column)


def holds_many(table: str, column: str) -> bool:
    """Whether a column holds numbers of more than one table, or several."""
    return (table, column) in _ITEM_COLUMNS | PACKED | {FINDINGS}


def scalars(table: str, column: str) -> list[tuple[str, str]]:
    """Return (table, SQL of the numbers of its rows) of a column of the row `x`, which may be a set; none of packed ones."""
    if (table, column) in _ITEM_COLUMNS:
        return [(domain, f"CASE WHEN x.kind = '{kind}' THEN x.{column} END") for kind, domain in ITEMS.items()]
    if (table, column) == FINDINGS:
        return [
            (domain, f"(SELECT {{bound}}(n.value::bigint) FROM {_listed('x.' + column, name)} AS n (value))")
            for name, domain in FINDING_LISTS.items()
        ]
    domain = domain_of(table, column)
    return [] if domain is None else [(domain, f'x."{column}"')]


def _listed(findings: str, name: str) -> str:
    return (
        f"pg_catalog.jsonb_array_elements({findings}) AS f (finding)"
        f" CROSS JOIN LATERAL pg_catalog.jsonb_array_elements_text(f.finding -> '{name}')"
    )


@dataclass
class Renumbering:
    """The numbers that rows get: of a table `shifts` (by how much, so that their order stays), or `maps` (each by itself)."""

    shifts: dict[str, int] = field(default_factory=dict)
    maps: dict[str, dict[int, int]] = field(default_factory=dict)
    # By table: the highest number of the source below the reserved ones.
    highest: dict[str, int] = field(default_factory=dict)

    def number(self, domain: str, expression: str) -> str:
        """Return SQL of the number that a row of a table gets; null for rows that do not come along."""
        if (mapping := self.maps.get(domain)) is not None:
            cases = " ".join(f"WHEN {old} THEN {new}" for old, new in mapping.items())
            return f"CASE {expression} {cases} END" if mapping else "NULL::int"
        return f"{expression} + {self.shifts[domain]}::bigint" if domain in self.shifts else "NULL::bigint"

    def column(self, table: str, column: str) -> str:
        """Return SQL of the value that a column of the row `x` has in the copy; not for packed columns."""
        if (table, column) in _ITEM_COLUMNS:
            cases = " ".join(f"WHEN '{kind}' THEN {self.number(ITEMS[kind], f'x.{column}')}" for kind in ITEMS)
            return f"CASE x.kind {cases} END"
        if (table, column) == FINDINGS:
            return self._findings(f"x.{column}")
        domain = domain_of(table, column)
        return f'x."{column}"' if domain is None else self.number(domain, f'x."{column}"')

    def _findings(self, findings: str) -> str:
        lists = " || ".join(
            f"CASE WHEN f.finding ? '{name}' THEN pg_catalog.jsonb_build_object('{name}', (SELECT coalesce(pg_catalog.jsonb_agg("
            f"{self.number(domain, 'n.value::bigint')} ORDER BY n.place), '[]') FROM pg_catalog.jsonb_array_elements_text("
            f"f.finding -> '{name}') WITH ORDINALITY AS n (value, place))) ELSE '{{}}' END"
            for name, domain in FINDING_LISTS.items()
        )
        return (
            f"(SELECT coalesce(pg_catalog.jsonb_agg(f.finding || {lists} ORDER BY f.place), '[]')"
            f" FROM pg_catalog.jsonb_array_elements({findings}) WITH ORDINALITY AS f (finding, place))"
        )


def int64s(packed: bytes) -> Ids:
    """Return the numbers of a packed column."""
    return np.frombuffer(packed, "<i8")


def edge_ends(edges: bytes, edge_count: int) -> bytes:
    """Return the part of packed edges that is numbers: of each its two ends, before the shares."""
    return edges[: 16 * edge_count]


def shifted(packed: bytes, by: int) -> bytes:
    """Return the numbers of a packed column, each increased by `offset`."""
    return (int64s(packed) + by).astype("<i8").tobytes()
