"""What a question names exactly: titles of documents, entities, and chunks with its dates, numbers and identifiers.

Such a key is in few chunks. As a start of a walk it counts 1.5 / log(1 + the number of chunks that have it).

Also which chunks mention what, without hubs: walks and bridges go on over these edges.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from pg_graphrag.ground.numeric import Flags, Ids, distinct, np, numbered, within
from pg_graphrag.llm.asking.length_limits import MAX_UNDERSTOOD
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.query.query import Query, once
from pg_graphrag.server import Row, cached_property
from pg_graphrag.text.concept import key
from pg_graphrag.text.dates import Date, dates

# A title in a question has at most so many words; one word alone is a noun phrase or no title.
MAX_WORDS = 10
# Documents with the same title, apart from additions in brackets, any of which a question may mean.
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

    `names`: the graph of the entities, if not the query's.
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


@once
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
    tells = _capitals_tell(text)
    spans: dict[str, tuple[int, int]] = {}
    for start, word in enumerate(words):
        first = word.lstrip("\"'“‘«(")[:1]
        if tells and not first.isupper() and not first.isdigit():
            continue
        for end in range(start + 2, min(start + MAX_WORDS, len(words)) + 1):
            for run in _spellings(" ".join(words[start:end])):
                spans.setdefault(run, (start, end))
    return spans


def _capitals_tell(text: str) -> bool:
    """Whether a question writes names with capitals: it has some beyond its first word, which has one anyway."""
    rest = text.lstrip().partition(" ")[2]
    return rest != rest.lower()


def _spellings(run: str) -> set[str]:
    """Return the keys of a run of words: with and without marks at its end (Mamma Mia!), and as a possessive."""
    trimmed = run.strip(_AROUND)
    if trimmed.count("(") > trimmed.count(")"):
        trimmed += ")"
    return {key(run.strip(_SEPARATORS)), key(trimmed), key(_POSSESSIVE.sub("", trimmed))} - {""}


NAMED = 1.5
# A name without an entity stands for entities whose names begin with it (Adam: Adam Smith), for at most so many.
MAX_NAMESAKES = 3
# A key is in at most so many chunks. Shorter words with digits (17, 3rd) have too many meanings.
MAX_CHUNKS = 20
MIN_LENGTH = 4
_ENDING = re.compile(r"['’]s?(?=\s|$)")
# Chunks that are searched for the words of a date.
CANDIDATES = 200


def weight(count: int) -> float:
    """Return how much a key counts that `count` chunks have."""
    return NAMED / float(np.log1p(count))


def keys(query: Query, hub: float) -> list[str]:
    """Return the keys of the low-level keywords without parts of titles in the query, which add nothing."""
    titles = _titles(query, hub)
    return [keyword for keyword in query.low_level_keys if not any(_is_part_of(keyword, title) for title in titles)]


def _titles(query: Query, hub: float) -> dict[str, list[Row]]:
    return named_titles(query, hub) if query.low is None else {}


def entities(query: Query, hub: float) -> dict[int, float]:
    """Return {entity: weight} of entities that the low-level keywords or titles in the query name; none in more than `hub`
    chunks.

    A name also stands for entities that add something in brackets, as titles do: Brother (song).
    """
    title_rows = _titles(query, hub)
    weights = {row["id"]: weight(row["mention_count"]) for rows in title_rows.values() for row in rows}
    keywords = keys(query, hub)
    rows = graph_of(query).namesakes(keywords, MAX_NAMESAKES + 1)
    for keyword in keywords:
        namesakes = [row for row in rows if row["asked"] == keyword]
        longer = [row for row in namesakes if row["key"].startswith(f"{keyword} ")]
        exact = [row for row in namesakes if row not in longer]
        if exact:
            longer = [row for row in longer if row["key"].startswith(f"{keyword} (")]
        # "Who is the sibling of Adam?" means Adam Smith, and no sibling rivalry.
        if len(longer) > MAX_NAMESAKES or not _is_written_as_name(query, keyword):
            longer = []
        for row, share in [(row, 1.0) for row in exact] + [(row, 1.0 / len(longer)) for row in longer]:
            if 0 < row["mention_count"] <= hub:
                weights[row["id"]] = max(weights.get(row["id"], 0.0), share * weight(row["mention_count"]))
    return weights


def _is_written_as_name(query: Query, keyword: str) -> bool:
    """Whether the query writes a keyword with a capital, or none that tells; so is one that was given beside the query."""
    text = query.text
    if query.low is not None or not _capitals_tell(text):
        return True
    return any(not found.group()[0].islower() for found in re.finditer(re.escape(keyword), text, re.IGNORECASE))


def _is_part_of(words: str, title: str) -> bool:
    """Whether a keyword is a part of a title: not all of it without the article or a possessive's ending."""
    own_words, full_title = _ENDING.sub("", words), _ENDING.sub("", title)
    return words not in (title, title.removeprefix("the ")) and f" {own_words} " in f" {full_title} "


