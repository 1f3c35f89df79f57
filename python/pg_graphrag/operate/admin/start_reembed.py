"""Another embedding model for a corpus: graphrag.reembed() decides, a job of kind reembed does the work
(index/indexing/reembed.py).
"""

from pg_graphrag.ground.json_reading import read_json
from pg_graphrag.llm.endpoints.providers import load_provider
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import find_corpus
from pg_graphrag.server.corpus.options import parse_embedding
from pg_graphrag.server.corpus.spaces import add_space, of_state, set_option, set_state, spaces
from pg_graphrag.server.queue import requeue


def reembed(db: Database, name: str | None, embedding: str | None) -> None:
    """Serve graphrag.reembed(): decide on another model, and queue a job of kind reembed.

    Raises GraphRAGError: 22023 for a bad value, 42704 for an unknown corpus or provider.
    """
    corpus = find_corpus(db, name)
    new_embedding = parse_embedding(read_json(embedding) if embedding else None)
    if not new_embedding.local:
        load_provider(db, new_embedding.provider)
    # In this order: alter_corpus() holds the row while it waits for writers, and these wait for the lock.
    db.query("SELECT FROM graphrag.corpora c WHERE c.id = $1 FOR NO KEY UPDATE", ["int4"], [corpus.id])
    db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus.id])
    all_spaces = spaces(db, corpus.id)
    active, building = of_state(all_spaces, "active"), of_state(all_spaces, "building")
    if active is None:  # no vectors yet: queued documents will be embedded by the new model
        set_option(db, corpus.id, new_embedding)
        return
    if building is not None:
        if building.embedding == new_embedding:
            return
        set_state(db, building, "retired")
    elif active.embedding == new_embedding:
        return
    if active.embedding != new_embedding:
        add_space(db, corpus.id, new_embedding, "building")
    # A worker that has the job sees at its next step that the space is not being built any more.
    requeue(db, "reembed", corpus.id)
