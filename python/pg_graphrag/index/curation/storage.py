"""What a curation writes with: the locked corpus, its vectors and its tokenizer."""

from collections.abc import Iterable

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import Vectors
from pg_graphrag.index.indexing.write import ensure_storage
from pg_graphrag.llm.asking.models import Models
from pg_graphrag.llm.embedding.document_embedder import document_embedder
from pg_graphrag.server import Database, cached_property, slices
from pg_graphrag.server.access.caller import caller_of
from pg_graphrag.server.corpus.corpora import Corpus, corpus_by_id, embedding_of
from pg_graphrag.server.corpus.spaces import Space, lock_spaces, spaces
from pg_graphrag.text.tokenizers import Tokenizer, tokenizer

# Texts of one request, or of one step between two polls for cancel.
BATCH = 64


class Storage:
    """A corpus, locked as the worker's write step locks it: spaces, then the corpus.

    Call `embed` for names that will probably be needed before `lock`, as a model at an endpoint is slow.
    """

    def __init__(self, db: Database, corpus: Corpus) -> None:
        self._db = db
        self.corpus = corpus
        self.tokens: dict[str, int] = {}
        self._vectors: dict[str, Vectors] = {}
        # Texts without a vector by the model.
        self.without: dict[str, GraphRAGError] = {}
        self._model = corpus.options.embedding

    def lock(self) -> None:
        """Wait for running writers and curations of the corpus, and keep others out until the transaction ends.

        The lock is not shared: a writer deletes mentions before it waits for the corpus, a curation moves mentions after.
        """
        lock_spaces(self._db, self.corpus.id, is_shared=False)
        self.active: Space = ensure_storage(self._db, self.corpus, self._model)
        self._db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [self.corpus.id])
        self.spaces = spaces(self._db, self.corpus.id)
        corpus = corpus_by_id(self._db, self.corpus.id) or self.corpus
        if self.active.embedding != self._model:  # reembed() has swapped, or a worker has chosen, meanwhile
            self._vectors.clear()
            self.without.clear()
            self._model = self.active.embedding
        self.corpus = corpus

    def embed(self, texts: Iterable[str]) -> dict[str, Vectors]:
        """Return {text: vector} of at least those of these texts that the model embeds; others are added to `without`."""
        known = self._vectors.keys() | self.without.keys()
        missing_texts = [text for text in dict.fromkeys(texts) if text not in known]
        if self.corpus.chooses_embedding and not self._vectors:
            self._model = embedding_of(self.corpus, missing_texts) or self._model
        model = self._model
        missing_texts = [text for text in missing_texts if model.embeds(text)]
        for part in slices(missing_texts, BATCH):
            if model.local:
                vectors = document_embedder(self._db, model.model).embed(part)
                self._db.poll()
            else:
                models = Models(self._db, self.corpus, caller_of(self._db, self.corpus.name))
                vectors, _ = models.embed(part, self.without)
            self._vectors.update(zip((text for text in part if text not in self.without), vectors, strict=True))
        return self._vectors

    def count(self, text: str) -> int:
        """Count the tokens of a text, by the corpus' tokenizer."""
        return self._tokenizer.count(text)

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return tokenizer(self.corpus.tokenizer, self.corpus.tokenizer_fingerprint)
