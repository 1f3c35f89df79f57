"""Creation, look-up, change and removal of corpora."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from pg_graphrag.ground.errors import GraphRAGError, is_interrupt, is_of_server
from pg_graphrag.server import Database, Row
from pg_graphrag.server.corpus.options import (
    ENGLISH_MODEL,
    MULTILINGUAL_MODEL,
    Embedding,
    Options,
    local_embedding,
    parse_options,
)
from pg_graphrag.text.languages import is_english


@dataclass(frozen=True, slots=True)
class Corpus:
    """A corpus as the rest of the package sees it. `space` is its active embedding space, if there are vectors.

    `chooses_embedding`: whether its first documents choose the embedding model (`embedding_of`); until then
    `options.embedding` is the default. `own_tables`: whether the space has tables of its own (`spaces.rows_of`). `revision`
    names the state of the index in the statement's snapshot; None: there is no index yet, this transaction has changed it,
    or nothing may be cached. `memory`: bytes that the session may cache. `forgets`: how many documents forget() had removed
    when the corpus was read, before its texts were. `awaits_removals`: whether the index may still have deleted or
    retracted documents, also if the retraction ended since. `has_rows`: whether rows of attached tables are among its
    documents.
    """

    id: int
    name: str
    options: Options
    graph_name: str
    tokenizer: str
    tokenizer_fingerprint: str
    space: int | None
    chooses_embedding: bool
    own_tables: bool
    revision: str | None
    memory: int
    forgets: int
    awaits_removals: bool
    has_rows: bool


# Default of graphrag.session_memory.
SESSION_MEMORY = "64MB"
# The transaction that changed a corpus may change it again under the same number, or undo a part of it. A restore
# brings numbers of another server, which its own transactions will use too: the row's writer tells them apart.
REVISION = """(
       SELECT r.tableoid::text || '/' || r.revision::text || '/' || r.xmin::text
         FROM graphrag.corpus_revisions r
        WHERE r.corpus_id = {corpus}
          AND r.revision IS DISTINCT FROM pg_catalog.pg_current_xact_id_if_assigned())"""

_SELECT = f"""
SELECT c.id, c.name, {{options}} AS options, graphrag._has_cypher({{options}}) AS has_cypher,
       c.graph_name, c.tokenizer, c.tokenizer_fingerprint,
       s.id AS space, s.provider, s.model, s.dimensions, coalesce(s.own_tables, false) AS own_tables,
       {REVISION.format(corpus="c.id")} AS revision,
       pg_catalog.pg_size_bytes(coalesce(nullif(pg_catalog.current_setting('graphrag.session_memory', true), ''),
                                         '{SESSION_MEMORY}')) AS memory,
       coalesce((SELECT l.forgets FROM graphrag._locks l WHERE l.corpus_id = c.id AND l.kind = 'replies'), 0) AS forgets,
       EXISTS (SELECT FROM graphrag._removals r WHERE r.corpus_id = c.id) AS awaits_removals,
       EXISTS (SELECT FROM graphrag._attached_tables t WHERE t.corpus_id = c.id AND t.kind <> 'documents') AS has_rows,
       c.move
  FROM graphrag.corpora c
  LEFT JOIN graphrag.embedding_spaces s ON s.corpus_id = c.id AND s.state = 'active'
"""

# Names of corpora are others' affair where somebody sees no document of them.
_RIGHTS = """
SELECT pg_catalog.has_table_privilege('graphrag.progress', 'SELECT') AS sees_all,
       pg_catalog.has_table_privilege('graphrag.documents', 'SELECT') AS sees_documents
