"""Titles of documents: the entities that they name, and the titles that a question names."""

import re
from collections.abc import Sequence
from typing import Protocol

from pg_graphrag.ground.id_sets import numbered
from pg_graphrag.ground.numeric import Flags, Ids, np
from pg_graphrag.llm.asking.length_limits import MAX_UNDERSTOOD
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.query.query import Query
from pg_graphrag.server import Row
from pg_graphrag.text.concept import key

# A title in a question has at most so many words; one word alone is a noun phrase or no title.
MAX_WORDS = 10
# Documents with the same title, except for additions in brackets, of which a question may mean any.
MAX_CALLED = 4

_AROUND = ' ?!.,;:()[]"“”。、？！'
_SEPARATORS = ' ,;:"“”'
_POSSESSIVE = re.compile(r"(?:['’]s|(?<=s)['’])$")


class Names(Protocol):
    """What knows which entities a title names."""

    def called(self, titles: Sequence[str]) -> tuple[Ids, Ids]:
        """Return (places of titles, numbers of the entities that these name), (n,) each."""


def titled(query: Query, entities: Ids, chunks: Ids, names: Names | None = None) -> Flags:
    """Return on which edges the entity is the document's title, (m,) bool, without additions in brackets.

    `names`: of which graph the entities are, if not of the query's.
    """
    each_title, titled_chunks = graph_of(query).titles(numbered(chunks)[0])
    places, owners = (names or graph_of(query)).called(each_title)
    if not len(places):
        return np.zeros(len(entities), np.bool_)
    ids, place = numbered(np.append(entities, owners))
    distinct_chunks, chunk_place = numbered(np.append(chunks, titled_chunks[places]))
    edge = place * len(distinct_chunks) + chunk_place
    is_titled: Flags = np.zeros(len(ids) * len(distinct_chunks), np.bool_)
    is_titled[edge[len(entities) :]] = True
    titled_edges: Flags = is_titled[edge[: len(entities)]]
    return titled_edges


def named_titles(query: Query, hub: float) -> dict[str, list[Row]]:
    """Return the titles of several words that a question names, each with its entities (id, key, mention_count).

    Of nested runs of words the longest counts: no grammar finds titles such as "The Girl Who Kicked the Hornets' Nest". An
    entity in more than `hub` chunks is left out.
    """
    runs = _runs(query.text[:MAX_UNDERSTOOD])
    if not runs:
        return {}
    by_phrase: dict[str, list[Row]] = {}
    for row in graph_of(query).namesakes(list(runs), MAX_CALLED):
        phrase = row["asked"]
        if 0 < row["mention_count"] <= hub and (
            not row["key"].startswith(f"{phrase} ") or row["key"].startswith(f"{phrase} (")
        ):
            by_phrase.setdefault(phrase, []).append(row)
    if not by_phrase:
        return {}
    ids = sorted({row["id"] for rows in by_phrase.values() for row in rows})
    entities, chunks, *_ = graph_of(query).edges_of_entities(ids, hub)
    titles = set(entities[titled(query, entities, chunks)].tolist())
    spans: list[tuple[int, int]] = []
    longest: dict[str, list[Row]] = {}
    for phrase in sorted(by_phrase, key=lambda run: (runs[run][0] - runs[run][1], runs[run])):
        start, end = runs[phrase]
        rows = [row for row in by_phrase[phrase] if row["id"] in titles]
        if rows and not any(start < last and first < end for first, last in spans):
            spans.append((start, end))
            longest[phrase] = rows
    return longest


def _runs(text: str) -> dict[str, tuple[int, int]]:
    """Return {key of a run of words: its words, from … to}, of runs that begin as titles do, if capitals tell at all."""
    words = text.split()
    tells = text != text.lower()
    spans: dict[str, tuple[int, int]] = {}
    for start, word in enumerate(words):
        first = word.lstrip("\"'“‘«(")[:1]
        if tells and not first.isupper() and not first.isdigit():
            continue
        for end in range(start + 2, min(start + MAX_WORDS, len(words)) + 1):
            for run in _spellings(" ".join(words[start:end])):
                spans.setdefault(run, (start, end))
    return spans


def _spellings(run: str) -> set[str]:
    """Return the keys of a run of words: with and without marks at its end (Mamma Mia!), and as a possessive."""
    trimmed = run.strip(_AROUND)
    if trimmed.count("(") > trimmed.count(")"):
        trimmed += ")"
    return {key(run.strip(_SEPARATORS)), key(trimmed), key(_POSSESSIVE.sub("", trimmed))} - {""}
