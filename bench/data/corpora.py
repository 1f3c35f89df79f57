"""The public data of ../shared/data as corpora of the extension, and their questions as graphrag.evaluate takes them."""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pg_graphrag import GraphRAG

from tests.endpoint import Endpoint, Recorded

SETS = {
    "nlp": ("musique", "musique-own", "lihua-jan-jun", "lihua-other"),
    "llm": ("musique", "musique-own", "lihua-jan-jun"),
}
# Roles that a model has, by set: what was recorded of it.
ROLES = {"musique": ("extract",), "musique-own": ("extract",), "lihua-jan-jun": ("extract", "keywords")}
# Questions of two steps, written for this benchmark over passages that no dev question rests on: question, tab, passages.
OWN_QUESTIONS = Path(__file__).parent / "questions" / "musique-own.tsv"
# HippoRAG's HotpotQA tuning set, as its repository has it in the branch `legacy`.
HOTPOTQA = ("hotpotqa_train.json", "hotpotqa_train_corpus.json")
# One paragraph answers each question: Japanese, traditional and simplified Chinese.
PARAGRAPHS = ("jsquad", "drcd", "cmrc")
ALL_SETS = ("musique", "musique-own", "hotpotqa", "lihua-jan-jun", "lihua-other", *PARAGRAPHS)
# What decides what an index holds. After a change elsewhere, indexes are kept.
_ROOT = Path(__file__).parents[2]
_INDEXING = [
    f"python/pg_graphrag/{area}"
    for area in ("llm/embedding", "index/extraction", "index/graph", "index/indexing", "text")
]
_INDEXING += ["sql/06_text", "sql/07_graph"]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def documents(data: Path, name: str) -> list[dict[str, Any]]:
    if name in ("musique", "musique-own"):
        return [
            {"source_key": document["id"], "title": document["title"], "content": document["text"]}
            for document in lines(data / "musique/docs.jsonl")
        ]
    if name == "hotpotqa":
        corpus = json.loads((data / "hotpotqa" / HOTPOTQA[1]).read_text(encoding="utf-8"))
        return [
            {"source_key": title, "title": title, "content": "".join(sentences)} for title, sentences in corpus.items()
        ]
    if name in PARAGRAPHS:
        return [
            {"source_key": document["id"], "title": document["title"], "content": document["text"]}
            for document in lines(data / name / "docs.jsonl")
        ]
    chats = lines(data / "lihua-world/docs.jsonl")
    wanted = [document for document in chats if name == "lihua-other" or document["id"][:6] <= "202606"]
    return [{"source_key": document["id"], "content": document["text"]} for document in wanted]


def questions(data: Path, name: str) -> list[dict[str, Any]]:
    """The dev questions of a set; Null questions have no evidence."""
    if name == "musique":
        return lines(data / "musique/queries_dev.jsonl")
    if name == "musique-own":
        rows = (line.split("\t") for line in OWN_QUESTIONS.read_text(encoding="utf-8").splitlines())
        return [{"question": question, "evidence": passages.split()} for question, passages in rows]
    if name == "hotpotqa":
        return [
            {"question": item["question"], "evidence": sorted({title for title, _ in item["supporting_facts"]})}
            for item in json.loads((data / "hotpotqa" / HOTPOTQA[0]).read_text(encoding="utf-8"))
        ]
    if name in PARAGRAPHS:
        return [item for item in lines(data / name / "queries_dev.jsonl") if item["question"].strip()]
    asked = lines(data / "lihua-world/queries_dev.jsonl")
    return [
        item | {"evidence": [] if item["type"] == "Null" else item["evidence"]}
        for item in asked
        if item["jan_jun"] == (name == "lihua-jan-jun")
    ]


