"""A vision model describes pictures, in jobs of their own: the text is searchable before, and is indexed again with
the descriptions.
"""

import time
from collections.abc import Generator, Sequence
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.reasoning import without_reasoning
from pg_graphrag.index.extraction.records import clean
from pg_graphrag.index.extraction.summaries import worst_fault
from pg_graphrag.llm.endpoints.faults import ItemFault
from pg_graphrag.llm.endpoints.gateway import Gateway
from pg_graphrag.llm.endpoints.requests import ChatRequest, Picture, Reply, asked_again
from pg_graphrag.server import Database, Row
from pg_graphrag.server.corpus.corpora import Corpus
from pg_graphrag.server.corpus.options import Options
from pg_graphrag.server.queue import LOCKED_RETRY_SECONDS, Job, release
from pg_graphrag.text.prompts import render

# Words asked for, output tokens of a description with its tables, and the most characters of a usable one.
WORDS = 200
MOST_OUTPUT = 2000
MAX_CHARACTERS = 20_000
# Pictures described together, whose bytes are in memory meanwhile.
BATCH = 8
# Pictures of one turn, after which their documents are indexed again; and seconds after which it ends, because others
# wait for the worker.
TURN, TURN_SECONDS = 500, 60
# Characters of the document that go with a picture.
BESIDE = 1200

# Pictures of a history come with the descriptions of their documents.
_IS_DUE = """
       FROM graphrag.pictures p
       JOIN graphrag.documents d ON d.id = p.document_id AND d.retracted_at IS NULL
      WHERE p.corpus_id = $1 AND p.description IS NULL AND p.error IS NULL
        AND NOT EXISTS (SELECT FROM graphrag._histories h WHERE h.history_id = p.corpus_id)
"""
_DUE_IDS = f"SELECT p.id {_IS_DUE} ORDER BY p.id LIMIT {TURN}"
_DUE = f"""
SELECT p.id, p.media_type, pg_catalog.replace(pg_catalog.encode(p.content, 'base64'), E'\\n', '') AS data, p.caption,
       p.alternative_text, d.title,
       CASE WHEN p.place IS NULL
            THEN pg_catalog.left(pg_catalog.split_part(d.content, E'\\f', coalesce(p.page, 1)), {BESIDE})
            ELSE pg_catalog.substr(d.content, greatest(p.place - {BESIDE // 2}, 0) + 1, {BESIDE}) END AS beside
{_IS_DUE} AND p.id = ANY ($2) ORDER BY p.id
"""
# Documents before their pictures, as who writes new content locks them (sql/15_admin/lock_tables.sql).
_LOCK = """
SELECT d.id FROM graphrag.documents d
 WHERE d.id IN (SELECT p.document_id FROM graphrag.pictures p WHERE p.id = ANY ($1))
 ORDER BY d.id FOR NO KEY UPDATE SKIP LOCKED
"""
_WRITE = """
UPDATE graphrag.pictures p SET description = u.description, error = u.error
  FROM unnest($1, $2, $3) AS u (id, description, error)
 WHERE p.id = u.id AND p.description IS NULL AND p.document_id = ANY ($4)
"""


def due_count(db: Database, corpus: Corpus) -> int:
    """Return how many pictures of a corpus wait for a description."""
    count: int = db.value(f"SELECT pg_catalog.count(*) AS n {_IS_DUE}", ["int4"], [corpus.id])
    return count if corpus.options.llm.has("vision") else 0


def describe(db: Database, corpus: Corpus, job: Job) -> bool:
    """Serve a job of kind describe: one turn; True when no picture is left.

    A picture that the model cannot describe keeps the error. Commits. What is not written, since the document is locked or the
    session ends, is in the cache of replies.

    Raises ProviderFault, BudgetReached after the descriptions that came have been written; the rest stays due.
    """
    if not corpus.options.llm.has("vision"):
        return True
    ids = [row["id"] for row in db.query(_DUE_IDS, ["int4"], [corpus.id])]
    described: list[_Described] = []
    faults: list[GraphRAGError] = []
    end = time.monotonic() + TURN_SECONDS
    for first in range(0, len(ids), BATCH):
        due = db.query(_DUE, ["int4", "int8[]"], [corpus.id, ids[first : first + BATCH]])
        db.rollback()
        results = Gateway(db, corpus, worker=True, writes=True).run([_description(corpus.options, row) for row in due])
        for row, result in zip(due, results, strict=True):
            if isinstance(result, ItemFault):
                described.append((row["id"], None, result.message))
            elif isinstance(result, GraphRAGError):
                faults.append(result)
            else:
                described.append((row["id"], result, None))
        if faults or time.monotonic() > end:
            break
    is_whole = not described or _write(db, described)
    if faults:
        db.commit()
        raise worst_fault(faults)
    if not is_whole:
        release(db, [job], LOCKED_RETRY_SECONDS)
        return False
    # Under the lock: who indexes more pictures waits, then finds no job and queues one.
    db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus.id])
    return due_count(db, corpus) == 0


# Number of a picture, its description, and why it has none.
_Described = tuple[int, str | None, str | None]


def _write(db: Database, described: Sequence[_Described]) -> bool:
    """Write descriptions of documents that nobody has locked; triggers queue these documents again. Return whether all are
    written.
    """
    ids, *words = (list(column) for column in zip(*described, strict=True))
    documents = [row["id"] for row in db.query(_LOCK, ["int8[]"], [ids])]
    db.query(_WRITE, ["int8[]", "text[]", "text[]", "int8[]"], [ids, *words, documents])
    is_left: bool = db.value(
        "SELECT EXISTS (SELECT FROM graphrag.pictures p WHERE p.id = ANY ($1) AND p.document_id <> ALL ($2)) AS is_left",
        ["int8[]", "int8[]"],
        [ids, documents],
    )
    return not is_left


def _description(options: Options, row: Row) -> Generator[ChatRequest, Reply, str]:
    words = {"alternative": row["alternative_text"], "caption": row["caption"], "title": row["title"]}
    prompt = render(
        options.prompts,
        "describe",
        words=str(WORDS),
        beside=row["beside"].strip() or "none",
        **{name: " ".join((text or "none").split()) for name, text in words.items()},
    )
    pictures = (Picture(row["media_type"], row["data"]),)
    message = ({"role": "user", "content": prompt},)
    request = ChatRequest("vision", message, _parse, max_tokens=MOST_OUTPUT, pictures=pictures)
    reply = yield from asked_again(request)
    return str(reply.value)


def _parse(text: str, cut_off: bool) -> Any:
    # The beginning of a description says something, too.
    description = clean(without_reasoning(text, is_prose=True).strip())
    if not description or len(description) > MAX_CHARACTERS:
        raise ItemFault("the model's description is empty or without end", raw=text)
    return description
