"""Excerpts of chunks that do not fit a context: sentences that answer the query, and the most relevant windows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pg_graphrag.search.contexts.sentences_in_order import GAP, Sentence
from pg_graphrag.search.query.found_chunk import FoundChunk
from pg_graphrag.search.query.query import Query, timed
from pg_graphrag.search.retrievers import passages
from pg_graphrag.search.retrievers.lexical import shared_words
from pg_graphrag.server import Row
from pg_graphrag.text.sentences import sentences

# Rows that are cut into sentences where no window fits.
MAX_CUT = 20


@timed("passages")
def excerpts(
    query: Query,
    rows: Sequence[FoundChunk],
    answering: Sequence[Sentence],
    room: int,
    tokens_of: Callable[[str], int],
    overhead_of: Callable[[FoundChunk], int],
) -> list[FoundChunk]:
    """Return those of `rows` whose sentences or windows fit into `room` tokens, each with these alone.

    First the sentences that are `answering`, then windows; if none of these fits, their sentences. A window counts by its
    nearness to the query for each token that it takes. Ties go to the better ranked chunk.

    `overhead_of`: tokens that a chunk takes besides its text.
    """
    place = {row.chunk_id: number for number, row in enumerate(rows)}
    gap = _gap(tokens_of)
    chosen: dict[int, list[Row]] = {}

    def take(number: int, start: int, end: int) -> bool:
        nonlocal room
        spans = chosen.get(number, [])
        if any(span["start"] <= start and end <= span["end"] for span in spans):
            return False
        tokens = tokens_of(rows[number].content[start:end].strip()) + gap
        cost = tokens - sum(span["tokens"] for span in spans if start <= span["start"] and span["end"] <= end)
        cost += 0 if spans else overhead_of(rows[number])
        if cost > room:
            return False
        room -= cost
        chosen.setdefault(number, []).append({"start": start, "end": end, "tokens": tokens})
        return True

    for sentence in answering:
        if (number := place.get(sentence.chunk)) is not None:
            take(number, sentence.start, sentence.end)
    priced = []
    for window in passages.windows(query, list(place)):
        number = place[window["chunk_id"]]
        price = tokens_of(window["content"].strip()) + gap + overhead_of(rows[number])
        if window["nearness"] > 0:
            priced.append((-window["nearness"] / price, number, window["start"], window))
    priced.sort(key=lambda entry: entry[:3])
    if not sum([take(number, start, window["end"]) for _, number, start, window in priced]):
        for _, number, start, window in priced:
            for first, last in sentences(window["content"], window["language"]):
                take(number, start + first, start + last)
    return _cut(rows, chosen)


def whole_beside(
    rows: Sequence[FoundChunk],
    fitting: list[FoundChunk],
    answering: Sequence[Sentence],
    room: int,
    tokens_of: Callable[[str], int],
    overhead_of: Callable[[FoundChunk], int],
) -> list[FoundChunk]:
    """Return as many of the first rows, which are `fitting` into `room` tokens, as leave room for the answering sentences
    of others.
    """
    gap = _gap(tokens_of)
    costs: dict[int, int] = {}
    for each in answering:
        text = rows[each.number].content[each.start : each.end]
        cost = tokens_of(text) + gap + (0 if each.number in costs else overhead_of(rows[each.number]))
        # One that has no room anyway takes none.
        if sum(costs.values()) + cost <= room:
            costs[each.number] = costs.get(each.number, 0) + cost
    count = len(fitting)
    while count and sum(row.token_count for row in fitting[:count]) > room - sum(
        cost for number, cost in costs.items() if number >= count
    ):
        count -= 1
    return fitting[:count]


def _gap(tokens_of: Callable[[str], int]) -> int:
    """Return the tokens of two gaps, before and after a piece."""
    return 2 * tokens_of(f" {GAP} ")


@timed("passages")
def fitting_sentences(
    query: Query, rows: Sequence[FoundChunk], total: int, tokens_of: Callable[[list[FoundChunk]], int]
) -> tuple[list[FoundChunk], int | None]:
    """Return (the best of `rows`, each with those sentences alone that fit into a context; tokens of the shortest such).

    For a context in which no window fits. A sentence counts by its words of the query, and by its window. Without the option
    `excerpts` rows are whole.

    `tokens_of`: tokens of a context of these rows alone.
    """
    if query.options.excerpts:
        scores = _sentence_scores(query, rows[:MAX_CUT])
    else:
        scores = {(number, 0, len(row.content)): -float(number) for number, row in enumerate(rows[:MAX_CUT])}
    chosen: dict[int, list[Row]] = {}
    least: int | None = None

    for number, start, end in sorted(scores, key=lambda place: (-scores[place], place)):
        sentence: Row = {"start": start, "end": end}
        alone = tokens_of(_cut(rows, {number: [sentence]}))
        least = alone if least is None else min(least, alone)
        with_it = chosen | {number: [*chosen.get(number, []), sentence]}
        if alone <= total and tokens_of(_cut(rows, with_it)) <= total:
            chosen = with_it
    return _cut(rows, chosen), least


def _cut(rows: Sequence[FoundChunk], windows_of: Mapping[int, Sequence[Row]]) -> list[FoundChunk]:
    """Return rows, by number, with these windows of their texts alone."""
    texts = {number: _joined(rows[number].content, windows_of[number]) for number in sorted(windows_of)}
    return [replace(rows[number], content=text, excerpt=text != rows[number].content) for number, text in texts.items()]


def _joined(content: str, windows: Sequence[Row]) -> str:
    """Return the text of windows in its order, with gaps where text of the chunk is left out."""
    text, end = "", 0
    for window in sorted(windows, key=lambda window: window["start"]):
        if content[end : window["start"]].strip():
            text = f"{text.rstrip()} {GAP} ".lstrip()
            end = window["start"]
        text += content[end : window["end"]]
        end = max(end, window["end"])
    return f"{text.rstrip()} {GAP}" if content[end:].strip() else text


def _sentence_scores(query: Query, rows: Sequence[FoundChunk]) -> dict[tuple[int, int, int], float]:
    """Return {(number of the row, start, end): score} of sentences."""
    number_of = {row.chunk_id: number for number, row in enumerate(rows)}
    places: dict[tuple[int, int, int], float] = {}
    for window in passages.windows(query, list(number_of)):
        number = number_of[window["chunk_id"]]
        for start, end in sentences(window["content"], window["language"]):
            if window["content"][start:end].strip():
                place = number, window["start"] + start, window["start"] + end
                places[place] = max(window["nearness"] / 2, places.get(place, 0.0))
    texts = [rows[number].content[start:end] for number, start, end in places]
    shares = shared_words(query).shares_of_query(texts).tolist() if texts else []
    return {place: round(share + near, 9) for (place, near), share in zip(places.items(), shares, strict=True)}
