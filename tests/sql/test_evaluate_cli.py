"""pg-graphrag evaluate: the table says what graphrag.evaluate says, the chart can be read, mistakes are named."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pg_graphrag.beside.cli import main
from pg_graphrag.beside.client import GraphRAG

from tests.runtime.cluster import Database
from tests.sql.ingest import STORIES, index_all, searched_corpus
from tests.sql.test_evaluate import QUESTIONS


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    return index_all(module_db, searched_corpus(module_db), STORIES)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(map(json.dumps, QUESTIONS)) + "\n\n", encoding="utf-8")
    return path


def test_the_table_has_the_figures_and_the_chart_their_names(
    module_db: Database, corpus: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variants = '{"variants": {"paper & co": {"mode": "hybrid", "profile": "paper"}}}'
    arguments = ["--modes", "bm25", "paper & co", "--k", "1", "3", "--options", variants]
    assert main(["evaluate", str(file), "--url", module_db.url, "--corpus", corpus, *arguments]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].split()[:2] == ["mode", "k"]
    with GraphRAG(module_db.url, corpus) as rag:
        wanted = rag.evaluate(QUESTIONS, modes=["bm25", "paper & co"], k=[1, 3], **json.loads(variants))
    for line, row in zip(lines[1:5], wanted, strict=True):
        assert line.startswith(row.mode)
        figures = [row.recall, row.ndcg, row.mrr, row.any_hit, row.all_hit]
        assert line[len("paper & co") :].split()[:6] == [str(row.k), *(f"{value:.3f}" for value in figures)]
        assert line.count(" p ") == (0 if row.mode == "bm25" else 2)
    assert "4 questions; 1 more have no evidence" in out
    chart = file.with_suffix(".svg")
    assert f"chart: {chart}" in err
    texts = {"".join(node.itertext()).strip() for node in ElementTree.parse(chart).iter() if node.tag.endswith("text")}
    assert {"bm25", "paper & co", "Recall@k", "nDCG@k", "MRR@k", "k = 1", "k = 3"} <= texts
    assert f"Corpus {corpus}, 4 questions" in texts
    assert {f"{row.recall:.3f}" for row in wanted} <= {text.rstrip("*") for text in texts}


def test_png_and_json_lines(
    module_db: Database, corpus: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chart = tmp_path / "figures.png"
    arguments = ["--modes", "bm25", "--k", "2", "--json", "--chart", str(chart)]
    assert main(["evaluate", str(file), "--url", module_db.url, "--corpus", corpus, *arguments]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert (json.loads(line)["mode"], json.loads(line)["questions"]) == ("bm25", 4)
    assert chart.read_bytes().startswith(b"\x89PNG")
    assert not file.with_suffix(".svg").exists()


def test_no_chart_writes_none(module_db: Database, corpus: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--modes", "bm25", "--no-chart"]
    assert main(["evaluate", str(file), "--url", module_db.url, "--corpus", corpus, *arguments]) == 0
    assert list(file.parent.iterdir()) == [file]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ('{"question": "?"}\n{"id": 2', [], "line 2 is not JSON"),
        ("[1]", [], "line 1 is not a JSON object"),
        ("\n", [], "is empty"),
        (None, [], "No such file"),
        ('{"question": "?", "evidence": ["nobody"]}', [], 'has the source_key "nobody"'),
        ('{"question": "?", "evidence": ["ada"]}', ["--modes", "magic"], 'unknown mode "magic"'),
        ('{"question": "?", "evidence": ["ada"]}', ["--chart", "chart.docx"], "chart.docx"),
    ],
)
def test_mistakes_are_named_with_a_hint(
    module_db: Database,
    corpus: str,
    file: Path,
    content: str | None,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file.unlink() if content is None else file.write_text(content)
    assert main(["evaluate", str(file), "--url", module_db.url, "--corpus", corpus, *arguments]) == 1
    err = capsys.readouterr().err
    assert message in err
    assert "HINT: " in err


def test_without_matplotlib_the_command_says_what_to_install_before_it_measures(file: Path) -> None:
    blocked = (
        "import sys; sys.modules['matplotlib'] = None; from pg_graphrag.beside.cli import main;"
        f" sys.exit(main(['evaluate', {str(file)!r}, '--url', 'postgresql://nobody@127.0.0.1:1/x']))"
    )
    done = subprocess.run([sys.executable, "-c", blocked], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install '.[evaluation]'" in done.stderr
    assert "--no-chart" in done.stderr
    assert "Traceback" not in done.stderr
