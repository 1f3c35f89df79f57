"""Vectors of indexed items, and the names that a local model reads in windows, both from one pass of the encoder.

The local model or an endpoint makes them without an open transaction; then they are stored.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import TypeVar

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import Vectors, np
from pg_graphrag.index.graph.drafts import ChunkDraft, DocumentDraft
from pg_graphrag.index.indexing.prepare import DocumentNames, WindowTerms, window_head
from pg_graphrag.llm.embedding.document_embedder import document_embedder
from pg_graphrag.llm.embedding.name_tagger import Reading, concepts_of, reads_names
from pg_graphrag.llm.embedding.vector_text import vector_texts, vectors_at_once
from pg_graphrag.llm.endpoints.endpoint_embedding import batches, embedding, note_run, texts_at_once
from pg_graphrag.llm.endpoints.faults import Unembeddable
from pg_graphrag.llm.endpoints.gateway import Gateway
from pg_graphrag.server import Database, columns, slices
from pg_graphrag.server.corpus.corpora import Corpus, embedding_of
from pg_graphrag.server.corpus.options import MULTILINGUAL_MODEL, Embedding, local_embedding
from pg_graphrag.server.corpus.spaces import Space, building_space
from pg_graphrag.text.concept import Concept, key

# Begins each part. No text of PostgreSQL has it.
PART = "\0"
# What a row says, up to its texts (sql/04_documents/031_attached_rows.sql).
LINES_END = "\n\n"


def window_text(title: str | None, window: str) -> str:
    """Return the parts of a row's window from which its vector is made; "" if it gets none.

    A number, a date or a key of another row counts by its column alone. A row of a join table without words gets no vector:
    all rows of the table would be alike.
    """
    parts = [key(title)] if title else []
    is_known = bool(title)
    for line in window.splitlines():
        column, _, value = line.partition(": ")
        in_words = value != title and not any(map(str.isdigit, value))
        parts.append(line if in_words else column)
        is_known |= in_words
    return "".join(PART + part for part in parts if part.strip()) if is_known else ""


def parts_of(text: str) -> list[str]:
    """Return the parts of a text of `window_text`; of any other none."""
    return text.split(PART)[1:]


def is_in_words(name: str) -> bool:
    """Whether a name, by its key, means something: no number, code or key of a row ("2019", "rz-500k", "plants/7")."""
    digits = sum(map(str.isdigit, name))
    if not digits or " " in name:
        return bool(name)
    return "/" not in name and digits < sum(map(str.isalpha, name))


# A batch's vectors so far, by model and text; None for a text without one.
VectorsByModel = dict[Embedding, dict[str, Vectors | None]]
# (number of the window, mention or entity; chunk and document, 0 for an entity; text)
Item = tuple[int, int, int, str]
# Kinds of items with vectors: {prefix of the vectors' table: table of the items}.
SOURCES = {
    "window": "chunk_windows",
    "entity_mention": "entity_mentions",
    "relationship_mention": "relationship_mentions",
    "entity": "entities",
}
OF_CHUNKS = ("window", "entity_mention", "relationship_mention")
# Vectors of lines that many rows share, the latest of this worker's run, by model; about so many at most.
_KNOWN_PARTS = 2000
_part_vectors: dict[Embedding, dict[str, Vectors]] = {}


class MissingVectors(Exception):
    """The write step needs vectors that were not prepared: the caller makes them and tries again."""

    def __init__(self, model: Embedding, texts: Sequence[str]) -> None:
        super().__init__(f"{len(texts)} texts")
        self.model = model
        self.texts = texts


def poll(db: Database) -> None:
    """Check for query cancel, statement_timeout and termination, without keeping a snapshot, which would pin vacuum."""
    db.poll()
    db.rollback()


def forget_part_vectors() -> None:
    """Forget the texts of rows, and what an endpoint made of them that may be another's by the next run."""
    _part_vectors.clear()


