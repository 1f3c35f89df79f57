"""What lazy costs beside graph_global where a corpus is large: calls and tokens of an answer.

    python -m bench lazy_cost --manual FOLDER --questions 6

The corpus (made once, or anew with --load): all MuSiQue passages, LiHua-World's whole year and the HTML files of --manual
(Debian's postgresql-doc-17; left out without it), NLP concepts, reports put together without a model, hash embedder. The model
is the tests' endpoint with the scripted replies of methods.py, judging by words (--judge evidence: as a perfect reader).
Dev questions, of both sets in turn. A token is four bytes; an estimate, which is of the most there can be, counts the embedding
requests too. Evidence in the context: the share of a question's documents that the answer could cite.

Reports put together without a model are short. So shares are also given of what reports of the published size would cost to
read, once: GraphRAG's C2 has 56 % of the source's tokens. A price counts tokens of tests as 6 % of others, since the published
4 % of global search at budget 500 are cost, and its tests went to a cheaper model.
"""

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pg_graphrag import GraphRAG
from pg_graphrag.beside.cli import main as command

from bench.data.corpora import documents, questions, set_provider
from bench.retrieval.methods import BASE, METHODS, Model, size_of
from tests.endpoint import Endpoint

CORPUS = "lazy-cost"
SETS = ("musique", "lihua-other")
DIMENSIONS = 64
MODES = ("graph_local", "graph_global", "drift", "lazy")
# Tokens of a level's reports by a model as a share of the source (GraphRAG's C2; methods.py has the source).
PUBLISHED_SHARE = 0.56
# Price of a token of the role `relevance`: LazyGraphRAG's tests went to gpt-4o-mini, .06 of gpt-4o's price.
CHEAPER = 0.06
# What is no part of the text.
INDEXES = ("index.html", "bookindex.html", "biblio.html", "legalnotice.html")


def load(rag: GraphRAG, url: str, data: Path, manual: Path | None) -> None:
    """Make the corpus anew."""
    with rag._connection() as connection:
        if connection.execute("SELECT FROM graphrag.corpora WHERE name = %s", [CORPUS]).rowcount:
            rag.drop_corpus()
    model = {"provider": "scripted", "model": "scripted"}
    rag.create_corpus(
        embedding={"provider": "scripted", "model": "hash", "dimensions": DIMENSIONS},
        llm={"roles": dict.fromkeys(("keywords", "relevance", "answer"), model)},
    )
    for name in SETS:
        rag.insert(documents(data, name))
    files = sorted(str(file) for file in manual.glob("*.html") if file.name not in INDEXES) if manual else []
    if manual and not files:
        raise SystemExit(f"{manual} has no pages")
    if files and command(["ingest", "--url", url, "--corpus", CORPUS, *files]):
        raise SystemExit(f"{manual} was not ingested")
    rag.process_jobs()


def about(rag: GraphRAG) -> tuple[str, int]:
    """Say how large the corpus is; return that, and its tokens."""
    with rag._connection() as connection:
        chunks, tokens, reports = size_of(connection, CORPUS)
    return f"{chunks:,} chunks of {tokens:,} tokens; reports: {reports}.", int(tokens)


def measure(rag: GraphRAG, asked: list[dict[str, Any]], model: Model, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Ask by these methods; yield a row for each: means over the questions, the estimate beside what was spent."""
    for name, mode, options in METHODS:
        if mode not in MODES or (names and name not in names):
            continue
        with rag._connection() as connection:
            # Each method pays for what it asks.
            connection.execute("DELETE FROM graphrag.llm_cache")
        model.forget()
        estimates, reached = [], []
        for question in asked:
            estimates.append(rag.estimate_ask(question["question"], mode=mode, **options))
            answer = rag.ask(question["question"], mode=mode, **options)
            citable = {reference["source_key"] for reference in answer.context["references"]}
            reached.append(len(citable.intersection(question["evidence"])) / len(question["evidence"]))
        yield {
            "method": name,
            "calls": sum(model.calls.values()) / len(asked),
            "tokens_in": sum(model.tokens_in.values()) / len(asked),
            "tokens_out": sum(model.tokens_out.values()) / len(asked),
            "tests_in": (model.tokens_in["relevance"] + model.tokens_in["rate"]) / len(asked),
            "tests_out": (model.tokens_out["relevance"] + model.tokens_out["rate"]) / len(asked),
            "map_in": model.tokens_in["map"] / len(asked),
            "most_calls": statistics.mean(estimate["calls"] for estimate in estimates),
            "most_in": statistics.mean(estimate["tokens_in"] for estimate in estimates),
            "reached": statistics.mean(reached),
        }
        print(name, file=sys.stderr, flush=True)


def table(rows: list[dict[str, Any]], source: int) -> Iterator[str]:
    """Shares of the base's tokens, of its price with tests by the cheaper model, and of a level of reports as published."""
    spent = {row["method"]: row["tokens_in"] + row["tokens_out"] for row in rows}
    price = {row["method"]: spent[row["method"]] - (1 - CHEAPER) * (row["tests_in"] + row["tests_out"]) for row in rows}
    published = PUBLISHED_SHARE * source
    yield (
        "| method | calls (estimate) | tokens in (estimate) | tokens out | of these in: tests, map |"
        f" of {BASE}'s tokens | of its price | of reports as published: tokens, price | evidence in the context |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        name = row["method"]
        cells = [name, f"{row['calls']:.1f} ({row['most_calls']:.1f})"]
        cells += [f"{row['tokens_in']:,.0f} ({row['most_in']:,.0f})", f"{row['tokens_out']:,.0f}"]
        cells += [f"{row['tests_in']:,.0f}, {row['map_in']:,.0f}"]
        cells += [f"{each[name] / each[BASE]:.0%}" if BASE in each else "–" for each in (spent, price)]
        cells += [f"{spent[name] / published:.1%}, {price[name] / published:.1%}", f"{row['reached']:.3f}"]
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--questions", type=int, default=5)
    parser.add_argument("--load", action="store_true", help="make the corpus anew first")
    parser.add_argument("--manual", type=Path, help="folder of its HTML files, as postgresql-doc-17 has them")
    parser.add_argument("--judge", choices=("words", "evidence"), default="words")
    parser.add_argument("--methods", nargs="+", default=(), metavar="NAME", help="some of the methods (default: all)")
    given = parser.parse_args()
    sets = [[item for item in questions(given.data, name) if item["evidence"]] for name in SETS]
    asked = [question for pair in zip(*sets, strict=False) for question in pair][: given.questions]
    model = Model(given.data, given.judge, SETS)
    with GraphRAG(given.url, corpus=CORPUS) as rag, Endpoint(keep=False, dimensions=DIMENSIONS) as endpoint:
        endpoint.reply(model)
        set_provider(rag, "scripted", "openai", endpoint.url)
        with rag._connection() as connection:
            is_there = connection.execute("SELECT FROM graphrag.corpora WHERE name = %s", [CORPUS]).rowcount
        if given.load or not is_there:
            load(rag, given.url, given.data, given.manual)
        claims, source = about(rag)
        print(claims)
        print("\n".join(table(list(measure(rag, asked, model, given.methods)), source)))


if __name__ == "__main__":
    main()
