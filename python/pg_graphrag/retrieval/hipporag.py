"""HippoRAG 2 as its paper has it (arXiv 2502.14802): PageRank from the endpoints of the facts nearest to the query.

Of the method its LLM filter of facts is left out: like other calls to models it would be a transform of its own. Read is the
neighbourhood of what is seeded, not the whole graph.
"""

from typing import Any

from pg_graphrag.numeric import np
from pg_graphrag.retrieval import dense, graph
from pg_graphrag.retrieval.graph_tables import stated_visibly
from pg_graphrag.retrieval.lexical import bm25
from pg_graphrag.retrieval.pagerank import Graph, neighbourhood, spread, synonyms
from pg_graphrag.retrieval.query import Query, float64s, int64s
from pg_graphrag.retrieval.rankings import Ranking

# Facts and their endpoints that the mass starts from; passages besides, and what the nearest of them weighs.
FACTS = 5
PASSAGES = 100
PASSAGE_WEIGHT = 0.05


def hipporag(query: Query, limit: int) -> Ranking:
    """Rank chunks by a walk over facts, passages and synonyms; without facts by dense retrieval alone."""
    passages = dense.windows(query, PASSAGES) if query.dense_works else bm25(query, PASSAGES)
    facts = graph.stated(query, [query.text], FACTS)
    if not facts or not len(passages.ids):
        return passages
    best = facts[0]["score"] or 1.0
    given: dict[int, list[float]] = {}
    for fact in facts:
        for end in ("source_id", "target_id"):
            given.setdefault(fact[end], []).append(fact["score"] / best)
    counts = _mention_counts(query, list(given))
    entity_seeds = {entity: sum(scores) / len(scores) / counts[entity] for entity, scores in given.items()}
    first = sorted(entity_seeds, key=lambda entity: (-entity_seeds[entity], entity))[:FACTS]
    entity_seeds = {entity: entity_seeds[entity] for entity in first}
    spread_of = float(np.ptp(passages.scores)) or 1.0
    near = PASSAGE_WEIGHT * (passages.scores - passages.scores.min()) / spread_of
    chunk_seeds = dict(zip(passages.ids.tolist(), near.tolist(), strict=True))
    made, _ = neighbourhood(query, entity_seeds, chunk_seeds, np.inf, synonyms(query, entity_seeds))
    related = _facts(query, np.unique(made.entities))
    links = tuple(np.append(one, other) for one, other in zip(made.links, related, strict=True))
    made = Graph.of(made.entities, made.chunks, np.ones(len(made.chunks)), links)
    return spread(query, made, entity_seeds, chunk_seeds, limit)


def _mention_counts(query: Query, entities: list[int]) -> dict[int, int]:
    rows = query.db.query(
        "SELECT e.id, e.mention_count AS n FROM graphrag.entities e WHERE e.id = ANY ($1)", ["int8[]"], [entities]
    )
    return {row["id"]: max(row["n"], 1) for row in rows}


def _facts(query: Query, entities: Any) -> tuple[Any, Any, Any]:
    """Return (one end, other end, number of chunks that state it) of the visible relationships among entities."""
    seen = stated_visibly(query, "AND", "$2")
    row = query.db.query(
        "SELECT pg_catalog.string_agg(pg_catalog.int8send(r.low_id), ''::bytea) AS low,"
        "       pg_catalog.string_agg(pg_catalog.int8send(r.high_id), ''::bytea) AS high,"
        "       pg_catalog.string_agg(pg_catalog.float8send(r.mention_count), ''::bytea) AS counts"
        f"  FROM graphrag.relationships r WHERE r.low_id = ANY ($1) AND r.high_id = ANY ($1) {seen}",
        ["int8[]", "int8[]"],
        [entities.tolist(), query.visible_ids],
    )[0]
    return int64s(row["low"]), int64s(row["high"]), float64s(row["counts"])
