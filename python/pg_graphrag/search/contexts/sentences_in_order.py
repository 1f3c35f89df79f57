"""Sentences of the found texts that answer a question, in order.

The first is nearest to the question. Each further one answers a remaining part of the question. Sentences before it
lead to it: they name something that the question does not, and its title or its text contains that name. `python -m
bench extracts` measures it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise, repeat

from pg_graphrag.ground.numeric import Flags, Scores, distinct, np
from pg_graphrag.search.contexts.citations import pieces
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.query.found_chunk import FoundChunk
from pg_graphrag.search.query.query import Query, timed
from pg_graphrag.search.retrievers import passages
from pg_graphrag.search.retrievers.lexical import shared_words
from pg_graphrag.search.retrievers.named_dates import words_of_time
from pg_graphrag.server import Row, cached_property
from pg_graphrag.text.chunks import half_words
from pg_graphrag.text.marks import without_citations
from pg_graphrag.text.naming.full_names import speakers
from pg_graphrag.text.sentences import sentences
from pg_graphrag.text.words import capitals

# Stands where text is left out.
GAP = "…"
# Maximum of sentences, of characters in each, and the least share of the first one's score.
MAX_SENTENCES, MAX_CHARACTERS, NEAR_ENOUGH = 5, 400, 0.2
# Chunks that are looked at, the best ranked.
MAX_CHUNKS = 12
# In half words: a shorter sentence is a heading or a label, and says nothing.
MIN_SIZE = 8
# The cost of a lower place in the ranking, and of the same text as an earlier sentence. After the first sentence: the
# weight of the question's words, of those still open, and the value of a title, or a sentence, with a name from before,
# or of a sentence that has what the question asks for. The value of a document of the day or month that the question
# names. In a conversation: of words by the person whom the question names first.
PLACE, SAME_TEXT, ALL_WORDS, OPEN_WORDS, TITLE_LED_TO, LED_TO, ASKED_FOR = 0.05, 0.2, 0.5, 0.5, 0.5, 0.2, 0.25
OF_TIME, SAYS = 0.3, 0.2
# Letters of a name that leads on.
SHORTEST_NAME = 3
# Sentences say the same that have more than this share of their runs of characters in common.
SAME_PIECES = 0.7

# What begins a line of Markdown: of a list, a quotation or a heading.
_LINE_MARK = re.compile(r"\A(?:[-*+•>|#\s]|\d{1,3}[.)]\s)+")
# Below the heads of a table.
_BELOW_HEADS = re.compile(r"\|(?:\s*:?-+:?\s*\|)+")
_FENCE = re.compile(r"^[ \t]*+(?:`{3,}+|~{3,}+)[^`\n]*+$", re.MULTILINE)
_ASKS = re.compile(r"[?？؟]\W*\Z")
# A speaker's name, or another label of a line of a conversation: Time: 20:15.
_LABEL = re.compile(r"([^\s:：][^:：\n]{0,40})(?::\s|：)")
_LATIN = "0-9A-Za-z\u00c0-\u024f"
# Words before a name that are no part of it.
_FORMS_OF_ADDRESS = {"mr", "mrs", "ms", "miss", "dr", "prof", "sir", "herr", "frau"}
# What English questions ask for, and what contains it: a text, or a name of a type.
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_ASKED_FOR: tuple[tuple[str, str | frozenset[str]], ...] = (
    (
        r"\bhow (?:many|much|long|old|far|large|big|tall|high)\b|\bpopulation\b|\bwhat percent",
        r"\d|(?i:\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|hundred|thousand|[mb]illion|dozen)\b)",
    ),
    (r"\bwhen\b|\b(?:what|which) (?:year|date|day|month|time)\b", rf"\b(?:1\d\d\d|20[0-2]\d)\b|\b(?:{_MONTHS})\b \d"),
    (r"\bwho(?:m|se)?\b", frozenset({"person"})),
    (
        r"\bwhere\b|\b(?:what|which) (?:city|country|state|county|place|town|region|continent|province|district|location)\b",
        frozenset({"location", "geo", "place"}),
    ),
)


@dataclass(frozen=True)
class Sentence:
    """A sentence, or what somebody says in a conversation, of the text at a `place` of the ranking.

    `title`: of its document; `asked`: the question before it; `speaker`: who says it; `nearness`: of its window; `theme`: where
    the mode has themes; `start`, `end`: in its chunk.
    """

    text: str
    number: int
    chunk: int
    place: int = 0
    title: str = ""
    asked: str = ""
    speaker: str = ""
    nearness: float = 0.0
    theme: str = ""
    start: int = 0
    end: int = 0

    @cached_property
    def whole(self) -> str:
        """The sentence with the name of its subject, which it may call "it"."""
        return f"{self.title} {self.asked} {self.text}"

    @cached_property
    def folded(self) -> str:
        """The same, to look for names in."""
        return self.whole.casefold()


@timed("passages")
def answering(query: Query, rows: Sequence[FoundChunk]) -> list[Sentence]:
    """Return the sentences of chunks that answer the query, in order; the `number` of each is its row's."""
    rows = rows[:MAX_CHUNKS]
    by_chunk = passages.windows_of(query, [row.chunk_id for row in rows])
    candidates = [
        sentence
        for place, row in enumerate(rows)
        for sentence in of_windows(
            query, by_chunk.get(row.chunk_id, ()), row.content, number=place, place=place, title=row.title or ""
        )
    ]
    return in_order(query, long_enough(candidates), MAX_SENTENCES)


