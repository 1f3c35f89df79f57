"""graph_global: GraphRAG's global search (arXiv 2404.16130), over reports on communities.

For ask, a model reads the reports of one level in batches (`dynamic`: only those that a model finds relevant) and gives
points with scores. The answer is made from the best points. If a batch fails, the answer misses its reports, and the
context says so.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pg_graphrag.ground.numeric import distinct, np
from pg_graphrag.search.contexts.context_packing import assemble
from pg_graphrag.search.contexts.points import Passage, counter, least_batch, points_of, tolerated
from pg_graphrag.search.contexts.report_passages import (
    cut_reports,
    outside_note,
    outside_passages,
    passages_of,
    reports_of,
    shuffled,
    unknown_outside,
)
from pg_graphrag.search.query.found_chunk import FoundChunk
from pg_graphrag.search.query.mode import Context, Mode, shares
from pg_graphrag.search.query.mode_options import FLAG, Option
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.query.rankings import Fused, Ranking, ranking, single_ranking
from pg_graphrag.search.retrievers import evidence_chunks
from pg_graphrag.search.retrievers.empty import language_of_silence
from pg_graphrag.search.retrievers.lexical import is_about_the_whole
from pg_graphrag.search.retrievers.near_chunks import NEAR_ENOUGH, outside
from pg_graphrag.search.retrievers.relevant_reports import CommunityReport, ReportMatch, match_reports, read_reports
from pg_graphrag.search.retrievers.themes import child_communities, level_cut, without_reports

if TYPE_CHECKING:
    from pg_graphrag.search.contexts.dry_run import DryRun

DYNAMIC = Option("dynamic", False, FLAG)
# Reports that graph_global starts from, and candidate chunks of each.
GLOBAL_REPORTS = 20
CHUNKS_PER_REPORT = 50
# Added to the nearness of a chunk that a finding rests on.
TELLING = 0.1
# From this grade on, of 0 to 5, a report is relevant (GraphRAG's dynamic community selection).
RELEVANT = 1


def retrieve(query: Query, depth: int) -> Fused:
    """From the reports that the query is about, one level of the hierarchy, down to the chunks that tell most of each.

    The communities take turns: a question about the whole is answered from all sides. What no community tells of is one more.
    """
    cut = _cut(query)
    if not cut:
        without_reports(query, has_texts=bool(outside(query)))
        if not outside(query):
            return single_ranking([Ranking.empty("graph_global")])
    matches = match_reports(query, GLOBAL_REPORTS, communities=cut) if cut else []
    return single_ranking([_in_turns(query, matches, depth)])


def reports(query: Query, limit: int) -> list[CommunityReport]:
    """Return the reports of the cut that the query is about, best first."""
    matches = match_reports(query, limit, communities=_cut(query))
    return read_reports(query.db, [match.community_id for match in matches])


def _cut(query: Query) -> list[int]:
    """Return the communities whose reports are looked at: those of the level; with `dynamic` those near enough to a target.

    From the coarsest level down to the option's, only near communities are divided; near parts take the place of their
    community. Near is a share of the nearest report's score, as in lazy, where otherwise a model rates.
    """
    if not query.options[DYNAMIC] or is_about_the_whole(query):
        return level_cut(query)
    scores = {match.community_id: match.score for match in match_reports(query, None)}
    enough = NEAR_ENOUGH * max(scores.values(), default=0.0)
    selection: set[int] = set()
    frontier = child_communities(query, None)
    for _ in range(query.options.level + 1):
        relevant = {number: parent for number, parent in frontier.items() if scores.get(number, 0.0) >= enough > 0}
        selection -= set(relevant.values())
        selection |= relevant.keys()
        frontier = child_communities(query, list(relevant))
    return sorted(selection)


def _in_turns(query: Query, matches: list[ReportMatch], depth: int) -> Ranking:
    """Rank the chunks of communities: each one's by nearness, then the best of each, the second of each, …"""
    communities = [match.community_id for match in matches]
    titles = {report.community_id: report.title for report in read_reports(query.db, communities)}
    chunks = _chunks(query, communities)
    all_ids = distinct(
        np.concatenate([np.empty(0, np.int64), *(np.array(list(flags), np.int64) for flags in chunks.values())])
    )
    nearness = dict(zip(all_ids.tolist(), evidence_chunks.nearness(query, all_ids).tolist(), strict=True))
    lists: list[list[tuple[int, ReportMatch | None]]] = []
    for match in matches:
        flags = chunks.get(match.community_id, {})
        order = sorted(flags, key=lambda chunk: -round(nearness[chunk] + TELLING * flags[chunk], 9))
        lists.append([(chunk, match) for chunk in order])
    if others := outside(query):
        place = sum(match.score >= max(others.values()) for match in matches)
        lists.insert(place, [(chunk, None) for chunk in others])
        nearness |= others
    match_of: dict[int, ReportMatch | None] = {}
    for place in range(max(map(len, lists), default=0)):
        for pairs in lists:
            if place < len(pairs):
                match_of.setdefault(*pairs[place])
    ids = np.array(list(match_of)[:depth], np.int64)

    def explain(chunk: int) -> dict[str, Any]:
        match, near = match_of[chunk], {"nearness": round(nearness[chunk], 6)}
        if match is None:
            return {"community": None} | near
        report = {"report": titles[match.community_id], "report_score": match.score}
        return {"community": match.community_id} | report | near

    return ranking("graph_global", ids, 1.0 / np.arange(1, len(ids) + 1), explain)


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
    condition = "" if query.visible is None else "AND x.document_id IN (SELECT pg_catalog.unnest($3))"
    rows = query.db.query(
        _CHUNKS.format(visible=condition),
        ["int8[]", "int4", "int8[]"],
        [communities, CHUNKS_PER_REPORT, query.visible_ids],
    )
    by_community: dict[int, dict[int, int]] = {}
    for row in rows:
        by_community.setdefault(row["community_id"], {})[row["chunk_id"]] = int(row["telling"])
    return by_community


