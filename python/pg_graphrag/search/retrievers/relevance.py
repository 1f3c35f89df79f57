"""How likely a chunk has a part of the answer, from 0 to 1: a logistic curve over figures of the query and the chunk
alone.

The figures are the cosine of its best window to the query, and the share of the query's words that it has. Neither the
rest of the corpus, nor a filter, nor hidden documents have an effect. `python -m bench relevance` fits the curves and
says how well they hold.
"""

from dataclasses import dataclass
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import Ids, NDArray, Scores, np, within
from pg_graphrag.search.query.found_chunk import FoundChunk
from pg_graphrag.search.query.query import Query, timed
from pg_graphrag.search.retrievers.dense import score_chunks
from pg_graphrag.search.retrievers.lexical import foreign_chunks
from pg_graphrag.search.retrievers.named_dates import words_of_time
from pg_graphrag.text.languages import LANGUAGES

DIGITS = 6


@dataclass(frozen=True, slots=True)
class Curve:
    """A logistic regression of whether a chunk is relevant, on the two figures; a weight of 0 leaves one out."""

    intercept: float
    cosine: float = 0.0
    words: float = 0.0

    def shares(self, cosines: Scores, words: Scores) -> Scores:
        """Return the relevance of chunks, (n,)."""
        shares: Scores = 1.0 / (1.0 + np.exp(-(self.intercept + self.cosine * cosines + self.words * words)))
        return shares


# By local model: the curve, and the one for texts in another language than the question, which lack its words for that
# reason alone.
CURVES = {
    "all-MiniLM-L6-v2": (Curve(-6.23, 7.45, 3.06), Curve(-6.25, 10.38)),
    "multilingual-e5-small": (Curve(-10.61, 17.23, 3.06), Curve(-11.44, 22.4)),
}
# Where the model was not made for the language of one of them, or the vector of a long document is still to come.
BY_WORDS = Curve(-4.74, words=6.39)
# Of a chunk with all words of the query at least: a short question is far from a long window that answers it in a clause.
ALL_WORDS = 0.1


def is_known(query: Query) -> bool:
    """Whether the corpus' embedding model has a curve."""
    model = query.corpus.options.embedding
    return model.local and model.model in CURVES


def relevant(query: Query, rows: list[FoundChunk]) -> list[FoundChunk]:
    """Return the rows whose relevance is `min_relevance` or more, in their order, with it in their explanations.

    All of them, without, where the option is not given.

    Raises GraphRAGError: 0A000 for vectors of a model without a curve.
    """
    least = query.options.min_relevance
    if least is None:
        return rows
    check_known(query)
    judge(query, rows)
    return [row for row in rows if row.explain["relevance"] >= least]


def check_known(query: Query) -> None:
    """Check that the corpus' embedding model has a curve; 0A000."""
    if not is_known(query):
        raise GraphRAGError(
            f'relevance is not known for vectors of the model "{query.corpus.options.embedding.model}"',
            sqlstate="0A000",
            hint="Leave min_relevance out; the option rerank has a cross-encoder score the rows.",
        )


@timed("relevance")
def judge(query: Query, rows: list[FoundChunk]) -> None:
    """Add the relevance of rows to their explanations, and what it is made of: words alone if the model has no curve."""
    if not rows:
        return
    ids: Ids = np.array(sorted({row.chunk_id for row in rows}), np.int64)
    model = query.corpus.options.embedding
    reads_query = is_known(query) and query.language in LANGUAGES[model.model]
    embedded = {row.chunk_id for row in rows if reads_query and model.embeds(row.content)}
    cosines = score_chunks(query, ids) if embedded and query.corpus.space is not None else np.zeros(len(ids))
    has_vector = np.array([chunk in embedded for chunk in ids.tolist()], bool) & (cosines != 0.0)
    has_words = ~within(ids, foreign_chunks(query, ids))
    words = _words(query, ids)
    usual, between_languages = CURVES[model.model] if is_known(query) else (BY_WORDS, BY_WORDS)
    shares = np.select(
        [has_vector & has_words, has_vector],
        [usual.shares(cosines, words), between_languages.shares(cosines, words)],
        BY_WORDS.shares(cosines, words),
    )
    shares = np.where(has_words & (words == 1), np.maximum(shares, ALL_WORDS), shares)
    place = {chunk: index for index, chunk in enumerate(ids.tolist())}
    for row in rows:
        index = place[row.chunk_id]
        figures: dict[str, Any] = {}
        if has_vector[index]:
            figures["cosine"] = round(float(cosines[index]), DIGITS)
        if has_words[index] or not has_vector[index]:
            figures["words"] = round(float(words[index]), DIGITS)
        row.explain |= {"relevance": round(float(shares[index]), DIGITS), "relevance_from": figures}


def _words(query: Query, chunks: Ids) -> Scores:
    """Return the share of the query's words that each chunk has, (n,); of several languages it may be in, the best counts."""
    by_language = query.telling_terms_by_language(query.text)
    terms = sorted(set[str]().union(*by_language))
    counts, _ = query.bm25_index("chunk").term_counts(terms, chunks)
    of_time, is_dated = words_of_time(query, chunks)
    has: NDArray[np.bool_] = (counts > 0) | (np.array([term in of_time for term in terms], bool)[:, None] & is_dated)
    shares = np.zeros(len(chunks))
    for own_terms in by_language:
        if own_terms:
            own = np.array([term in own_terms for term in terms], bool)
            shares = np.maximum(shares, has[own].mean(axis=0))
    return shares