"""
# As graphrag._unknown_corpus() has it.
_ASK_THERE = "Ask that node; GraphRAG(url), pg-graphrag and pg-graphrag serve do so by themselves."
_NAMES = "SELECT c.name FROM graphrag.corpora c WHERE {condition} ORDER BY c.name LIMIT 20"
_SEEN = "EXISTS (SELECT FROM graphrag.documents d WHERE d.corpus_id = c.id)"


def find_corpus(db: Database, name: str | None, *, also_moved: bool = False) -> Corpus:
    """Return the corpus called `name`; 42704 if there is none or, unless `also_moved`, it has moved; 22004 for a null."""
    rows = _select(db, "WHERE c.name = $1", "text", name) if name is not None else []
    if not rows:
        raise unknown_corpus(db, name)
    move = rows[0]["move"]
    if move is not None and not also_moved and json.loads(move)["state"] != "moving":
        db.query("SELECT graphrag._say_moved($1, $2)", ["text", "jsonb"], [name, move])
    return _corpus(rows[0])


def find_for_check(db: Database, name: str | None) -> tuple[Corpus, str | None]:
    """Return the corpus called `name`, and why its options cannot be read: then it has the defaults.

    Other errors as `find_corpus`.
    """
    try:
        with db.subtransaction():
            return find_corpus(db, name), None
    except Exception as error:
        if is_interrupt(error) or is_of_server(error) or getattr(error, "sqlstate", None) in ("42704", "22004"):
            raise
        (row,) = _select(db, "WHERE c.name = $1", "text", name, options="'{}'::jsonb")
        return _corpus(row), str(error).partition("\n")[0]


def unknown_corpus(db: Database, name: str | None) -> GraphRAGError:
    """Return the error for an unknown corpus; DETAIL is the url of the node that holds it."""
    if name is None:
        return GraphRAGError(
            "corpus cannot be null", sqlstate="22004", hint="Give a name; where it may be left out, “default” is meant."
        )
    if (place := placed(db, name)) is not None:
        return ElsewhereError(name, place)
    rights = db.query(_RIGHTS)[0]
    condition = "true" if rights["sees_all"] else _SEEN if rights["sees_documents"] else "false"
    names = [row["name"] for row in db.query(_NAMES.format(condition=condition))]
    hint = (
        f"Corpora: {', '.join(names)}."
        if names
        else "Create it with graphrag.create_corpus(…), or INSERT INTO graphrag.documents: that makes “default”."
    )
    if "," in name or name == "*":
        hint += " Several are for graphrag.search(…, corpora => ARRAY['a', 'b']), where '{*}' is all that you may read."
    return GraphRAGError(f'corpus "{name}" does not exist', sqlstate="42704", hint=hint)


class Placement(NamedTuple):
    """The node that has a corpus, and where it is: a URL without role and password."""

    node: str
    url: str


class ElsewhereError(GraphRAGError):
    """What is raised of a corpus that another node has: DETAIL is its url."""

    def __init__(self, name: str, place: Placement) -> None:
        message = f'corpus "{name}" is at node "{place.node}"'
        super().__init__(message, sqlstate="42704", detail=place.url, hint=_ASK_THERE)
        self.corpus, self.node = name, place.node


def placed(db: Database, name: str) -> Placement | None:
    """Return where a corpus is that is not in this database; None if it is, or if no node is known to hold it."""
    (row,) = db.query("SELECT p.node, p.url FROM graphrag._placed($1) p", ["text"], [name])
    return None if row["node"] is None else Placement(row["node"], row["url"])


def corpus_by_id(db: Database, corpus_id: int) -> Corpus | None:
    """Return the corpus with that number, or None when it has been dropped."""
    rows = _select(db, "WHERE c.id = $1", "int4", corpus_id)
    return _corpus(rows[0]) if rows else None


def _select(db: Database, condition: str, type_: str, value: Any, options: str = "c.options") -> Sequence[Row]:
    try:
        rows = db.query(_SELECT.format(options=options) + condition, [type_], [value])
    except Exception as error:
        # pg_size_bytes refuses a text that is no size, and a size that is too large.
        if getattr(error, "sqlstate", None) not in ("22023", "22003"):
            raise
        rows = None
    if rows is None or any(row["memory"] < 0 for row in rows):
        setting = db.value("SELECT pg_catalog.current_setting('graphrag.session_memory', true)")
        raise GraphRAGError(
            f'the setting graphrag.session_memory cannot be "{setting}"',
            hint="Give a size such as 64MB, or 0 to hold nothing: SET graphrag.session_memory = '64MB'; RESET for the default"
            f" ({SESSION_MEMORY}).",
        )
    return rows


def _corpus(row: Row) -> Corpus:
    values = dict(row)
    used = tuple(values.pop(name) for name in ("provider", "model", "dimensions"))
    options, is_given = _options(row["options"])
    chooses = not is_given and row["space"] is None and options.language == "auto"
    if not is_given and row["space"] is not None:
        options = replace(options, embedding=Embedding(*used))
    # Without memory nothing may be cached.
    revision = row["revision"] if row["memory"] else None
    del values["move"]
    if not values.pop("has_cypher"):
        options = replace(options, cypher=False)
    return Corpus(**{**values, "options": options, "chooses_embedding": chooses, "revision": revision})


@lru_cache(maxsize=64)
def _options(text: str) -> tuple[Options, bool]:
    """Return the options, and whether they name an embedding model."""
    values = json.loads(text)
    return parse_options(values), "embedding" in values


def revise(db: Database, corpus_id: int) -> None:
    """Name a new revision, as every transaction does that changes the index, under the corpus' lock; and fold the counts."""
    db.query("SELECT graphrag._fold_counts($1)", ["int4"], [corpus_id])
    db.query(
        "INSERT INTO graphrag.corpus_revisions AS r (corpus_id, revision) VALUES ($1, pg_catalog.pg_current_xact_id())"
        " ON CONFLICT (corpus_id) DO UPDATE SET revision = EXCLUDED.revision",
        ["int4"],
        [corpus_id],
    )


# The English model fits if at most this share of the characters belongs to texts in other languages.
MAX_FOREIGN_SHARE = 0.1


def embedding_of(corpus: Corpus, texts: Iterable[str]) -> Embedding | None:
    """Return the embedding of a corpus; where its first `texts` choose it, the model that fits them: without any, None."""
    if not corpus.chooses_embedding:
        return corpus.options.embedding
    foreign = total = 0
    for text in texts:
        total += len(text)
        foreign += 0 if is_english(text) else len(text)
    if not total:
        return None
    return local_embedding(MULTILINGUAL_MODEL if foreign > MAX_FOREIGN_SHARE * total else ENGLISH_MODEL)