def chunks(query: Query) -> dict[int, float]:
    """Return {chunk: weight} of the chunks that have a date, a number or an identifier of the query.

    Each such key gives its chunks what an entity would pass on to them in one step of the walk.
    """
    weights: dict[int, float] = {}
    for ids in _exact(query):
        if 0 < len(ids) <= MAX_CHUNKS:
            share = query.options.damping * weight(len(ids)) / len(ids)
            for chunk in ids.tolist():
                weights[chunk] = weights.get(chunk, 0.0) + share
    return weights


def _exact(query: Query) -> Iterator[Ids]:
    """Yield for each key of the query the chunks that have it, ascending; for frequent keys, some more than count."""
    if not any(character.isdigit() for character in query.text):
        return
    days, rest = dates(query.text)
    for day in days:
        yield _of_day(query, day)
    for term in sorted(query.lexemes(rest)):
        if len(term) >= MIN_LENGTH and any(character.isdigit() for character in term):
            yield _having(query, [term])


def _of_day(query: Query, day: Date) -> Ids:
    """Return the chunks with a day in any spelling; spellings in too many chunks are left out."""
    ways = [_having(query, day.in_one_word())]
    for spelling in day.in_words():
        terms = sorted(query.lexemes(spelling))
        index = query.bm25_index("chunk")
        candidates = np.sort(index.search(terms, CANDIDATES, documents=query.visible)[0])
        counts, _ = index.term_counts(terms, candidates)
        ways.append(candidates[(counts > 0).all(axis=0)])
    return distinct(np.concatenate([ids for ids in ways if len(ids) <= MAX_CHUNKS] or [np.empty(0, np.int64)]))


def _having(query: Query, terms: list[str]) -> Ids:
    """Return chunks with one of `terms`, ascending: all, or if more than MAX_CHUNKS have one, some more than these."""
    index = query.bm25_index("chunk")
    return np.sort(index.search(terms, MAX_CHUNKS + 1, documents=query.visible)[0])


# An entity in more than this share of the chunks, but at least in more than MIN_HUB, is a hub, which does not tell where to look;
# so is one in more than MAX_HUB, of however many: a question would read the more mentions the larger the corpus is. On MuSiQue's
# 1,890 passages hubs of 38 in place of 94 rank the same.
HUB_SHARE = 0.05
MIN_HUB, MAX_HUB = 20, 300


def hub_size(query: Query) -> float:
    """Return in how many chunks an entity is at most that is no hub."""
    return min(max(HUB_SHARE * graph_of(query).chunk_count(), MIN_HUB), MAX_HUB)


@dataclass(frozen=True)
class Mentions:
    """Edges between nodes and the chunks that mention them, (m,) each.

    `nodes`: entities, or joined nodes of a walk; `entity_ids`: their entities, below 0 for a node that is none;
    `are_titles`: edges whose node is the title of the chunk's document; `are_named`: edges whose node the query names.
    """

    nodes: Ids
    entity_ids: Ids
    chunks: Ids
    are_titles: Flags
    are_named: Flags

    @classmethod
    def none(cls) -> "Mentions":
        """Return no edges."""
        nothing, none = np.empty(0, np.int64), np.empty(0, np.bool_)
        return cls(nothing, nothing, nothing, none, none)

    @cached_property
    def titled(self) -> Ids:
        """The chunks, ascending, of documents that the query names by their titles."""
        return distinct(self.chunks[self.are_titles & self.are_named])

    def titled_by(self, chunk: int) -> Ids:
        """Return the other chunks, ascending, whose title a chunk mentions, except its own title and titles that the query
        names.
        """
        mentioned = distinct(self.nodes[(self.chunks == chunk) & ~self.are_named & ~self.are_titles])
        return distinct(self.chunks[self.are_titles & within(self.nodes, mentioned) & (self.chunks != chunk)])


def mentions_in(query: Query, chunks: Ids) -> Mentions:
    """Return the mentions of entities in some chunks."""
    hub = hub_size(query)
    named = np.array(sorted(entities(query, hub)), np.int64)
    nodes, owners, *_ = graph_of(query).edges_of_chunks(chunks, hub)
    return Mentions(nodes, nodes, owners, titled(query, nodes, owners), within(nodes, named))
