"""Recall and nDCG on the dev questions of the public data, by graphrag.evaluate.

    python -m bench retrieval modes [--extractor llm]
    python -m bench retrieval table1 [--reranker URL --reranker-model NAME] [--selector URL --selector-model NAME]
    python -m bench retrieval curve | edges | cases | ablations

``modes``: every mode with its defaults. ``table1``: the eight rows of Takami et al.'s Table 1 and ours beside them. Those with
a reranker need one: behind an endpoint (``--reranker``), or a chat model that chooses among the first 40 (``--selector``). Where
none is at hand, ``oracle`` in the place of either URL puts chunks of the evidence first and leaves the others, which bounds what
can be reached; ``--reranker minilm`` orders by cosine of all-MiniLM-L6-v2, which no cross-encoder should be below.

``curve``: its rows over the number of entities and relationships that are looked at (graph_top_k), in both protocols, and what
the paper's weighting of edges adds to the vectors'. ``edges``: what the choice of important edges can change, from none to those
that the evidence states. ``cases``: the paper's two case studies, which rank the chat that answers has, and the path shown.
``ablations``: LightRAG's, low level only, high level only, without original text. Indexes are kept
as crossvalidate keeps them; with ``--options`` they are made anew.

``--extractor llm`` indexes by models: the recorded extractions of the data, served by the tests' endpoint, through the
worker as any model's would be. Questions have the recorded keywords where there are such (LiHua-World), from the cache of
answers as in use; the others their noun phrases. Embeddings are the local embedder's either way.
"""

import argparse
import contextlib
import json
import re
import statistics
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
from pg_graphrag import GraphRAG
from pg_graphrag.beside.client import Evaluation
from psycopg.types.json import Jsonb

from bench.data.corpora import SETS, documents, kept, load, options_of, questions, recorded_models, set_provider
from bench.retrieval.selection import Selector
from tests.endpoint import Endpoint

MODES = ("naive", "bm25", "local", "global", "hybrid", "mix", "path", "ppr")

# Table 1 of Takami et al.: name, search, and its published Recall@10 and nDCG@10 (151 questions, Qwen3-1.7B's extraction);
# the paths as the paper has them, as MiniRAG's code has them, and ours.
_PATH = {"mode": "path", "fuse": "none"}
TABLE_1: dict[str, tuple[dict[str, Any], str, str]] = {
    "NaiveRAG": ({"mode": "naive"}, ".636", ".532"),
    "MiniRAG": ({**_PATH, "profile": "paper", "path_weighting": "vector"}, ".675", ".479"),
    "bm25_edges": ({**_PATH, "profile": "paper"}, ".755", ".575"),
    "bm25_edges + RRF": ({**_PATH, "profile": "paper", "fuse": "rrf"}, ".808", ".695"),
    "bm25_edges + rerank": ({**_PATH, "profile": "paper", "fuse": "rerank"}, ".861", ".814"),
    "bm25_edges, an LLM selects": ({**_PATH, "profile": "paper", "select": True}, "", ""),
    "bm25_chunks": ({**_PATH, "profile": "paper", "path_weighting": "bm25_chunks"}, ".748", ".651"),
    "bm25_chunks + RRF": (
        {**_PATH, "profile": "paper", "path_weighting": "bm25_chunks", "fuse": "rrf"},
        ".795",
        ".713",
    ),
    "bm25_chunks + rerank": (
        {**_PATH, "profile": "paper", "path_weighting": "bm25_chunks", "fuse": "rerank"},
        ".834",
        ".798",
    ),
    "bm25_chunks, an LLM selects": (
        {**_PATH, "profile": "paper", "path_weighting": "bm25_chunks", "select": True},
        "",
        "",
    ),
    "ours: vector": ({**_PATH, "path_weighting": "vector"}, "", ""),
    "ours: bm25_edges": (_PATH, "", ""),
    "ours: bm25_edges + RRF": ({**_PATH, "fuse": "rrf"}, "", ""),
    "ours: bm25_chunks": ({**_PATH, "path_weighting": "bm25_chunks"}, "", ""),
    "ours: bm25_chunks + RRF": ({**_PATH, "path_weighting": "bm25_chunks", "fuse": "rrf"}, "", ""),
    "BM25 alone": ({"mode": "bm25"}, "", ""),
    "ours: hybrid": ({"mode": "hybrid"}, "", ""),
}

