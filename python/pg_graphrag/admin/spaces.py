"""Another model for a corpus: what graphrag.reembed() decides; a job of kind reembed does the rest (indexing/reembed.py)."""

from pg_graphrag.corpus.corpora import find
from pg_graphrag.corpus.options import parse_embedding
from pg_graphrag.corpus.spaces import add_space, of_state, set_option, set_state, spaces
from pg_graphrag.jobs.queueing import requeue
from pg_graphrag.json_reading import read_json
from pg_graphrag.llm.providers import load
from pg_graphrag.server import Database


def reembed(db: Database, name: str | None, embedding: str | None) -> None:
    """Serve graphrag.reembed(): decide on another model; a job of kind reembed does the rest.

    Raises
    ------
    GraphRAGError
        22023 for a bad value, 42704 for an unknown corpus or provider.
    """
    corpus = find(db, name)
    wanted = parse_embedding(read_json(embedding) if embedding else None)
    if not wanted.local:
        load(db, wanted.provider)
    # In this order: alter_corpus() has the row when it waits for writers, and these wait for the lock.
    db.query("SELECT FROM graphrag.corpora c WHERE c.id = $1 FOR NO KEY UPDATE", ["int4"], [corpus.id])
    db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus.id])
    found = spaces(db, corpus.id)
    active, building = of_state(found, "active"), of_state(found, "building")
    if active is None:  # no vectors yet: what is queued will be embedded by the new model
        set_option(db, corpus.id, wanted)
        return
    if building is not None:
        if building.embedding == wanted:
            return
        set_state(db, building, "retired")
    elif active.embedding == wanted:
        return
    if active.embedding != wanted:
        add_space(db, corpus.id, wanted, "building")
    # A worker that has the job finds at its next step that the space is not being built any more.
    requeue(db, "reembed", corpus.id)
