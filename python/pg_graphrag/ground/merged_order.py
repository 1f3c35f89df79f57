"""The order of rows of several corpora in one answer: by relevance alone, whatever corpus a row comes from."""

from collections.abc import Mapping, Sequence

# How many of a corpus' first rows decide how well it answers. Mergers must give so many, if there are, however few are
# wanted.
FIRST = 10
# Relevance that differs by less is equal: sessions sum the same numbers in another order.
_DIGITS = 4


def merged_order(relevances: Mapping[str, Sequence[float]]) -> list[tuple[str, int]]:
    """Return (corpus, place in its own answer) of all rows, best first.

    A row scores the best relevance among the first rows of its corpus, divided by its rank there. So each corpus keeps its
    order, in which rows that share little with the question can stand high, and gets more places the nearer it is to the
    question. Ties: the row of higher rank, then the corpus by the code points of its name.

    `relevances`: by corpus, the relevance of each row of its answer, best first.
    """
    best = {corpus: corpus_relevance(shares) for corpus, shares in relevances.items()}
    places = [(corpus, place) for corpus, shares in relevances.items() for place in range(len(shares))]
    return sorted(places, key=lambda row: row_order(best[row[0]], row[1], row[0]))


def corpus_relevance(shares: Sequence[float]) -> float:
    """Return how well a corpus answers, of the relevance of its rows, best first."""
    return round(max(shares[:FIRST], default=0.0), _DIGITS)


def row_order(relevance: float, place: int, corpus: str) -> tuple[float, int, str]:
    """Return what rows are sorted by, of the relevance of their corpus and their place in its answer, from 0."""
    return -relevance / (place + 1), place, corpus
