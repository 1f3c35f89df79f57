"""graphrag.embed, embedding_engine and understand: SQL functions that apply a corpus' models to a text."""

import json
from typing import Any

from pg_graphrag.llm.asking.models import Models, save_accounts
from pg_graphrag.llm.embedding import local_embedder
from pg_graphrag.llm.embedding.document_embedder import describe
from pg_graphrag.llm.embedding.vector_text import vector_text
from pg_graphrag.search.query.query import question as question_of
from pg_graphrag.search.query.understanding import Understanding, understand
from pg_graphrag.server import Database
from pg_graphrag.server.access.caller import caller_of
from pg_graphrag.server.access.entry import as_owner
from pg_graphrag.server.corpus.corpora import find_corpus
from pg_graphrag.server.corpus.options import Embedding


def embed(db: Database, text: str | None, corpus: str) -> str | None:
    """Return the vector of `text` as pgvector reads it; None for None. "default" need not exist yet."""
    if corpus == "default" and not db.query("SELECT FROM graphrag.corpora c WHERE c.name = 'default'"):
        return None if text is None else vector_text(local_embedder(Embedding().model).embed([text])[0])
    caller = caller_of(db, corpus)

    def run() -> str | None:
        target = find_corpus(db, corpus)
        if text is None:
            return None
        model = target.options.embedding
        if model.local:
            return vector_text(local_embedder(model.model).embed([text])[0])
        return vector_text(Models(db, target, caller).embed([text])[0][0])

    return as_owner(db, run)


def embedding_engine(db: Database) -> tuple[str, str, str]:
    """Serve graphrag.embedding_engine()."""
    return describe(db)


def understand_named(db: Database, question: str | None, corpus: str | None) -> str:
    """Serve graphrag.understand(): the understanding of a question as JSON."""
    caller, text = caller_of(db, corpus), question_of(question)

    def run() -> Understanding:
        target = find_corpus(db, corpus)
        understanding = understand(Models(db, target, caller), text, insist=True)
        save_accounts(db, target)
        return understanding

    understanding = as_owner(db, run, writes=True)
    fields: dict[str, Any] = {"low_level_keywords": understanding.low, "high_level_keywords": understanding.high}
    fields |= {"entities": understanding.entities, "answer_types": understanding.answer_types}
    return json.dumps(fields | understanding.note(), ensure_ascii=False)
