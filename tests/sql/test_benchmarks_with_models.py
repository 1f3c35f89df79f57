"""python -m bench graphrag_bench and benchmark_qed, on small sets in the formats of the public ones, with scripted models.

What needs environments of its own (LightRAG, the benchmarks' own code) runs on demand:
``GRAPHRAG_FRAMEWORKS=1 ./test tests/sql/test_benchmarks_with_models.py``.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pg_graphrag.beside.judging.judge_pairs import CRITERIA

from bench.retrieval.benchmark_qed import FOLDER
from bench.retrieval.rehearsal import Rehearsal
from tests.endpoint import Endpoint
from tests.runtime.cluster import PROJECT, Database
from tests.runtime.real_model import RealModel, is_supported

on_demand = pytest.mark.skipif(
    not os.environ.get("GRAPHRAG_FRAMEWORKS"), reason="environments are made on demand: GRAPHRAG_FRAMEWORKS=1"
)
TEXTS = (
    "Ann Lee founded Acme Rockets in Osaka in 1999. Acme Rockets builds launchers.",
    "Bob Stone is the chief engineer of Acme Rockets. He designed the Kestrel engine.",
    "The Kestrel engine burns methane. It first flew on the Heron launcher in 2011.",
    "Osaka is a port city in Japan. The castle of Osaka was built in 1583.",
)
QUESTIONS = (
    ("What does the Kestrel engine burn?", "The Kestrel engine burns methane.", "Fact Retrieval"),
    ("Who designed the engine that burns methane?", "Bob Stone designed the Kestrel engine.", "Complex Reasoning"),
    ("What is Acme Rockets?", "Acme Rockets builds launchers in Osaka.", "Contextual Summarize"),
    ("Write a letter about Osaka.", "Osaka is a port city in Japan.", "Creative Generation"),
)


# In place of the benchmark's own code: each metric is a request to the judge.
METRICS = """
import json

async def compute_rouge_score(answer, gold):
    return 0.5

async def asked(what, llm):
    reply = await llm.ainvoke(f"{what}\\nReply with one JSON object:\\n" + '{"score": 1}')
    return json.loads(reply.content)["score"]

async def compute_answer_correctness(question, answer, gold, llm, embeddings):
    return await asked(f"Is this right? {answer}", llm)

async def compute_coverage_score(question, gold, answer, llm):
    return await asked(f"Is all there? {answer}", llm)

async def compute_faithfulness_score(question, answer, contexts, llm):
    return await asked(f"Do texts say so? {answer}", llm)

async def compute_context_relevance(question, contexts, llm):
    return await asked(f"Is it about this? {question}", llm)

async def compute_evidence_recall(question, contexts, evidence, llm):
    return await asked(f"Is it there? {evidence}", llm)
"""


@pytest.fixture(scope="module")
def graphrag_bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a set in the form of GraphRAG-Bench."""
    folder = tmp_path_factory.mktemp("graphrag-bench")
    (folder / "Evaluation").mkdir()
    (folder / "Evaluation/metrics.py").write_text(METRICS)
    novels = [{"corpus_name": f"Novel-{number}", "context": text} for number, text in enumerate(TEXTS)]
    for part, rows in (
        ("Corpus/medical.json", {"corpus_name": "Medical", "context": "\n".join(TEXTS)}),
        ("Questions/medical_questions.json", [question(number) for number in range(len(QUESTIONS))]),
        ("Corpus/novel.json", novels),
        # Each is asked of a text that does not answer it.
        ("Questions/novel_questions.json", [question(number) | {"source": "Novel-3"} for number in range(3)]),
    ):
        path = folder / "Datasets" / part
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(rows), encoding="utf-8")
    return folder


def question(number: int) -> dict[str, str]:
    text, answer, kind = QUESTIONS[number]
    return {"id": str(number), "question": text, "answer": answer, "question_type": kind, "evidence": answer}


