"""MiniRAG's paths: from a query's entities over at most two relationships to the chunks that mention them.

Source: MiniRAG (arXiv 2501.06713), section 3.2, with the edge weightings of Takami et al. (edges.py).

With `profile` best, a chunk counts by its own similarity to the query: hubs are on most paths and have many chunks, of
which only some answer the query. (The paper halves the chunks of such entities instead: R@10 on the dev questions of
LiHua-World is .55 with that, .86 with the similarity.) An entity that is in every document leads everywhere. So a path
from, through or to it is given as the reason of a chunk only if there is no other path.
"""

from dataclasses import dataclass
from typing import Any

from pg_graphrag.ground.numeric import Flags, Ids, Scores, are_new, np, numbered, sums
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.graph_view.row_names import row_names
from pg_graphrag.search.query.query import Query, timed
from pg_graphrag.search.query.rankings import SUM_NOISE, Ranking, best_places, leveled_sums, order_of, ranking
from pg_graphrag.search.retrievers import dense, described_mentions, edges
from pg_graphrag.search.retrievers.evidence_chunks import MENTION_WEIGHT, nearness, read_mentions
from pg_graphrag.search.retrievers.graph_evidence import DIGITS, Evidence, named_entities
from pg_graphrag.server import cached_property
from pg_graphrag.text.concept import key

HOPS = 2
# Share of the candidates without a path that is kept, the best; chunks that each candidate votes for.
LONELY_SHARE = 0.2
CHUNKS_EACH = {"paper": 3, "best": 10}
# An entity in more than this share of the chunks, and in so many, is in every document: a path through it says nothing.
HUB_SHARE = 0.5
MIN_HUB = 5
# Factor of a query entity's first candidate, and of one whose first chunk is also retrieved directly.
FIRST, DIRECT = 2.0, 10.0
# Nearness of a name that the query has.
NAMED = 1.0
# Totals that differ by a smaller share could be equal.
EQUAL = 1e-9
# MiniRAG halves the chunks of an entity with more than this many.
MANY_CHUNKS = 5


@dataclass(frozen=True)
class _Walks:
    """The paths of one candidate, (n,) each: middle and end node (-1: none), first and second edge (-1: none), and weight."""

    middle: Ids
    end: Ids
    first: Ids
    second: Ids
    weights: Scores


@dataclass
class _Vote:
    """The vote of a candidate for a chunk; `is_telling`: the query names the candidate, and it is not in every document."""

    score: float
    candidate: int
    is_telling: bool

    def tells_less_than(self, other: "_Vote") -> bool:
        """Return whether the other one is the better reason."""
        if self.is_telling != other.is_telling:
            return other.is_telling
        return other.score > self.score * (1 + SUM_NOISE)


