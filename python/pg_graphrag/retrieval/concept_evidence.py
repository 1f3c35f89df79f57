"""What chunks have of a query beside the graph: concepts that are too weak for entities, or that a model left out.

Names stand in the text that the graph does not have (docs/decisions.md). So evidence for a query counts in both.
"""

from collections.abc import Mapping

from pg_graphrag.numeric import Ids, Scores, np, sums
from pg_graphrag.retrieval import dense
from pg_graphrag.retrieval.cached_graph import graph_of
from pg_graphrag.retrieval.chunk_concepts import ConceptGraph, concept_graph
from pg_graphrag.retrieval.lexical import bm25
from pg_graphrag.retrieval.query import Query, timed

# A concept in more chunks does not tell where to look.
MAX_CHUNKS_EACH = 200


@timed("concepts")
def of_names(query: Query, entities: Mapping[int, float]) -> dict[int, float]:
    """Return {concept: score} of what the query names, and of the names of `entities` and their scores; best first."""
    if (graph := _graph(query, entities)) is None:
        return {}
    return _best_first(graph, dict.fromkeys(graph.named(query.phrase_keys), 1.0), _called(query, graph, entities))


@timed("concepts")
def of_theme(query: Query, text: str, entities: Mapping[int, float]) -> dict[int, float]:
    """Return {concept: score} of what stands in the chunks nearest to a text, and of the names of `entities`; best first.

    At most as many as the relationships that are looked at have ends.
    """
    if (graph := _graph(query, entities)) is None:
        return {}
    limit = query.options.graph_top_k
    themed = query.themed(text) if text != query.text else query
    nearest = dense.windows(themed, limit) if themed.dense_works else bm25(themed, limit)
    near: dict[int, float] = {}
    for chunk, score in zip(nearest.ids[:limit].tolist(), nearest.scores[:limit].tolist(), strict=True):
        concepts, *_ = graph.edges_of_chunks([chunk], MAX_CHUNKS_EACH)
        near |= {concept: max(score, near.get(concept, 0.0)) for concept in concepts.tolist()}
    best = _best_first(graph, near, _called(query, graph, entities))
    return dict(list(best.items())[: 2 * limit])


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


def _called(query: Query, graph: ConceptGraph, entities: Mapping[int, float]) -> dict[int, float]:
    keys = graph_of(query).keys(list(entities))
    concepts = graph.of_keys([keys[entity] for entity in entities if entity in keys])
    return {concepts[keys[entity]]: score for entity, score in entities.items() if keys.get(entity) in concepts}


def _best_first(graph: ConceptGraph, scores: Mapping[int, float], more: Mapping[int, float]) -> dict[int, float]:
    """Return the better of two scores of each concept, best first; of equal ones that in fewer chunks."""
    best = {concept: max(scores.get(concept, 0.0), more.get(concept, 0.0)) for concept in [*scores, *more]}
    return {
        concept: best[concept]
        for concept in sorted(best, key=lambda concept: (-best[concept], graph.df[concept], concept))
    }
