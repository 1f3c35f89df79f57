"""graphrag.embed: the corpus' embedding model as a SQL function."""

from pg_graphrag.answer.call import embed_texts
from pg_graphrag.corpus.corpora import find
from pg_graphrag.embedding import local_embedder
from pg_graphrag.embedding.text import vector_text
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.numeric import np
from pg_graphrag.server import Database


def embed(db: Database, text: str | None, corpus: str) -> str | None:
    """Return the vector of `text` as pgvector reads it; None for None. "default" need not exist yet."""
    unmade = corpus == "default" and not db.query("SELECT FROM graphrag.corpora c WHERE c.name = 'default'")
    found = None if unmade else find(db, corpus)
    if text is None:
        return None
    if found is None or found.options.embedding.local:
        return vector_text(local_embedder().embed([text])[0])
    if not text:
        raise GraphRAGError("an empty text has no vector", hint="Give a text.")
    return vector_text(np.frombuffer(embed_texts(db, found, [text])[0], "<f4"))