# LightRAG's ablations: with which mode, and whether chunks come along.
ABLATIONS: dict[str, dict[str, Any]] = {
    "both levels": {"mode": "hybrid", "profile": "paper"},
    "low level only": {"mode": "local", "profile": "paper"},
    "high level only": {"mode": "global", "profile": "paper"},
    "both, without original text": {"mode": "hybrid", "profile": "paper", "include_chunks": False},
    "low, without original text": {"mode": "local", "profile": "paper", "include_chunks": False},
    "high, without original text": {"mode": "global", "profile": "paper", "include_chunks": False},
}


def corpus(given: argparse.Namespace, name: str, extractor: str) -> str:
    """Return the name of the corpus of a set: the kept one, or one with options of its own."""
    if not given.options:
        return kept(given.url, given.data, name, extractor)
    return f"{name}-{extractor}-options"


def measured(rag: GraphRAG, data: Path, name: str, modes: Sequence[str], k: Sequence[int], **options: Any) -> Any:
    """Rows of graphrag.evaluate by (mode, k)."""
    rows = rag.evaluate(questions(data, name), modes=modes, k=k, **options)
    return {(row.mode, row.k): row for row in rows}


def modes_table(given: argparse.Namespace, names: Sequence[str]) -> Iterator[str]:
    """Every mode on every set; nDCG against the baseline."""
    base = given.baseline
    yield f"| set | mode | R@2 | R@5 | R@10 | nDCG@10 | MRR@10 | nDCG@10 − {base} [95 %] | p50 / p95, ms |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for name in names:
        with GraphRAG(given.url, corpus(given, name, given.extractor)) as rag:
            records = measured(rag, given.data, name, given.modes, (2, 5, 10), baseline=base)
        for mode in given.modes:
            at = {k: records[mode, k] for k in (2, 5, 10)}
            last: Evaluation = at[10]
            cells = [f"{at[k].recall:.3f}" for k in at] + [
                f"{last.ndcg:.3f}",
                f"{last.mrr:.3f}",
                difference(last, "ndcg"),
            ]
            yield f"| {name} | {mode} | {' | '.join(cells)} | {last.p50_ms:.0f} / {last.p95_ms:.0f} |"


def difference(row: Evaluation, metric: str) -> str:
    if row.differences is None:
        return ""
    interval = row.differences[metric]
    return f"{interval['difference']:+.3f} [{interval['low']:+.3f}, {interval['high']:+.3f}]"


@contextlib.contextmanager
def reranker(given: argparse.Namespace, name: str) -> Iterator[str | None]:
    """Yield the base URL of the reranker, where one is given; of the oracle and of MiniLM that of an endpoint with them."""
    if given.reranker not in ("oracle", "minilm"):
        yield given.reranker
        return
    texts = {document["source_key"]: normal(document["content"]) for document in documents(given.data, name)}
    evidence = {question["question"]: question["evidence"] for question in questions(given.data, name)}

    def oracle(query: str, passages: Sequence[str]) -> list[float]:
        answering = [texts[key] for key in evidence[query]]
        return [float(any(normal(passage) in text for text in answering)) for passage in passages]

    def minilm(query: str, passages: Sequence[str]) -> list[float]:
        from pg_graphrag.llm.embedding import local_embedder

        vectors = local_embedder("all-MiniLM-L6-v2").embed([query, *passages])
        return [float(cosine) for cosine in vectors[1:] @ vectors[0]]

    with Endpoint(keep=False) as endpoint:
        endpoint.rerank(oracle if given.reranker == "oracle" else minilm)
        yield endpoint.url


@contextlib.contextmanager
def selector(given: argparse.Namespace, name: str) -> Iterator[str | None]:
    """Yield the base URL of the chat model that selects, where one is given; of the oracle that of an endpoint with it."""
    if given.selector != "oracle":
        yield given.selector
        return
    with Endpoint(keep=False) as endpoint:
        endpoint.reply(Selector(given.data, name, "oracle"))
        yield endpoint.url


