"""The chunks near a query, their communities, and near chunks outside of all communities."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import compress

from pg_graphrag.ground.numeric import distinct, int64s, np, numbered, packed, places_of, within
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.query.query import Query, once, timed
from pg_graphrag.search.query.rankings import among_best, best_places
from pg_graphrag.search.retrievers import dense, evidence_chunks
from pg_graphrag.search.retrievers.lexical import bm25, is_about_the_whole

# Candidate chunks of a query, by BM25 and by windows each.
CANDIDATES = 1000
# Without a model, a chunk is relevant from this share of the greatest nearness on: on the dev questions of two sets
# the highest share that loses hardly any evidence of the tested chunks.
NEAR_ENOUGH = 0.5
# The group of the chunks that mention no clustered entity.
NOWHERE = 0
# Of these graph_global and drift read so many, the nearest.
MAX_OUTSIDE = 200


@once
def candidates(query: Query) -> dict[int, float]:
    """Return {chunk: nearness} of the best chunks of a query by BM25 and by windows."""
    rankings = [bm25(query, CANDIDATES)]
    if query.dense_works:
        rankings.append(dense.windows(query, CANDIDATES))
    ids = distinct(
        np.concatenate([each.ids[among_best(query, each.ids, each.scores, CANDIDATES)] for each in rankings])
    )
    scores = np.round(evidence_chunks.nearness(query, ids), 9)
    return dict(zip(ids.tolist(), scores.tolist(), strict=True))


def near_enough(query: Query, chunks: Sequence[int]) -> list[bool]:
    """Return whether each chunk has a share of the greatest nearness; to a question about the whole, of that among `chunks`."""
    nearness, is_whole = candidates(query), is_about_the_whole(query)
    best = max((nearness[chunk] for chunk in (chunks if is_whole else nearness)), default=0.0)
    # The best of a community is near enough, however far.
    least = min(best, NEAR_ENOUGH * best)
    return [nearness[chunk] >= least and (is_whole or nearness[chunk] > 0) for chunk in chunks]


_COMMUNITIES = f"""
SELECT {packed("c.id", levels="c.level", parents="coalesce(c.parent_id, 0)")}
  FROM graphrag.communities c
 WHERE c.id = ANY ($1)
"""


@timed("communities")
def communities_of(query: Query, chunks: list[int]) -> tuple[dict[int, list[int]], dict[int | None, list[int]]]:
    """Return ({community: its chunks, in the order given}, {community: its parts; None: those of level 0}).

    At each level a chunk belongs to the community that most of its mentions are in. Where communities are closed to the caller
    all chunks are a group of their own.
    """
    if query.is_closed:
        return {NOWHERE: chunks}, {None: [NOWHERE]}
    # Chunks by their places in `chunks`, communities by theirs in `ids`.
    chunk_ids = np.array(chunks, np.int64)
    owners, members, tf = graph_of(query).community_mentions(chunks)
    owners = places_of(owners, chunk_ids)
    ids, members = numbered(members)
    row = query.db.query(_COMMUNITIES, ["int8[]"], [ids.tolist()])[0]
    levels, parent_ids = int64s(row["levels"]), int64s(row["parents"])
    parents = np.where(within(parent_ids, ids), np.searchsorted(ids, parent_ids), len(ids))
    chunks_of: dict[int, list[int]] = {}
    parts_of: dict[int | None, list[int]] = defaultdict(list)
    without_community = chunks
    home = np.full(len(chunks), -1)
    for level in range(int(levels.max(initial=-1)) + 1):
        # Parts of the community that the chunk is in, one level up.
        is_here = levels[members] == level
        if level:
            is_here &= parents[members] == home[owners]
        pairs, pair = numbered(owners[is_here] * len(ids) + members[is_here])
        counts = np.bincount(pair, tf[is_here], len(pairs))
        owner, community = np.divmod(pairs, max(len(ids), 1))
        order = np.lexsort((community, -counts, owner))
        first = order[np.diff(owner[order], prepend=-1) != 0]
        home = np.full(len(chunks), -1)
        home[owner[first]] = community[first]
        if not level:
            without_community = chunk_ids[home < 0].tolist()
        at_home = np.flatnonzero(home >= 0)
        for chunk, number in zip(chunk_ids[at_home].tolist(), ids[home[at_home]].tolist(), strict=True):
            chunks_of.setdefault(number, []).append(chunk)
        here, _ = numbered(home[at_home])
        for number, parent in zip(ids[here].tolist(), parent_ids[here].tolist(), strict=True):
            parts_of[parent or None].append(number)
    if without_community:
        chunks_of[NOWHERE] = without_community
        parts_of[None].append(NOWHERE)
    return chunks_of, parts_of


@once
def outside(query: Query) -> dict[int, float]:
    """Return {chunk: nearness} of the chunks that are near enough and mention no entity of a community, the nearest first.

    To a question about the whole all are. None before communities were looked for and told of, and in a dry run that does not
    know the query's vector.
    """
    if query.is_closed or not (query.models.sends or query.has_vector) or not _is_clustered(query):
        return {}
    nearness = candidates(query)
    chunks = sorted(communities_of(query, sorted(nearness))[0].get(NOWHERE, ()))
    if not is_about_the_whole(query):
        chunks = list(compress(chunks, near_enough(query, chunks)))
    ids = np.array(chunks, np.int64)
    scores = np.array([nearness[chunk] for chunk in ids.tolist()])
    best = best_places(query, ids, scores, MAX_OUTSIDE)
    return dict(zip(ids[best].tolist(), scores[best].tolist(), strict=True))


def _is_clustered(query: Query) -> bool:
    """Whether communities were looked for, and have reports if there are any."""
    sql = """
SELECT FROM graphrag.community_states s
 WHERE s.corpus_id = $1
   AND (EXISTS (SELECT FROM graphrag.communities c JOIN graphrag.community_reports r ON r.community_id = c.id
                 WHERE c.corpus_id = $1)
        OR NOT EXISTS (SELECT FROM graphrag.communities c WHERE c.corpus_id = $1))
"""
    return bool(query.db.query(sql, ["int4"], [query.corpus.id]))
