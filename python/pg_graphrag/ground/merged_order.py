"""The order of rows of several corpora in one answer. Where they come from does not matter: it reads their relevance alone."""

from collections.abc import Mapping, Sequence

# How many of a corpus' first rows say how well it answers. Whoever merges gives so many, where there are, however few are wanted.
FIRST = 10
# Relevance that differs by less is equal: sessions sum the same numbers in another order.
_DIGITS = 4


def merged_order(relevances: Mapping[str, Sequence[float]]) -> list[tuple[str, int]]:
    """Return (corpus, place in its own answer) of all rows, best first.

    A row counts the relevance of the most relevant among the first rows of its corpus, divided by its rank there: each corpus
    keeps its order, in which rows that share little with the question can stand high, and gets as many places as it is near
    the question. Ties: the row of higher rank, then the corpus by the code points of its name.

    Parameters
    ----------
    relevances : mapping
        By corpus, the relevance of each row of its answer, best first.
    """
    best = {corpus: round(max(shares[:FIRST], default=0.0), _DIGITS) for corpus, shares in relevances.items()}
    places = [(corpus, place) for corpus, shares in relevances.items() for place in range(len(shares))]
    return sorted(places, key=lambda row: (-best[row[0]] / (row[1] + 1), row[1], row[0]))
