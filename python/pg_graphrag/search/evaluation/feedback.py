"""Verdicts on answers, and the questions with known evidence that are made of them."""

import json
from collections.abc import Sequence

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.llm.endpoints.meters import Meter
from pg_graphrag.search.query.query import question as question_of
from pg_graphrag.server import Database
from pg_graphrag.server.access.caller import caller_of
from pg_graphrag.server.access.entry import as_owner
from pg_graphrag.server.corpus.corpora import find_corpus

VERDICTS = ("good", "bad")
# Characters that are kept of an answer.
MAX_ANSWER = 20_000
# Characters of an author and of a comment, and documents of evidence.
MAX_AUTHOR, MAX_COMMENT, MAX_EVIDENCE = 200, 2_000, 100
# So that no role fills the disk.
VERDICTS_PER_MINUTE = 60
# Read as the caller: if he does not see a document, he does not learn whether its key exists.
_VISIBLE_KEYS = "SELECT d.source_key FROM graphrag.documents d WHERE d.corpus = $1 AND d.source_key = ANY ($2)"
_GIVE = """
INSERT INTO graphrag.answer_feedback (corpus_id, role, author, question, verdict, evidence, answer, mode, comment)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (corpus_id, role, author, (pg_catalog.md5(question))) DO UPDATE
   SET at = pg_catalog.clock_timestamp(), verdict = EXCLUDED.verdict, evidence = EXCLUDED.evidence,
       answer = EXCLUDED.answer, mode = EXCLUDED.mode, comment = EXCLUDED.comment
"""
# A role is one voice, whatever authors it names: the verdict of most of them. In a tie the newest verdict counts.
_GOLDEN = """
WITH verdicts AS (
    SELECT f.id, f.question, f.role, f.verdict, f.at, f.evidence,
           pg_catalog.min(f.id) OVER (PARTITION BY f.question) AS question_id,
           pg_catalog.count(*) FILTER (WHERE f.evidence <> '{}') OVER (PARTITION BY f.question, f.role) AS naming
      FROM graphrag.answer_feedback f WHERE f.corpus_id = $1
), voices AS (
    SELECT v.question_id, v.question, v.naming,
           pg_catalog.count(*) FILTER (WHERE v.verdict = 'good') AS good,
           pg_catalog.count(*) FILTER (WHERE v.verdict = 'bad') AS bad,
           (pg_catalog.array_agg(v.verdict ORDER BY v.at DESC, v.id DESC))[1] AS newest
      FROM verdicts v GROUP BY v.question_id, v.question, v.role, v.naming
), named AS (
    SELECT v.question_id, v.question, u.source_key
      FROM verdicts v CROSS JOIN LATERAL pg_catalog.unnest(v.evidence) AS u (source_key)
     WHERE EXISTS (SELECT FROM graphrag.documents d WHERE d.corpus_id = $1 AND d.source_key = u.source_key)
     GROUP BY v.question_id, v.question, v.role, v.naming, u.source_key
    HAVING 2 * pg_catalog.count(DISTINCT v.id) > v.naming
), counted AS (
    SELECT v.question_id, v.question,
           CASE WHEN v.good > v.bad THEN 'good' WHEN v.good < v.bad THEN 'bad' ELSE v.newest END AS verdict,
           (v.naming > 0)::int AS is_naming, NULL AS source_key, 0 AS roles
      FROM voices v
     UNION ALL
    SELECT n.question_id, n.question, NULL, 0, n.source_key, pg_catalog.count(*)
      FROM named n GROUP BY n.question_id, n.question, n.source_key
)
SELECT c.question_id, c.question,
       pg_catalog.count(*) FILTER (WHERE c.verdict = 'good') AS good,
       pg_catalog.count(*) FILTER (WHERE c.verdict = 'bad') AS bad,
       pg_catalog.jsonb_agg(c.source_key ORDER BY c.source_key COLLATE "C")
           FILTER (WHERE 2 * c.roles > c.naming_roles) AS evidence
  FROM (SELECT x.*, pg_catalog.sum(x.is_naming) OVER (PARTITION BY x.question_id) AS naming_roles FROM counted x) c
 GROUP BY c.question_id, c.question ORDER BY c.question_id
"""


def give(
    db: Database,
    question: str | None,
    verdict: str | None,
    corpus: str | None,
    evidence: Sequence[str | None] | None,
    answer: str | None,
    mode: str | None,
    author: str | None,
    comment: str | None,
) -> None:
    """Serve graphrag.feedback().

    Raises GraphRAGError: 22023 for a bad verdict, a text that is too long, and evidence that the caller does not see; 54000
      for too many verdicts in a minute; as `caller_of`.
    """
    caller = caller_of(db, corpus)
    if question is None or not question.strip():
        raise GraphRAGError("there is no question", hint="Give the question that was answered.")
    question_of(question)
    if verdict not in VERDICTS:
        raise GraphRAGError(f"verdict cannot be {json.dumps(verdict)}", hint="Give good or bad.")
    for name, text, limit in (("author", author, MAX_AUTHOR), ("comment", comment, MAX_COMMENT), ("mode", mode, 50)):
        if text is not None and len(text) > limit:
            raise GraphRAGError(f"{name} has {len(text)} characters", hint=f"Give at most {limit}.")
    keys = list(dict.fromkeys(key for key in evidence or () if key is not None))
    if len(keys) > MAX_EVIDENCE:
        raise GraphRAGError(f"evidence has {len(keys)} documents", hint=f"Give at most {MAX_EVIDENCE}.")
    visible_keys = {row["source_key"] for row in db.query(_VISIBLE_KEYS, ["text", "text[]"], [caller.corpus, keys])}
    if (unknown := next((key for key in keys if key not in visible_keys), None)) is not None:
        raise GraphRAGError(
            f'evidence: there is no document "{unknown[:100]}" in corpus "{caller.corpus}"',
            hint="Evidence names documents by their source_key, as citations do.",
        )
    values = [author or "", question.strip(), verdict, keys, None if answer is None else answer[:MAX_ANSWER]]

    def note() -> None:
        corpus_id = find_corpus(db, caller.corpus).id
        db.query("SELECT graphrag._refuse_moved($1)", ["int4"], [corpus_id])
        if not caller.is_owner and not Meter(db, corpus_id, f"{caller.role}\0feedback").admit(VERDICTS_PER_MINUTE):
            raise GraphRAGError(
                f'role "{caller.role}" has given {VERDICTS_PER_MINUTE} verdicts on corpus "{caller.corpus}" in this minute',
                sqlstate="54000",
                hint="Try again in a minute.",
            )
        types = ["int4", "text", "text", "text", "text", "text[]", "text", "text", "text"]
        db.query(_GIVE, types, [corpus_id, caller.role, *values, mode, comment])

    as_owner(db, note, writes=True)


def golden_questions(db: Database, corpus: str | None) -> str:
    """Serve graphrag.golden_questions(): a JSON array of questions, the oldest first."""
    rows = db.query(_GOLDEN, ["int4"], [find_corpus(db, corpus).id])
    return json.dumps(
        [
            {
                "id": str(row["question_id"]),
                "question": row["question"],
                "evidence": json.loads(str(row["evidence"] or "[]")),
                "good": row["good"],
                "bad": row["bad"],
            }
            for row in rows
        ],
        ensure_ascii=False,
    )
