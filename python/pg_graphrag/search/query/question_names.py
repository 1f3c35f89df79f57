"""Questions as the local model reads them, in one pass each: their vectors, and the names in them."""

from collections.abc import Sequence

from pg_graphrag.ground.numeric import Vectors
from pg_graphrag.llm.embedding import local_embedder
from pg_graphrag.llm.embedding.tagged_names import concepts_of, reads_names
from pg_graphrag.server.corpus.corpora import Corpus
from pg_graphrag.text.concept import Concept

# Questions that a session remembers.
_REMEMBERED = 64
# By model and text.
_read: dict[tuple[str, str], tuple[Vectors, Sequence[Concept]]] = {}


def vector_of(model: str, text: str) -> Vectors:
    """Return the vector of a question by a local model, (dimensions,)."""
    return _reading(model, text)[0]


def names_in(corpus: Corpus, text: str) -> Sequence[Concept]:
    """Return the names in a question; none where documents' names are read by another model than the session has."""
    model = corpus.options.embedding
    return _reading(model.model, text)[1] if model.local and reads_names(model.model) and model.embeds(text) else ()


def forget() -> None:
    """Forget the session's questions, so that a measured search reads its question as a new one."""
    _read.clear()


def _reading(model: str, text: str) -> tuple[Vectors, Sequence[Concept]]:
    if (model, text) not in _read:
        if len(_read) >= _REMEMBERED:
            del _read[next(iter(_read))]
        if reads_names(model):
            _, vectors, readings = next(batch for batch in local_embedder(model).tag_batches([text]) if len(batch[0]))
            _read[model, text] = vectors[0], concepts_of(text, readings[0].names)
        else:
            _read[model, text] = local_embedder(model).embed([text])[0], ()
    return _read[model, text]
