"""python -m bench crossvalidate, on small sets in the formats of the public ones."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.cluster import PROJECT, Database

PASSAGES = {
    "Ann Lee": "Ann Lee founded Acme Rockets in Osaka in 1999.",
    "Bob Stone": "Bob Stone is the chief engineer of Acme Rockets. He designed the Kestrel engine.",
    "Kestrel": "The Kestrel engine burns methane. It first flew on the Heron launcher in 2011.",
    "Osaka": "Osaka is a port city in Japan. Its castle was built in 1583.",
}
QUESTIONS = {
    "Who founded the company of the engineer who designed the Kestrel engine?": ["Ann Lee", "Bob Stone"],
    "When was the castle of Osaka built?": ["Osaka"],
    "What does the Kestrel engine burn?": ["Kestrel"],
}


def write_lines(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MuSiQue's and HotpotQA's files, and no others."""
    folder = tmp_path_factory.mktemp("data")
    passages = [{"id": title, "title": title, "text": text} for title, text in PASSAGES.items()]
    write_lines(folder / "musique/docs.jsonl", passages)
    write_lines(
        folder / "musique/queries_dev.jsonl",
        [{"question": question, "evidence": titles} for question, titles in QUESTIONS.items()],
    )
    (folder / "hotpotqa").mkdir()
    corpus = {title: [text] for title, text in PASSAGES.items()}
    questions = [
        {"question": question, "supporting_facts": [[title, 0] for title in titles]}
        for question, titles in QUESTIONS.items()
    ]
    (folder / "hotpotqa/hotpotqa_train_corpus.json").write_text(json.dumps(corpus), encoding="utf-8")
    (folder / "hotpotqa/hotpotqa_train.json").write_text(json.dumps(questions), encoding="utf-8")
    return folder


def run(db: Database, data: Path) -> str:
    arguments = ["--url", db.url, "--data", str(data), "--sets", "musique", "hotpotqa", "jsquad"]
    command = [sys.executable, "-m", "bench", "crossvalidate", *arguments, "--modes", "bm25", "hybrid"]
    return subprocess.run(command, cwd=PROJECT, check=True, stdout=subprocess.PIPE, text=True).stdout


def indexed(db: Database) -> list[tuple[object, ...]]:
    query = "SELECT k.name, d.id, d.indexed_at FROM graphrag.documents d JOIN graphrag.corpora k ON k.id = d.corpus_id"
    return sorted(db.execute(query).fetchall(), key=str)


@pytest.fixture(scope="module")
def runs(module_db: Database, data: Path) -> Iterator[tuple[str, list[tuple[object, ...]]]]:
    """What the first run said, and the documents that it left."""
    yield run(module_db, data), indexed(module_db)


def test_sets_without_data_are_named_and_the_others_measured(runs: tuple[str, list[tuple[object, ...]]]) -> None:
    text, _ = runs
    assert "Left out, since their data are not there: jsquad." in text
    for name in ("musique", "hotpotqa"):
        assert re.search(rf"^\| {name} \(3\) \| hybrid \| \d\.\d{{3}} \[", text, re.M)


def test_hybrid_fused_again_has_the_recall_that_the_server_measured(runs: tuple[str, list[tuple[object, ...]]]) -> None:
    text, _ = runs
    for name in ("musique", "hotpotqa"):
        (measured,) = re.findall(rf"^\| {name} \(3\) \| hybrid \| (.*) \|$", text, re.M)
        (fused,) = re.findall(rf"^\| {name} \|(?: [^|]* \|){{4}} ([^|]*) \| [^|]* \|$", text, re.M)
        assert fused.split(" / ") == re.findall(r"(\d\.\d{3}) \[", measured)


def test_a_second_run_indexes_nothing(
    module_db: Database, data: Path, runs: tuple[str, list[tuple[object, ...]]]
) -> None:
    text, documents = runs
    assert run(module_db, data) == text
    assert indexed(module_db) == documents


@pytest.mark.slow
def test_other_documents_make_another_index_and_drop_the_former(
    module_db: Database, data: Path, runs: tuple[str, list[tuple[object, ...]]]
) -> None:
    _, before = runs
    passages = data / "musique/docs.jsonl"
    text = passages.read_text(encoding="utf-8")
    passages.write_text(text.replace("1999", "2001"), encoding="utf-8")
    try:
        run(module_db, data)
    finally:
        passages.write_text(text, encoding="utf-8")
    former, now = ({str(name) for name, *_ in rows} for rows in (before, indexed(module_db)))
    assert len(former - now) == len(now - former) == 1
    assert len(former & now) == 1
