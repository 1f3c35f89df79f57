"""Reports on communities by relevance, and which of them a caller may see."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from pg_graphrag.ground.numeric import Ids, Scores, distinct, float64s, int64s, np, packed, within
from pg_graphrag.index.community.report import Finding
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.query.query import Query, timed
from pg_graphrag.search.retrievers import dense
from pg_graphrag.search.retrievers.lexical import is_about_the_whole
from pg_graphrag.server import Database

# Scores that differ by less are equal, as in search.
DIGITS = 9
# The score of a report far from the query, if the query is about all of them.
LEAST_SCORE = 1e-6
# Reports whose visibility is checked at once.
LOOK = 100
# Members of a community that are checked first for mentions in the visible documents.
FEW_MEMBERS = 20
_MEMBERS = f"""
SELECT {packed(members="m.entity_id", communities="m.community_id")}
  FROM pg_catalog.unnest($1) AS u (id)
 CROSS JOIN LATERAL (
       SELECT x.entity_id, x.community_id
         FROM graphrag.community_members x
        WHERE x.community_id = u.id
        LIMIT $2) m
"""


@dataclass(frozen=True, slots=True)
class ReportMatch:
    """A report with its score in 0 … 1, and what that is made of."""

    community_id: int
    score: float
    cosine: float | None
    lexical: float


@dataclass(frozen=True, slots=True)
class CommunityReport:
    """The report on a community, with its level and the community that it is a part of."""

    community_id: int
    level: int
    parent_id: int | None
    title: str
    summary: str
    content: str
    rating: float
    findings: list[Finding]

    @property
    def chunk_ids(self) -> set[int]:
        """The chunks that its findings rest on."""
        return {chunk for finding in self.findings for chunk in finding.chunk_ids}


@timed("reports")
def match_reports(
    query: Query, limit: int | None, level: int | None = None, communities: list[int] | None = None
) -> list[ReportMatch]:
    """Return the visible reports that a query is about, best first, at most `limit` (None: all).

    `level`: of that level only; `communities`: of these only; a query about the whole is about all of them.
    """
    if query.is_closed:
        return []
    ids, cosines, words = _scores(query, level, communities)
    if not len(ids):
        return []
    words = words / (words.max(initial=0.0) or 1.0)
    scores = np.round(words if cosines is None else (cosines + words) / 2, DIGITS)
    if communities is not None and is_about_the_whole(query):
        scores = np.maximum(scores, LEAST_SCORE)
    matches: list[ReportMatch] = []
    order = np.argsort(-scores, kind="stable")
    for start in range(0, len(order), LOOK):
        part = order[start : start + LOOK]
        visible_ids = visible_communities(query, ids[part].tolist())
        for place in part.tolist():
            if scores[place] > 0 and int(ids[place]) in visible_ids:
                cosine = None if cosines is None else float(cosines[place])
                matches.append(ReportMatch(int(ids[place]), float(scores[place]), cosine, float(words[place])))
                if len(matches) == limit:
                    return matches
    return matches


def _scores(query: Query, level: int | None, communities: list[int] | None) -> tuple[Ids, Scores | None, Scores]:
    """Return (community ids, ordered by title; cosines or None; ranks of their words) of reports: of a level, of communities.

    No joins: by statistics that do not know the corpus yet it has one report, and a join would be a loop over all pairs.
    """
    db = query.db
    terms = db.value(
        "SELECT coalesce(pg_catalog.string_agg(pg_catalog.quote_literal(t.lexeme), ' | '), '')"
        " FROM pg_catalog.unnest($1) AS t (lexeme)",
        ["text[]"],
        [list(query.terms)],
    )
    literal = db.value("SELECT pg_catalog.quote_literal($1)", ["text"], [terms])
    condition = ""
    if level is not None:
        of_level = (
            f"SELECT c.id FROM graphrag.communities c WHERE c.corpus_id = {query.corpus.id} AND c.level = {int(level)}"
        )
        condition = f" AND r.community_id = ANY (ARRAY({of_level}))"
    if communities is not None:
        condition += f" AND r.community_id = ANY ({dense.ids_literal(np.array(communities, np.int64))})"
    row = db.literal_query(
        f"SELECT {packed('s.title, s.id', ids='s.id', words='s.words::float8')}"
        '  FROM (SELECT r.community_id AS id, r.title COLLATE "C" AS title,'
        f"               pg_catalog.ts_rank_cd(r.tsv, {literal}::tsquery, 1)::float8 AS words"
        "          FROM graphrag.community_reports r"
        f"         WHERE r.corpus_id = {query.corpus.id}{condition}) s"
    )[0]
    ids, words = int64s(row["ids"]), float64s(row["words"])
    return ids, _cosines(query, ids, are_all=not condition) if query.dense_works else None, words


def _cosines(query: Query, communities: Ids, *, are_all: bool) -> Scores:
    """Return the cosine of each report's vector and the query's, at least 0; 0 where a report has no vector."""
    condition = "" if are_all else f" AND v.community_id = ANY ({dense.ids_literal(communities)})"
    cosine = f"(1 - {dense.distance(query, query.vector_text)})::float8"
    row = query.db.literal_query(
        f"SELECT {packed('v.community_id', ids='v.community_id', cosines=cosine)}"
        f" FROM graphrag.report_vectors v WHERE v.space_id = {query.corpus.space}{condition}"
    )[0]
    with_vector, cosines = int64s(row["ids"]), float64s(row["cosines"])
    values = np.zeros(len(communities))
    has_vector = within(communities, with_vector)
    values[has_vector] = np.maximum(cosines[with_vector.searchsorted(communities[has_vector])], 0.0)
    return values


def visible_communities(query: Query, ids: list[int]) -> set[int]:
    """Return those communities that the caller may read of: none where documents are hidden from him, for a report tells of all
    together; with a filter those that some of the documents it leaves tell of."""
    if query.is_closed:
        return set()
    if query.visible is None:
        return set(ids)
    visible_ids: set[int] = set()
    # Mostly the first few members tell.
    for limit in (FEW_MEMBERS, None):
        undecided = [item for item in ids if item not in visible_ids]
        row = query.db.query(_MEMBERS, ["int8[]", "int4"], [undecided, limit])[0]
        members, communities = int64s(row["members"]), int64s(row["communities"])
        counts = graph_of(query).mention_counts(distinct(members).tolist())
        visible_ids |= {
            community
            for member, community in zip(members.tolist(), communities.tolist(), strict=True)
            if counts.get(member, 0) > 0
        }
    return visible_ids


def read_reports(db: Database, communities: Iterable[int]) -> list[CommunityReport]:
    """Return the reports on communities, in their order; those that have none are left out."""
    ids = list(communities)
    rows = db.query(
        "SELECT r.community_id, c.level, c.parent_id, r.title, r.summary, r.content, r.rating, r.findings"
        "  FROM graphrag.community_reports r JOIN graphrag.communities c ON c.id = r.community_id"
        " WHERE r.community_id = ANY ($1)",
        ["int8[]"],
        [ids],
    )
    reports = {
        row["community_id"]: CommunityReport(
            **(row | {"findings": [Finding(**finding) for finding in json.loads(row["findings"])]})
        )
        for row in rows
    }
    return [reports[number] for number in ids if number in reports]
