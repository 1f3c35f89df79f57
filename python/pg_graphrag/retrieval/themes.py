"""What GraphRAG's modes share (arXiv 2404.16130): local evidence, and the reports on communities."""

from collections import Counter

from pg_graphrag.retrieval import graph
from pg_graphrag.retrieval.cached_graph import graph_of
from pg_graphrag.retrieval.query import Query, once
from pg_graphrag.retrieval.reports import report_rows, visible_communities
from pg_graphrag.server import Row


@once
def local_evidence(query: Query) -> graph.Evidence:
    """Entities near the query; relationships between them first, then those that lead to what most of them lead to."""
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
