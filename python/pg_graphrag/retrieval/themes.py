"""GraphRAG's modes (arXiv 2404.16130), as far as they find chunks: from entities out, and from the reports on themes down."""

from collections import Counter
from typing import Any

from pg_graphrag.numeric import np
from pg_graphrag.retrieval import evidence_chunks, graph
from pg_graphrag.retrieval.held_graph import graph_of
from pg_graphrag.retrieval.lazy import NEAR_ENOUGH
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.rankings import Fused, Ranking, alone, ranking
from pg_graphrag.retrieval.reports import Matched, match_reports, report_rows, visible_communities
from pg_graphrag.server import Row

# Reports that graph_global goes down from, and chunks of each that are looked at.
GLOBAL_REPORTS = 20
CHUNKS_PER_REPORT = 50
# What a chunk that a finding rests on counts beside its nearness.
TELLING = 0.1


def graph_local(query: Query, depth: int) -> Fused:
    """GraphRAG's local search: entities, the relationships among them first, and the chunks that say most of both."""
    return alone(evidence_chunks.rank(query, {"graph_local": local_evidence(query)}, depth))


def local_evidence(query: Query) -> graph.Evidence:
    """Entities near the query; relationships between them first, then those that lead to what most of them lead to."""
    if "graph_local" not in query.memo:
        query.memo["graph_local"] = _local_evidence(query)
    found: graph.Evidence = query.memo["graph_local"]
    return found


def _local_evidence(query: Query) -> graph.Evidence:
    base = graph.local_evidence(query)
    ends = graph_of(query).ends(list(base.relationships))
    pair = {row["id"]: (row["source_id"], row["target_id"]) for row in ends}
    inside = {one for one, (low, high) in pair.items() if low in base.entities and high in base.entities}
    outer = Counter(end for one, both in pair.items() if one not in inside for end in both if end not in base.entities)
    # The order that they come in (degrees, weight) decides among equals.
    links = {one: max(outer[end] for end in both) for one, both in pair.items()}
    place = {one: at for at, one in enumerate(base.relationships)}
    order = sorted(pair, key=lambda one: (one not in inside, 0 if one in inside else -links[one], place[one]))
    return graph.Evidence(base.entities, {one: base.relationships[one] for one in order}, base.why, base.described)


def local_reports(query: Query, limit: int) -> list[Row]:
    """Return the reports on the communities of the query's entities: most of them first, then the highest rated."""
    entities = list(local_evidence(query).entities)
    rows = query.db.query(
        "SELECT m.community_id, pg_catalog.count(*) AS n, r.rating"
        "  FROM graphrag.community_members m"
        "  JOIN graphrag.community_reports r ON r.community_id = m.community_id"
        " WHERE m.entity_id = ANY ($1) GROUP BY m.community_id, r.rating, r.title"
        ' ORDER BY n DESC, r.rating DESC, r.title COLLATE "C", m.community_id LIMIT $2',
        ["int8[]", "int4"],
        [entities, 10 * limit],
    )
    seen = visible_communities(query, [row["community_id"] for row in rows])
    ids = [row["community_id"] for row in rows if row["community_id"] in seen][:limit]
    found = report_rows(query.db, ids)
    return [found[number] for number in ids]


def graph_global(query: Query, depth: int) -> Fused:
    """From the reports that the query is about, one level of the hierarchy, down to the chunks that tell most of each.

    The communities take turns: a question about the whole is answered from all sides.
    """
    cut = _cut(query)
    if not cut:
        without_reports(query)
        return alone([Ranking.empty("graph_global")])
    matched = match_reports(query, GLOBAL_REPORTS, within=cut)
    return alone([_in_turns(query, matched, depth)])


def without_reports(query: Query) -> None:
    """Say that there are no reports for the caller, and why."""
    if query.is_closed:
        query.db.warning(
            f'reports on communities of corpus "{query.corpus.name}" are closed to role "{query.caller.role}"',
            hint="They tell of all documents together; the role does not see all of them. Other modes answer from those it sees.",
        )
        return
    query.db.warning(
        f'corpus "{query.corpus.name}" has no reports on communities yet',
        hint="CALL graphrag.process_jobs(); where its option communities is false, graphrag.refresh_communities(…) before.",
    )


def global_reports(query: Query, limit: int) -> list[Row]:
    """Return the reports of the cut that the query is about, best first."""
    ids = [one.community_id for one in match_reports(query, limit, within=_cut(query))]
    found = report_rows(query.db, ids)
    return [found[number] for number in ids]


def _cut(query: Query) -> list[int]:
    """Return the communities whose reports are looked at: those of the level; with `dynamic` those near enough.

    As where a model rates them: from the coarsest level down to the option's, going into the parts of what is near alone,
    which stand for it where any of them is. Without a model that is as in lazy: a share of the nearest report's score.
    """
    if not query.options.dynamic:
        return level_cut(query)
    scores = {one.community_id: one.score for one in match_reports(query, None)}
    enough = NEAR_ENOUGH * max(scores.values(), default=0.0)
    chosen: set[int] = set()
    frontier = child_communities(query, None)
    for _ in range(query.options.level + 1):
        near = {number: parent for number, parent in frontier.items() if scores.get(number, 0.0) >= enough > 0}
        chosen -= set(near.values())
        chosen |= near.keys()
        frontier = child_communities(query, list(near))
    return sorted(chosen)