def embed(
    db: Database,
    corpus: Corpus,
    model: Embedding,
    texts: Iterable[str],
    known: Mapping[str, Vectors | None] = MappingProxyType({}),
) -> tuple[dict[str, Vectors], dict[str, GraphRAGError]]:
    """Return ({text: vector}, {text: fault}), neither of texts that the model does not embed; `known`: vectors that it has made.

    Commits: the costs of an endpoint's calls are recorded.
    """
    distinct_texts = [text for text in dict.fromkeys(texts) if model.embeds(text)]
    if not distinct_texts:
        return {}, {}
    parts = {text: text_parts for text in distinct_texts if (text_parts := parts_of(text))}
    cached = _part_vectors.setdefault(model, {})
    if len(cached) > _KNOWN_PARTS:
        cached.clear()
    new_texts = dict.fromkeys(chain((text for text in distinct_texts if text not in parts), *parts.values()))
    # While an endpoint is waited for, another call of the process may clear it.
    cached_vectors = {text: vector for text in new_texts if (vector := known.get(text, cached.get(text))) is not None}
    uncached_texts = [text for text in new_texts if text not in cached_vectors]
    with db.step("embed"):
        vectors, faults = _embed(db, corpus, model, uncached_texts) if uncached_texts else ({}, {})
    vectors |= cached_vectors
    # The first is the name: of another row it is another.
    cached.update((part, vectors[part]) for text_parts in parts.values() for part in text_parts[1:] if part in vectors)
    for text, text_parts in parts.items():
        if part_faults := [faults[part] for part in text_parts if part in faults]:
            faults[text] = part_faults[0]
            continue
        total = np.sum([vectors[part] for part in text_parts], axis=0)
        vectors[text] = total / max(np.linalg.norm(total), np.float32(1e-12))
    return vectors, faults


def _embed(
    db: Database, corpus: Corpus, model: Embedding, distinct_texts: list[str]
) -> tuple[dict[str, Vectors], dict[str, GraphRAGError]]:
    if model.local:
        return dict(zip(distinct_texts, _embed_locally(db, model, distinct_texts), strict=True)), {}
    vectors: dict[str, Vectors] = {}
    faults: dict[str, GraphRAGError] = {}
    parts, began = batches(distinct_texts, texts_at_once(model)), time.monotonic()
    results = Gateway(db, corpus, worker=True, writes=True).run([embedding(model, part) for part in parts])
    for part, result in zip(parts, results, strict=True):
        for text, vector_or_fault in zip(
            part, [result] * len(part) if isinstance(result, GraphRAGError) else result, strict=True
        ):
            (faults if isinstance(vector_or_fault, GraphRAGError) else vectors)[text] = vector_or_fault
    if not faults:
        note_run(model, parts, time.monotonic() - began)
    return vectors, faults


def _embed_locally(db: Database, model: Embedding, texts: list[str]) -> Vectors:
    """Return the texts' vectors, in order, polling for cancel between the embedder's short steps."""
    embedder = document_embedder(db, model.model)
    poll(db)
    vectors = np.empty((len(texts), embedder.dimensions), np.float32)
    for places, batch_vectors in embedder.embed_batches(texts):
        vectors[places] = batch_vectors
        poll(db)
    return vectors