def in_order(query: Query, candidates: list[Sentence], most: int) -> list[Sentence]:
    """Return at most so many sentences, in the order in which they answer a query."""
    words, wholes = shared_words(query), [candidate.whole for candidate in candidates]
    shares = words.shares_of_query(wholes)
    base: Scores = np.array([candidate.nearness - PLACE * candidate.place for candidate in candidates])
    base += SAYS * _says_whom_it_names(query.text, candidates)
    chunks = np.array([candidate.chunk for candidate in candidates], np.int64)
    base += OF_TIME * words_of_time(query, chunks)[1]
    asked_for = ASKED_FOR * _have_what_is_asked_for(query, candidates)
    scores, led_to, same_text = base + shares, np.zeros(len(candidates)), np.zeros(len(candidates))
    chosen: list[Sentence] = []
    least = -np.inf
    left = set(range(len(candidates)))
    while left and len(chosen) < most:
        best = min(left, key=lambda place: (-round(float(scores[place]), 9), place))
        left.remove(best)
        if scores[best] < least:
            break
        if any(_say_the_same(candidates[best].text, other.text) for other in chosen):
            continue
        if not chosen:
            # The thing asked for comes after the sentences that lead to it.
            base, least = base + asked_for, NEAR_ENOUGH * scores[best]
        chosen.append(candidates[best])
        words = words.without(candidates[best].whole)
        np.maximum(led_to, _led_to(candidates[best], query.text.casefold(), candidates), out=led_to)
        # In a text without a title, neighbouring sentences say what a sentence is about.
        same_text += [each.chunk == candidates[best].chunk and each.title != "" for each in candidates]
        scores = base + ALL_WORDS * shares + OPEN_WORDS * words.shares_of_query(wholes) + led_to - SAME_TEXT * same_text
    return chosen


def _says_whom_it_names(question: str, candidates: list[Sentence]) -> Flags:
    """Return which sentences are said by the speaker whom the question names first, (n,)."""
    names = {each.speaker for each in candidates} - {""}
    # Earlier questions come first.
    for line in reversed(question.splitlines()):
        # As it is written first: will is no Will.
        for fold in (str, str.casefold):
            places = {name: place for name in names if (place := _first_place(fold(name), fold(line))) is not None}
            if places:
                first = min(places.values())
                return np.array([places.get(each.speaker) == first for each in candidates], np.bool_)
    return np.zeros(len(candidates), np.bool_)


def _first_place(name: str, line: str) -> tuple[int, int] | None:
    """Return where a line names somebody, in full, in one word, or by the first name; and minus the letters of that form."""
    forms = {name, name.replace(" ", "")}
    first = name.split()[0]
    if first.rstrip(".").casefold() not in _FORMS_OF_ADDRESS:
        forms.add(first)
    matches = (_standing(form).search(line) for form in forms if form in line)
    return min(((match.start(), match.start() - match.end()) for match in matches if match), default=None)


def _standing(name: str) -> re.Pattern[str]:
    """Return what finds a name as words of its own."""
    return re.compile(rf"(?<![{_LATIN}]){re.escape(name)}(?![{_LATIN}])")


def _have_what_is_asked_for(query: Query, candidates: list[Sentence]) -> Flags:
    """Return which sentences have a number, a date, or a person or place that the question does not name, as it asks, (n,)."""
    question = query.text.casefold()
    # Earlier questions come first; the text after a question may ask nothing.
    lines = reversed(question.splitlines())
    kind = next((kind for line in lines for asks, kind in _ASKED_FOR if re.search(asks, line)), None)
    if kind is None or not candidates:
        return np.zeros(len(candidates), np.bool_)
    if isinstance(kind, str):
        return np.array([re.search(kind, each.text) is not None for each in candidates], np.bool_)
    chunks = np.array(sorted({each.chunk for each in candidates}), np.int64)
    entities, owners, *_ = graph_of(query).edges_of_chunks(chunks, np.inf)
    names = {
        row["id"]: row["name"]
        for row in graph_of(query).nodes(distinct(entities))
        if row["type"].casefold() in kind and row["name"].casefold() not in question
    }
    by_chunk: dict[int, list[str]] = {}
    for entity, chunk in zip(entities.tolist(), owners.tolist(), strict=True):
        if entity in names:
            by_chunk.setdefault(chunk, []).append(names[entity])
    return np.array([any(name in each.text for name in by_chunk.get(each.chunk, ())) for each in candidates], np.bool_)


