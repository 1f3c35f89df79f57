"""Communities form a forest of levels over the corpus' entities, each with its report. Contents of reports are not
checked.
"""

from collections.abc import Iterator

from pg_graphrag.operate.admin.invariants.violations import violations
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus

_COMMUNITY = "pg_catalog.format('community %s', c.id)"
_STATEMENTS = {
    "a community is a part of one a level above": f"""
        SELECT {_COMMUNITY} AS object,
               pg_catalog.format('of level %s is a part of %s, of corpus %s and level %s', c.level, p.id, p.corpus_id, p.level)
                   AS detail
          FROM graphrag.communities c JOIN graphrag.communities p ON p.id = c.parent_id
         WHERE (c.corpus_id = $1 OR p.corpus_id = $1) AND (p.corpus_id, p.level) <> (c.corpus_id, c.level - 1)""",
    # A row counts once, with its names; entities that are gone since are counted until the next refresh.
    "a community has its members": f"""
        SELECT {_COMMUNITY} AS object,
               pg_catalog.format('counts %s members, there are %s', c.size, coalesce(m.count, 0)) AS detail
          FROM graphrag.communities c
          JOIN graphrag.community_states s ON s.corpus_id = c.corpus_id
          JOIN graphrag.corpus_revisions r ON r.corpus_id = c.corpus_id
          LEFT JOIN (SELECT m.community_id, pg_catalog.count(DISTINCT coalesce(n.entity_id, m.entity_id)) AS count
                       FROM graphrag.community_members m
                       LEFT JOIN graphrag._row_names n ON n.name_id = m.entity_id
                      WHERE m.corpus_id = $1 GROUP BY m.community_id) m ON m.community_id = c.id
         WHERE c.corpus_id = $1
           AND (c.size < coalesce(m.count, 0) OR c.size > coalesce(m.count, 0) AND s.revision > r.revision)""",
    # 0.2.0 did not count those that it found.
    "communities that were found are there": """
        SELECT pg_catalog.format('corpus %s', s.corpus_id) AS object,
               pg_catalog.format('has %s, %s were found', n.count, coalesce(s.community_count::text, 'some')) AS detail
          FROM graphrag.community_states s
          LEFT JOIN graphrag.corpus_revisions r ON r.corpus_id = s.corpus_id
         CROSS JOIN LATERAL (SELECT pg_catalog.count(*) FROM graphrag.communities c WHERE c.corpus_id = $1) n
         WHERE s.corpus_id = $1
           AND (s.community_count <> n.count
                OR s.community_count IS NULL AND n.count = 0 AND s.edge_count > 0 AND s.revision > r.revision)""",
    "a member is an entity of the corpus": """
        SELECT pg_catalog.format('member %s', m.id) AS object,
               pg_catalog.format('of corpus %s is entity %s of corpus %s in community %s of corpus %s', m.corpus_id, m.entity_id,
                                 e.corpus_id, m.community_id, c.corpus_id) AS detail
          FROM graphrag.community_members m
          JOIN graphrag.communities c ON c.id = m.community_id
          JOIN graphrag.entities e ON e.id = m.entity_id
         WHERE (m.corpus_id = $1 OR c.corpus_id = $1 OR e.corpus_id = $1)
           AND (m.corpus_id <> c.corpus_id OR e.corpus_id <> c.corpus_id)""",
    "an entity is in one community of a level at most": """
        SELECT pg_catalog.format('entity %s', m.entity_id) AS object,
               pg_catalog.format('is in communities %s of level %s', pg_catalog.string_agg(c.id::text, ', '), c.level) AS detail
          FROM graphrag.community_members m
          JOIN graphrag.communities c ON c.id = m.community_id
         WHERE c.corpus_id = $1
         GROUP BY m.entity_id, c.level
        HAVING pg_catalog.count(*) > 1""",
    "a report is of a community, and can be found": """
        SELECT pg_catalog.format('report on community %s', r.community_id) AS object,
               CASE WHEN r.corpus_id <> c.corpus_id THEN pg_catalog.format('names corpus %s', r.corpus_id)
                    WHEN r.tsv = '' THEN 'has no words to be found by' ELSE 'is empty, or counts no tokens' END AS detail
          FROM graphrag.community_reports r JOIN graphrag.communities c ON c.id = r.community_id
         WHERE (r.corpus_id = $1 OR c.corpus_id = $1)
           AND (r.corpus_id <> c.corpus_id OR r.content = '' OR r.token_count < 1
                OR r.tsv = '' AND r.content ~ '[[:alpha:]]{3}')""",
}


def check(db: Database, corpus: Corpus) -> Iterator[tuple[str, Iterator[tuple[str, str]]]]:
    """Yield each invariant with its violations."""
    for invariant, sql in _STATEMENTS.items():
        yield invariant, violations(db, sql, ["int4"], [corpus.id])
