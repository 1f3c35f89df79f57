"""Graph evidence: entities, relationships and concepts that a query is about.

Source: LightRAG (arXiv 2410.05779), dual-level retrieval. The text has names that the graph lacks, because they are too
weak for entities or a model left them out. So evidence in both counts (docs/decisions/search.md).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pg_graphrag.ground.numeric import Ids, Scores, distinct, np, numbered, places_of, sums, within
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.graph_view.chunk_concept_graph import ConceptGraph, concept_graph, stated_by_windows
from pg_graphrag.search.graph_view.row_names import row_names
from pg_graphrag.search.query.query import MAX_KEYWORDS, Query, once, timed
from pg_graphrag.search.query.rankings import among_best
from pg_graphrag.search.retrievers import curated, dense, described_mentions
from pg_graphrag.search.retrievers.lexical import SharedWords, bm25, joined, shared_words
from pg_graphrag.server import Row
from pg_graphrag.text.concept import key

# Windows (without dense retrieval: chunks) that are read for each relationship to be found.
WINDOWS_PER_RELATIONSHIP = 3
# A sentence that shares no word with the query still stands in a chunk that does, or in a window that is near. Chosen on the dev
# questions of three sets for windows.
LEAST_OF_CHUNK, LEAST_OF_WINDOW = 0.1, 0.5
# Scores that differ by less are equal: the vectors of equal texts differ in their last bits.
DIGITS = 6
# Decimals of displayed scores.
ROW_DIGITS = 9


@dataclass
class Evidence:
    """Entities and relationships, best first (ties by key), each with its score and its origin.

    `scored_mentions`: those of one kind, if a model described them; `concepts`: NLP's further concepts, best first.
    """

    entities: dict[int, float] = field(default_factory=dict)
    relationships: dict[int, float] = field(default_factory=dict)
    reasons: dict[tuple[str, int], str] = field(default_factory=dict)
    scored_mentions: described_mentions.Mentions | None = None
    concepts: dict[int, float] = field(default_factory=dict)


EvidenceSource = Callable[[Query], Evidence]


def match_entities(query: Query, limit: int) -> dict[int, tuple[float, str]]:
    """Entities that the low-level keywords name: {entity id: (score, reason)}, best first.

    Score: 1 for the very name, else the cosine of name and keyword, how much of the name the query says, or how near the best
    mention's description is. The very names come from every phrase of the query, too. Beside a row's entity stand its names.
    """
    texts: list[str] = []
    paper = query.options.profile == "paper"
    if query.dense_works and query.low_level:
        # LightRAG embeds the joined keywords; single keywords find rare names beside frequent ones.
        texts = [", ".join(query.low_level)] if paper else query.low_level[:MAX_KEYWORDS]
    matches: dict[int, tuple[float, str]] = {}
    keys: dict[int, str] = {}
    for row in named_entities(query, limit):
        matches[row["id"]], keys[row["id"]] = (1.0, f"named: {row['name']}"), row["key"]
    # Names of entities have vectors already.
    exact_keys = {} if paper else {entity: keys[entity] for entity in matches if keys[entity] in set(map(key, texts))}
    stored_vectors = {
        exact_keys[entity]: vector for entity, vector in dense.entity_vectors(query, list(exact_keys)).items()
    }
    nearby = [stored_vectors[key(text)] if key(text) in stored_vectors else query.embed([text])[0] for text in texts]
    for text, cosines in zip(texts, dense.entities(query, nearby, max(limit // max(len(texts), 1), 5)), strict=True):
        for entity, cosine in cosines.items():
            if cosine > matches.get(entity, (0.0,))[0]:
                matches[entity] = (cosine, f"name near: {text}")
    if not paper or not query.dense_works:
        for entity, (score, is_named) in entities_by_words(query, limit).items():
            if score > matches.get(entity, (0.0,))[0]:
                matches[entity] = (score, "named, written otherwise" if is_named else "words of the name")
    if query.is_described and query.low_level:
        for entity, score in described_mentions.scored(query, "entity", query.low_level).best_items(limit).items():
            if score > matches.get(entity, (0.0,))[0]:
                matches[entity] = (score, f"described near: {', '.join(query.low_level)[:80]}")
    if graph_of(query).is_curated:
        for entity, score in curated.matching(query, "entity", ", ".join(query.low_level), limit).items():
            if score > matches.get(entity, (0.0,))[0]:
                matches[entity] = (score, f"described by people: {', '.join(query.low_level)[:80]}")
    keys |= graph_of(query).keys(entity for entity in matches if entity not in keys)
    order = sorted(matches, key=lambda entity: (-round(matches[entity][0], DIGITS), keys[entity].encode()))
    same = row_names(query).same(order[:limit]) if query.corpus.has_rows else {}
    best: dict[int, tuple[float, str]] = {}
    for entity in order[:limit]:
        for one in (entity, *same.get(entity, ())):
            best.setdefault(one, matches[entity])
    return best


def named_entities(query: Query, limit: int) -> list[Row]:
    """Return the entities (id, key, name) with a name of the query, longest first."""
    rows = graph_of(query).named(query.phrase_keys)
    return sorted(rows, key=lambda row: (-len(row["key"]), row["key"].encode()))[:limit]


def match_relationships(query: Query, limit: int) -> dict[int, tuple[float, str]]:
    """Relationships that the high-level keywords are about: {relationship id: (score, reason)}, best first."""
    text, rows = _themed_relationships(query, limit)
    return {row["id"]: (row["score"], f"stated near: {text[:80]}") for row in rows}


def _themed_relationships(query: Query, limit: int) -> tuple[str, list[Row]]:
    """Return the high-level text, and the relationships near it."""
    return ", ".join(query.high_level), relationships_near(query, query.high_level, limit)


@timed("graph")
def relationships_near(query: Query, themes: list[str], limit: int, *, scored_by: str = "both") -> list[Row]:
    """Return relationships near `themes` with score, weight and endpoints (ids and keys), best first.

    A relationship scores as its best mention: as near as its description is, where a model made one, and as the text that states
    it (`_stated_near`); of both the mean, each as a share of the best. With `scored_by` bm25 or vector, and with the profile
    paper, by its description alone.
    """
    text = ", ".join(themes)
    if not query.is_described:
        scores = _stated_near(query, text, limit, scored_by)
    else:
        scores = (
            described_mentions.scored(query, "relationship", themes, by=scored_by).best_items(limit) if themes else {}
        )
        if themes and scored_by == "both" and query.options.profile != "paper":
            scores = _mean_shares(scores, _stated_near(query, text, limit, scored_by))
    if graph_of(query).is_curated:
        scores = _best_scores(scores, curated.matching(query, "relationship", text, limit))
    return _with_ends(query, scores, limit)


def _stated_near(query: Query, text: str, limit: int, scored_by: str) -> dict[int, float]:
    """Return {relationship: score} of the `limit` that are stated nearest to a text, and all that tie, best first.

    A mention scores as the window that states it, or as the chunk with `scored_by` bm25 or without dense retrieval; of a model's
    mention, whose window is not known, as the best window of its chunk. That counts by how much of the query its own best
    sentence has.
    """
    themed = query.themed(text) if text != query.text else query
    depth = limit * WINDOWS_PER_RELATIONSHIP
    least, stated = LEAST_OF_WINDOW, _stated_by_chunks
    if not themed.dense_works or scored_by == "bm25":
        source, least = bm25(themed, depth), LEAST_OF_CHUNK
    else:
        source = dense.windows(themed, depth)
    places = source.ids.tolist()
    if source.retriever == "windows" and not query.is_described:
        stated, places = _stated_by_windows, [source.reason(chunk)["window_id"] for chunk in places]
    nearness = source.scores
    if depth < len(places):
        places = places[: int(np.searchsorted(-nearness, -nearness[depth - 1], side="right"))]
    ids, scores, weights = np.empty(0, np.int64), np.empty(0), np.empty(0)
    # Places are in order, and none counts more than its nearness: often the first few give the exact result.
    start, step = 0, max(limit // 2, 1)
    while start < len(places):
        end = min(start + step, len(places))
        end = int(np.searchsorted(-nearness, -nearness[end - 1], side="right"))
        new_ids, new_scores, new_weights = stated(query, places[start:end], nearness[start:end])
        # The first place that states a relationship is the nearest.
        is_new = ~within(new_ids, distinct(ids))
        new_ids = new_ids[is_new]
        shares = _shares_of_sentences(themed, new_ids)
        ids = np.append(ids, new_ids)
        scores = np.append(scores, new_scores[is_new] * (least + (1 - least) * shares))
        weights = np.append(weights, new_weights[is_new])
        if end < len(places) and len(ids) >= limit and np.partition(scores, -limit)[-limit] > nearness[end]:
            break
        start, step = end, 2 * step
    order = np.lexsort((-weights, -scores))
    if limit < len(order):
        last = order[limit - 1]
        order = order[
            (scores[order] > scores[last]) | ((scores[order] == scores[last]) & (weights[order] >= weights[last]))
        ]
    return dict(zip(ids[order].tolist(), scores[order].tolist(), strict=True))


def _mean_shares(scores: dict[int, float], more: dict[int, float]) -> dict[int, float]:
    """Return the mean of two scores of each item, each as a share of its best; 0 where one is not known."""
    means = dict.fromkeys([*scores, *more], 0.0)
    for part in (scores, more):
        best = max(part.values(), default=0.0) or 1.0
        for item, score in part.items():
            means[item] += score / best / 2
    return means


def _shares_of_sentences(query: Query, relationships: Ids) -> Scores:
    """Return how much of the query the sentences have that state relationships, (n,) float64 in 0 … 1."""
    words = shared_words(query)
    texts = graph_of(query).descriptions(relationships)
    return words.shares_of_query([texts.get(item, "") for item in relationships.tolist()])


def _best_scores(scores: dict[int, float], more: dict[int, float]) -> dict[int, float]:
    """Return the better of two scores of each item."""
    return scores | {item: max(value, scores.get(item, 0.0)) for item, value in more.items()}


def _with_ends(query: Query, score: dict[int, float], limit: int) -> list[Row]:
    """Return the relationships of {id: score} with score, weight and endpoints, best first, at most `limit`."""
    rows = [row | {"score": score[row["id"]]} for row in graph_of(query).ends(list(score))]
    rows.sort(key=lambda row: (-round(row["score"], DIGITS), -row["weight"], *_pair(row)))
    return rows[:limit]


def _pair(row: Row) -> list[bytes]:
    return sorted((row["source_key"].encode(), row["target_key"].encode()))


def _stated_by_windows(query: Query, places: list[int], nearness: Scores) -> tuple[Ids, Scores, Scores]:
    ids, scores = stated_by_windows(query, places, nearness)
    return ids, scores, graph_of(query).weights(ids)


def _stated_by_chunks(query: Query, places: list[int], nearness: Scores) -> tuple[Ids, Scores, Scores]:
    return graph_of(query).stated_by(places, nearness)


@once
@timed("graph")
def local_evidence(query: Query) -> Evidence:
    """LightRAG local: entities by the low-level keywords, and their relationships by (degree sum, weight)."""
    limit = query.options.graph_top_k
    entities = match_entities(query, limit)
    evidence = Evidence({entity: score for entity, (score, _) in entities.items()})
    if query.is_described and query.low_level:
        evidence.scored_mentions = described_mentions.scored(query, "entity", query.low_level)
    evidence.reasons = {("entity", entity): reason for entity, (_, reason) in entities.items()}
    place = {entity: number for number, entity in enumerate(entities)}
    for row in graph_of(query).incident(list(entities), limit):
        ends = [end for end in (row["low_id"], row["high_id"]) if end in entities]
        evidence.relationships[row["id"]] = max(entities[end][0] for end in ends)
        evidence.reasons["relationship", row["id"]] = f"of entity {min(ends, key=place.__getitem__)}"
    evidence.concepts = concepts_of_names(query, evidence.entities)
    return evidence


@once
@timed("graph")
def global_evidence(query: Query) -> Evidence:
    """LightRAG global: relationships by the high-level keywords, and their endpoints."""
    evidence = Evidence()
    if query.is_described and query.high_level:
        evidence.scored_mentions = described_mentions.scored(query, "relationship", query.high_level)
    text, rows = _themed_relationships(query, query.options.graph_top_k)
    keys: dict[int, bytes] = {}
    for row in rows:
        evidence.relationships[row["id"]] = row["score"]
        evidence.reasons["relationship", row["id"]] = f"stated near: {text[:80]}"
        for end in ("source", "target"):
            entity = row[f"{end}_id"]
            if row["score"] > evidence.entities.get(entity, 0.0):
                evidence.entities[entity] = row["score"]
                evidence.reasons["entity", entity] = f"endpoint of relationship {row['id']}"
                keys[entity] = row[f"{end}_key"].encode()
    order = sorted(evidence.entities, key=lambda entity: (-round(evidence.entities[entity], DIGITS), keys[entity]))
    evidence.entities = {entity: evidence.entities[entity] for entity in order}
    evidence.concepts = concepts_of_theme(query, text, evidence.entities)
    return evidence


# A concept in more chunks does not tell where to look.
MAX_CHUNKS_EACH = 200
# Windows (without dense retrieval: chunks) nearest to the query whose concepts `local` takes, and how much one counts
# beside a concept that the query names.
NEAREST, OF_NEAREST = 20, 0.4


@timed("concepts")
def concepts_of_names(query: Query, entities: Mapping[int, float]) -> dict[int, float]:
    """Return {concept: score} of concepts that the query names, and of the names of `entities` and their scores; best
    first.

    If there are any, concepts nearest to the query count too: only digests of concepts are known, so a concept that the
    query spells in another way is found by its place alone.
    """
    if (graph := _concepts(query, entities)) is None:
        return {}
    named = np.fromiter(graph.named(query.phrase_keys), np.int64)
    if not len(named) and not entities:
        return {}
    concepts, scores = _nearest(query, graph, NEAREST)
    near = _best_first(
        graph, (concepts, OF_NEAREST * scores / (scores.max(initial=0.0) or 1.0)), limit=query.options.graph_top_k
    )
    return _best_first(graph, (named, np.ones(len(named))), _called(query, graph, entities), _arrays(near))


@timed("concepts")
def concepts_of_theme(query: Query, text: str, entities: Mapping[int, float]) -> dict[int, float]:
    """Return {concept: score} of concepts in the chunks nearest to a text, and of the names of `entities`; best first."""
    if (graph := _concepts(query, entities)) is None:
        return {}
    limit = query.options.graph_top_k
    near = _nearest(query.themed(text) if text != query.text else query, graph, limit)
    # At most as many as the relationships that are looked at have ends.
    return _best_first(graph, near, _called(query, graph, entities), limit=2 * limit)


def _nearest(query: Query, graph: ConceptGraph, limit: int) -> tuple[Ids, Scores]:
    """Return (concepts in the chunks that are nearest to a query, the chunks' scores), (n,) each."""
    nearest = dense.windows(query, limit) if query.dense_works else bm25(query, limit)
    best = among_best(query, nearest.ids, nearest.scores, limit)
    ids, scores = nearest.ids[best], nearest.scores[best]
    concepts, chunks, *_ = graph.edges_of_chunks(ids, MAX_CHUNKS_EACH)
    return concepts, scores[places_of(chunks, ids)]


def concept_weights(query: Query, concepts: Mapping[int, float]) -> tuple[Ids, Scores]:
    """Return (chunks ascending, weights), (n,) each: the sum of the scores of its concepts, decaying linearly by rank."""
    graph = concept_graph(query) if concepts else None
    if graph is None:
        return np.empty(0, np.int64), np.empty(0)
    items, scores = _arrays(concepts)
    decays = scores * (1 - np.arange(len(items)) / (len(items) + 1))
    mentioned, chunks, *_ = graph.edges_of_entities(items, MAX_CHUNKS_EACH)
    ids, inverse = np.unique(chunks, return_inverse=True)
    return ids, sums(inverse, decays[places_of(mentioned, items)], len(ids))


def _concepts(query: Query, entities: Mapping[int, float]) -> ConceptGraph | None:
    """Return the concepts beside the graph; None if the method has none, or there are none.

    Also None if a graph without a model knows nothing of the query: then hybrid stands in for the mode.
    """
    if query.options.profile == "paper" or not (entities or query.is_described):
        return None
    return concept_graph(query)


def _called(query: Query, graph: ConceptGraph, entities: Mapping[int, float]) -> tuple[Ids, Scores]:
    """Return (concepts that are called as entities, the entities' scores), (n,) each."""
    keys = graph_of(query).keys(list(entities))
    concepts = graph.of_keys([keys[entity] for entity in entities if entity in keys])
    called = {concepts[keys[entity]]: score for entity, score in entities.items() if keys.get(entity) in concepts}
    return _arrays(called)


def _arrays(scored: Mapping[int, float]) -> tuple[Ids, Scores]:
    return np.fromiter(scored, np.int64, len(scored)), np.fromiter(scored.values(), float, len(scored))


def _best_first(graph: ConceptGraph, *parts: tuple[Ids, Scores], limit: int | None = None) -> dict[int, float]:
    """Return the best score of each concept, 0 or more, best first; of equal ones that in fewer chunks. At most `limit`."""
    concepts, inverse = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
    best = np.zeros(len(concepts))
    np.maximum.at(best, inverse, np.concatenate([part[1] for part in parts]))
    order = np.lexsort((concepts, graph.df[concepts], -best))[:limit]
    return dict(zip(concepts[order].tolist(), best[order].tolist(), strict=True))


# Chunks whose entities are looked at: those with most of the query's words.
CHUNKS = 20
# A name that only shares words with the query scores less than one that is in it.
SHARED = 0.9
# Least share of a name that the query says.
LEAST = 0.4


@once
@timed("graph")
def entities_by_words(query: Query, limit: int) -> dict[int, tuple[float, bool]]:
    """Return {entity id: (score in 0 … 1, whether the query contains the name in any spacing and form of characters)}.

    At most `limit`, best first; ties by key. So LazyGraphRAG is found by Lazy GraphRAG, and コスト削減率 by コスト, 削減.
    There is no index of names: an entity with a word in its name is mentioned in chunks with this word, which BM25 finds. So
    the answer depends on what the caller may see, as BM25 and mentions do.
    """
    text = query.text if query.low is None else ", ".join(query.low)
    terms = query.lexemes(text)
    if not terms:
        return {}
    chunks, scores = query.bm25_index("chunk").search(terms, CHUNKS, documents=query.visible)
    chunks = chunks[among_best(query, chunks, scores, CHUNKS)]
    entities, *_ = graph_of(query).edges_of_chunks(chunks, np.inf)
    keys = graph_of(query).keys(numbered(entities)[0].tolist())
    phrases = {joined(phrase) for phrase in query.phrase_keys} - {""}
    words = SharedWords(dict.fromkeys(terms, 1.0))
    results = {}
    for entity, name in keys.items():
        if joined(name) in phrases:
            results[entity] = 1.0, True
        elif (share := words.of_name(name)) >= LEAST:
            results[entity] = SHARED * share, False
    order = sorted(results, key=lambda entity: (-results[entity][0], keys[entity].encode()))
    return {entity: results[entity] for entity in order[:limit]}


@timed("texts")
def entity_rows(query: Query, scores: dict[int, float]) -> list[tuple[Row, float]]:
    """Return the entities of `scores` that the caller may see, with their scores: best first, ties by key; rows for names."""
    of_names = row_names(query).rows(scores) if query.corpus.has_rows else {}
    best: dict[int, float] = {}
    for entity, score in scores.items():
        own = of_names.get(entity, entity)
        best[own] = max(score, best.get(own, score))
    rows = [(row, round(best[row["id"]], ROW_DIGITS)) for row in graph_of(query).entities(list(best))]
    rows.sort(key=lambda pair: (-pair[1], pair[0]["key"].encode()))
    return rows


@timed("texts")
def relationship_rows(query: Query, scores: dict[int, float]) -> list[tuple[Row, float]]:
    """Return the relationships of `scores` that the caller may see, with their scores: best first, ties by key."""

    def ends(row: Row) -> tuple[bytes, bytes]:
        return row["source_key"].encode(), row["target_key"].encode()

    # Where names are those of one row, relationships of theirs have the same ends: they stay in the order of their own.
    stated = sorted(graph_of(query).relationships(list(scores)), key=ends)
    if query.corpus.has_rows:
        stated = row_names(query).relationships(stated)
    rows = [(row, round(scores[row["id"]], ROW_DIGITS)) for row in stated]
    rows.sort(key=lambda pair: (-pair[1], *ends(pair[0])))
    return rows