def _led_to(sentence: Sentence, question: str, candidates: list[Sentence]) -> Scores:
    """Return for each candidate the value of having a name that the sentence, or its title, brings in, (n,)."""
    names = {concept.name.casefold() for concept in capitals.concepts(sentence.text)}
    # Where no capitals tell names, titles of other texts do.
    names |= {title for title in {each.title.casefold() for each in candidates} if title in sentence.folded}
    worth = np.zeros(len(candidates))
    for name in names:
        if len(name) < SHORTEST_NAME or name in question:
            continue
        stands = _standing(name)
        for number, other in enumerate(candidates):
            if other.chunk == sentence.chunk and name != sentence.title.casefold():
                continue
            if other.title != sentence.title and stands.search(other.title.casefold()):
                worth[number] = TITLE_LED_TO
            elif name in other.folded and stands.search(other.text.casefold()):
                worth[number] = max(worth[number], LED_TO)
    return worth


def long_enough(candidates: Iterable[Sentence]) -> list[Sentence]:
    """Return the sentences that are neither headings nor labels, or all if there are no others."""
    every = list(candidates)
    return [each for each in every if half_words(each.text, 0, len(each.text)) >= MIN_SIZE] or every


def of_windows(
    query: Query, windows: Sequence[Row], shown: str, *, number: int, place: int, title: str, theme: str = ""
) -> Iterator[Sentence]:
    """Yield the sentences of a chunk's windows that are within the `shown` part."""
    name_of, before, speaker = speakers(shown), "", ""
    rows = _with_heads(shown)
    for text, start, end, nearness in _units(query, windows, shown, title, in_turns=bool(name_of)):
        if not (line := readable(rows.get(text, text))):
            continue
        if name_of and (label := _LABEL.match(text)):
            speaker = name_of.get(label[1], "")
        asked = before if _ASKS.search(before) else ""
        chunk = windows[0]["chunk_id"]
        yield Sentence(line, number, chunk, place, title, asked, speaker, nearness / 2, theme, start, end)
        before = line


def _with_heads(text: str) -> dict[str, str]:
    """Return {row of a Markdown table: its cells, each behind its head; "" for the row of heads above it}."""
    rows: dict[str, str] = {}
    heads: list[str] = []
    head_row = ""
    for before, line in pairwise(map(str.strip, text.splitlines()) if "-|" in text or "- |" in text else ()):
        if _BELOW_HEADS.fullmatch(line):
            heads, head_row = _cells(before), before
        elif not line.startswith("|"):
            heads = []
        elif heads:
            rows[head_row] = ""
            cells = zip(chain(heads, repeat("")), _cells(line), strict=False)
            rows[line] = "; ".join(f"{head}: {cell}" if head else cell for head, cell in cells if cell)
    return rows


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def _units(
    query: Query, windows: Sequence[Row], shown: str, title: str, *, in_turns: bool
) -> list[tuple[str, int, int, float]]:
    """Return (text, start, end, nearness) of the sentences of windows that are `shown`, or of a speaker's turns.

    A turn may have several lines and be in two windows; if it is longer than the limit for a sentence, it is split.
    """
    units: list[tuple[str, int, int, float]] = []
    goes_on = False
    for window in windows:
        nearness = window["nearness"]
        if title:
            # What the texts around say of a sentence's subject, its title says.
            nearness -= float(shared_words(query).shares_of_query([window["content"]])[0])
        for start, end in _parts(window["content"], window["language"], in_turns):
            text = window["content"][start:end].strip()
            # For a chunk that is given in excerpts, only these.
            if text not in shown or text == GAP:
                goes_on = False
            elif text:
                first, last = window["start"] + start, window["start"] + end
                near = nearness
                if goes_on and not _LABEL.match(text) and len(units[-1][0]) + len(text) < MAX_CHARACTERS:
                    turn, first, _, before = units.pop()
                    text, near = f"{turn} {text}", max(before, nearness)
                units.append((text, first, last, near))
                goes_on = in_turns
    return units


def _parts(text: str, language: str, is_conversation: bool) -> Iterable[tuple[int, int]]:
    """Return (start, end) of the sentences of a text; for a conversation, of the turns."""
    if not is_conversation:
        return sentences(text, language)
    lines = text.splitlines(keepends=True)
    ends = list(accumulate(map(len, lines)))
    return [(end - len(line), end - len(line) + len(line.rstrip())) for line, end in zip(lines, ends, strict=True)]


def _say_the_same(text: str, other: str) -> bool:
    mine, theirs = pieces(text), pieces(other)
    return text == other or len(mine & theirs) > SAME_PIECES * len(mine | theirs)


def readable(text: str) -> str:
    """Return a text as a line of a list, without citations of its own; "" for one without a letter or digit."""
    line = without_citations(" ".join(_LINE_MARK.sub("", _FENCE.sub("", text)).split())).strip()
    if not any(character.isalnum() for character in line):
        return ""
    return line if len(line) <= MAX_CHARACTERS else f"{line[: MAX_CHARACTERS - 1].rstrip()}{GAP}"
