"""graphrag.embed: the corpus' embedding model as a SQL function."""

from pg_graphrag.corpus.corpora import find
from pg_graphrag.embedding import local_embedder
from pg_graphrag.embedding.text import vector_text
from pg_graphrag.server import Database


def embed(db: Database, text: str | None, corpus: str) -> str | None:
    """Return the vector of `text` as pgvector reads it; None for None. "default" need not exist yet."""
    if corpus != "default":
        find(db, corpus)
    return None if text is None else vector_text(local_embedder().embed([text])[0])
