"""``pg-graphrag search``: results as text for people, or as JSON Lines."""

import argparse
import dataclasses
import json
import re
import shutil
import sys
import textwrap

from pg_graphrag.beside.cli.open_database import connect
from pg_graphrag.beside.cli.terminal import print_json, printable
from pg_graphrag.beside.client import GraphRAG, SearchResult
from pg_graphrag.beside.client.hosts import catalogue_of

_MAX_WIDTH = 100
_SNIPPET = 320  # characters
_STEP = 80


def search(args: argparse.Namespace) -> int:
    """Search and print; returns the exit status (0 also when nothing is found)."""
    with connect(args.url, None if args.corpora else args.corpus) as connection:
        # Corpora may be on several nodes, which only a URL can reach. This database sends its own warnings.
        by_url = bool(args.corpora) and catalogue_of(connection).had_nodes
        several = {"corpora": args.corpora, "corpus_timeout": args.corpus_timeout}
        with GraphRAG(args.url if by_url else connection, args.corpus, log_queries=True) as rag:
            results = rag.search(
                args.query, mode=args.mode, top_k=args.top_k, filter=args.filter, **several, **args.options
            )
    for result in results:
        if args.json:
            fields = dataclasses.asdict(result)
            if not args.explain:
                del fields["explain"]
            print_json(fields)
        else:
            _print(result, args.query, args.explain, result.corpus if args.corpora else None)
    for name, reason in (results[0].explain.get("unanswered", {}) if results and by_url else {}).items():
        print(printable(f"pg-graphrag: warning: corpus {name}: {reason}"), file=sys.stderr)
    if not results and not args.json:
        print("nothing found")
    return 0


def _print(result: SearchResult, query: str, explain: bool, corpus: str | None) -> None:
    width = min(_MAX_WIDTH, shutil.get_terminal_size().columns)
    title = result.title if result.title != result.source_key else None
    title = place_text(title, result.explain.get("section"), result.explain.get("pages"))
    heading = f"{result.rank}. {title}  [{result.source_key}]" if title else f"{result.rank}. {result.source_key}"
    of_corpus = f"  ({corpus})" if corpus is not None else ""
    print(f"{printable(heading + of_corpus)}  {result.score:.4f}")
    print(printable(textwrap.indent(textwrap.fill(snippet(result.content, query), width - 3), "   ")))
    if explain:
        print(textwrap.indent(json.dumps(result.explain, ensure_ascii=False, indent=2), "   "))
    print()


def place_text(title: str | None, section: str | None, pages: str | None) -> str:
    """Return where something stands, in words: "Guide › Install › Linux, p. 12"."""
    path = " › ".join(dict.fromkeys(part for part in (title, section) if part))
    place = f"{'pp.' if '–' in pages else 'p.'} {pages}" if pages else ""
    return ", ".join(part for part in (path, place) if part)


def snippet(content: str, query: str) -> str:
    """Return the stretch of `content`, about `_SNIPPET` characters on one line, that says most of the query."""
    text = " ".join(content.split())
    if len(text) <= _SNIPPET:
        return text
    folded_text = text.casefold()
    # A word counts the more the rarer it is in this text, so that "the" decides nothing.
    weights = {
        word: 1 / folded_text.count(word)
        for word in re.findall(r"\w+", query.casefold())
        if len(word) > 2 and word in folded_text
    }

    def weight_said(start: int) -> float:
        stretch = folded_text[start : start + _SNIPPET]
        return sum(weight for word, weight in weights.items() if word in stretch)

    start = max(range(0, len(text) - _SNIPPET + _STEP, _STEP), key=weight_said)
    # Begin and end between words, where there are any.
    begin = text.rfind(" ", max(0, start - 20), start) + 1 if start else 0
    begin = begin or start
    end = min(len(text), begin + _SNIPPET)
    if end < len(text):
        end = max(text.rfind(" ", end - 20, end), end - 20)
    return f"{'… ' if begin else ''}{text[begin:end]}{' …' if end < len(text) else ''}"