def table_1(given: argparse.Namespace) -> Iterator[str]:
    """Documents judged, and the first ten chunks as they are, beside the published figures."""
    name = "lihua-jan-jun"
    with (
        GraphRAG(given.url, corpus(given, name, "llm")) as rag,
        reranker(given, name) as url,
        selector(given, name) as chat_url,
    ):
        if url:
            set_provider(rag, "reranker", "rerank", url)
            rag.alter_corpus(rerank={"provider": "reranker", "model": given.reranker_model})
        llm = options_of(name, "llm")["llm"]
        if chat_url:
            set_provider(rag, "selector", "openai", chat_url)
            model = {"provider": "selector", "model": given.selector_model}
            rag.alter_corpus(llm={"roles": {**llm["roles"], "relevance": model}})
        variants = {
            row: search
            for row, (search, *_) in TABLE_1.items()
            if (url or search.get("fuse") != "rerank") and (chat_url or not search.get("select"))
        }
        records = measured(rag, given.data, name, list(variants), [10], variants=variants, baseline="BM25 alone")
        if url:
            rag.alter_corpus(rerank=None)
        if chat_url:
            rag.alter_corpus(llm=llm)
    yield "| row | published R@10 | R@10 | any@10 chunks | all@10 chunks | published nDCG@10 | nDCG@10 | nDCG@10 − BM25 [95 %] |"
    yield "|---|---|---|---|---|---|---|---|"
    for row, (search, published_recall, published_ndcg) in TABLE_1.items():
        if row not in variants:
            option = "--selector" if search.get("select") else "--reranker"
            yield f"| {row} | {published_recall} | not measured: needs {option} URL | | | {published_ndcg} | | |"
            continue
        item = records[row, 10]
        cells = [published_recall, *(f"{value:.3f}" for value in (item.recall, item.any_hit, item.all_hit))]
        cells += [published_ndcg, f"{item.ndcg:.3f}", difference(item, "ndcg")]
        yield f"| {row} | {' | '.join(cells)} |"


# graph_top_k of the curve; MiniRAG's own is 60.
CURVE = (3, 5, 10, 20, 60)


def curve_table(given: argparse.Namespace) -> Iterator[str]:
    """Recall of the paper's paths by graph_top_k, documents judged, and the first ten chunks as they are."""
    name, base = "lihua-jan-jun", "MiniRAG"
    rows = {
        row: search
        for row, (search, *_) in TABLE_1.items()
        if search.get("profile") == "paper" and search["fuse"] != "rerank" and not search.get("select")
    }
    yield "| row | k | R@10 | any@10 chunks | all@10 chunks | nDCG@10 | R@10 − vector [95 %] | any@10 − vector [95 %] |"
    yield "|---|---|---|---|---|---|---|---|"
    with GraphRAG(given.url, corpus(given, name, "llm")) as rag:
        for k in CURVE:
            variants = {row: search | {"graph_top_k": k} for row, search in rows.items()}
            records = measured(rag, given.data, name, list(variants), [10], variants=variants, baseline=base)
            for row in variants:
                record = records[row, 10]
                cells = [f"{value:.3f}" for value in (record.recall, record.any_hit, record.all_hit, record.ndcg)]
                cells += [difference(record, metric) for metric in ("recall", "any_hit")]
                yield f"| {row} | {k} | {' | '.join(cells)} |"


