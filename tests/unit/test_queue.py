"""The queue is written in one place, and its kinds are listed in one: the constraint of graphrag.jobs."""

import re

from pg_graphrag.operate.jobs.kinds import DOCUMENT_KINDS, SERVICES
from pg_graphrag.server import function_at

from tests.runtime.cluster import PROJECT

JOBS = next((PROJECT / "sql").glob("*/010_jobs.sql"))


def listed(before: str) -> set[str]:
    """The kinds of a list in the definition of the table, by what stands before it."""
    (kinds_in_check,) = re.findall(rf"{before} \(kind IN \(([^)]*)\)", JOBS.read_text())
    return set(re.findall(r"'([a-z]+)'", kinds_in_check))


def test_a_worker_sees_to_every_kind_of_job() -> None:
    assert listed("jobs_kind_check CHECK") == {*SERVICES, *DOCUMENT_KINDS}
    assert all(callable(function_at(path)) for path in SERVICES.values())


def test_jobs_of_documents_are_those_that_name_one() -> None:
    assert set(DOCUMENT_KINDS) == listed(r"jobs_document_check CHECK \(\(document_id IS NOT NULL\) =")


def test_workers_ask_for_what_is_due_in_the_order_of_its_index() -> None:
    (columns,) = re.findall(r"jobs_due_idx ON graphrag.jobs \(stage, corpus_id, (.*?)\)", JOBS.read_text())
    claim = JOBS.with_name("025_claim_jobs.sql").read_text()
    orders = [re.sub(r"\bj\.", "", order) for order in re.findall(r"ORDER BY (j\.turn.*)\n", claim)]
    assert orders == [columns] * 2


def test_jobs_are_queued_in_one_file() -> None:
    files = [*(PROJECT / "sql").rglob("*.sql"), *(PROJECT / "python").rglob("*.py")]
    # A dead letter alone is no job that is to be done.
    insert = re.compile(r"INSERT\s+INTO\s+(graphrag\.)?jobs\b(?!.*'failed')")
    writers = [file for file in files if insert.search(file.read_text())]
    assert writers == [JOBS.with_name("015_queue_jobs.sql")]