@pytest.fixture(scope="module")
def ultradomain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a set in the form of UltraDomain's in KAG's repository."""
    folder = tmp_path_factory.mktemp("kag")
    books, rest = folder / FOLDER / "builder/data", folder / FOLDER / "solver/data"
    books.mkdir(parents=True)
    rest.mkdir(parents=True)
    for number, text in enumerate(TEXTS):
        (books / f"book_{number}.md").write_text(text)
    asked = [{"_id": str(number), "input": text} for number, (text, *_) in enumerate(QUESTIONS)]
    (rest / "questions.json").write_text(json.dumps(asked))
    answered = [row | {"lightrag_answer": "It burns **methane**."} for row in asked]
    (rest / "csqa_lightrag_answers.json").write_text(json.dumps(answered))
    return folder


@pytest.fixture(scope="module")
def benchmark_qed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sets in the form of BenchmarkQED's AP_news and podcast."""
    folder = tmp_path_factory.mktemp("benchmark-qed")
    base = folder / "datasets/AP_news"
    (base / "raw_data").mkdir(parents=True)
    (base / "generated_questions_v1").mkdir()
    for number, text in enumerate(TEXTS):
        article = {"headline": f"Article {number}", "body_nitf": f"<p>{text}</p>"}
        (base / f"raw_data/{number}.json").write_text(json.dumps(article), encoding="utf-8-sig")
    for kind in ("data_local", "data_global", "activity_local", "activity_global"):
        texts = [f"{text} ({kind})" for text, *_ in QUESTIONS[:2]]
        (base / f"generated_questions_v1/{kind}_questions_text.json").write_text(json.dumps(texts))
    base = folder / "datasets/podcast"
    (base / "raw_data").mkdir(parents=True)
    (base / "generated_questions_v2").mkdir()
    (base / "raw_data/1.json").write_text(json.dumps({"episode": "One", "text": "\n".join(TEXTS)}))
    for kind in ("data_local", "data_linked"):
        asked = [{"question_text": f"{QUESTIONS[0][0]} ({kind})"}]
        (base / f"generated_questions_v2/{kind}_questions.json").write_text(json.dumps(asked))
    return folder


def judge(prompt: str) -> str:
    """Prefer what has methane; where both have it or neither, what comes first."""
    first, second = ("methane" in answer for answer in re.findall(r"<<<\n(.*?)\n>>>", prompt, re.S))
    return json.dumps({name: {"reason": "So it is.", "winner": 1 if first >= second else 2} for name in CRITERIA})


@pytest.fixture
def model() -> Iterator[Endpoint]:
    with Endpoint(keep=False) as endpoint:
        endpoint.reply_to_body(Rehearsal({"You compare two answers": judge}))
        yield endpoint


