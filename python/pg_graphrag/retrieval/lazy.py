"""LazyGraphRAG (Microsoft Research 2024): best-first over chunks and breadth-first over communities, within a budget of tests.

The index costs no call. A relevance test says whether a chunk helps: a model's word where one is asked, else the chunk's
nearness to the query, with a threshold. What was not published is ours: `k`, `z`, the threshold.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pg_graphrag.numeric import np
from pg_graphrag.retrieval import dense, evidence_chunks
from pg_graphrag.retrieval.lexical import bm25
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.rankings import Fused, alone, ranking

# Chunks that are looked at for a query, by nearness.
CANDIDATES = 1000
# Without a model, a chunk is relevant that is so near as a share of the nearest: chosen on the dev questions of two sets
# (bench/lazy.py) as the highest share at which hardly anything is lost of what all tested chunks hold.
NEAR_ENOUGH = 0.5
# Chunks that mention no clustered entity are a group of their own.
NOWHERE = 0

# Of (a query, chunks in the order in which the budget is spent, how much of it would be left) to (whether each chunk is
# relevant, how much more than one for each was spent: requests that were sent again).
Tester = Callable[[Query, Sequence[int], int], tuple[Sequence[bool], int]]


@dataclass
class Match:
    """What a search found: {chunk: (its community, the number of its test)}, in the order of the tests; and what it cost."""

    relevant: dict[int, tuple[int, int]] = field(default_factory=dict)
    near: dict[int, float] = field(default_factory=dict)
    tests: int = 0


def lazy(query: Query, depth: int) -> Fused:
    """Return the relevant chunks, the nearest first."""
    found = match(query, query.options.relevance_test_budget, near_enough)
    query.notes["relevance_tests"] = {
        "spent": found.tests,
        "budget": query.options.relevance_test_budget,
        "relevant": len(found.relevant),
        "by": "nearness",
    }
    ids = np.array(sorted(found.relevant), np.int64)
    scores = np.array([found.near[chunk] for chunk in ids.tolist()])

    def why(chunk: int) -> dict[str, Any]:
        community, test = found.relevant[chunk]
        return {"test": test} | ({"community": community} if community != NOWHERE else {})

    return alone([ranking("lazy", ids, scores, why)])


def near_enough(query: Query, chunks: Sequence[int], spare: int) -> tuple[list[bool], int]:
    """The relevance test without a model: nearness as a share of the nearest chunk's."""
    near = _near(query)
    best = max(near.values(), default=0.0)
    return [near[chunk] > 0 and near[chunk] >= NEAR_ENOUGH * best for chunk in chunks], 0


def match(query: Query, budget: int, tester: Tester) -> Match:
    """Search communities breadth first, their chunks best first; go deeper into those that hold what is relevant.

    Of each community the `k` nearest untested chunks are tested; after `z` communities in a row with nothing relevant the
    search goes into the parts of the relevant ones; it ends when none remain or the budget is spent.
    """
    found = Match(near=_near(query))
    held, below = _communities(query, list(found.near))
    tested: set[int] = set()
    frontier = _best_first(found.near, held, below[None], tested)
    while frontier and found.tests < budget:
        barren, fertile = 0, []
        for community in frontier:
            some = _nearest(found.near, held[community], tested)[: min(query.options.k, budget - found.tests)]
            if not some:
                continue
            tested.update(some)
            hits = 0
            verdicts, more = tester(query, some, budget - found.tests - len(some))
            for chunk, helps in zip(some, verdicts, strict=True):
                found.tests += 1
                if helps:
                    hits += 1
                    found.relevant[chunk] = (community, found.tests)
            found.tests += more
            barren = 0 if hits else barren + 1
            if hits:
                fertile.append(community)
            if barren == query.options.z or found.tests >= budget:
                break
        deeper = [part for one in fertile for part in (below.get(one) or [one])]
        frontier = _best_first(found.near, held, deeper, tested)
    return found


def _near(query: Query) -> dict[int, float]:
    """Return {chunk: nearness} of the candidates of a query."""
    if "lazy near" not in query.memo:
        found = [bm25(query, CANDIDATES).ids[:CANDIDATES]]
        if query.dense_works:
            found.append(dense.windows(query, CANDIDATES).ids[:CANDIDATES])
        ids = np.unique(np.concatenate(found))
        near = np.round(evidence_chunks.nearness(query, ids), 9)
        query.memo["lazy near"] = dict(zip(ids.tolist(), near.tolist(), strict=True))
    known: dict[int, float] = query.memo["lazy near"]
    return known


def _communities(query: Query, chunks: list[int]) -> tuple[dict[int, list[int]], dict[int | None, list[int]]]:
    """Return ({community: its chunks}, {community: its parts; None: those of level 0}).

    At each level a chunk belongs to the community that most of its mentions are in. Where communities are closed to the caller
    all chunks are a group of their own.
    """
    if query.is_closed:
        return {NOWHERE: chunks}, {None: [NOWHERE]}
    rows = query.db.query(
        "SELECT x.chunk_id, c.id, c.level, c.parent_id, pg_catalog.sum(x.tf)::int AS n"
        "  FROM graphrag.entity_mentions x"
        "  JOIN graphrag.community_members m ON m.entity_id = x.entity_id"
        "  JOIN graphrag.communities c ON c.id = m.community_id"
        " WHERE x.chunk_id = ANY ($1) GROUP BY x.chunk_id, c.id, c.level, c.parent_id"
        " ORDER BY x.chunk_id, c.level, n DESC, c.id",
        ["int8[]"],
        [chunks],
    )
    home: dict[tuple[int, int], int] = {}
    held: dict[int, list[int]] = defaultdict(list)
    below: dict[int | None, list[int]] = defaultdict(list)
    for row in rows:
        level, chunk = row["level"], row["chunk_id"]
        # A part of the community that the chunk is in, one level up.
        if (chunk, level) in home or (level and home.get((chunk, level - 1)) != row["parent_id"]):
            continue
        home[chunk, level] = row["id"]
        if row["id"] not in held:
            below[row["parent_id"]].append(row["id"])
        held[row["id"]].append(chunk)
    lost = [chunk for chunk in chunks if (chunk, 0) not in home]
    if lost:
        held[NOWHERE] = lost
        below[None].append(NOWHERE)
    return held, below


def _best_first(
    near: dict[int, float], held: dict[int, list[int]], communities: Sequence[int], tested: set[int]
) -> list[int]:
    best = {one: _nearest(near, held[one], tested)[:1] for one in communities}
    return sorted((one for one in communities if best[one]), key=lambda one: (-near[best[one][0]], one))


def _nearest(near: dict[int, float], chunks: Sequence[int], tested: set[int]) -> list[int]:
    return sorted((chunk for chunk in chunks if chunk not in tested), key=lambda chunk: (-near[chunk], chunk))
