"""What chunks have of a query beside the graph: concepts that are too weak for entities, or that a model left out.

Names stand in the text that the graph does not have (docs/decisions/search.md). So evidence for a query counts in both.
"""

from collections.abc import Mapping

from pg_graphrag.ground.numeric import Ids, Scores, np, sums
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.graph_view.chunk_concept_graph import ConceptGraph, concept_graph
from pg_graphrag.search.query.query import Query, timed
from pg_graphrag.search.retrievers import dense
from pg_graphrag.search.retrievers.lexical import bm25

# A concept in more chunks does not tell where to look.
MAX_CHUNKS_EACH = 200


@timed("concepts")
def of_names(query: Query, entities: Mapping[int, float]) -> dict[int, float]:
    """Return {concept: score} of what the query names, and of the names of `entities` and their scores; best first."""
    if (graph := _graph(query, entities)) is None:
        return {}
    named = np.fromiter(graph.named(query.phrase_keys), np.int64)
    return _best_first(graph, (named, np.ones(len(named))), _called(query, graph, entities))


@timed("concepts")
def of_theme(query: Query, text: str, entities: Mapping[int, float]) -> dict[int, float]:
    """Return {concept: score} of what stands in the chunks nearest to a text, and of the names of `entities`; best first."""
    if (graph := _graph(query, entities)) is None:
        return {}
    limit = query.options.graph_top_k
    themed = query.themed(text) if text != query.text else query
    nearest = dense.windows(themed, limit) if themed.dense_works else bm25(themed, limit)
    ids, scores = nearest.ids[:limit], nearest.scores[:limit]
    order = np.argsort(ids)
    concepts, chunks, *_ = graph.edges_of_chunks(ids, MAX_CHUNKS_EACH)
    near = concepts, scores[order][np.searchsorted(ids[order], chunks)]
    # At most as many as the relationships that are looked at have ends.
    return _best_first(graph, near, _called(query, graph, entities), 2 * limit)


def weights(query: Query, concepts: Mapping[int, float]) -> tuple[Ids, Scores]:
    """Return (chunks ascending, weights), (n,) each: the sum of the scores of its concepts, decaying linearly by rank."""
    graph = concept_graph(query) if concepts else None
    if graph is None:
        return np.empty(0, np.int64), np.empty(0)
    items = np.fromiter(concepts, np.int64, len(concepts))
    decays = np.fromiter(concepts.values(), float, len(items)) * (1 - np.arange(len(items)) / (len(items) + 1))
    order = np.argsort(items)
    mentioned, chunks, *_ = graph.edges_of_entities(items, MAX_CHUNKS_EACH)
    ids, inverse = np.unique(chunks, return_inverse=True)
    return ids, sums(inverse, decays[order][np.searchsorted(items[order], mentioned)], len(ids))


def _graph(query: Query, entities: Mapping[int, float]) -> ConceptGraph | None:
    """Return the concepts beside the graph; None where the method has none, or there are none.

    Nor are there any where a graph without a model knows nothing of the query: hybrid stands in for the mode then.
    """
    if query.options.profile == "paper" or not (entities or query.is_described):
        return None
    return concept_graph(query)


def _called(query: Query, graph: ConceptGraph, entities: Mapping[int, float]) -> tuple[Ids, Scores]:
    """Return (concepts that are called as entities, the entities' scores), (n,) each."""
    keys = graph_of(query).keys(list(entities))
    concepts = graph.of_keys([keys[entity] for entity in entities if entity in keys])
    called = {concepts[keys[entity]]: score for entity, score in entities.items() if keys.get(entity) in concepts}
    return np.fromiter(called, np.int64, len(called)), np.fromiter(called.values(), float, len(called))


def _best_first(
    graph: ConceptGraph, one: tuple[Ids, Scores], other: tuple[Ids, Scores], limit: int | None = None
) -> dict[int, float]:
    """Return the best score of each concept, 0 or more, best first; of equal ones that in fewer chunks. At most `limit`."""
    concepts, inverse = np.unique(np.concatenate([one[0], other[0]]), return_inverse=True)
    best = np.zeros(len(concepts))
    np.maximum.at(best, inverse, np.concatenate([one[1], other[1]]))
    order = np.lexsort((concepts, graph.df[concepts], -best))[:limit]
    return dict(zip(concepts[order].tolist(), best[order].tolist(), strict=True))