def bench(db: Database, *arguments: str | Path) -> str:
    command = [sys.executable, "-m", "bench", *map(str, arguments), "--url", db.url]
    return subprocess.run(command, cwd=PROJECT, check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.slow
def test_contexts_hold_the_answers_of_a_small_set(module_db: Database, graphrag_bench: Path) -> None:
    text = bench(
        module_db,
        *("graphrag_bench", "--data", graphrag_bench, "--modes", "hybrid", "local", "--budgets", "200", "400"),
        "--no-lightrag",
    )
    for measure in ("answer", "evidence", "evidence in one place"):
        table = text.partition(f"Share of the {measure}, mean")[2].partition("\n\n")[2].partition("\n\n")[0]
        rows = re.findall(r"^\| (\w+) \| (\S+) \[.*\| (\S+) \[", table, re.M)
        assert [name for name, *_ in rows] == ["naive", "hybrid", "local"]
        # All four texts are in 400 tokens.
        assert rows[1][2] == "1.000"
    assert "Fact Retrieval (1)" in text


@pytest.mark.slow
def test_sentences_as_answers_have_the_words_of_gold_answers(module_db: Database, graphrag_bench: Path) -> None:
    text = bench(module_db, "graphrag_bench", "--data", graphrag_bench, "--extracts")
    cells = {
        row.split(" | ")[0]: row.split(" | ")[1:] for row in text.splitlines() if re.match(r"\| \w+.* \(\d\)", row)
    }
    assert cells["| all (4)"][-2] == "0.000"
    words, everywhere, evidence, place, likeness, *_ = cells["| Fact Retrieval (1)"]
    assert words.startswith("1.000")
    assert (everywhere, evidence, place) == ("1.000", "1.000", "1.000")
    assert likeness == "1.000, 1.000"


@pytest.mark.slow
def test_a_novels_questions_are_asked_of_that_novel_alone(module_db: Database, graphrag_bench: Path) -> None:
    text = bench(
        module_db,
        *("graphrag_bench", "--set", "Novel", "--data", graphrag_bench, "--modes", "hybrid", "--budgets", "400"),
        "--no-lightrag",
    )
    (naive, *_) = re.findall(r"^\| naive \| (\S+) \[", text.partition("Share of the answer, mean")[2], re.M)
    assert float(naive) < 0.1


@pytest.mark.slow
@pytest.mark.skipif(not is_supported(), reason="no wheel of llama.cpp for this machine")
def test_a_real_model_answers_all_three_and_another_judges(
    module_db: Database, graphrag_bench: Path, benchmark_qed: Path, ultradomain: Path, model: Endpoint, tmp_path: Path
) -> None:
    with RealModel(slots=2, reply=30) as answering:
        models = ("--model", "SmolLM2", "--base-url", answering.url, "--judge", "scripted", "--judge-url", model.url)
        text = bench(
            module_db,
            *("graphrag_bench", "--data", graphrag_bench, "--modes", "naive", "--answers", "1", "--budget", "500"),
            *(*models, "--yes", "--output", tmp_path / "bench"),
        )
        assert "Answered by SmolLM2, judged by scripted" in text
        assert len(re.findall(r"^\| [\w ]+ \| \w+ \| [\d.]+ \[.*\] \(1\) \|$", text, re.M)) == 4 + 4 + 4 + 5
        # Answers' metrics, one for each but ROUGE-L, and two of the context.
        assert model.count("chat") == 1 + 1 + 2 + 3 + 4 * 2
        asked = answering.counts()[0]
        assert asked >= 4
        pairs = ("--baseline", "hybrid", "--trials", "1", "--same", "1", *models, "--yes")
        text = bench(
            module_db,
            *("benchmark_qed", "--set", "podcast", "--data", benchmark_qed, "--conditions", "hybrid", "local", *pairs),
            *("--output", tmp_path / "qed"),
        )
        assert "Answers: SmolLM2; judge: scripted" in text
        assert set(re.findall(r"^\| local \| (\w+) \|", text, re.M)) == set(CRITERIA)
        text = bench(
            module_db,
            *(
                "benchmark_qed",
                "--set",
                "cs",
                "--data",
                ultradomain,
                "--questions",
                "2",
                "--conditions",
                "hybrid",
                *pairs,
            ),
            *("--output", tmp_path / "cs"),
        )
        of_lightrag = re.findall(r"^\| LightRAG \| (\w+) \| (\S+) ", text, re.M)
        assert [name for name, _ in of_lightrag][:4] == ["comprehensiveness", "diversity", "empowerment", "overall"]
        assert answering.counts()[0] > asked


@pytest.mark.slow
def test_an_estimate_asks_the_named_model_nothing(module_db: Database, benchmark_qed: Path, model: Endpoint) -> None:
    command = (
        *("benchmark_qed", "--data", benchmark_qed, "--questions", "1", "--conditions", "lazy", "hybrid"),
        *("--trials", "1", "--same", "1", "--model", "costly", "--base-url", model.url),
        *("--estimate", "--prices", "1", "10"),
    )
    text = bench(module_db, *command)
    assert model.count("chat") == 0
    # What was asked before costs as much again.
    assert re.findall(r"^\| [\w: ]+ \| [\d,]+ \|", bench(module_db, *command), re.M) == re.findall(
        r"^\| [\w: ]+ \| [\d,]+ \|", text, re.M
    )
    calls = {step: int(count) for step, count in re.findall(r"^\| ([\w: ]+) \| (\d+) \|", text, re.M)}
    # Four classes of one question: each is judged once in each order, and one answer beside itself.
    assert calls["judge"] == 4 * 2 + 1
    assert calls["answers: lazy"] > calls["answers: hybrid"] >= 4
    assert calls["all"] == sum(count for step, count in calls.items() if step != "all")
    (cost,) = re.findall(r"^\| all \|.*\| (\d+\.\d\d) \|$", text, re.M)
    assert float(cost) > 0


@pytest.mark.slow
def test_a_biased_judge_is_found_out_and_nothing_is_asked_twice(
    module_db: Database, benchmark_qed: Path, model: Endpoint, tmp_path: Path
) -> None:
    command = (
        *("benchmark_qed", "--data", benchmark_qed, "--questions", "2", "--conditions", "lazy", "hybrid", "local"),
        *("--trials", "1", "--same", "8", "--model", "scripted", "--base-url", model.url),
        *("--yes", "--output", tmp_path / "output"),
    )
    text = bench(module_db, *command)
    assert "**prefers a place**" in text
    assert "\nactivity_local, against lazy\n" in text
    assert len(re.findall(r"^\| hybrid \| overall \| \d\.\d{3} \[", text, re.M)) == 5
    asked = model.count("chat")
    again = bench(module_db, *command)
    assert model.count("chat") == asked
    assert again.partition("| condition")[2] == text.partition("| condition")[2]


@pytest.mark.slow
def test_questions_of_the_classes_are_made_by_the_model(module_db: Database, benchmark_qed: Path) -> None:
    text = bench(
        module_db,
        *("benchmark_qed", "--data", benchmark_qed, "--make", "2", "--conditions", "lazy", "hybrid"),
        *("--trials", "1", "--same", "1", "--model", "costly", "--estimate"),
    )
    calls = {step: int(count) for step, count in re.findall(r"^\| ([\w: ]+) \| (\d+) \|", text, re.M)}
    # A description, two documents, one request for two questions on the whole; users, tasks, questions.
    assert calls["questions"] == 1 + 2 + 1 + 3


@pytest.mark.slow
def test_the_afternoon_of_the_manual_costs_what_its_steps_do(
    module_db: Database, graphrag_bench: Path, benchmark_qed: Path, ultradomain: Path
) -> None:
    page = (PROJECT / "docs/evaluation.md").read_text("utf-8").partition("## An afternoon with a key")[2]
    (options,) = re.findall(r'^with="(.*)"$', page, re.M)
    commands = re.findall(r"^python -m bench (\w+) \$with (.*)$", page, re.M)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\| \d .*", page, re.M)]
    assert len(commands) == 3
    for number, (name, rest) in enumerate(commands, 1):
        data = ultradomain if "--set cs" in rest else {"graphrag_bench": graphrag_bench}.get(name, benchmark_qed)
        # Nothing is sent to where the page says.
        text = bench(module_db, name, "--data", data, *options.split(), *rest.split())
        printed = re.findall(r"^\| ([^|]+) \| [\d,]+ \| [\d,]+ \| [\d,]+ \| \d+\.\d\d \|$", text, re.M)
        steps = {
            step: [float(cell.replace(",", "")) for cell in cells] for at, step, *cells in rows if at == str(number)
        }
        assert printed == [*steps]
        total = steps.pop("all")
        assert total == [pytest.approx(sum(column), abs=0.05) for column in zip(*steps.values(), strict=True)]


def test_a_model_is_not_asked_without_being_told_to(module_db: Database, benchmark_qed: Path) -> None:
    command = [sys.executable, "-m", "bench", "benchmark_qed", "--data", str(benchmark_qed), "--url", module_db.url]
    done = subprocess.run([*command, "--model", "costly"], cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "say --estimate first, then --yes" in done.stderr


@on_demand
def test_lightrag_reads_our_index(module_db: Database, graphrag_bench: Path) -> None:
    text = bench(module_db, *("graphrag_bench", "--data", graphrag_bench, "--modes", "hybrid", "--budgets", "400"))
    rows = re.findall(r"^\| (LightRAG \w+) \| (\S+) \[", text, re.M)
    assert {name for name, _ in rows} == {f"LightRAG {mode}" for mode in ("naive", "mix", "hybrid")}
    assert {share for name, share in rows if name in ("LightRAG naive", "LightRAG mix")} == {"1.000"}


@on_demand
def test_benchmark_qeds_own_code_judges_the_cut_answers(module_db: Database, benchmark_qed: Path) -> None:
    text = bench(
        module_db,
        *("benchmark_qed", "--data", benchmark_qed, "--questions", "2", "--conditions", "lazy", "hybrid"),
        *("--trials", "1", "--same", "1", "--model", "costly", "--estimate", "--official"),
    )
    calls = {step: int(count) for step, count in re.findall(r"^\| ([\w:, ]+) \| (\d+) \|", text, re.M)}
    # Two questions of four classes, four criteria, both orders.
    assert calls["judge, official"] == 2 * 4 * 4 * 2
