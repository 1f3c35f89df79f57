"""The canonical form of a corpus: everything made of its documents and curations, without ids, vectors, times and
communities.
"""

import hashlib
from collections.abc import Iterator

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.index.bm25.index import KINDS
from pg_graphrag.index.graph.cypher import has_graph
from pg_graphrag.operate.admin.invariants.bm25_postings import entries, statistics
from pg_graphrag.server import Database, Rows
from pg_graphrag.server.corpus.corpora import Corpus, find_corpus

# Rows fetched at a time.
_FETCH = 1000
_CHUNKS = "graphrag.chunks c LEFT JOIN graphrag.documents d ON d.id = c.document_id"
_PAIR = (
    "graphrag.relationships r JOIN graphrag.entities l ON l.id = r.low_id JOIN graphrag.entities h ON h.id = r.high_id"
)

# One row of a section each, its values as a row's text. Rows have no order: digests are sorted.
_SECTIONS = {
    "documents": """
        SELECT ROW (d.source_key, d.title, graphrag._content_hash(d.title, d.content), d.indexed_hash = d.content_hash, d.status,
                    d.metadata,
                    pg_catalog.date_part('epoch', d.valid_from), pg_catalog.date_part('epoch', d.valid_to),
                    pg_catalog.date_part('epoch', d.retracted_at), d.retraction_reason)::text AS line
          FROM graphrag.documents d WHERE d.corpus_id = $1""",
    "chunks": f"""
        SELECT ROW (d.source_key, c.ordinal, c.start_offset, c.own_offset, c.end_offset, c.language, c.token_count,
                    c.extraction, c.unfit, c.concepts, c.section, c.page, c.content)::text AS line
          FROM {_CHUNKS} WHERE c.corpus_id = $1""",
    "windows": f"""
        SELECT ROW (d.source_key, c.ordinal, w.ordinal, w.start_offset, w.end_offset)::text AS line
          FROM {_CHUNKS} JOIN graphrag.chunk_windows w ON w.chunk_id = c.id WHERE c.corpus_id = $1""",
    "terms": f"""
        SELECT ROW (d.source_key, c.ordinal, c.tsv, c.tf_overflow)::text AS line
          FROM {_CHUNKS} WHERE c.corpus_id = $1""",
    "entity mentions": f"""
        SELECT ROW (d.source_key, c.ordinal, e.key, m.raw_key, m.name, m.type, m.description, m.tf, m.evidence_rank,
                    m.start_offset, m.end_offset, m.windows, m.tsv, m.attributes, m.name_of)::text AS line
          FROM {_CHUNKS} JOIN graphrag.entity_mentions m ON m.chunk_id = c.id
          LEFT JOIN graphrag.entities e ON e.id = m.entity_id WHERE c.corpus_id = $1""",
    "relationship mentions": f"""
        SELECT ROW (d.source_key, c.ordinal, CASE WHEN m.forward THEN l.key ELSE h.key END,
                    CASE WHEN m.forward THEN h.key ELSE l.key END, m.source_key, m.target_key, m.keywords, m.description,
                    m.weight, m.evidence_rank, m.start_offset, m.end_offset, m.windows, m.tsv)::text AS line
          FROM {_CHUNKS} JOIN graphrag.relationship_mentions m ON m.chunk_id = c.id
          LEFT JOIN ({_PAIR}) ON r.id = m.relationship_id WHERE c.corpus_id = $1""",
    "entities": """
        SELECT ROW (e.key, e.name, e.type, e.degree, e.mention_count, e.evidence_rank, e.summary_of, e.summary_due,
                    e.curated, e.description)::text AS line
          FROM graphrag.entities e WHERE e.corpus_id = $1""",
    "entity values": """
        SELECT ROW (e.key, v.kind, v.count, v.tokens, v.value)::text AS line
          FROM graphrag.entities e JOIN graphrag.entity_values v ON v.entity_id = e.id WHERE e.corpus_id = $1""",
    "relationships": f"""
        SELECT ROW (CASE r.source_id WHEN r.low_id THEN l.key ELSE h.key END,
                    CASE r.source_id WHEN r.low_id THEN h.key ELSE l.key END,
                    CASE WHEN l.key < h.key THEN r.direction ELSE - r.direction END, r.weight, r.mention_count,
                    r.evidence_rank, r.summary_of, r.summary_due, r.curated, r.keywords, r.description)::text AS line
          FROM {_PAIR} WHERE r.corpus_id = $1""",
    "relationship values": f"""
        SELECT ROW (least(l.key, h.key), greatest(l.key, h.key), v.kind, v.count, v.tokens, v.value)::text AS line
          FROM {_PAIR} JOIN graphrag.relationship_values v ON v.relationship_id = r.id WHERE r.corpus_id = $1""",
    "aliases": """
        SELECT ROW (a.key, a.entity_key, a.renamed)::text AS line FROM graphrag.aliases a WHERE a.corpus_id = $1""",
    "curated": """
        SELECT ROW (x.effect, x.key, x.other_key, x.entity_key, x.other_entity_key, x.forward, x.own, x.value)::text AS line
          FROM graphrag.curated x WHERE x.corpus_id = $1""",
    "claims": f"""
        SELECT ROW (d.source_key, c.ordinal, x.subject_key, x.object_key, x.subject, x.object, x.type, x.status,
                    x.start_date, x.end_date, x.description, x.source_text)::text AS line
          FROM {_CHUNKS} JOIN graphrag.claims x ON x.chunk_id = c.id WHERE c.corpus_id = $1""",
}