def insert_vectors(
    db: Database,
    space: Space,
    kind: str,
    items: Sequence[Item],
    vectors: Mapping[str, Vectors | None],
    *,
    is_late: bool = False,
) -> None:
    """Store the vectors of items of a `kind` of `SOURCES`, for items whose texts have one.

    `is_late`: the items exist already, and some may have gone or got their vectors meanwhile; the corpus is locked.
    """
    items = [item for item in items if vectors.get(item[3]) is not None and (kind != "entity" or is_in_words(item[3]))]
    number, chunk_columns = (
        ("entity_id", "") if kind == "entity" else (f"{kind.split('_')[-1]}_id", ", chunk_id, document_id")
    )
    where = ""
    if is_late:
        same_chunk = "" if kind == "entity" else " AND v.chunk_id = u.chunk_id"
        where = (
            f" WHERE EXISTS (SELECT FROM graphrag.{SOURCES[kind]} x WHERE x.id = u.id)"
            f" AND NOT EXISTS (SELECT FROM {space.rows(kind)} v WHERE v.{number} = u.id{same_chunk})"
        )
    with db.step("vectors"):
        for part in slices(items, vectors_at_once(space.embedding.dimensions)):
            part_vectors = [vector for item in part if (vector := vectors[item[3]]) is not None]
            db.query(
                f"INSERT INTO {space.target(kind)} (space_id, {number}{chunk_columns}, embedding)"
                f" SELECT $1, u.id{chunk_columns.replace(' ', ' u.')}, u.vector::{db.vector_type}"
                f"   FROM unnest($2, $3, $4, $5) AS u (id, chunk_id, document_id, vector){where}",
                ["int4", "int8[]", "int8[]", "int8[]", "text[]"],
                [space.id, *columns(part)[:3], vector_texts(part_vectors)],
            )


def delete_vectors(
    db: Database, space: Space, chunk_ids: Sequence[int], entity_ids: Sequence[int], kinds: Sequence[str] = OF_CHUNKS
) -> None:
    """Remove the vectors of removed chunks, or of these kinds of items in them, and of entities; the corpus is locked."""
    if chunk_ids:
        for kind in kinds:
            sql = f"DELETE FROM ONLY {space.target(kind)} WHERE space_id = {space.id} AND chunk_id = ANY ($1)"
            db.query(sql, ["int8[]"], [list(chunk_ids)])
    if entity_ids:
        sql = f"DELETE FROM ONLY {space.target('entity')} WHERE space_id = {space.id} AND entity_id = ANY ($1)"
        db.query(sql, ["int8[]"], [list(entity_ids)])


T = TypeVar("T")


def write_with_vectors(
    db: Database,
    corpus: Corpus,
    model: Embedding,
    texts: Sequence[str],
    take_faults: Callable[[dict[str, GraphRAGError]], bool],
    write: Callable[[VectorsByModel], T],
    unembeddable: dict[str, GraphRAGError],
    known: VectorsByModel,
    fault: GraphRAGError | None = None,
) -> T | None:
    """Embed texts by a model and call `write` with the vectors, again if it misses some; return its result.

    `take_faults` gets the texts that could not be embedded, and returns whether to write nevertheless; if not, None is
    returned. `known`: vectors that were made before. `fault`: why no text can be embedded at the moment. Texts without a
    vector by this model are added to `unembeddable`.
    """
    vectors: VectorsByModel = {}
    building = building_space(db, corpus.id)
    db.rollback()
    while True:
        new_vectors, faults = (
            embed(db, corpus, model, texts, known.get(model, {}))
            if fault is None
            else ({}, dict.fromkeys(texts, fault))
        )
        without = {text: own for text, own in faults.items() if isinstance(own, Unembeddable)}
        vectors.setdefault(model, {}).update(new_vectors | dict.fromkeys(without))
        unembeddable |= without
        faults = {text: other for text, other in faults.items() if text not in without}
        if not take_faults(faults):
            return None
        if building is not None:
            # Then the swap need not wait for a queue that never ends. Where this fails, the job of kind reembed fills them.
            vectors[building.embedding] = dict(
                embed(db, corpus, building.embedding, texts, known.get(building.embedding, {}))[0]
            )
            building = None
        try:
            with db.step("write"):
                return write(vectors)
        except MissingVectors as missing_vectors:
            db.rollback()
            if missing_vectors.model != model:
                unembeddable.clear()
            model, texts = missing_vectors.model, list(missing_vectors.texts)