# Important edges chosen otherwise than by the question, as a session of the server has them: none, all near the candidates, those
# that the evidence states (an oracle), or by a hash, as many as the paper has.
_CHOOSE_EDGES = """
DO LANGUAGE plpython3u $$
import hashlib
from pg_graphrag.search.retrievers import edges
of_the_question = edges.important
STATED = (
    "SELECT DISTINCT m.relationship_id AS id FROM graphrag.relationship_mentions m"
    " JOIN graphrag.documents d ON d.id = m.document_id WHERE d.source_key = ANY ($1)"
)
def important(query, around, is_near, holders, limit):
    near = around.ids[is_near].tolist()
    if edges.chosen_by == "none":
        return {}
    if edges.chosen_by == "all":
        return dict.fromkeys(near, 1.0)
    if edges.chosen_by == "oracle":
        stated = {row["id"] for row in query.db.query(STATED, ["text[]"], [edges.evidence])}
        return dict.fromkeys([edge for edge in near if edge in stated][:limit], 1.0)
    if edges.chosen_by == "chance":
        key = lambda edge: hashlib.sha256(f"{query.text} {edge}".encode()).digest()
        every = query.db.query("SELECT id FROM graphrag.relationships WHERE corpus_id = $1", ["int4"], [query.corpus.id])
        first = set(sorted((row["id"] for row in every), key=key)[:limit])
        return dict.fromkeys([edge for edge in near if edge in first], 1.0)
    return of_the_question(query, around, is_near, holders, limit)
edges.important = important
$$;
CREATE FUNCTION pg_temp.choose_edges(chosen_by text, evidence text[]) RETURNS void LANGUAGE plpython3u AS $$
from pg_graphrag.search.retrievers import edges
edges.chosen_by, edges.evidence = chosen_by, list(evidence)
$$
"""
EDGES = {
    "no edge": ("none", {}),
    "all edges near the candidates": ("all", {}),
    "as many by chance": ("chance", {}),
    "vector (MiniRAG)": ("question", {"path_weighting": "vector"}),
    "bm25_edges": ("question", {}),
    "bm25_edges, idf of eq. 3": ("question", {"bm25_idf": "robertson"}),
    "bm25_chunks": ("question", {"path_weighting": "bm25_chunks"}),
    "those that the evidence states": ("oracle", {}),
}


def edges_table(given: argparse.Namespace) -> Iterator[str]:
    """What the choice of important edges can change at all: R@10 of documents, profile paper, without fusion, by graph_top_k."""
    asked = [question for question in questions(given.data, "lihua-jan-jun") if question["evidence"]]
    indexed = corpus(given, "lihua-jan-jun", "llm")
    yield f"| important edges | {' | '.join(f'k {k}' for k in CURVE)} |"
    yield "|---" * (len(CURVE) + 1) + "|"
    with psycopg.connect(given.url, autocommit=True) as connection:
        connection.execute(_CHOOSE_EDGES)
        for name, (chosen_by, search) in EDGES.items():
            cells = []
            for k in CURVE:
                options = Jsonb({"profile": "paper", "fuse": "none", "graph_top_k": k} | search)
                recalls = []
                for question in asked:
                    connection.execute("SELECT pg_temp.choose_edges(%s, %s)", [chosen_by, question["evidence"]])
                    rows = connection.execute(
                        "SELECT source_key FROM graphrag.search(%s, %s, 'path', 50, options => %s) ORDER BY rank",
                        [question["question"], indexed, options],
                    ).fetchall()
                    first = list(dict.fromkeys(key for (key,) in rows))[:10]
                    recalls.append(len(set(first) & set(question["evidence"])) / len(set(question["evidence"])))
                cells.append(f"{statistics.mean(recalls):.3f}")
            yield f"| {name} | {' | '.join(cells)} |"


# The two case studies: question, what it names, types of the answer, the chat that answers.
CASES: dict[str, tuple[list[str], list[str], str]] = {
    'Who does Li Hua go to watch the movie "Overwatch 3" with?': (
        ["Li Hua", "Overwatch 3"],
        ["person"],
        "20260121_13:00",
    ),
    "When is the Freelancer Group Meeting that Yuriko Yamamoto goes to?": (
        ["Freelancer Group Meeting", "Yuriko Yamamoto"],
        ["time"],
        "20260608_14:30",
    ),
}


def cases_table(given: argparse.Namespace) -> Iterator[str]:
    """The rank of the chat that answers, its path, and the first chat's where that is another."""
    yield "| question | row | rank | path of the chat that answers | path of the first chat, where it is another |"
    yield "|---|---|---|---|---|"
    with GraphRAG(given.url, corpus(given, "lihua-jan-jun", "llm")) as rag:
        for question, (entities, types, chat) in CASES.items():
            for row, (search, *_) in TABLE_1.items():
                if search["mode"] != "path" or search["fuse"] == "rerank" or search.get("select"):
                    continue
                options = dict(search) | {"query_entities": entities, "answer_types": types}
                records = rag.search(question, top_k=50, **options)
                paths = {
                    result.source_key: " → ".join(result.explain.get("path", {}).get("path", ()))
                    for result in reversed(records)
                }
                ranks = list(dict.fromkeys(result.source_key for result in records))
                rank = ranks.index(chat) + 1 if chat in ranks else "–"
                first = "" if rank == 1 or not ranks else f"{ranks[0]}: {paths[ranks[0]]}"
                yield f"| {question} | {row} | {rank} | {paths.get(chat, '')} | {first} |"