def _property(vertex: str, name: str) -> str:
    return f"ag_catalog.agtype_object_field({vertex}.properties, '{name}')"


def _properties(vertex: str, *names: str) -> str:
    return ", ".join(_property(vertex, name) for name in names)


# Read back from Apache AGE: an edge by the keys of its ends. AGE's ids are compared as numbers, whatever the search_path.
_GRAPH = {
    "graph: Entity": f"""
        SELECT ROW ({_properties("v", "key", "name", "type", "degree", "description", "attributes")})::text AS line
          FROM {{graph}}."Entity" v""",
    "graph: Document": f"""
        SELECT ROW ({_properties("v", "source_key", "title")})::text AS line FROM {{graph}}."Document" v""",
    "graph: RELATED": f"""
        SELECT ROW ({_property("s", "key")}, {_property("t", "key")},
                    {_properties("v", "weight", "keywords", "description")})::text AS line
          FROM {{graph}}."RELATED" v
          LEFT JOIN {{graph}}."Entity" s ON s.id OPERATOR(ag_catalog.=) v.start_id
          LEFT JOIN {{graph}}."Entity" t ON t.id OPERATOR(ag_catalog.=) v.end_id""",
    "graph: MENTIONED_IN": f"""
        SELECT ROW ({_property("e", "key")}, {_property("d", "source_key")}, {_property("c", "ordinal")},
                    {_property("v", "tf")})::text AS line
          FROM {{graph}}."MENTIONED_IN" v
          LEFT JOIN {{graph}}."Entity" e ON e.id OPERATOR(ag_catalog.=) v.start_id
          LEFT JOIN {{graph}}."Chunk" c ON c.id OPERATOR(ag_catalog.=) v.end_id
          LEFT JOIN {{graph}}."PART_OF" p ON p.start_id OPERATOR(ag_catalog.=) c.id
          LEFT JOIN {{graph}}."Document" d ON d.id OPERATOR(ag_catalog.=) p.end_id""",
    "graph: PART_OF": f"""
        SELECT ROW ({_property("d", "source_key")}, {_property("c", "ordinal")})::text AS line
          FROM {{graph}}."Chunk" c
          FULL JOIN {{graph}}."PART_OF" v ON v.start_id OPERATOR(ag_catalog.=) c.id
          LEFT JOIN {{graph}}."Document" d ON d.id OPERATOR(ag_catalog.=) v.end_id""",
}
BM25 = "BM25"
_NAMES = (*_SECTIONS, BM25, *_GRAPH)

