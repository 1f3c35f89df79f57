"""What GraphRAG's modes share (arXiv 2404.16130): local evidence, and reports on communities."""

from collections import Counter

from pg_graphrag.ground.numeric import int64s, packed
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.query.query import Query, once
from pg_graphrag.search.retrievers import graph_evidence
from pg_graphrag.search.retrievers.relevant_reports import CommunityReport, read_reports, visible_communities


@once
def local_evidence(query: Query) -> graph_evidence.Evidence:
    """Return entities near the query; relationships among them first, then those to the entities with most links to them."""
    base = graph_evidence.local_evidence(query)
    ends = graph_of(query).ends(list(base.relationships))
    pair = {row["id"]: (row["source_id"], row["target_id"]) for row in ends}
    inner = {
        relationship for relationship, (low, high) in pair.items() if low in base.entities and high in base.entities
    }
    outer = Counter(
        end
        for relationship, pair_ends in pair.items()
        if relationship not in inner
        for end in pair_ends
        if end not in base.entities
    )
    # Ties keep their order (degrees, weight).
    links = {relationship: max(outer[end] for end in pair_ends) for relationship, pair_ends in pair.items()}
    place = {relationship: number for number, relationship in enumerate(base.relationships)}
    order = sorted(
        pair,
        key=lambda relationship: (
            relationship not in inner,
            0 if relationship in inner else -links[relationship],
            place[relationship],
        ),
    )
    return graph_evidence.Evidence(
        base.entities,
        {relationship: base.relationships[relationship] for relationship in order},
        base.reasons,
        base.scored_mentions,
    )


def local_reports(query: Query, limit: int) -> list[CommunityReport]:
    """Return the reports on the communities of the query's entities: most of them first, then the highest rated."""
    entities = list(local_evidence(query).entities)
    rows = query.db.query(
        "SELECT m.community_id, pg_catalog.count(*) AS n, r.rating"
        "  FROM graphrag.community_members m"
        "  JOIN graphrag.community_reports r ON r.community_id = m.community_id"
        " WHERE m.entity_id = ANY ($1) AND r.rating >= $3 GROUP BY m.community_id, r.rating, r.title"
        ' ORDER BY n DESC, r.rating DESC, r.title COLLATE "C", m.community_id LIMIT $2',
        ["int8[]", "int4", "float8"],
        [entities, 10 * limit, query.options.min_community_rank],
    )
    visible_ids = visible_communities(query, [row["community_id"] for row in rows])
    return read_reports(query.db, [row["community_id"] for row in rows if row["community_id"] in visible_ids][:limit])


def without_reports(query: Query, *, has_texts: bool) -> None:
    """Warn that there are no reports for the caller, and why; if texts stand in, only of an option that leaves reports out."""
    leaves_out = (
        query.options.min_community_rank > 0
        and not query.is_closed
        and query.db.query(
            "SELECT FROM graphrag.communities c JOIN graphrag.community_reports r ON r.community_id = c.id"
            " WHERE c.corpus_id = $1 LIMIT 1",
            ["int4"],
            [query.corpus.id],
        )
    )
    if has_texts and not leaves_out:
        return
    if query.is_closed:
        query.db.warning(
            f'reports on communities of corpus "{query.corpus.name}" are closed to role "{query.caller.role}"',
            hint="They tell of all documents together; the role does not see all of them. Other modes answer from those it sees.",
        )
        return
    if leaves_out:
        query.db.warning(
            f"no report is rated at least min_community_rank, {query.options.min_community_rank:g}",
            hint="Give a smaller min_community_rank.",
        )
        return
    query.db.warning(
        f'corpus "{query.corpus.name}" has no reports on communities yet',
        hint="CALL graphrag.process_jobs(); where its option communities is false, graphrag.refresh_communities(…) before.",
    )


def level_cut(query: Query) -> list[int]:
    """Return the communities of the option's level, and coarser ones that are not divided that far; of `min_community_rank`."""
    if query.is_closed:
        return []
    row = query.db.query(
        f"SELECT {packed('c.id', ids='c.id')}"
        "  FROM graphrag.communities c JOIN graphrag.community_reports r ON r.community_id = c.id"
        " WHERE c.corpus_id = $1 AND r.rating >= $3 AND (c.level = $2 OR c.level < $2"
        "   AND NOT EXISTS (SELECT FROM graphrag.communities x WHERE x.parent_id = c.id))",
        ["int4", "int4", "float8"],
        [query.corpus.id, query.options.level, query.options.min_community_rank],
    )[0]
    ids: list[int] = int64s(row["ids"]).tolist()
    return ids


def child_communities(query: Query, parents: list[int] | None) -> dict[int, int]:
    """Return {community with a report: its parent} of the parts of `parents`; None: the coarsest, with parent 0."""
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
