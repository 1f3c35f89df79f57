"""What the benchmarks of answers and contexts count, and the model that rehearses them."""

import json
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from pg_graphrag.beside.judging.judge_pairs import CRITERIA
from pg_graphrag.text.tokenizers import Positions, Tokenizer

from bench.data.fetched import Repository, fetched
from bench.retrieval import benchmark_qed, graphrag_bench
from bench.retrieval.picture import dots
from bench.retrieval.rehearsal import Rehearsal

QUESTION = graphrag_bench.Question(
    "1",
    "What does the Kestrel engine burn?",
    "The Kestrel engine burns methane.",
    ("The Kestrel burns methane.", "Bob Stone designed the Kestrel."),
    "Fact Retrieval",
)


class Words(Tokenizer):
    """A tokenizer whose tokens are words."""

    _GAP = re.compile(r"\s")

    def _spans(self, text: str) -> tuple[Positions, Positions]:
        spans = np.array([word.span() for word in re.finditer(r"\S+", text)], np.int64).reshape(-1, 2)
        return spans[:, 0], spans[:, 1]


def test_a_context_with_the_answer_and_its_evidence_has_all_shares() -> None:
    context = "Bob Stone designed the Kestrel engine. It burns methane."
    assert graphrag_bench.shares(context, QUESTION) == (1.0, 1.0, 1.0)


def test_words_in_different_places_are_no_evidence_in_one_place() -> None:
    far = "Kestrel is a bird. Nothing else. Nothing more. A burner burns. Nothing. So it is. Methane is a gas."
    answer, evidence, place = graphrag_bench.shares(far, QUESTION)
    assert (answer, evidence) == (0.75, 0.5)
    assert place < 0.5


def test_a_question_without_evidence_has_no_share_of_it() -> None:
    question = graphrag_bench.Question("1", "Who?", "Bob Stone", (), "Fact Retrieval")
    answer, *others = graphrag_bench.shares("Bob Stone", question)
    assert answer == 1
    assert all(share != share for share in others)


def test_likeness_counts_words_and_their_order() -> None:
    assert graphrag_bench.overlap("The engine burns methane.", "the Engine burns methane") == (1.0, 1.0)
    assert graphrag_bench.overlap("methane burns", "burns methane") == (1.0, 0.5)
    assert graphrag_bench.overlap("It burns methane, a gas", "methane") == (2 / 6, 2 / 6)
    assert graphrag_bench.overlap("", "methane") == (0.0, 0.0)


def test_as_many_questions_of_each_class_are_drawn() -> None:
    questions = [
        graphrag_bench.Question(f"{kind}{number}", "?", "", (), kind)
        for kind in graphrag_bench.CLASSES
        for number in range(10)
    ]
    drawn = graphrag_bench.drawn(questions, 8)
    assert [question.kind for question in drawn] == [kind for kind in graphrag_bench.CLASSES for _ in range(2)]
    assert graphrag_bench.drawn(questions, 0) == questions


@pytest.mark.parametrize("evidence", [["It burns.", "It flies."], "It burns.; It flies."])
def test_evidence_is_read_as_a_list_and_as_one_text(tmp_path: Path, evidence: object) -> None:
    write_set(tmp_path, "First line.\n\nSecond line.", evidence)
    texts, (question,) = graphrag_bench.read_set(tmp_path, "Medical")
    assert [text["content"] for text in texts] == ["First line.", "Second line."]
    assert question.evidence == ("It burns.", "It flies.")


def write_set(folder: Path, context: str, evidence: object) -> None:
    corpus, questions, _ = (folder / path for path in graphrag_bench.repository("Medical").paths)
    corpus.parent.mkdir(parents=True)
    questions.parent.mkdir(parents=True)
    corpus.write_text(json.dumps({"corpus_name": "Medical", "context": context}))
    row = {"id": "1", "question": "?", "answer": "Yes", "question_type": "Fact Retrieval", "evidence": evidence}
    questions.write_text(json.dumps([row]))


def test_a_picture_has_a_dot_for_each_figure_between_the_ends_of_its_interval() -> None:
    drawn = ElementTree.fromstring(dots("A & B", ["2,000", "4,000"], {"naive": [(0.5, 0.4, 0.7), (0.6, 0.5, 0.8)]}))
    marks = [(element.tag.rpartition("}")[2], element.attrib) for element in drawn]
    legend, first, second = [attributes for tag, attributes in marks if tag == "circle"][1:]
    lines = [attributes for tag, attributes in marks if tag == "line" and attributes["stroke"] == first["fill"]]
    assert [float(lines[0]["x1"]) < float(first["cx"]) < float(lines[0]["x2"])] == [True]
    assert float(first["cx"]) < float(second["cx"])
    assert legend["fill"] == second["fill"] != first["fill"]


def test_answers_are_cut_to_the_shorter_one_at_the_end_of_a_sentence() -> None:
    sentence = "One two three four five six seven eight nine ten. "
    long, short = (sentence * 20).strip(), (sentence * 6).strip() + " And more"
    first, second = benchmark_qed.cut_to_equal(long, short, Words())
    assert first == (sentence * 6).strip()
    assert second == short