def resolve_keys(db: Database, corpus: Corpus, drafts: Iterable[DocumentDraft]) -> tuple[dict[str, str], list[str]]:
    """Return {entity key of a draft: resolved key} where an alias differs, and the keys of new entities, to embed."""
    keys = sorted({key for item in drafts for key in item.entity_keys()})
    if not keys:
        return {}, []
    rows = db.query(
        "SELECT k.key, k.entity_key, NOT EXISTS (SELECT FROM graphrag.entities e"
        "                                         WHERE e.corpus_id = $1 AND e.key = k.entity_key) AS new"
        '  FROM (SELECT u.key, coalesce(a.entity_key, u.key COLLATE "C") AS entity_key FROM pg_catalog.unnest($2) AS u (key)'
        '          LEFT JOIN graphrag.aliases a ON a.corpus_id = $1 AND a.key = u.key COLLATE "C") k',
        ["int4", "text[]"],
        [corpus.id, keys],
    )
    db.rollback()
    aliases = {row["key"]: row["entity_key"] for row in rows if row["key"] != row["entity_key"]}
    return aliases, sorted({row["entity_key"] for row in rows if row["new"] and is_in_words(row["entity_key"])})


@dataclass(frozen=True, slots=True)
class WindowNames:
    """A local model's results for texts of windows.

    `vectors` ({model: {text: its vector}}): empty if no model is installed. `readings`: {text: the names read in it}.
    """

    vectors: VectorsByModel = field(default_factory=dict)
    readings: dict[str, Reading] = field(default_factory=dict)


NO_NAMES = WindowNames()


def read_names(db: Database, corpus: Corpus, chunks: Iterable[ChunkDraft], texts: Iterable[str]) -> WindowNames:
    """Read the names in texts of windows, polling for cancel: by the corpus' own model, if it is local and knows the
    language.

    Others are read by the multilingual model. `chunks`: those of a batch, by which a corpus without a model chooses one.
    """
    distinct_texts = [text for text in dict.fromkeys(texts) if text]
    own = embedding_of(corpus, (chunk.content for chunk in chunks)) or corpus.options.embedding
    may_read = reads_names(own.model)
    by_model: dict[Embedding, list[str]] = {}
    for text in distinct_texts:
        model = own if may_read and own.reads(text) else local_embedding(MULTILINGUAL_MODEL)
        by_model.setdefault(model, []).append(text)
    read = WindowNames({}, {})
    for model, model_texts in by_model.items():
        try:
            embedder = document_embedder(db, model.model)
        except GraphRAGError as error:
            # The corpus' own model is needed all the same, and is asked for then.
            if error.sqlstate != "58P01":
                raise
            continue
        poll(db)
        vectors = read.vectors.setdefault(model, {})
        with db.step("embed"):
            for places, batch_vectors, batch_readings in embedder.tag_batches(model_texts):
                batch_texts = [model_texts[place] for place in places]
                vectors.update(zip(batch_texts, batch_vectors, strict=True))
                read.readings.update(zip(batch_texts, batch_readings, strict=True))
                poll(db)
    return read


def document_names(title: str | None, chunks: Sequence[ChunkDraft], read: WindowNames) -> DocumentNames:
    """Return the names read in the chunks of one document. Names of its title are read beside the longest window."""
    by_chunk: dict[int, list[Concept]] = {}
    terms: dict[int, list[WindowTerms]] = {}
    of_title: list[Concept] = []
    longest, is_read = 0, False
    for chunk in chunks:
        names: list[Concept] = []
        scored: list[WindowTerms] = []
        head = window_head(title, chunk)
        for (start, _), text in zip(chunk.windows, chunk.window_texts(), strict=True):
            whole = head + text
            reading = read.readings.get(whole)
            if reading is None:
                continue
            is_read = True
            moved = start - chunk.own_start - len(head)
            names += concepts_of(whole, (name for name in reading.names if name.start >= len(head)), moved)
            scored.append(WindowTerms(start - chunk.own_start, moved, reading.terms))
            if title and len(whole) > longest:
                longest = len(whole)
                of_title = concepts_of(whole, (name for name in reading.names if name.end <= len(title)))
        by_chunk[chunk.ordinal], terms[chunk.ordinal] = names, scored
    return DocumentNames(by_chunk, of_title, terms, is_read=is_read)