def answer(query: Query, total: int) -> dict[str, Any]:
    """Return the context made of the best points.

    Raises GraphRAGError when no batch was answered: the first one's fault.
    """
    selection: dict[str, int] = {}
    least = least_batch(query)
    if query.options[DYNAMIC]:
        rows, selection = _rated_reports(query)
    else:
        rows = cut_reports(query)
    if not rows and not selection.get("rated"):
        if not outside(query) and language_of_silence(query) is not None:
            # Chunks stand in for reports, as in a context.
            return assemble(query, MODE, total)
        without_reports(query, has_texts=bool(outside(query)))
    passages, sources = passages_of(query, rows)
    others = outside_passages(query, sources, "map")
    context = points_of(query, query.text, passages + others, sources, total, least)
    context["map"] |= {"level": query.options.level, "reports": len(rows), **outside_note(query, others)}
    if selection:
        context["map"]["dynamic"] = selection
    return context


def outside_rows(rows: list[FoundChunk]) -> list[FoundChunk]:
    """Return the chunks that no community tells of, and so no report."""
    return [row for row in rows if row.explain.get("graph_global", {}).get("community", 0) is None]


def _rated_reports(query: Query) -> tuple[list[CommunityReport], dict[str, int]]:
    """Return (the relevant reports, how many were rated and how many of that failed).

    From the coarsest level down to the option's, each level side by side; only parts of relevant communities are rated, and
    relevant parts take the place of their community. A report that cannot be rated counts as relevant.
    """
    query.corpus.options.llm.of("relevance")
    selection: dict[int, CommunityReport] = {}
    counts = {"rated": 0, "failed": 0}
    frontier = reports_of(query, child_communities(query, None))
    for level in range(query.options.level + 1):
        if not frontier:
            break
        arguments = [{"question": query.text, "report": report.content} for report in frontier]
        outcomes, usage = query.models.ask_all("rate", arguments)
        query.usage.append(usage)
        counts["rated"] += len(frontier)
        counts["failed"] += tolerated(query, outcomes, "reports were not rated, and are taken for relevant")
        relevant = [
            report
            for report, outcome in zip(frontier, outcomes, strict=True)
            if outcome.fault is not None or outcome.value >= RELEVANT
        ]
        for report in relevant:
            if report.parent_id is not None:
                selection.pop(report.parent_id, None)
            selection[report.community_id] = report
        if level < query.options.level:
            frontier = reports_of(query, child_communities(query, [report.community_id for report in relevant]))
    return list(selection.values()), counts


