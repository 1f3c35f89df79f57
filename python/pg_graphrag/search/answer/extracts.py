"""Extracts: an answer in the documents' own words, where no model gives one: sentences of the context, each with its citation.

The first is nearest to the question. Each that follows answers what the question has besides, and is led to by those before:
what they name, and the question does not, stands in its title or in itself. `python -m bench extracts` measures it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pg_graphrag.ground.numeric import Scores, np
from pg_graphrag.search.contexts.citations import pieces
from pg_graphrag.search.contexts.excerpts import GAP
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.retrievers import passages
from pg_graphrag.search.retrievers.lexical import asks_for_the_whole, shared_words
from pg_graphrag.server import cached_property
from pg_graphrag.text import prompts
from pg_graphrag.text.chunks import half_words
from pg_graphrag.text.languages import detect
from pg_graphrag.text.marks import without_citations
from pg_graphrag.text.naming.full_names import speakers
from pg_graphrag.text.sentences import sentences
from pg_graphrag.text.words import capitals
from pg_graphrag.text.words.shared_words import SharedWords

# At most so many, each of at most so many characters, and none that scores less than this share of the first.
MAX_EXTRACTS, MAX_CHARACTERS, NEAR_ENOUGH = 5, 400, 0.2
# Themes of a question about the whole.
MAX_THEMES = 10
# Chunks that are looked at, the best ranked.
MAX_CHUNKS = 12
# Half words: what is shorter is a heading or a label, and says nothing.
MIN_SIZE = 8
# What a place in the ranking costs, and to be of the text of one before. After the first sentence: the weight of the question's
# words, of those of them that are still open, and what it is worth that a title, or a sentence, has a name from before.
PLACE, SAME_TEXT, ALL_WORDS, OPEN_WORDS, TITLE_LED_TO, LED_TO = 0.05, 0.2, 0.5, 0.5, 0.5, 0.2
# Letters of a name that leads on.
SHORTEST_NAME = 3
# Sentences say the same that have more than this share of their runs of characters in common.
SAME_PIECES = 0.7

# What begins a line of Markdown: of a list, a quotation or a heading.
_LINE_MARK = re.compile(r"\A(?:[-*+•>|#\s]|\d{1,3}[.)]\s)+")
_ASKS = re.compile(r"[?？؟]\W*\Z")
_LATIN = "0-9a-z\u00df-\u024f"


@dataclass(frozen=True, slots=True)
class Extracts:
    """Extracts as an answer, and (number, sentence) of each."""

    text: str
    cited_sentences: list[tuple[int, str]]


@dataclass(frozen=True)
class Sentence:
    """A sentence, or what somebody says in a conversation, of the text at a `place` of the ranking.

    `title`: of its document; `asked`: the question before it; `nearness`: of its window; `theme`: where the mode has themes.
    """

    text: str
    number: int
    chunk: int
    place: int = 0
    title: str = ""
    asked: str = ""
    nearness: float = 0.0
    theme: str = ""

    @cached_property
    def whole(self) -> str:
        """The sentence with what it is about, which it may call "it"."""
        return f"{self.title} {self.asked} {self.text}"

    @cached_property
    def folded(self) -> str:
        """The same, to look for names in."""
        return self.whole.casefold()


def extracts(query: Query, context: dict[str, Any], language: str, *, has_model: bool = True) -> Extracts | None:
    """Return the sentences of a context that answer its question, under a line in a `language`; None where it has none to cite.

    Rows of a statement, which was written for the question, come first. Of a question about the whole each theme has one. No
    model is asked.
    """
    rows = [Sentence(text, number, 0) for text, number in _statement_rows(context)]
    candidates = _candidates(query, context)
    if asks_for_the_whole(query) and any(candidate.theme for candidate in candidates):
        chosen = _of_each_theme(candidates)
    else:
        chosen = in_order(query.text, shared_words(query), candidates, MAX_EXTRACTS - len(rows))
    if not rows and not chosen:
        return None
    heading = prompts.sentence("extracts_heading" if has_model else "no_model_heading", language)
    cited = [*rows, *chosen]
    lines = [f"- {each.theme and f'{each.theme}: '}{each.text} [{each.number}]" for each in cited]
    return Extracts("\n".join([heading, "", *lines]), [(each.number, each.text) for each in cited])


def in_order(question: str, words: SharedWords, candidates: list[Sentence], most: int) -> list[Sentence]:
    """Return at most so many sentences, in the order in which they answer a question; `words`: its words with their weights."""
    wholes = [candidate.whole for candidate in candidates]
    shares = words.shares_of_query(wholes)
    base: Scores = np.array([candidate.nearness - PLACE * candidate.place for candidate in candidates])
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
            least = NEAR_ENOUGH * scores[best]
        chosen.append(candidates[best])
        words = words.without(candidates[best].whole)
        np.maximum(led_to, _led_to(candidates[best], question.casefold(), candidates), out=led_to)
        # Of a text without a title, neighbours are what a sentence is about.
        same_text += [each.chunk == candidates[best].chunk and each.title != "" for each in candidates]
        scores = base + ALL_WORDS * shares + OPEN_WORDS * words.shares_of_query(wholes) + led_to - SAME_TEXT * same_text
    return chosen


def _led_to(sentence: Sentence, question: str, candidates: list[Sentence]) -> Scores:
    """Return what it is worth for each candidate that it has a name that the sentence, or its title, brings in, (n,)."""
    names = {concept.name.casefold() for concept in capitals.concepts(sentence.text)}
    # Where no capitals tell names, titles of other texts do.
    names |= {title for title in {each.title.casefold() for each in candidates} if title in sentence.folded}
    worth = np.zeros(len(candidates))
    for name in names:
        if len(name) < SHORTEST_NAME or name in question:
            continue
        stands = re.compile(rf"(?<![{_LATIN}]){re.escape(name)}(?![{_LATIN}])")
        for number, other in enumerate(candidates):
            if other.chunk == sentence.chunk and name != sentence.title.casefold():
                continue
            if other.title != sentence.title and stands.search(other.title.casefold()):
                worth[number] = TITLE_LED_TO
            elif name in other.folded and stands.search(other.text.casefold()):
                worth[number] = max(worth[number], LED_TO)
    return worth


def _of_each_theme(candidates: list[Sentence]) -> list[Sentence]:
    """Return of each theme the sentence that has most of its names."""
    best: dict[str, tuple[int, Sentence]] = {}
    for sentence in candidates:
        shared = len(pieces(sentence.theme) & pieces(sentence.text))
        if sentence.theme and shared > best.get(sentence.theme, (-1, sentence))[0]:
            best[sentence.theme] = shared, sentence
    return [sentence for _, sentence in best.values()][:MAX_THEMES]


def _say_the_same(text: str, other: str) -> bool:
    mine, theirs = pieces(text), pieces(other)
    return text == other or len(mine & theirs) > SAME_PIECES * len(mine | theirs)


def _statement_rows(context: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield (the first rows of a statement as text, its number)."""
    outcome = context.get("sql", {})
    for row in outcome.get("rows", ())[: MAX_EXTRACTS - 1]:
        values = {name: value for name, value in zip(outcome["columns"], row, strict=True) if value is not None}
        if text := _readable(_pairs(values)):
            yield text, outcome["reference"]


