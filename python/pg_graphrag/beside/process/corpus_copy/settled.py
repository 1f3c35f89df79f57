"""Makes what copied rows do not bring (the AGE graph, counts, the queue), and lists what was left out."""

from typing import Any

from pg_graphrag.beside.process.copying import value
from pg_graphrag.beside.process.corpus_copy import access
from pg_graphrag.beside.process.corpus_copy.transfer import Transfer
from pg_graphrag.ground.errors import GraphRAGError

# Jobs of a whole corpus that are copied; the others belong to attached tables, batches or repair().
_CORPUS_JOBS = ("optimize", "summarize", "describe", "reembed", "communities", "reports")
# Remains of deleted documents. If no job says so, there is no need to check that all chunks have documents.
_AWAITS_REMOVALS = """
SELECT EXISTS (SELECT FROM graphrag.jobs j
                WHERE j.corpus_id = %s AND (j.kind IN ('remove', 'sweep') OR j.payload OPERATOR(pg_catalog.?) 'removes'))
"""


def repair(transfer: Transfer, number: int, *, with_graph: bool = True) -> None:
    """Make what a copy of tables cannot bring: the AGE graph, counts, the revision and the queue."""
    new_number = transfer.new_number(number)
    if with_graph or value(transfer.reader, _AWAITS_REMOVALS, [number]):
        transfer.writer.execute("SELECT graphrag._queue_removals(%s)", [new_number])
    if value(transfer.writer, "SELECT graphrag._repair_corpus(%s, %s)", [new_number, with_graph]) is None:
        raise GraphRAGError(
            f'corpus "{transfer.corpus.name_of(number)}" has damaged rows',
            sqlstate="XX001",
            hint="SELECT * FROM graphrag.check(corpus) there names them.",
        )
    kinds = (
        "SELECT DISTINCT j.kind FROM graphrag.jobs j"
        " WHERE j.document_id IS NULL AND j.corpus_id = %s AND j.kind = ANY (%s)"
    )
    queued = [row[0] for row in transfer.reader.execute(kinds, [number, list(_CORPUS_JOBS)]).fetchall()]
    hashes = "SELECT EXISTS (SELECT FROM graphrag.community_reports r WHERE r.corpus_id = %s AND r.input_hash = '')"
    if value(transfer.writer, hashes, [new_number]):
        queued.append("reports")
    for kind in queued:
        transfer.writer.execute("SELECT graphrag._queue_jobs(%s, ARRAY[%s]::int[])", [kind, new_number])


def grants_and_notes(transfer: Transfer) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Return the grants that come along, and sentences on what does not."""
    notes = []
    if (tables := transfer.corpus.attached_tables(transfer.reader)) is not None:
        notes.append(f"attach these tables again, where they are; their documents are there: {tables}")
    sent = "SELECT pg_catalog.count(*) FROM graphrag.llm_batch_requests r WHERE r.state = 'sent' AND r.corpus_id = ANY (%s)"
    if count := value(transfer.reader, sent, [transfer.corpus.ids]):
        notes.append(f"{count} requests in batches at endpoints were left out: the copy asks again")
    grants, unknown_roles = access.read_grants(transfer)
    if unknown_roles:
        notes.append(f"grants of roles that are not there were left out: {', '.join(unknown_roles)}")
    return grants, notes