def estimate(dry_run: "DryRun") -> None:
    """Count the batches, which are known; with `dynamic`, of as many reports as could be relevant."""
    query = dry_run.query
    if tokens := unknown_outside(dry_run):
        dry_run.add("map", 1, dry_run.tokens("map", question=query.text) + tokens)
    if not query.options[DYNAMIC]:
        answer(query, dry_run.total)
        return
    query.corpus.options.llm.of("relevance")
    all_reports: list[CommunityReport] = []
    frontier = reports_of(query, child_communities(query, None))
    for _ in range(query.options.level + 1):
        all_reports += frontier
        communities = [report.community_id for report in frontier]
        frontier = frontier and reports_of(query, child_communities(query, communities))
    for report in all_reports:
        dry_run.send("rate", exact=False, question=query.text, report=report.content)
    passages, sources = passages_of(query, all_reports)
    sizes = dict(zip((report.community_id for report in shuffled(all_reports)), passages, strict=True))
    others = outside_passages(query, sources, "map")
    count = counter(query)

    def most(weigh: Callable[[str], int]) -> int:
        return _heaviest(all_reports, sizes, lambda passage: weigh(passage.text) + 2) + sum(
            weigh(passage.text) + 2 for passage in others
        )

    dry_run.points(most(lambda text: len(text.encode())), most(count))


def _heaviest(reports: Iterable[CommunityReport], passages: dict[int, Passage], weigh: Callable[[Passage], int]) -> int:
    """Return the greatest weight of the relevant reports: of a community, or of its parts in its place."""
    child_weights: dict[int | None, int] = {}
    for report in sorted(reports, key=lambda report: -report.level):
        weight = max(weigh(passages[report.community_id]), child_weights.get(report.community_id, 0))
        child_weights[report.parent_id] = child_weights.get(report.parent_id, 0) + weight
    return child_weights.get(None, 0)


MODE = Mode(
    name="graph_global",
    place=100,
    does="From the reports on one level of communities down to chunks. For questions about the whole.",
    details="""`ask` reads every report of one level of communities, in parallel batches, and answers from the
    points that they give. `level` (1) is that level; the themes take turns. With `dynamic` a model of the role
    `relevance` rates reports from the coarsest level down to `level`, and `ask` goes only into what it rates 1 or
    more of 5. `search` and `context` ask nobody: with `dynamic` they take the reports that score half of the best.
    `min_community_rank` (0) leaves out reports of a lower rating, but not with `dynamic`. A question that names
    nothing the texts are about ("What are the main themes?") gets every theme that fits; other questions get those
    that are near. Chunks that mention no entity of a community are one theme more: of the nearest 1,000 by words and
    by vectors each, up to 200; for a question that names something, those half as near as the nearest. `ask` reads as
    many of them as fit one more batch (`outside` in `map` says how many), `context` shows them as text, and in
    `explain` their `community` is null.""",
    source="GraphRAG, arXiv 2404.16130",
    options=("bm25_idf", "level", "min_community_rank", DYNAMIC),
    defaults={"max_total_tokens": 12_000},
    retrieve=retrieve,
    context=Context(in_order=True, reports=reports, texts=outside_rows, budgets=shares(text=0.0, reports=1.0)),
    answer=answer,
    estimate=estimate,
)