def level_cut(query: Query) -> list[int]:
    """Return the communities that cover everything at the option's level: those of it, and what is not divided that far."""
    if query.is_closed:
        return []
    rows = query.db.query(
        "SELECT c.id FROM graphrag.communities c JOIN graphrag.community_reports r ON r.community_id = c.id"
        " WHERE c.corpus_id = $1 AND (c.level = $2 OR c.level < $2"
        "   AND NOT EXISTS (SELECT FROM graphrag.communities x WHERE x.parent_id = c.id)) ORDER BY c.id",
        ["int4", "int4"],
        [query.corpus.id, query.options.level],
    )
    return [row["id"] for row in rows]


def child_communities(query: Query, parents: list[int] | None) -> dict[int, int]:
    """Return {community: its parent} of those with a report that are parts of `parents`; None: the coarsest, in nothing (0)."""
    if query.is_closed:
        return {}
    rows = query.db.query(
        "SELECT c.id, coalesce(c.parent_id, 0) AS parent"
        "  FROM graphrag.communities c JOIN graphrag.community_reports r ON r.community_id = c.id"
        " WHERE c.corpus_id = $1 AND (c.parent_id = ANY ($2) OR $2 IS NULL AND c.level = 0) ORDER BY c.id",
        ["int4", "int8[]"],
        [query.corpus.id, parents],
    )
    return {row["id"]: row["parent"] for row in rows}


def _in_turns(query: Query, matched: list[Matched], depth: int) -> Ranking:
    """Rank the chunks of communities: each one's by nearness, then the best of each, the second of each, …"""
    titles = report_rows(query.db, [one.community_id for one in matched])
    chunks = _chunks(query, [one.community_id for one in matched])
    every = np.unique(
        np.concatenate([np.empty(0, np.int64), *(np.array(list(some), np.int64) for some in chunks.values())])
    )
    near = dict(zip(every.tolist(), evidence_chunks.nearness(query, every).tolist(), strict=True))
    lists = []
    for one in matched:
        some = chunks.get(one.community_id, {})
        order = sorted(some, key=lambda chunk: -round(near[chunk] + TELLING * some[chunk], 9))
        lists.append([(chunk, one) for chunk in order])
    taken: dict[int, Matched] = {}
    for place in range(max(map(len, lists), default=0)):
        for ranked in lists:
            if place < len(ranked):
                taken.setdefault(*ranked[place])
    ids = np.array(list(taken)[:depth], np.int64)

    def why(chunk: int) -> dict[str, Any]:
        one = taken[chunk]
        return {
            "community": one.community_id,
            "report": titles[one.community_id]["title"],
            "report_score": one.score,
            "nearness": round(near[chunk], 6),
        }

    return ranking("graph_global", ids, 1.0 / np.arange(1, len(ids) + 1), why)


_CHUNKS = """
SELECT s.community_id, s.chunk_id, s.telling
  FROM (SELECT m.community_id, x.chunk_id, pg_catalog.count(DISTINCT x.entity_id) AS members,
               coalesce(pg_catalog.bool_or(f.chunk_id IS NOT NULL), false) AS telling,
               pg_catalog.row_number() OVER (PARTITION BY m.community_id ORDER BY pg_catalog.bool_or(f.chunk_id IS NOT NULL) DESC,
                   pg_catalog.count(DISTINCT x.entity_id) DESC, d.source_key COLLATE "C", c.ordinal) AS place
          FROM graphrag.community_members m
          JOIN graphrag.entity_mentions x ON x.entity_id = m.entity_id
          JOIN graphrag.chunks c ON c.id = x.chunk_id
          JOIN graphrag.documents d ON d.id = c.document_id AND d.indexed_hash IS NOT NULL
          LEFT JOIN (SELECT DISTINCT r.community_id, t.id::bigint AS chunk_id
                       FROM graphrag.community_reports r,
                            pg_catalog.jsonb_array_elements(r.findings) AS g (finding),
                            pg_catalog.jsonb_array_elements_text(g.finding -> 'chunk_ids') AS t (id)
                      WHERE r.community_id = ANY ($1)) f ON f.community_id = m.community_id AND f.chunk_id = x.chunk_id
         WHERE m.community_id = ANY ($1) {visible}
         GROUP BY m.community_id, x.chunk_id, d.source_key, c.ordinal) s
 WHERE s.place <= $2
"""


def _chunks(query: Query, communities: list[int]) -> dict[int, dict[int, int]]:
    """Return {community: {chunk: whether a finding of its report rests on it}}, the chunks that mention most members."""
    visible = "" if query.visible is None else "AND x.document_id = ANY ($3)"
    rows = query.db.query(
        _CHUNKS.format(visible=visible),
        ["int8[]", "int4", "int8[]"],
        [communities, CHUNKS_PER_REPORT, query.visible_ids],
    )
    found: dict[int, dict[int, int]] = {}
    for row in rows:
        found.setdefault(row["community_id"], {})[row["chunk_id"]] = int(row["telling"])
    return found
