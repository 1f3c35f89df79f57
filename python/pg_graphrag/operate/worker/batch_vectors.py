"""Between preparing and writing: the vectors that a write step needs, made with no transaction open."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.index.graph.drafts import DocumentDraft
from pg_graphrag.index.indexing.item_vectors import MissingVectors, VectorsByModel, embed
from pg_graphrag.index.indexing.reembed import building_space
from pg_graphrag.index.indexing.row_texts import is_in_words
from pg_graphrag.llm.endpoints.faults import Unembeddable
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus
from pg_graphrag.server.corpus.options import Embedding

T = TypeVar("T")


def write_with_vectors(
    db: Database,
    corpus: Corpus,
    model: Embedding,
    texts: Sequence[str],
    take_faults: Callable[[dict[str, GraphRAGError]], bool],
    write: Callable[[VectorsByModel], T],
    unembeddable: dict[str, GraphRAGError],
    fault: GraphRAGError | None = None,
) -> T | None:
    """Embed texts by a model and call `write` with the vectors, again where it misses some; return what it returns.

    `take_faults` is told which texts could not be embedded, and says whether to write all the same; if not, None is
    returned. `fault`: why no text is embedded at the moment. Texts of which the model has no vector go without; they are added to
    `unembeddable`.
    """
    vectors: VectorsByModel = {}
    building = building_space(db, corpus.id)
    db.rollback()
    while True:
        new_vectors, faults = embed(db, corpus, model, texts) if fault is None else ({}, dict.fromkeys(texts, fault))
        without = {text: own for text, own in faults.items() if isinstance(own, Unembeddable)}
        vectors.setdefault(model, {}).update(new_vectors | dict.fromkeys(without))
        unembeddable |= without
        faults = {text: other for text, other in faults.items() if text not in without}
        if not take_faults(faults):
            return None
        if building is not None:
            # Then the swap need not wait for a queue that never ends. Where this fails, the job of kind reembed fills them.
            vectors[building.embedding] = dict(embed(db, corpus, building.embedding, texts)[0])
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
