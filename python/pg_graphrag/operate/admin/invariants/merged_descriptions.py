"""A description is the best mention's sentence, the joined fragments, their summary, or a text that people wrote."""

from collections.abc import Iterator
from itertools import islice

from pg_graphrag.index.extraction.summaries import SET_HASH
from pg_graphrag.index.graph.merged import MAX_TOKENS as MERGED_TOKENS
from pg_graphrag.index.graph.merged import MERGED, SUMMARY_FRAGMENTS, TABLES, as_description
from pg_graphrag.index.indexing.prepare import evidence_rank
from pg_graphrag.operate.admin.invariants.merged_values import EDITS
from pg_graphrag.operate.admin.invariants.violations import read_whole
from pg_graphrag.server import Database, Row
from pg_graphrag.server.corpus.corpora import Corpus

_FETCH = 1000

_STATEMENT = """
SELECT t.id, t.description, t.evidence_rank, t.summary_of, t.summary_due, m.evidence_rank AS best, f.text, f.fragments,
       coalesce(f.tokens, 0) AS tokens,
       CASE WHEN t.summary_of IS NOT NULL THEN {hash} END AS set_hash,
       o.value ->> 'description' AS edited, m.chunk_id, m.start_offset, m.end_offset
  FROM graphrag.{table} t
  {edits}
 CROSS JOIN LATERAL ({merged}) f
  LEFT JOIN LATERAL (SELECT m.evidence_rank, m.chunk_id, m.start_offset, m.end_offset
                       FROM graphrag.{kind}_mentions m
                      WHERE m.{kind}_id = t.id AND m.evidence_rank IS NOT NULL ORDER BY m.evidence_rank LIMIT 1) m ON true
 WHERE t.corpus_id = $1
"""
_EVIDENCE = """
SELECT m.chunk_id, m.start_offset, m.end_offset, m.evidence_rank FROM graphrag.entity_mentions m
 WHERE m.corpus_id = $1 AND m.evidence_rank IS NOT NULL
 UNION
SELECT m.chunk_id, m.start_offset, m.end_offset, m.evidence_rank FROM graphrag.relationship_mentions m
 WHERE m.corpus_id = $1 AND m.evidence_rank IS NOT NULL
 ORDER BY chunk_id
"""
_CHUNKS = "SELECT c.id, c.start_offset, c.content FROM graphrag.chunks c WHERE c.id = ANY ($1)"
# A text that people wrote wins.
_EDITS = {
    "entity": f"LEFT JOIN (SELECT o.* {EDITS.format(keys='c.other_entity_key IS NULL')}) o ON o.entity_key = t.key",
    "relationship": f"""LEFT JOIN graphrag.entities l ON l.id = t.low_id
  LEFT JOIN graphrag.entities h ON h.id = t.high_id
  LEFT JOIN (SELECT o.* {EDITS.format(keys="c.other_entity_key IS NOT NULL")}) o
         ON o.entity_key = least(l.key, h.key) AND o.other_entity_key = greatest(l.key, h.key)""",
}


def check(db: Database, corpus: Corpus) -> Iterator[tuple[str, Iterator[tuple[str, str]]]]:
    """Yield each invariant with its violations."""
    yield "the evidence of a mention is its sentence", _evidence(db, corpus)
    for kind in TABLES:
        yield f"the description of each {kind} is what its mentions say", _descriptions(db, corpus, kind)


def _evidence(db: Database, corpus: Corpus) -> Iterator[tuple[str, str]]:
    for row, sentence in _with_sentences(db, db.stream(_EVIDENCE, ["int4"], [corpus.id], _FETCH)):
        if sentence is not None and evidence_rank(" ".join(sentence.split())) != row["evidence_rank"]:
            place = f"{row['start_offset']} to {row['end_offset']}"
            yield f"mentions of chunk {row['chunk_id']}", f"have another sentence at {place} than they were ranked by"


def _descriptions(db: Database, corpus: Corpus, kind: str) -> Iterator[tuple[str, str]]:
    sql = _STATEMENT.format(
        kind=kind,
        table=TABLES[kind],
        hash=SET_HASH.format(kind=kind),
        edits=_EDITS[kind],
        merged=MERGED.format(what=kind, id="t.id", tokens=MERGED_TOKENS),
    )
    rows = read_whole(db, sql, ["int4"], [corpus.id], _FETCH)
    for row, sentence in _with_sentences(db, rows):
        subject = f"{kind} {row['id']}"
        needs_summary = row["fragments"] >= SUMMARY_FRAGMENTS or row["tokens"] >= MERGED_TOKENS
        if row["evidence_rank"] != row["best"]:
            yield subject, f"evidence_rank is {row['evidence_rank']}, the smallest of its mentions {row['best']}"
        if row["edited"] is not None:
            if row["description"] != row["edited"]:
                yield (
                    subject,
                    f"is described as “{row['description'][:200]}”, not as people wrote: “{row['edited'][:200]}”",
                )
        elif row["summary_of"] is not None:
            if row["summary_of"] != row["set_hash"]:
                yield subject, "its summary is not of the descriptions that its mentions give"
        else:
            expected = as_description(sentence) if row["text"] is None else row["text"]
            if row["description"] != expected:
                yield subject, f"is described as “{row['description'][:200]}”, should be “{expected[:200]}”"
        if row["summary_due"] and (row["summary_of"] is not None or not needs_summary):
            yield subject, "is to be summarised, and need not be"


def _with_sentences(db: Database, rows: Iterator[Row]) -> Iterator[tuple[Row, str | None]]:
    """Yield rows, each with the sentence of its best mention. A chunk is read once for many."""
    while part := list(islice(rows, _FETCH)):
        chunk_ids = sorted({row["chunk_id"] for row in part if row["chunk_id"] is not None})
        chunks = {row["id"]: row for row in db.query(_CHUNKS, ["int8[]"], [chunk_ids])}
        for row in part:
            chunk = chunks.get(row["chunk_id"])
            if chunk is None:
                yield row, None
            elif None in (row["start_offset"], row["end_offset"]):
                yield row, ""
            else:
                first = chunk["start_offset"]
                yield row, chunk["content"][row["start_offset"] - first : row["end_offset"] - first]
