"""Descriptions are the sentence of the best mention, the joined fragments, their summary, or a text that people wrote."""

from collections.abc import Iterator

from pg_graphrag.admin.invariants.merged_values import EDITS
from pg_graphrag.corpus.corpora import Corpus
from pg_graphrag.extraction.summaries import SET_HASH
from pg_graphrag.graph.descriptions import MAX_TOKENS as MERGED_TOKENS
from pg_graphrag.graph.descriptions import MERGED, SUMMARY_FRAGMENTS, TABLES, as_description
from pg_graphrag.server import Database

_FETCH = 1000

_STATEMENT = """
SELECT t.id, t.description, t.evidence_rank, t.summary_of, t.summary_due, m.evidence_rank AS best, f.text, f.fragments,
       coalesce(f.tokens, 0) AS tokens,
       CASE WHEN t.summary_of IS NOT NULL THEN {hash} END AS set_hash,
       ({edited}) AS edited,
       pg_catalog.substr(c.content, m.start_offset - c.start_offset + 1, m.end_offset - m.start_offset) AS sentence
  FROM graphrag.{table} t
 CROSS JOIN LATERAL ({merged}) f
  LEFT JOIN LATERAL (SELECT m.evidence_rank, m.chunk_id, m.start_offset, m.end_offset
                       FROM graphrag.{kind}_mentions m
                      WHERE m.{kind}_id = t.id AND m.evidence_rank IS NOT NULL ORDER BY m.evidence_rank LIMIT 1) m ON true
  LEFT JOIN graphrag.chunks c ON c.id = m.chunk_id
 WHERE t.corpus_id = $1
"""
# A text that people wrote wins.
_EDITED = {
    "entity": f"SELECT o.value ->> 'description' {EDITS.format(keys='c.entity_key = t.key AND c.other_entity_key IS NULL')}",
    "relationship": "SELECT o.value ->> 'description' FROM graphrag.entities l, graphrag.entities h, LATERAL (SELECT o.value "
    + EDITS.format(keys="c.entity_key = least(l.key, h.key) AND c.other_entity_key = greatest(l.key, h.key)")
    + ") o WHERE l.id = t.low_id AND h.id = t.high_id",
}


def check(db: Database, corpus: Corpus) -> Iterator[tuple[str, Iterator[tuple[str, str]]]]:
    """Yield each invariant with its violations."""
    for kind in TABLES:
        yield f"the description of each {kind} is what its mentions say", _descriptions(db, corpus, kind)


def _descriptions(db: Database, corpus: Corpus, kind: str) -> Iterator[tuple[str, str]]:
    sql = _STATEMENT.format(
        kind=kind,
        table=TABLES[kind],
        hash=SET_HASH.format(kind=kind),
        edited=_EDITED[kind],
        merged=MERGED.format(what=kind, id="t.id", tokens=MERGED_TOKENS),
    )
    for row in db.stream(sql, ["int4"], [corpus.id], _FETCH):
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
            expected = as_description(row["sentence"]) if row["text"] is None else row["text"]
            if row["description"] != expected:
                yield subject, f"is described as “{row['description'][:200]}”, should be “{expected[:200]}”"
        if row["summary_due"] and (row["summary_of"] is not None or not needs_summary):
            yield subject, "is to be summarised, and need not be"
