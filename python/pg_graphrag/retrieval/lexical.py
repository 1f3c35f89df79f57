"""BM25 over chunks as a retriever."""

from functools import partial

from pg_graphrag.numeric import Ids, np
from pg_graphrag.retrieval.bm25 import BM25Index
from pg_graphrag.retrieval.bm25.formula import idf
from pg_graphrag.retrieval.query import Query, once, timed
from pg_graphrag.retrieval.rankings import Ranking
from pg_graphrag.text.shared_words import SharedWords

# How much more a word of the query counts than one of the passage beside it: Query2doc (arXiv 2303.07678, section 2).
QUERY_WEIGHT = 5
# Where fewer chunks match, they are compared with some that do not: so many in all.
LEAST_COMPARED = 100


@timed("bm25")
def bm25(query: Query, limit: int, *, with_passage: bool = False) -> Ranking:
    """Rank chunks by Okapi BM25 (k1 1.5, b 0.75) of the query's terms; exact at every moment.

    `with_passage`: of those of a passage that a model wrote, too, where there is one (HyDE without vectors).
    """
    terms: dict[str, int] = query.terms
    if with_passage and query.passage is not None:
        passage = query.lexemes(query.passage)
        terms = {term: QUERY_WEIGHT * terms.get(term, 0) + passage.get(term, 0) for term in terms | passage}
    if not terms or limit <= 0:
        return Ranking.empty("bm25")
    index = query.bm25_index("chunk")
    ids, scores = index.search(terms, limit, documents=query.visible, idf=query.options.bm25_idf)
    if not len(ids) or len(ids) >= min(limit, LEAST_COMPARED):
        return Ranking("bm25", ids, scores)
    share = partial(_known_share, query, index, terms, ids)
    return Ranking("bm25", ids, scores, zeros=LEAST_COMPARED - len(ids), known_share=share)


@once
def shared_words(query: Query) -> SharedWords:
    """Return the query's lexemes with their idf, to be looked for in sentences.

    A lexeme that no chunk has is another spelling, or tells no sentence from others.
    """
    index = query.bm25_index("chunk")
    frequencies, (count, _) = index.document_frequencies(sorted(query.terms)), index.statistics()
    return SharedWords({term: idf("lucene", count, df) for term, df in frequencies.items() if df})


def _known_share(query: Query, index: BM25Index, terms: dict[str, int], chunks: Ids) -> float:
    """Return the share of the query's terms, weighted by idf, in the chunk that has most: 1 where one has all of them.

    Where a question in another language shares one word with a chunk, that is little. Of several languages that the query may be
    in, the best counts.
    """
    count, _ = index.statistics()
    lexemes = sorted(terms)
    frequencies = index.document_frequencies(lexemes)
    weights = np.array([idf("lucene", count, frequencies[lexeme]) for lexeme in lexemes])
    occurrences, _ = index.term_counts(lexemes, np.sort(chunks))
    shares = [0.0]
    for own_terms in query.terms_by_language:
        own_weights = weights * np.array([lexeme in own_terms for lexeme in lexemes])
        if total := float(own_weights.sum()):
            shares.append(float((own_weights @ (occurrences > 0)).max()) / total)
    return max(shares)