def ablations_table(given: argparse.Namespace, names: Sequence[str]) -> Iterator[str]:
    """What the context holds: its tokens, and the share of questions whose short answer stands in it."""
    yield "| set | context | tokens, mean | answer in the context | R@10 | nDCG@10 |"
    yield "|---|---|---|---|---|---|"
    for name in names:
        asked = [question for question in questions(given.data, name) if question["evidence"]]
        answered = [question for question in asked if normal(question["answer"]) not in ("yes", "no")]
        with GraphRAG(given.url, corpus(given, name, "llm")) as rag:
            for label, search in ABLATIONS.items():
                settings = dict(search)
                mode, with_chunks = settings.pop("mode"), settings.pop("include_chunks", True)
                contexts = [
                    rag.context(question["question"], mode=mode, include_chunks=with_chunks, **settings)
                    for question in answered
                ]
                tokens = statistics.mean(context["tokens"] for context in contexts)
                holds = statistics.mean(
                    any(normal(answer) in normal(context["prompt"]) for answer in answers(question))
                    for question, context in zip(answered, contexts, strict=True)
                )
                cells = ["", ""]
                if with_chunks:
                    (row,) = rag.evaluate(asked, modes=[label], k=[10], variants={label: search})
                    cells = [f"{row.recall:.3f}", f"{row.ndcg:.3f}"]
                yield f"| {name} ({len(answered)}) | {label} | {tokens:.0f} | {holds:.3f} | {' | '.join(cells)} |"


def answers(question: dict[str, Any]) -> list[str]:
    return [question["answer"], *question.get("answer_aliases", ())]


def normal(text: str) -> str:
    """Letters and digits, one space between words."""
    return " ".join(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("table", choices=("modes", "table1", "curve", "edges", "cases", "ablations"))
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--extractor", choices=tuple(SETS), default="nlp", help="of modes (default: nlp)")
    arguments.add_argument("--sets", nargs="+", help="some of the sets (default: all)")
    arguments.add_argument("--modes", nargs="+", default=MODES)
    arguments.add_argument("--baseline", default="bm25")
    arguments.add_argument(
        "--options",
        type=json.loads,
        default={},
        metavar="JSON",
        help='of the corpora, which are made anew: {"full_names": false}, an ablation',
    )
    arguments.add_argument(
        "--reranker", metavar="URL", help="base URL of a rerank endpoint, oracle or minilm, for table1"
    )
    arguments.add_argument("--reranker-model", metavar="NAME", default="Qwen/Qwen3-Reranker-4B")
    arguments.add_argument("--selector", metavar="URL", help="base URL of a chat endpoint, or oracle, for table1")
    arguments.add_argument("--selector-model", metavar="NAME", default="gpt-4o-mini")
    given = arguments.parse_args()
    extractor = given.extractor if given.table == "modes" else "llm"
    if unknown := set(given.sets or ()) - set(SETS[extractor]):
        arguments.error(f"no set {', '.join(sorted(unknown))}; there are {', '.join(SETS[extractor])}")
    names = [name for name in SETS[extractor] if not given.sets or name in given.sets]
    with contextlib.ExitStack() as stack:
        if extractor == "llm":
            stack.enter_context(recorded_models(stack.enter_context(GraphRAG(given.url)), given.data))
        for name in names if given.options else ():
            with GraphRAG(given.url, corpus(given, name, extractor)) as rag:
                seconds = load(rag, given.data, name, extractor, **given.options)
            print(f"{name}: indexed in {seconds:.0f} s", file=sys.stderr, flush=True)
        tables = {"modes": lambda: modes_table(given, names), "table1": lambda: table_1(given)}
        tables |= {"curve": lambda: curve_table(given), "edges": lambda: edges_table(given)}
        tables |= {"cases": lambda: cases_table(given)}
        for row in {**tables, "ablations": lambda: ablations_table(given, names)}[given.table]():
            print(row, flush=True)


if __name__ == "__main__":
    main()