class PathGraph:
    """The neighbourhood of a query's candidates: nodes and edges by place, in the order of names."""

    def __init__(self, query: Query, candidates: dict[int, float]):
        self.query = query
        self.profile = query.options.profile
        self.edges = edges.edges_around(query, np.array(sorted(candidates), np.int64), HOPS)
        entity_ids, _ = numbered(
            np.concatenate([self.edges.low, self.edges.high, np.array(sorted(candidates), np.int64)])
        )
        self.nodes = graph_of(query).in_order(entity_ids)
        answers = _may_answer(query, self.nodes)
        self._name_of: dict[int, str] = {}
        by_id = np.argsort(self.nodes)
        self._place = by_id
        self._ids = self.nodes[by_id]
        self.is_answer = answers
        self.is_hub = self._are_hubs()
        low, high = self.places(self.edges.low), self.places(self.edges.high)
        self.is_forward = self.edges.source == self.edges.low
        tail, head = np.append(low, high), np.append(high, low)
        edge = np.tile(np.arange(len(low)), 2)
        order = np.lexsort((head, tail))
        self._tail, self._head, self._edge = tail[order], head[order], edge[order]
        self._starts = np.searchsorted(self._tail, np.arange(len(self.nodes) + 1))
        chunks, holders = self._mentions(entity_ids)
        touching = self.edges.touching(np.append(np.array(sorted(candidates), np.int64), self.nodes[answers]))
        limit = query.options.graph_top_k * max(len(query.entities), 1)
        self.important = edges.important(query, self.edges, touching, (chunks, holders), limit)
        self.counts = np.isin(self.edges.ids, np.array(list(self.important), np.int64))
        self._hold(chunks, holders)

    def _mentions(self, entities: Ids) -> tuple[Ids, Ids]:
        """Return (chunks, entities) of the mentions of entities, each pair once: names of rows as these."""
        names = row_names(self.query)
        evidence = Evidence(entities=dict.fromkeys(names.members_of(entities).tolist(), 1.0))
        chunks, holders = read_mentions(self.query, [evidence])["entity"]
        own = names.own_of(holders)
        if own is holders:
            return chunks, holders
        order = np.lexsort((chunks, own))
        chunks, own = chunks[order], own[order]
        is_first = are_new(own) | are_new(chunks)
        return chunks[is_first], own[is_first]

    def _are_hubs(self) -> Flags:
        """Return which nodes are in every document, (nodes,) bool; none with MiniRAG."""
        if self.profile == "paper":
            return np.zeros(len(self.nodes), np.bool_)
        counts = graph_of(self.query).mention_counts(self.nodes.tolist())
        least = max(HUB_SHARE * graph_of(self.query).chunk_count(), MIN_HUB)
        return np.array([counts.get(node, 0) > least for node in self.nodes.tolist()], np.bool_)

    def places(self, entities: Ids) -> Ids:
        """Return the places of entities, (n,) int64."""
        return self._place[np.searchsorted(self._ids, entities)]

    def _hold(self, chunks: Ids, holders: Ids) -> None:
        """Number the chunks, and note their nodes and important edges."""
        stating_chunks, relationships = read_mentions(
            self.query, [Evidence(relationships=dict.fromkeys(self.edges.ids[self.counts].tolist(), 1.0))]
        )["relationship"]
        self.chunks, _ = numbered(np.append(chunks, stating_chunks))
        self.node_chunks = self.places(holders), np.searchsorted(self.chunks, chunks)
        self.edge_chunks = np.searchsorted(self.edges.ids, relationships), np.searchsorted(self.chunks, stating_chunks)
        if self.profile == "paper":
            self.node_chunks = self._nearer_half()

    def _nearer_half(self) -> tuple[Ids, Ids]:
        """Return (nodes, chunks); of a node with more than MANY_CHUNKS only the half nearer to the query."""
        nodes, chunks = self.node_chunks
        if not len(chunks):
            return nodes, chunks
        places = order_of(self.query, self.chunks)
        order = np.lexsort((places[chunks], -self._nearness[chunks], nodes))
        nodes, chunks = nodes[order], chunks[order]
        limits = np.maximum(MANY_CHUNKS, np.bincount(nodes, minlength=len(self.nodes)) // 2)[nodes]
        is_nearer = np.arange(len(nodes)) - np.searchsorted(nodes, nodes) < limits
        return nodes[is_nearer], chunks[is_nearer]

    def has_path(self, entity: int) -> bool:
        """Whether an entity has a relationship."""
        place = int(self.places(np.array([entity]))[0])
        return bool(self._starts[place + 1] > self._starts[place])

    def walks(self, start: int) -> _Walks:
        """Return the paths from a node: over one relationship, and over two to a third node."""
        span = slice(self._starts[start], self._starts[start + 1])
        middle, first = self._head[span], self._edge[span]
        # In the order of names; a path comes before its continuations.
        counts = np.diff(self._starts)[middle] + 1
        source = np.repeat(np.arange(len(middle)), counts)
        offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        step = self._starts[middle][source] + offset - 1
        ends = np.where(offset > 0, self._head[step], -1)
        further = ends != start
        source, step, ends = source[further], step[further], ends[further]
        middles, firsts = middle[source], first[source]
        seconds = np.where(ends >= 0, self._edge[step], -1)
        first_counts, second_counts = self.counts[firsts], (seconds >= 0) & self.counts[seconds]
        answers = self.is_answer[start] + self.is_answer[middles] + ((ends >= 0) & self.is_answer[ends])
        weights = answers.astype(float) + first_counts + second_counts + 1.0
        return _Walks(middles, ends, np.where(first_counts, firsts, -1), np.where(second_counts, seconds, -1), weights)

    def best_chunks(self, starts: list[int]) -> list[tuple[Ids, Scores]]:
        """Return for each candidate the places of the chunks that it votes for, best first, and their shares of its vote."""
        limit = CHUNKS_EACH[self.profile]
        near = [self._near_chunks(start, limit) for start in starts]
        values = [leveled_sums(totals) for _, totals in near]
        # The order of chunks is computed only for tied ones: most are not tied.
        order = np.zeros(len(self.chunks), np.int64)
        tied_places = [places[_are_tied(value)] for (places, _), value in zip(near, values, strict=True)]
        if len(tied := numbered(np.concatenate(tied_places))[0]):
            order[tied] = order_of(self.query, self.chunks[tied])
        best = []
        for (places, totals), value in zip(near, values, strict=True):
            first = np.lexsort((order[places], -value))[:limit]
            shares = totals[first] / totals[first[:1]] if self.profile == "best" else np.ones(len(first))
            best.append((places[first], shares))
        return best

    def _near_chunks(self, start: int, limit: int) -> tuple[Ids, Scores]:
        """Return the places and totals of chunks among which are the `limit` best of a candidate."""
        walks = self.walks(start)
        if not len(walks.weights):
            totals = self._totals(np.array([start]), np.ones(1), np.empty(0, np.int64), np.empty(0))
        else:
            has_end = walks.end >= 0
            nodes = np.concatenate([np.full(len(walks.weights), start), walks.middle, walks.end[has_end]])
            weights = np.concatenate([walks.weights, walks.weights, walks.weights[has_end]])
            used_edges = np.concatenate([walks.first, walks.second])
            totals = self._totals(
                nodes, weights, used_edges[used_edges >= 0], np.tile(walks.weights, 2)[used_edges >= 0]
            )
        if self.profile == "best":
            totals = totals * self._nearness
        if limit < len(totals):
            # What cannot be among the first need not be put in order.
            near = np.flatnonzero(totals >= np.partition(totals, -limit)[-limit] - EQUAL * totals.max())
        else:
            near = np.arange(len(totals))
        near = near[totals[near] > 0]
        return near, totals[near]

    def _totals(self, nodes: Ids, node_weights: Scores, edge_places: Ids, edge_weights: Scores) -> Scores:
        """Return the sum of the weights of each chunk's nodes and edges, (chunks,) float64."""
        by_node = sums(nodes, node_weights, len(self.nodes))
        by_edge = sums(edge_places, edge_weights, max(len(self.edges.ids), 1))
        holders, held_chunks = self.node_chunks
        stating_edges, stating_chunks = self.edge_chunks
        size = len(self.chunks)
        return sums(held_chunks, by_node[holders], size) + sums(stating_chunks, by_edge[stating_edges], size)

    @cached_property
    def _nearness(self) -> Scores:
        """Nearness of the chunks to the query, (chunks,) float64: cosine and BM25, and how near the best relationship of the
        neighbourhood is that is described in each; with MiniRAG, which compares words, BM25."""
        if self.profile == "best":
            scores: Scores = np.maximum(nearness(self.query, self.chunks), 0.0)
            if not self.query.is_described:
                return scores
            scored_by = edges.SCORED_BY[self.query.options.path_weighting]
            scored = described_mentions.scored(self.query, "relationship", [self.query.text], by=scored_by)
            scores += MENTION_WEIGHT * scored.relevance(self.edges.ids, self.chunks)
            return scores
        index = self.query.bm25_index("chunk")
        lexical: Scores = np.nan_to_num(
            index.score_items(self.query.terms, self.chunks, idf=self.query.options.bm25_idf)
        )
        return lexical

    def explain(self, start: int, chunk: int) -> dict[str, Any]:
        """Name the path that brought a chunk: by the most important relationship that states it, else the one with most
        weight.

        A path through or to a hub comes last.
        """
        walks = self.walks(start)
        if not len(walks.weights):
            (name,) = self._names([start])
            return {"candidate": name, "path": [name], "weight": 1.0, "edges": []}
        carries = np.zeros(len(self.nodes) + 1, np.bool_)
        carries[self.node_chunks[0][self.node_chunks[1] == chunk]] = True
        telling = np.full(len(self.edges.ids) + 1, len(self.important) + 1)
        stating = self.edge_chunks[0][self.edge_chunks[1] == chunk]
        telling[stating] = [self._ranks[relationship] for relationship in self.edges.ids[stating].tolist()]
        ranks = np.minimum(telling[walks.first], telling[walks.second])
        carrying = carries[walks.middle] | carries[walks.end]
        has_hub = self.is_hub[walks.middle] | ((walks.end >= 0) & self.is_hub[walks.end])
        best = int(np.lexsort((-walks.weights, ~carrying, ranks, has_hub))[0])
        nodes = [start, int(walks.middle[best]), *([int(walks.end[best])] if walks.end[best] >= 0 else [])]
        path_edges = [int(edge) for edge in (walks.first[best], walks.second[best]) if edge >= 0]
        names = self._names(nodes)
        path = {"candidate": names[0], "path": names, "weight": float(walks.weights[best])}
        return path | {"edges": [self._edge_said(edge) for edge in path_edges]}

    def _names(self, places: list[int]) -> list[str]:
        """Return the names of nodes, read once for the query."""
        new = [place for place in places if int(self.nodes[place]) not in self._name_of]
        if new:
            self._name_of |= {row["id"]: row["name"] for row in graph_of(self.query).nodes(self.nodes[new])}
        return [self._name_of[int(self.nodes[place])] for place in places]

    def _edge_said(self, edge: int) -> dict[str, Any]:
        relationship = int(self.edges.ids[edge])
        low, high = (self._name_of[int(ends[edge])] for ends in (self.edges.low, self.edges.high))
        source, target = (low, high) if self.is_forward[edge] else (high, low)
        score = round(self.important[relationship], 6)
        rank = self._ranks[relationship]
        entry = {"relationship_id": relationship, "source": source, "target": target, "rank": rank, "score": score}
        # A foreign key says its type.
        return entry | ({"keywords": self._keywords(relationship)} if self.query.corpus.has_rows else {})

    def _keywords(self, relationship: int) -> list[str]:
        (row,) = graph_of(self.query).relationships([relationship])
        return list(row["keywords"])

    @cached_property
    def _ranks(self) -> dict[int, int]:
        """The rank of each important relationship, from 1."""
        return {relationship: rank for rank, relationship in enumerate(self.important, 1)}


@timed("paths")
def rank(query: Query, limit: int) -> Ranking:
    """Rank chunks by the votes of the query's candidates."""
    by_entity = _candidates(query)
    scores = {entity: score for candidates in by_entity for entity, score in candidates.items()}
    if not scores:
        return Ranking.empty("path")
    graph = PathGraph(query, scores)
    walked = dict.fromkeys(entity for entity in scores if graph.has_path(entity))
    lonely = sorted((entity for entity in scores if entity not in walked), key=lambda entity: -scores[entity])
    walked |= dict.fromkeys(lonely[: max(1, int(len(lonely) * LONELY_SHARE))])
    nearest = dense.windows(query, half := query.options.graph_top_k // 2)
    direct = set(nearest.ids[best_places(query, nearest.ids, nearest.scores, half)].tolist())
    starts = {entity: int(graph.places(np.array([entity]))[0]) for entity in walked}
    best_of = dict(zip(starts, graph.best_chunks(list(starts.values())), strict=True))
    totals: dict[int, float] = {}
    votes: dict[int, _Vote] = {}
    for candidates in by_entity:
        for number, (entity, score) in enumerate(candidates.items()):
            if entity not in best_of:
                continue
            chunks, shares = best_of[entity]
            vote = score * (FIRST if number == 0 else 1.0)
            if len(chunks) and int(graph.chunks[chunks[0]]) in direct:
                vote *= DIRECT
            for chunk, share in zip(chunks.tolist(), shares.tolist(), strict=True):
                totals[chunk] = totals.get(chunk, 0.0) + vote * share
                is_telling = score >= NAMED and not graph.is_hub[starts[entity]]
                new = _Vote(vote * share, starts[entity], is_telling)
                if chunk not in votes or votes[chunk].tells_less_than(new):
                    votes[chunk] = new
    places = np.array(list(totals), np.int64)
    number_of = {int(graph.chunks[place]): int(place) for place in places}

    def reason(chunk: int) -> dict[str, Any]:
        place = number_of[chunk]
        return graph.explain(votes[place].candidate, place)

    values = leveled_sums(np.array([totals[place] for place in places.tolist()]))
    best = best_places(query, graph.chunks[places], values, limit)
    return ranking("path", graph.chunks[places][best], values[best], reason)


def _are_tied(values: Scores) -> Flags:
    """Return which values are equal to another one, (n,) bool."""
    ordered = np.sort(values)
    equal = ordered[1:][np.diff(ordered) == 0]
    return np.isin(values, equal)


def _candidates(query: Query) -> list[dict[int, float]]:
    """Return for each query entity {entity: nearness of its name}, best first, ties by name."""
    limit = query.options.graph_top_k
    texts = [text for text in query.entities if text.strip()]
    by_text: list[dict[int, float]] = []
    if query.dense_works:
        by_text = dense.entities(query, [query.embed([text])[0] for text in texts], limit)
    elif texts:
        by_text = [{} for _ in texts]
    exact = {row["key"]: row["id"] for row in named_entities(query, limit)}
    for text, scores in zip(texts, by_text, strict=True):
        if key(text) in exact:
            scores[exact[key(text)]] = NAMED
    if not query.dense_works:
        by_text.append(dict.fromkeys(exact.values(), NAMED))
    by_text = [_of_rows(query, scores) for scores in by_text]
    keys = graph_of(query).keys({entity for scores in by_text for entity in scores})
    candidates = []
    for scores in by_text:
        pairs = sorted((-round(score, DIGITS), keys[entity].encode(), entity) for entity, score in scores.items())
        candidates.append({entity: scores[entity] for _, _, entity in pairs[:limit]})
    return candidates


def _of_rows(query: Query, scores: dict[int, float]) -> dict[int, float]:
    """Return scores of entities, with rows in place of their names: the best of these."""
    of_rows: dict[int, float] = {}
    own = row_names(query).own_of(np.array(list(scores), np.int64)).tolist()
    for entity, score in zip(own, scores.values(), strict=True):
        of_rows[entity] = max(score, of_rows.get(entity, 0.0))
    return of_rows


def _may_answer(query: Query, entities: Ids) -> Flags:
    """Return which entities, in the order of their keys, have a type that may be the answer's, (n,) bool."""
    types = {kind.lower() for kind in query.answer_types}
    if not types:
        return np.zeros(len(entities), np.bool_)
    return np.array([row["type"].lower() in types for row in graph_of(query).nodes(entities)], np.bool_)