# Sorted digests, in up to 65,536 buckets: memory is that of a sort, however large the corpus. No collation has an
# effect. OFFSET 0: digests are made once and sorted, not rows.
_HASH = """
WITH digests AS (
    SELECT pg_catalog.sha256(pg_catalog.convert_to(s.line, 'UTF8')) AS digest FROM ({section}) s OFFSET 0
), buckets AS (
    SELECT pg_catalog.sha256(pg_catalog.string_agg(d.digest, '' ORDER BY d.digest)) AS digest, pg_catalog.count(*) AS rows
      FROM digests d
     GROUP BY pg_catalog.substr(d.digest, 1, 2)
)
SELECT coalesce(pg_catalog.sum(b.rows), 0)::bigint AS rows,
       pg_catalog.encode(pg_catalog.sha256(coalesce(pg_catalog.string_agg(b.digest, '' ORDER BY b.digest), '')), 'hex') AS hash
  FROM buckets b
"""


def fingerprint(db: Database, name: str | None) -> str:
    """Serve graphrag.fingerprint(): return a hash of all sections, 64 hexadecimal digits."""
    digest_of_all = hashlib.sha256()
    for section, _, digest in fingerprint_sections(db, name):
        digest_of_all.update(f"{section}\t{digest}\n".encode())
    return digest_of_all.hexdigest()


def fingerprint_sections(db: Database, name: str | None) -> Iterator[tuple[str, int, str]]:
    """Serve graphrag.fingerprint_sections(): yield (section, rows, hash of the section)."""
    corpus = find_corpus(db, name)
    for section in _NAMES:
        if section == BM25:
            count, digest = 0, hashlib.sha256()
            for line in _bm25(db, corpus):
                count += 1
                digest.update(f"{line}\n".encode())
            yield section, count, digest.hexdigest()
        elif (sql := _section(db, corpus, section)) is None:
            yield section, 0, hashlib.sha256().hexdigest()
        else:
            (row,) = db.query(_HASH.format(section=sql), *_values(corpus, section))
            yield section, row["rows"], row["hash"]


def canonical(db: Database, name: str | None, section: str | None) -> Rows:
    """Serve graphrag._canonical(): (section, row) of everything that fingerprint() hashes, sections in order, rows in C
    order.
    """
    corpus = find_corpus(db, name)
    if section is not None and section not in _NAMES:
        raise GraphRAGError(f'there is no section "{section}"', hint=f"Sections are {', '.join(_NAMES)}.")
    return Rows(db, (), _lines(db, corpus, _NAMES if section is None else (section,)))


def _lines(db: Database, corpus: Corpus, sections: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for section in sections:
        if section == BM25:
            for line in _bm25(db, corpus):
                yield section, line
        elif (sql := _section(db, corpus, section)) is not None:
            statement = f'SELECT s.line FROM ({sql}) s ORDER BY s.line COLLATE "C"'
            types, values = _values(corpus, section)
            cursor = db.cursor(statement, types, values)
            while rows := cursor.fetch(_FETCH):
                for row in rows:
                    yield section, row["line"]


def _values(corpus: Corpus, section: str) -> tuple[list[str], list[int]]:
    return ([], []) if section in _GRAPH else (["int4"], [corpus.id])


def _section(db: Database, corpus: Corpus, section: str) -> str | None:
    """Return the statement of a section; None where the corpus has no graph yet."""
    if section in _SECTIONS:
        return _SECTIONS[section]
    return _GRAPH[section].format(graph=corpus.graph_name) if has_graph(db, corpus) else None


def _bm25(db: Database, corpus: Corpus) -> Iterator[str]:
    """Yield the contents of the BM25 indexes: N and total length of each kind of item, then each term's df and frequency."""
    for kind in KINDS:
        count, length = statistics(db, corpus.id, kind)
        yield f"{kind}\t{count}\t{length}"
        for term, items, frequencies in entries(db, corpus.id, kind):
            yield f"{kind}\t{term}\t{len(items)}\t{int(frequencies.sum(dtype='int64'))}"
