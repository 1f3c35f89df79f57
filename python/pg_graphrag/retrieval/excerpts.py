"""Excerpts of chunks that have no room in a context: the windows that say most of the query for their tokens."""

from collections.abc import Callable, Sequence

from pg_graphrag.retrieval import passages
from pg_graphrag.retrieval.query import Query, timed
from pg_graphrag.server import Row

# Stands where text is left out.
GAP = "…"


@timed("passages")
def excerpts(
    query: Query, rows: Sequence[Row], room: int, tokens_of: Callable[[str], int], overhead_of: Callable[[Row], int]
) -> list[Row]:
    """Return those of `rows` of which windows are among the best that fit into `room` tokens, each with these windows alone.

    A window counts by its nearness to the query for each token that it takes, alone. Of equal ones the better ranked chunk's is
    the first.

    Parameters
    ----------
    overhead_of : tokens that a chunk takes besides its text.
    """
    place = {row["chunk_id"]: number for number, row in enumerate(rows)}
    # Two gaps: before and after it.
    gap = 2 * tokens_of(f" {GAP} ")
    priced = []
    for window in passages.windows(query, list(place)):
        row = rows[place[window["chunk_id"]]]
        overhead, tokens = overhead_of(row), tokens_of(window["content"].strip()) + gap
        priced.append((-window["nearness"] / (tokens + overhead), place[window["chunk_id"]], window, tokens, overhead))
    chosen: dict[int, list[Row]] = {}
    for _, number, window, tokens, overhead in sorted(priced, key=lambda entry: (*entry[:2], entry[2]["start"])):
        cost = tokens if number in chosen else tokens + overhead
        if window["nearness"] > 0 and cost <= room:
            room -= cost
            chosen.setdefault(number, []).append(window)
    return [
        rows[number] | {"content": text, "excerpt": text != rows[number]["content"]}
        for number in sorted(chosen)
        for text in [_joined(rows[number]["content"], chosen[number])]
    ]


def _joined(content: str, windows: Sequence[Row]) -> str:
    """Return the text of windows in its order, with gaps where text of the chunk is left out."""
    text, end = "", 0
    for window in sorted(windows, key=lambda window: window["start"]):
        if content[end : window["start"]].strip():
            text = f"{text.rstrip()} {GAP} ".lstrip()
            end = window["start"]
        text += content[end : window["end"]]
        end = window["end"]
    return f"{text.rstrip()} {GAP}" if content[end:].strip() else text
