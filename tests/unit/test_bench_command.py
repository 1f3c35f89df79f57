"""The command that lists, runs and records benchmarks."""

import re

import pytest

from bench import __main__ as bench
from tests.unit.test_docs import PAGES


def test_every_benchmark_is_listed_and_says_what_it_measures(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main([]) == 0
    listed = capsys.readouterr().out
    names = set(bench.benchmarks())
    assert {"protection", "retrieval", "search", "bm25"} <= names
    assert not names & {"corpora", "peers", "lightrag_peer", "peer_half"}
    for name, script in bench.benchmarks().items():
        assert f"\n{name} " in listed
        assert len(bench.summary(script)) > 20, name


def test_pages_name_benchmarks_that_there_are() -> None:
    named = {
        name for page in PAGES for name in re.findall(r"python -m bench ([a-z_0-9]+)", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    assert named - set(bench.benchmarks()) == set()


def test_an_unknown_benchmark_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--record", "nonsense"]) == 2
    assert 'no benchmark "nonsense"' in capsys.readouterr().err


def test_a_recorded_run_takes_the_place_of_the_same_one_before() -> None:
    text = "# Results\n\nOlder figures.\n"
    once = bench.recorded(text, "search", ["--rounds", "3"], "p50 4 ms\n", "today")
    assert once.startswith(text)
    assert "`python -m bench search --rounds 3` (today)\n\n```text\np50 4 ms\n```" in once
    other = bench.recorded(once, "search", [], "p50 5 ms\n", "today")
    again = bench.recorded(other, "search", ["--rounds", "3"], "p50 3 ms\n", "tomorrow")
    assert again == other.replace("p50 4 ms", "p50 3 ms").replace("3` (today)", "3` (tomorrow)")


def test_what_is_of_this_machine_is_not_recorded() -> None:
    options = ["modes", "--url", "postgresql://postgres:secret@h/db", "--data=/srv/sets", "--load"]
    assert bench.public(options) == ["modes", "--load"]
