"""DRIFT search (Microsoft Research 2024), as far as it finds chunks: from the reports that a query is about into the graph.

No model is asked, but for keywords as in the other modes: where `graphrag.ask` follows up questions that a model makes of
the best reports, a search looks around the entities that these reports rest on, and around those of the query.
"""

from dataclasses import dataclass, field
from typing import Any

from pg_graphrag.retrieval import evidence_chunks, graph, themes
from pg_graphrag.retrieval.held_graph import graph_of
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.rankings import Fused, alone
from pg_graphrag.retrieval.reports import Matched, match_reports, report_rows
from pg_graphrag.server import Row

# Reports that the primer is made of (GraphRAG: drift_k_followups, 20 there), and those that a search looks around.
PRIMER_REPORTS = 20
SEARCHED_REPORTS = 5


def drift(query: Query, depth: int) -> Fused:
    """Local retrieval from the query's entities and those of the best reports together."""
    return alone(evidence_chunks.rank(query, {"drift": evidence(query)}, depth))


def evidence(query: Query) -> graph.Evidence:
    """What the query is about, then what the reports on it are about."""
    local, primer = themes.local_evidence(query), _primer(query).evidence
    return graph.Evidence(
        local.entities | {one: score for one, score in primer.entities.items() if one not in local.entities},
        local.relationships
        | {one: score for one, score in primer.relationships.items() if one not in local.relationships},
        primer.why | local.why,
        local.described,
    )


def matched_reports(query: Query, limit: int) -> list[Matched]:
    """Return the reports of the level that a query is about, best first; with a WARNING where there are none at all."""
    cut = themes.level_cut(query)
    if not cut:
        themes.without_reports(query)
        return []
    return match_reports(query, limit, within=cut)


def primer_reports(query: Query) -> list[Row]:
    """Return the reports that a search looks around, best first."""
    return _primer(query).reports


@dataclass
class _Primer:
    """The best reports; and the entities that they rest on, the relationships among them, and which report each is of."""

    reports: list[Row] = field(default_factory=list)
    evidence: graph.Evidence = field(default_factory=graph.Evidence)


def _primer(query: Query) -> _Primer:
    if "drift" not in query.memo:
        query.memo["drift"] = _read(query)
    known: _Primer = query.memo["drift"]
    return known


# Of each community the members that its report's findings rest on, then those with most relationships.
_MEMBERS = """
SELECT s.community_id, s.entity_id
  FROM (SELECT m.community_id, m.entity_id, e.key,
               pg_catalog.row_number() OVER (PARTITION BY m.community_id
                   ORDER BY (m.entity_id = ANY ($2)) DESC, e.degree DESC, e.key) AS place
          FROM graphrag.community_members m
          JOIN graphrag.entities e ON e.id = m.entity_id
         WHERE m.community_id = ANY ($1) {visible}) s
 WHERE s.place <= $3
 ORDER BY s.community_id, s.place
"""
_VISIBLY = "AND EXISTS (SELECT FROM graphrag.entity_mentions x WHERE x.entity_id = e.id AND x.document_id = ANY ($4))"


def _read(query: Query) -> _Primer:
    matched = matched_reports(query, SEARCHED_REPORTS)
    if not matched:
        return _Primer()
    rows = report_rows(query.db, [one.community_id for one in matched])
    reports = [rows[one.community_id] for one in matched]
    limit = query.options.graph_top_k
    telling = {entity for row in reports for finding in row["findings"] for entity in finding["entity_ids"]}
    members: dict[int, list[int]] = {}
    for row in query.db.query(
        _MEMBERS.format(visible="" if query.visible is None else _VISIBLY),
        ["int8[]", "int8[]", "int4", "int8[]"],
        [[one.community_id for one in matched], sorted(telling), limit, query.visible_ids],
    ):
        members.setdefault(row["community_id"], []).append(row["entity_id"])
    found = graph.Evidence()
    # The reports take turns, the best first, so that a large community does not crowd out the others.
    for place in range(limit):
        for one, report in zip(matched, reports, strict=True):
            some = members.get(one.community_id, [])
            if place < len(some) and some[place] not in found.entities and len(found.entities) < limit:
                found.entities[some[place]] = one.score
                found.why["entity", some[place]] = _of(report)
    _relate(query, found, limit)
    return _Primer(reports, found)


def _relate(query: Query, found: graph.Evidence, limit: int) -> None:
    """Add the relationships among the entities of `found`, the strongest first."""
    among = graph_of(query).among(list(found.entities))
    keys = graph_of(query).keys(found.entities)
    rows = sorted(
        zip(among.ids.tolist(), among.low.tolist(), among.high.tolist(), among.weights.tolist(), strict=True),
        key=lambda row: (-row[3], *sorted((keys[row[1]].encode(), keys[row[2]].encode()))),
    )
    for relationship, low, high, _ in rows[:limit]:
        end = min((low, high), key=found.entities.__getitem__)
        found.relationships[relationship] = found.entities[end]
        found.why["relationship", relationship] = found.why["entity", end]


def _of(report: dict[str, Any]) -> str:
    return f"of the report “{report['title']}”"
