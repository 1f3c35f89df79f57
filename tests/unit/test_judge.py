"""The judge of answers, scripted: a biased one is found out by its A/A run, a consistent one is believed."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
from pg_graphrag.beside.cli import main
from pg_graphrag.beside.judging.client_model import Unusable, read_object
from pg_graphrag.beside.judging.judge_pairs import CRITERIA, Verdict, read_winners
from pg_graphrag.beside.judging.verdicts import comparisons, holm, place_bias

from tests.endpoint import Endpoint

_ANSWERS = re.compile(r"Answer 1:\n<<<\n(.*)\n>>>\n\nAnswer 2:\n<<<\n(.*)\n>>>", re.S)


@pytest.fixture(scope="module")
def served() -> Iterator[Endpoint]:
    with Endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def endpoint(served: Endpoint) -> Endpoint:
    served.behave()
    served.forget()
    return served


def verdict(winner: int | Callable[[str], int]) -> str:
    verdicts = {name: winner if isinstance(winner, int) else winner(name) for name in CRITERIA}
    return json.dumps({name: {"reason": "so", "winner": item} for name, item in verdicts.items()})


def first_place(messages: Sequence[dict[str, Any]]) -> str:
    """A judge that always prefers what comes first."""
    return verdict(1)


def consistent(messages: Sequence[dict[str, Any]]) -> str:
    """A judge that prefers what says more; but the shorter for directness. Equal answers are equal."""
    match = _ANSWERS.search(messages[0]["content"])
    assert match is not None
    first, other = match.groups()
    more = 0 if first == other else 1 if len(first) > len(other) else 2
    return verdict(lambda name: (3 - more) % 3 if name == "directness" else more)


def answers(folder: Path, name: str, count: int, text: Callable[[int], str]) -> Path:
    path = folder / f"{name}.jsonl"
    lines = [{"id": n, "question": f"Question {n}?", "answer": text(n)} for n in range(count)]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.fixture
def pair(tmp_path: Path) -> list[str]:
    short = answers(tmp_path, "naive", 12, lambda n: f"Answer {n}.")
    long = answers(tmp_path, "hybrid", 12, lambda n: f"Answer {n}, with what makes it clear.")
    return [str(short), str(long)]


def run(
    endpoint: Endpoint, arguments: list[str], capsys: pytest.CaptureFixture[str], status: int = 0
) -> tuple[Any, str]:
    assert main(["judge", *arguments, "--model", "judge-1", "--base-url", endpoint.url, "--json"]) == status
    out, err = capsys.readouterr()
    return json.loads(out), err


def test_a_consistent_judge_is_believed(
    endpoint: Endpoint, pair: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint.reply(consistent)
    report, err = run(endpoint, [*pair, "--trials", "2"], capsys)
    assert all((item["first"], item["second"], item["neither"]) == (0, 0, 24) for item in report["same"])
    for item in report["comparisons"]:
        assert (item["system"], item["baseline"], item["questions"]) == ("hybrid", "naive", 12)
        wins, losses = (0, 48) if item["criterion"] == "directness" else (48, 0)
        assert (item["wins"], item["ties"], item["losses"]) == (wins, 0, losses)
        assert item["win_rate"] == item["low"] == item["high"] == wins / 48
        assert item["consistent"] == 1
        assert item["p"] < item["p_holm"] < 0.01
    assert {item["criterion"] for item in report["comparisons"]} == set(CRITERIA)
    assert "WARNING" not in err
    assert report["usage"]["calls"] == endpoint.count() == 12 * 2 + 12 * 2 * 2


def test_a_judge_that_prefers_the_first_place_is_found_out_and_proves_nothing(
    endpoint: Endpoint, pair: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint.reply(first_place)
    report, err = run(endpoint, [*pair, "--trials", "1"], capsys)
    assert all((item["first"], item["second"]) == (12, 0) and item["p_holm"] < 0.01 for item in report["same"])
    assert "WARNING: this judge prefers a place, not an answer: comprehensiveness, diversity" in err
    for item in report["comparisons"]:
        assert (item["wins"], item["losses"], item["win_rate"], item["consistent"]) == (12, 12, 0.5, 0)
        assert item["p"] == item["p_holm"] == 1


def test_the_same_run_comes_first_and_can_be_left_out(
    endpoint: Endpoint, pair: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint.reply(consistent)
    run(endpoint, [*pair, "--trials", "1", "--same", "3"], capsys)
    equal = []
    for request in endpoint.requests:
        match = _ANSWERS.search(request.text)
        assert match is not None
        equal.append(match[1] == match[2])
    assert equal == [True] * 3 + [False] * 24
    report, _ = run(endpoint, [*pair, "--trials", "1", "--same", "0"], capsys)
    assert report["same"] == []


def test_both_orders_and_every_trial_are_asked(
    endpoint: Endpoint, pair: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint.reply(consistent)
    run(endpoint, [*pair, "--trials", "2", "--same", "0"], capsys)
    seen: dict[tuple[str, ...], int] = {}
    for request in endpoint.requests:
        match = _ANSWERS.search(request.text)
        assert match is not None
        seen[match.groups()] = seen.get(match.groups(), 0) + 1
    assert len(seen) == 24
    assert set(seen.values()) == {2}
    assert all((other, first) in seen for first, other in seen)


def test_tables_name_counts_rates_and_corrected_p(
    endpoint: Endpoint, pair: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint.reply(consistent)
    assert main(["judge", *pair, "--model", "judge-1", "--base-url", endpoint.url, "--trials", "1"]) == 0
    out, err = capsys.readouterr()
    assert re.search(r"^overall +0 +0 +12 +1\.000$", out, re.M)
    assert re.search(r"^hybrid +overall +1\.000 \[1\.000, 1\.000\] +24 +0 +0 +12 +100% +0\.003$", out, re.M)
    assert "judge: judge-1; 36 calls" in err


def test_a_reply_that_cannot_be_used_is_asked_for_again_and_a_missing_verdict_is_said(
    endpoint: Endpoint, pair: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    bad = ["I like both.", "{", verdict(1)[:-20], verdict(3), '{"overall": 1}', "[1]"]
    first_replies: dict[str, str] = {}

    def at_first_bad(messages: Sequence[dict[str, Any]]) -> str:
        if len(first_replies) < len(bad) and messages[0]["content"] not in first_replies:
            return first_replies.setdefault(messages[0]["content"], bad[len(first_replies)])
        return f"Well:\n```json\n{consistent(messages)}\n```"

    endpoint.reply(at_first_bad)
    report, _ = run(endpoint, [*pair, "--trials", "1", "--same", "0"], capsys)
    assert report["usage"]["calls"] == 24 + len(bad)
    assert all(comparison["wins"] + comparison["losses"] == 24 for comparison in report["comparisons"])
    endpoint.reply(lambda messages: "no" if "Question 3?" in messages[0]["content"] else consistent(messages))
    report, err = run(endpoint, [*pair, "--trials", "1", "--same", "0"], capsys, status=1)
    assert "2 verdicts are missing" in err
    assert all(comparison["questions"] == 11 for comparison in report["comparisons"])


def test_a_broken_run_goes_on_where_it_was(
    endpoint: Endpoint, pair: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint.reply(consistent)
    memory = ["--memory", str(tmp_path / "memory.jsonl"), "--trials", "2", "--same", "0"]
    wanted, _ = run(endpoint, [*pair, *memory], capsys)
    path = tmp_path / "memory.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:30], lines[30][:20]]) + "\n")
    endpoint.forget()
    report, _ = run(endpoint, [*pair, *memory], capsys)
    assert report["comparisons"] == wanted["comparisons"]
    assert (endpoint.count(), report["usage"]["remembered"]) == (18, 30)


def test_what_fails_on_the_way_is_tried_again(
    endpoint: Endpoint, pair: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint.reply(consistent)
    endpoint.misbehave("rate_limited", times=2, retry_after=0.1)
    report, _ = run(endpoint, [*pair, "--trials", "1", "--same", "0"], capsys)
    assert report["usage"]["calls"] == 24


def test_openai_s_key_goes_to_its_own_host_alone(
    pair: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with Endpoint(key="secret") as endpoint:
        endpoint.reply(consistent)
        judged = ["judge", *pair, "--trials", "1", "--same", "0", "--model", "judge-1", "--base-url", endpoint.url]
        assert main(judged) == 1
        assert "Incorrect API key" in capsys.readouterr().err
        assert main([*judged, "--api-key-env", "OPENAI_API_KEY"]) == 0, "who names it sends it"
        monkeypatch.setenv("OPENAI_BASE_URL", f"{endpoint.url}/")
        assert main(judged) == 0


def test_an_endpoint_that_refuses_is_an_error_with_a_hint(
    pair: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRONG_KEY", "wrong")
    with Endpoint(key="right") as endpoint:
        asked = ["--model", "judge-1", "--base-url", endpoint.url]
        assert main(["judge", *pair, *asked, "--api-key-env", "WRONG_KEY"]) == 1
        err = capsys.readouterr().err
        assert f"the model judge-1 at {endpoint.url}/ cannot be asked" in err
        assert "Incorrect API key" in err
        assert "HINT: " in err
        assert "Traceback" not in err
        monkeypatch.setenv("RIGHT_KEY", "right")
        endpoint.reply(consistent)
        assert main(["judge", *pair, *asked, "--api-key-env", "RIGHT_KEY", "--trials", "1", "--same", "0"]) == 0
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    capsys.readouterr()
    assert main(["judge", *pair, "--model", "judge-1"]) == 1
    assert "there is no key in the environment variable OPENAI_API_KEY" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ([{"id": 0, "question": "Another?", "answer": "a"}], '"0" is another question in other than in naive'),
        ([{"id": "x", "question": "Question 0?", "answer": "a"}], "answer no common question"),
        ([{"id": 0, "question": "Question 0?"}], '"0" has no answer'),
        ([{"id": 0, "question": "Question 0?", "answer": "a"}] * 2, 'the id "0" occurs twice'),
    ],
)
def test_files_that_do_not_fit_are_refused(
    endpoint: Endpoint,
    pair: list[str],
    tmp_path: Path,
    other: list[Any],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text("\n".join(map(json.dumps, other)))
    asked = ["--model", "judge-1", "--base-url", endpoint.url, "--same", "0"]
    assert main(["judge", pair[0], str(path), *asked]) == 1
    assert message in capsys.readouterr().err
    assert endpoint.count() == 0


def test_questions_that_one_system_did_not_answer_are_left_out_and_counted(
    endpoint: Endpoint, pair: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint.reply(consistent)
    fewer = answers(tmp_path, "fewer", 5, lambda n: "A much longer answer than the other.")
    report, err = run(endpoint, [*pair, str(fewer), "--trials", "1", "--same", "0"], capsys)
    assert "7 questions answered by only one of naive and fewer" in err
    assert [comparison["questions"] for comparison in report["comparisons"]] == [12] * 6 + [5] * 6


# Statistics.


def test_holm_is_the_step_down_procedure() -> None:
    # The example of Wright 1992 (Biometrics 48), sorted otherwise.
    assert holm([0.025, 0.010, 0.005, 0.022]) == pytest.approx([0.044, 0.030, 0.020, 0.044])
    assert holm([0.6, 0.7]) == [1, 1]
    assert holm([]) == []


def test_p_is_wilcoxons_over_questions_and_trials_do_not_multiply_the_evidence() -> None:
    random = np.random.default_rng(0)
    winners = {question: int(random.choice([1, 1, 2, 0])) for question in range(30)}
    trials = 4
    verdicts = [
        Verdict(str(question), *order, trial, dict.fromkeys(CRITERIA, winner if order[0] == "a" else (3 - winner) % 3))
        for question, winner in winners.items()
        for order in (("a", "b"), ("b", "a"))
        for trial in range(trials)
    ]
    shares = np.array([{0: 0.5, 1: 1.0, 2: 0.0}[winner] for winner in winners.values()])
    for row in comparisons(verdicts, "b"):
        assert row.p == pytest.approx(scipy.stats.wilcoxon(shares - 0.5).pvalue)
        assert row.p_holm == pytest.approx(min(1, 6 * row.p))
        assert row.win_rate == pytest.approx(shares.mean())
        assert row.low < row.win_rate < row.high
        assert row.wins == 2 * trials * sum(winner == 1 for winner in winners.values())


def test_a_judge_that_calls_all_equal_has_no_bias() -> None:
    verdicts = [Verdict(str(n), "a", "a", 1, dict.fromkeys(CRITERIA, 0)) for n in range(20)]
    assert all((bias.neither, bias.p, bias.p_holm) == (20, 1, 1) for bias in place_bias(verdicts))


def test_by_fewer_criteria_fewer_are_corrected_for() -> None:
    criteria = ["comprehensiveness", "diversity", "empowerment", "overall"]
    verdicts = [
        Verdict(str(n), *order, 1, dict.fromkeys(criteria, 1 if order[0] == "a" else 2))
        for n in range(12)
        for order in (("a", "b"), ("b", "a"))
    ]
    results = comparisons(verdicts, "b")
    assert [row.criterion for row in results] == criteria
    assert all(row.p_holm == pytest.approx(4 * row.p) for row in results)
    assert [bias.criterion for bias in place_bias(verdicts)] == criteria


# Replies.


def test_winners_are_read_however_models_write_them() -> None:
    forms: list[Any] = [
        1,
        "1",
        {"winner": 1},
        {"winner": "Answer 1", "reason": "x"},
        {"winner": " answer 1 "},
        "Answer 1",
    ]
    assert read_winners(dict(zip(CRITERIA, forms, strict=True))) == dict.fromkeys(CRITERIA, 1)
    assert read_winners(dict.fromkeys(CRITERIA, "Tie")) == dict.fromkeys(CRITERIA, 0)
    for wrong in (None, 3, True, "both", {"reason": "x"}, [1], -1, 1.5):
        with pytest.raises(Unusable, match="overall"):
            read_winners(dict.fromkeys(CRITERIA, 1) | {"overall": wrong})


def test_an_object_is_found_within_prose_thoughts_and_fences() -> None:
    for text in ('{"a": 1}', 'So:\n```json\n{"a": 1,}\n```', '<think>{"a": 2}</think>{"a": 1}', 'x {y {"a": 1} z'):
        assert read_object(text) == {"a": 1}
    for text in ("", "prose", '{"a": 1', "{}", "[1]"):
        with pytest.raises(Unusable):
            read_object(text)