def test_an_answer_that_says_nothing_does_not_cut_the_other_to_nothing() -> None:
    sentence = "One two three four five six seven eight nine ten. "
    first, second = benchmark_qed.cut_to_equal((sentence * 20).strip(), "No.", Words())
    assert first == (sentence * (benchmark_qed.LEAST // 10)).strip()
    assert second == "No."


def test_a_rehearsal_answers_by_schema_by_example_and_in_words() -> None:
    rehearsal = Rehearsal({"say so": lambda _: "so"})
    schema = {
        "type": "object",
        "properties": {"points": {"type": "array", "items": {"$ref": "#/$defs/point"}}, "done": {"type": "boolean"}},
        "$defs": {"point": {"type": "object", "properties": {"score": {"type": "integer", "minimum": 5}}}},
    }
    asked = {"messages": [{"role": "user", "content": "Question: who?"}]}
    by_schema = json.loads(rehearsal(asked | {"response_format": {"json_schema": {"schema": schema}}}))
    assert by_schema == {"points": [{"score": 5}] * 3, "done": True}
    form = 'Name 4 users.\nReply with one JSON object:\n{"users": [{"name": "…"}]}'
    by_example = json.loads(rehearsal({"messages": [{"role": "user", "content": form}]}))
    assert [*by_example] == ["users"]
    assert len(by_example["users"]) == 4
    assert len(rehearsal(asked).split()) > 100
    assert rehearsal({"messages": [{"role": "user", "content": "say so"}]}) == "so"
    assert rehearsal.take()["calls"] == 4
    assert rehearsal.take()["calls"] == 0


def test_what_is_rehearsed_cites_what_is_shown_and_tells_passages_apart() -> None:
    passages = (
        "You judge which of several passages help.\n<p>\n[1] One.\n\n[2] Two.\n\n[3] Three.\n</p>\nQuestion: who?"
    )
    asked = {"messages": [{"role": "user", "content": passages}]}
    assert json.loads(Rehearsal()(asked)) == {"relevant": [1, 3], "irrelevant": [2]}
    answer = Rehearsal()({"messages": [{"role": "user", "content": "[7] Ann founded Acme.\nQuestion: who?"}]})
    assert answer.endswith(" [7].")


def test_a_judge_is_rehearsed_in_the_form_that_verdicts_have() -> None:
    form = "{" + ", ".join(f'"{name}": {{"reason": "…", "winner": 0}}' for name in CRITERIA) + "}"
    reply = json.loads(Rehearsal()({"messages": [{"role": "user", "content": f"Compare.\n{form}"}]}))
    assert {name: reply[name]["winner"] for name in CRITERIA} == dict.fromkeys(CRITERIA, 0)


def test_another_systems_answers_are_compared_where_it_has_some() -> None:
    questions = [benchmark_qed.Question(id, f"Question {id}?", "cs") for id in "ab"]
    answers = {"lazy": {"a": "One.", "b": "Two."}, "theirs": {"b": "Three."}}
    (pair,) = benchmark_qed.pairs(questions, answers, "lazy", Words())
    assert [(row.id, row.answer) for row in pair.other_answers] == [("b", "Three.")]
    assert [row.answer for row in pair.baseline_answers] == ["Two."]
    with pytest.raises(SystemExit, match="known by their ids"):
        benchmark_qed.pairs(questions, answers | {"none": {}}, "lazy", Words())


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository of two files, of which one is needed."""
    folder = tmp_path / "public"
    folder.mkdir()
    (folder / "needed.txt").write_text("needed")
    (folder / "other.txt").write_text("other")
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    for step in (["init", "--quiet"], ["add", "."], [*identity, "commit", "--quiet", "-m", "All"]):
        subprocess.run(["git", "-C", folder, *step], check=True)
    for name in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        subprocess.run(["git", "-C", folder, "config", name, "true"], check=True)
    commit = subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], check=True, stdout=subprocess.PIPE, text=True)
    return Repository(f"file://{folder}", commit.stdout.strip(), ("needed.txt",))


def test_needed_paths_are_fetched_once(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = fetched(repository, None)
    assert (folder / "needed.txt").read_text() == "needed"
    assert not (folder / "other.txt").exists()
    (folder / "needed.txt").write_text("kept")
    assert (fetched(repository, None) / "needed.txt").read_text() == "kept"


def test_what_cannot_be_fetched_says_what_to_do(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    gone = repository._replace(url=f"{repository.url}-gone")
    with pytest.raises(SystemExit, match=r"could not be fetched .*git clone .*--data"):
        fetched(gone, None)
    assert list((tmp_path / "cache/pg_graphrag").iterdir()) == []


def test_a_folder_that_lacks_a_path_is_refused(repository: Repository, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"has no needed\.txt: .*--data"):
        fetched(repository, tmp_path / "other")


def test_a_clone_or_a_folder_of_clones_has_the_paths(repository: Repository, tmp_path: Path) -> None:
    assert fetched(repository, tmp_path / "public") == fetched(repository, tmp_path) == tmp_path / "public"
