"""The progress line."""

import io
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pg_graphrag.beside.cli import progress as module
from pg_graphrag.beside.cli.progress import Display, line, lines, total
from pg_graphrag.beside.client import Progress

HALF = Progress(
    corpus="c",
    documents=1_000,
    indexed=490,
    pending=500,
    failed=10,
    chunks=2_000,
    entities=30_000,
    relationships=400_000,
    jobs=500,
    leased=64,
    oldest_pending=datetime(2026, 1, 2, tzinfo=UTC),
    waiting=0,
    waiting_until=None,
    waiting_for=None,
    reembedded=None,
    replication_lag=None,
    searchable=490,
    embedding=None,
    embedding_advice=None,
    vectors_pending=0,
    graphs_pending=0,
)
DONE = replace(HALF, indexed=1_000, pending=0, failed=0, jobs=0, searchable=1_000)


def test_a_line_says_done_counts_rate_and_time_left() -> None:
    assert line(HALF, 2.0) == (
        "50%, 500/1,000 documents, 10 failed, 2,000 chunks, 30,000 entities, 400,000 relationships, "
        "2.0 documents/s, 4:10 left"
    )
    assert line(replace(HALF, pending=7_322, documents=10_000), 2.0).endswith("2.0 documents/s, 1:01:01 left")
    assert line(HALF, None).endswith("64 at work")
    assert line(replace(HALF, leased=0), None).endswith("waiting for a worker")
    assert line(replace(HALF, searchable=900), None).startswith("50%, 500/1,000 documents, 900 searchable, 10 failed, ")
    assert line(DONE, 2.0).endswith("400,000 relationships")
    assert line(replace(DONE, jobs=1), None).endswith("finishing")


def test_what_waits_for_a_person_comes_after_what_has_a_time() -> None:
    person = replace(HALF, waiting=1, waiting_for="a person", leased=0)
    timed = replace(person, waiting_for="an endpoint", waiting_until=datetime(2026, 1, 2, tzinfo=UTC))
    assert total([DONE, person]).waiting_for == "a person"
    assert total([person, timed]).waiting_for == "an endpoint"


def test_an_empty_database_is_done() -> None:
    assert line(total([]), None).startswith("100%, 0/0 documents")


@pytest.mark.parametrize("width", [20, 40, 80, 110, 140, 200])
def test_both_lines_fit_the_terminal(width: int) -> None:
    assert all(len(text) < width for text in lines(HALF, 2.0, width))


def test_eighty_columns_hold_everything() -> None:
    many = replace(HALF, documents=100_000, pending=90_000, chunks=2_000_000)
    bar, counts = lines(many, 2.0, 80)
    assert bar.endswith("10%, 10,000/100,000 documents, 10 failed, 2.0 documents/s, 12:30:00 left")
    assert counts == "2,000,000 chunks, 30,000 entities, 400,000 relationships"


def test_the_bar_is_filled_by_the_share() -> None:
    bar, _ = lines(HALF, 2.0, 200)
    assert bar.startswith("[" + "#" * 15 + "." * 15 + "] 50%, ")


def test_corpora_add_up() -> None:
    both = total([HALF, replace(DONE, oldest_pending=None)])
    assert (both.documents, both.indexed, both.pending, both.failed) == (2_000, 1_490, 500, 10)
    assert both.oldest_pending == HALF.oldest_pending


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_redrawn_and_a_file_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(float(second) for second in range(100))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        display = Display(stream)
        for done in range(25):
            display.update(replace(HALF, indexed=done, pending=1_000 - done))
        display.close()
    assert terminal.getvalue().count("\r") == 25
    assert terminal.getvalue().count("\x1b[A") == 25
    assert terminal.getvalue().endswith("\x1b[A\n\n")  # what follows does not overwrite it
    assert len(file.getvalue().splitlines()) == 3 + 1  # at 0, 10 and 20 seconds, and at the end
    assert "1.0 documents/s" in file.getvalue()
