"""graphrag.embed and graphrag.embedding_engine: the corpus' embedding model as a SQL function, and what computes it."""

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.llm.asking.models import Models
from pg_graphrag.llm.embedding import local_embedder
from pg_graphrag.llm.embedding.document_embedder import describe
from pg_graphrag.llm.embedding.vector_text import vector_text
from pg_graphrag.server import Database
from pg_graphrag.server.access.caller import caller_of
from pg_graphrag.server.access.entry import as_owner
from pg_graphrag.server.corpus.corpora import find
from pg_graphrag.server.corpus.options import Embedding


def embed(db: Database, text: str | None, corpus: str) -> str | None:
    """Return the vector of `text` as pgvector reads it; None for None. "default" need not exist yet."""
    if corpus == "default" and not db.query("SELECT FROM graphrag.corpora c WHERE c.name = 'default'"):
        return None if text is None else vector_text(local_embedder(Embedding().model).embed([text])[0])
    caller = caller_of(db, corpus)

    def run() -> str | None:
        target = find(db, corpus)
        if text is None:
            return None
        model = target.options.embedding
        if model.local:
            return vector_text(local_embedder(model.model).embed([text])[0])
        if not text:
            raise GraphRAGError("an empty text has no vector", hint="Give a text.")
        return vector_text(Models(db, target, caller).embed([text])[0][0])

    return as_owner(db, run)


def embedding_engine(db: Database) -> tuple[str, str, str]:
    """Serve graphrag.embedding_engine()."""
    return describe(db)
