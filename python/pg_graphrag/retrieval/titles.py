"""What documents are called: the entities that titles name, and the titles that a question names."""

import re
from typing import Any

from pg_graphrag.model_access.limits import MAX_UNDERSTOOD
from pg_graphrag.numeric import np
from pg_graphrag.retrieval.cached_graph import graph_of
from pg_graphrag.retrieval.ids import numbered
from pg_graphrag.retrieval.query import Query
from pg_graphrag.server import Row
from pg_graphrag.text.concepts import key

# A title in a question has at most so many words; one word alone is a noun phrase or no title.
MAX_WORDS = 10
# Of so many documents with the same title, but for what is added in brackets, a question may mean any.
MAX_CALLED = 4

_AROUND = ' ?!.,;:()[]"“”。、？！'
_SEPARATORS = ' ,;:"“”'
_POSSESSIVE = re.compile(r"(?:['’]s|(?<=s)['’])$")


def titled(query: Query, entities: Any, chunks: Any) -> Any:
    """Return of which edges the entity is what the document is called, (m,) bool; without what a title adds in brackets."""
    titles = graph_of(query).titles(numbered(chunks)[0])
    called = graph_of(query).called(titles)
    pairs = [(entity, chunk) for title, entities in called.items() for entity in entities for chunk in titles[title]]
    if not pairs:
        return np.zeros(len(entities), np.bool_)
    owners, held = np.array(pairs, np.int64).T
    ids, place = numbered(np.append(entities, owners))
    every, at = numbered(np.append(chunks, held))
    edge = place * len(every) + at
    marked = np.zeros(len(ids) * len(every), np.bool_)
    marked[edge[len(entities) :]] = True
    return marked[edge[: len(entities)]]


def named(query: Query, hub: float) -> dict[str, list[Row]]:
    """Return the titles of several words that a question names, each with its entities (id, key, mention_count).

    Of runs of words within each other the longest counts: what a title is made of ("The Girl Who Kicked the Hornets' Nest")
    no grammar tells. An entity in more than `hub` chunks is left out.
    """
    runs = _runs(query.text[:MAX_UNDERSTOOD])
    if not runs:
        return {}
    found: dict[str, list[Row]] = {}
    for row in graph_of(query).namesakes(list(runs), MAX_CALLED):
        asked = row["asked"]
        if 0 < row["mention_count"] <= hub and (
            not row["key"].startswith(f"{asked} ") or row["key"].startswith(f"{asked} (")
        ):
            found.setdefault(asked, []).append(row)
    if not found:
        return {}
    ids = sorted({row["id"] for rows in found.values() for row in rows})
    entities, chunks, *_ = graph_of(query).edges_of_entities(ids, hub)
    titles = set(entities[titled(query, entities, chunks)].tolist())
    taken: list[tuple[int, int]] = []
    longest: dict[str, list[Row]] = {}
    for asked in sorted(found, key=lambda run: (runs[run][0] - runs[run][1], runs[run])):
        start, end = runs[asked]
        rows = [row for row in found[asked] if row["id"] in titles]
        if rows and not any(start < last and first < end for first, last in taken):
            taken.append((start, end))
            longest[asked] = rows
    return longest


def _runs(text: str) -> dict[str, tuple[int, int]]:
    """Return {key of a run of words: its words, from … to}, of runs that begin as titles do, if capitals tell at all."""
    words = text.split()
    tells = text != text.lower()
    found: dict[str, tuple[int, int]] = {}
    for start, word in enumerate(words):
        first = word.lstrip("\"'“‘«(")[:1]
        if tells and not first.isupper() and not first.isdigit():
            continue
        for end in range(start + 2, min(start + MAX_WORDS, len(words)) + 1):
            for run in _written(" ".join(words[start:end])):
                found.setdefault(run, (start, end))
    return found


def _written(run: str) -> set[str]:
    """Return the keys of a run of words: with and without marks at its end (Mamma Mia!), and as a possessive."""
    bare = run.strip(_AROUND)
    if bare.count("(") > bare.count(")"):
        bare += ")"
    return {key(run.strip(_SEPARATORS)), key(bare), key(_POSSESSIVE.sub("", bare))} - {""}
