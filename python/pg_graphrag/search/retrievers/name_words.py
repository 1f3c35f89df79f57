"""Entities by the words of their names: LazyGraphRAG by Lazy GraphRAG, コスト削減率 by how far costs (コスト) fell (削減).

No index of names is kept: who has a word in his name is mentioned in chunks with this word, which BM25 finds. So the answer is
made of what the caller may see, as BM25 and mentions are.
"""

from pg_graphrag.ground.id_sets import numbered
from pg_graphrag.ground.numeric import np
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.query import ties
from pg_graphrag.search.query.query import Query, once, timed
from pg_graphrag.text.words.shared_words import SharedWords, joined

# Chunks whose entities are looked at: those with most of the query's words.
CHUNKS = 20
# A name that only shares words with the query scores less than one that is in it.
SHARED = 0.9
# Least share of a name that the query says.
LEAST = 0.4


@once
@timed("graph")
def entities_by_words(query: Query, limit: int) -> dict[int, tuple[float, bool]]:
    """Return {entity id: (score in 0 … 1, whether the name stands in the query but for spaces and forms of characters)}.

    At most `limit`, best first; ties by key.
    """
    text = query.text if query.request.low is None else ", ".join(query.request.low)
    terms = query.lexemes(text)
    if not terms:
        return {}
    chunks, scores = query.bm25_index("chunk").search(terms, CHUNKS, documents=query.visible)
    chunks = chunks[ties.among_best(query, chunks, scores, CHUNKS)]
    entities, *_ = graph_of(query).edges_of_chunks(chunks, np.inf)
    keys = graph_of(query).keys(numbered(entities)[0].tolist())
    phrases = {joined(phrase) for phrase in query.phrase_keys} - {""}
    words = SharedWords(dict.fromkeys(terms, 1.0))
    results = {}
    for entity, key in keys.items():
        if joined(key) in phrases:
            results[entity] = 1.0, True
        elif (share := words.of_name(key)) >= LEAST:
            results[entity] = SHARED * share, False
    order = sorted(results, key=lambda entity: (-results[entity][0], keys[entity].encode()))
    return {entity: results[entity] for entity in order[:limit]}