def spread(items: Sequence[Any], most: int) -> list[Any]:
    """Return at most so many items, evenly spread."""
    return [items[place * len(items) // most] for place in range(most)] if most < len(items) else list(items)


def judged(data: Path, name: str, most: int) -> list[dict[str, Any]]:
    """Return at most so many questions of a set that have evidence, evenly spread."""
    return spread([question for question in questions(data, name) if question["evidence"]], most)


def at_hand(data: Path, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the sets whose data are there, and those that are not."""
    folders = {"musique-own": "musique", "lihua-jan-jun": "lihua-world", "lihua-other": "lihua-world"}
    there = [name for name in names if (data / folders.get(name, name)).is_dir()]
    return there, [name for name in names if name not in there]


def kept(url: str, data: Path, name: str, extractor: str) -> str:
    """Return the name of the corpus of a set, as `made_once` names it. Needs the recorded models where the extractor is llm."""
    source = "musique" if name == "musique-own" else name
    recorded = data / ("musique/openie.jsonl" if source == "musique" else "lihua-world/extraction.jsonl")
    # The modes that are asked of a model's graph read no communities.
    options = {"communities": extractor == "nlp", **options_of(source, extractor)}
    files = [recorded] if extractor == "llm" else []
    corpus = made_once(url, f"bench-{source}-{extractor}-", documents(data, source), files, options)
    if extractor == "llm":
        with GraphRAG(url, corpus) as rag:
            for question in questions(data, name):
                rag.understand(question["question"])  # from now on in the cache, as in use
    return corpus


def made_once(
    url: str, stem: str, texts: Sequence[dict[str, Any]], files: Sequence[Path], options: dict[str, Any]
) -> str:
    """Return the name of a corpus of these texts: `stem` and a hash of the texts, the files and the code that indexes.

    It is made where the server has none of this name; one of an earlier hash is dropped.
    """
    digest = hashlib.sha256(json.dumps(texts, ensure_ascii=False).encode())
    code = [
        file
        for area in _INDEXING
        for file in sorted((_ROOT / area).rglob("*"))
        if file.suffix in (".py", ".sql", ".txt")
    ]
    for file in [*code, *files]:
        digest.update(file.read_bytes())
    with GraphRAG(url, stem + digest.hexdigest()[:10]) as rag:
        with rag._connection() as connection:
            rows = connection.execute(
                "SELECT name FROM graphrag.corpora WHERE starts_with(name, %s)", [stem]
            ).fetchall()
        for (former,) in rows:
            if former != rag.corpus:
                with GraphRAG(url, former) as other:
                    other.drop_corpus()
        if (rag.corpus,) not in rows:
            rag.create_corpus(**options)
        if not _is_indexed(rag, len(texts)):
            rag.insert(texts)
            rag.process_jobs()
            # A worker of the server may hold the last few documents yet.
            rag.wait_until_indexed()
            with rag._connection() as connection:
                connection.execute("SELECT graphrag.optimize(%s)", [rag.corpus])
        return rag.corpus


def _is_indexed(rag: GraphRAG, count: int) -> bool:
    """Whether so many documents of a corpus are indexed, and no others are there."""
    progress = rag.progress()
    return (progress.documents, progress.indexed, progress.pending) == (count, count, 0)


def recalls(
    rag: GraphRAG, asked: Sequence[dict[str, Any]], modes: Sequence[str], depths: Sequence[int]
) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Return by mode the recall of each question at each depth, (questions, depths)."""
    return {mode: values[:, :-1] for mode, values in scores(rag, asked, modes, depths).items()}


def scores(
    rag: GraphRAG, asked: Sequence[dict[str, Any]], modes: Sequence[str], depths: Sequence[int]
) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Return by mode the recall of each question at each depth, then its nDCG at the last one, (questions, depths + 1)."""
    # Questions come back in the order of their ids, as texts.
    named = [{**question, "id": f"{place:06}"} for place, question in enumerate(asked)]
    rows = rag.evaluate(named, modes=modes, k=depths, per_question=True)
    by_row = {(row.mode, row.k): row.per_question or () for row in rows}
    what = [*((depth, "recall") for depth in depths), (depths[-1], "ndcg")]
    return {
        mode: np.array([[question[metric] for question in by_row[mode, depth]] for depth, metric in what]).T
        for mode in modes
    }


def remembered(what: Sequence[Any], compute: Callable[[], Any]) -> Any:
    """Return what `compute` returned before for the same `what` and the same package, as JSON; else compute and keep it.

    It is kept in pg_graphrag/bench of the user's cache. The package is this checkout's: the server must have it, too.
    """
    digest = hashlib.sha256(json.dumps(what, ensure_ascii=False).encode())
    for file in sorted(file for area in ("python/pg_graphrag", "sql") for file in (_ROOT / area).rglob("*.*")):
        if file.suffix in (".py", ".sql", ".txt"):
            digest.update(file.read_bytes())
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pg_graphrag" / "bench"
    path = folder / f"{digest.hexdigest()[:20]}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(compute(), ensure_ascii=False)
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(text, encoding="utf-8")
        unfinished.rename(path)
    return json.loads(path.read_text(encoding="utf-8"))


def options_of(name: str, extractor: str) -> dict[str, Any]:
    """Return the options of the corpus of a set."""
    if extractor == "nlp":
        return {}
    model = {"provider": "recorded", "model": "recorded"}
    return {"extractor": "llm", "llm": {"roles": dict.fromkeys(ROLES[name], model)}}


@contextlib.contextmanager
def recorded_models(rag: GraphRAG, data: Path) -> Iterator[None]:
    """Serve what models said, for as long as it lasts."""
    with Endpoint(keep=False) as endpoint:
        endpoint.reply(Recorded(data))
        set_provider(rag, "recorded", "openai", endpoint.url)
        yield


def set_provider(rag: GraphRAG, name: str, kind: str, url: str) -> None:
    with rag._connection() as connection:
        connection.execute("SELECT graphrag.set_provider(%s, %s, %s)", [name, kind, url])


def load(rag: GraphRAG, data: Path, name: str, extractor: str, **options: Any) -> float:
    """Make the corpus of the client anew, with these options; return the seconds that indexing took."""
    with rag._connection() as connection:
        if connection.execute("SELECT FROM graphrag.corpora WHERE name = %s", [rag.corpus]).rowcount:
            rag.drop_corpus()
    rag.create_corpus(**options, **options_of(name, extractor))
    rag.insert(documents(data, name))
    start = time.perf_counter()
    rag.process_jobs()
    with rag._connection() as connection:
        connection.execute("SELECT graphrag.optimize(%s)", [rag.corpus])
    seconds = time.perf_counter() - start
    if extractor == "llm":
        for question in questions(data, name):
            rag.understand(question["question"])  # from now on in the cache, as in use
    return seconds