def _candidates(query: Query, context: dict[str, Any]) -> list[Sentence]:
    """Return the sentences of the best chunks as they are ranked, then claims and rows of tables."""
    candidates = [*_of_chunks(query, context), *_of_claims_and_rows(query, context)]
    long_enough = [sentence for sentence in candidates if half_words(sentence.text, 0, len(sentence.text)) >= MIN_SIZE]
    return long_enough or candidates


def _of_chunks(query: Query, context: dict[str, Any]) -> Iterator[Sentence]:
    titles = {reference["number"]: reference["title"] or "" for reference in context["references"]}
    chunks = context["chunks"][:MAX_CHUNKS]
    by_chunk: dict[int, list[dict[str, Any]]] = {}
    for window in passages.windows(query, [chunk["chunk_id"] for chunk in chunks], asks=False):
        by_chunk.setdefault(window["chunk_id"], []).append(window)
    for place, chunk in enumerate(chunks):
        shown, title = chunk["content"], titles[chunk["reference"]]
        theme = chunk["explain"].get("graph_global", {}).get("report") or ""
        is_conversation, before = bool(speakers(shown)), ""
        for window in by_chunk.get(chunk["chunk_id"]) or [
            {"content": shown, "language": detect(shown), "nearness": 0.0}
        ]:
            nearness = window["nearness"]
            if title:
                # What the texts around say of a sentence's subject, its title says.
                nearness -= float(shared_words(query).shares_of_query([window["content"]])[0])
            for text in _parts(window["content"], window["language"], is_conversation):
                # Of a chunk that is given in excerpts, only these.
                if text in shown and text != GAP and (line := _readable(text)):
                    asked = before if _ASKS.search(before) else ""
                    yield Sentence(
                        line, chunk["reference"], chunk["chunk_id"], place, title, asked, nearness / 2, theme
                    )
                    before = line


def _parts(text: str, language: str, is_conversation: bool) -> list[str]:
    """Return the sentences of a text; of a conversation what is said at a time."""
    if is_conversation:
        return [line.strip() for line in text.splitlines()]
    return [text[start:end].strip() for start, end in sentences(text, language)]


def _of_claims_and_rows(query: Query, context: dict[str, Any]) -> Iterator[Sentence]:
    texts = [(claim["description"], claim, 0) for claim in context["claims"]]
    for table in context["tables"]:
        texts += [(_pairs(row["values"]), row, place) for place, row in enumerate(table["rows"])]
    # They are windows of their own.
    shares = shared_words(query).shares_of_query([text for text, _, _ in texts]).tolist()
    for (text, source, place), share in zip(texts, shares, strict=True):
        if line := _readable(text):
            yield Sentence(line, source["reference"], source["chunk_id"], place, nearness=share / 2)


def _pairs(values: dict[str, Any]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in values.items() if value is not None)


def _readable(text: str) -> str:
    """Return a text as a line of a list, without citations of its own; "" for one without a letter or digit."""
    line = without_citations(" ".join(_LINE_MARK.sub("", text).split())).strip()
    if not any(character.isalnum() for character in line):
        return ""
    return line if len(line) <= MAX_CHARACTERS else f"{line[: MAX_CHARACTERS - 1].rstrip()}{GAP}"
