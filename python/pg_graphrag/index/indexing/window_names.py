"""Windows of documents, encoded once: for their vectors, and for the names that a local model reads in them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.index.graph.drafts import ChunkDraft
from pg_graphrag.index.indexing.item_vectors import VectorsByModel, poll
from pg_graphrag.index.indexing.prepare import DocumentNames, WindowTerms, window_head
from pg_graphrag.llm.embedding.document_embedder import document_embedder
from pg_graphrag.llm.embedding.name_tagger import Reading, concepts_of, reads_names
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus, embedding_of
from pg_graphrag.server.corpus.options import MULTILINGUAL_MODEL, Embedding, local_embedding
from pg_graphrag.text.concept import Concept


@dataclass(frozen=True, slots=True)
class WindowNames:
    """What a local model made of texts of windows.

    `vectors` ({model: {text: its vector}}): empty where no model is installed. `readings`: {text: what is read in it}.
    """

    vectors: VectorsByModel = field(default_factory=dict)
    readings: dict[str, Reading] = field(default_factory=dict)


NO_NAMES = WindowNames()


def read_names(db: Database, corpus: Corpus, chunks: Iterable[ChunkDraft], texts: Iterable[str]) -> WindowNames:
    """Read the names in texts of windows, polling for cancel: by the corpus' own model, where it is local and knows the language.

    Others are read by the multilingual one. `chunks`: those of a batch, by which a corpus without a model chooses one.
    """
    distinct_texts = [text for text in dict.fromkeys(texts) if text]
    own = embedding_of(corpus, (chunk.content for chunk in chunks)) or corpus.options.embedding
    is_read_by_own = own.local and reads_names(own.model)
    by_model: dict[Embedding, list[str]] = {}
    for text in distinct_texts:
        model = own if is_read_by_own and own.embeds(text) else local_embedding(MULTILINGUAL_MODEL)
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
    """Return what is read in the chunks of one document. Names of its title are those beside the longest window."""
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
