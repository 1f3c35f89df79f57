"""What a report is made from: a community's central entities and strongest relationships, with their evidence."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from pg_graphrag.server import Database, Row


@dataclass(slots=True)
class Input:
    """One community as its report sees it; `entities` and `relationships` are rows, the most important first.

    `relationship_count`: of all among the members. `children`: rows {id, title, summary, content} of the reports one level
    down, the largest first.
    """

    community_id: int
    level: int
    size: int
    version: str
    entities: list[Row] = field(default_factory=list)
    relationships: list[Row] = field(default_factory=list)
    relationship_count: int = 0
    children: list[Row] = field(default_factory=list)


# The strongest first; ties by key, so that no order of ids shows. OFFSET 0: no plan pairs all members of a community first.
_RELATIONSHIPS = """
SELECT x.community_id, x.id, x.n, x.source_id, x.target_id, x.source, x.target, x.weight, x.description, m.chunk_id
  FROM (SELECT l.community_id, r.id, s.id AS source_id, t.id AS target_id, s.name AS source, t.name AS target,
               r.weight::float8 AS weight, r.description,
               pg_catalog.count(*) OVER (PARTITION BY l.community_id) AS n,
               pg_catalog.row_number() OVER (PARTITION BY l.community_id ORDER BY r.weight DESC, s.key, t.key) AS place
          FROM graphrag.community_members l
         CROSS JOIN LATERAL (SELECT y.* FROM graphrag.relationships y WHERE y.low_id = l.entity_id OFFSET 0) r
          JOIN graphrag.community_members h ON h.entity_id = r.high_id AND h.community_id = l.community_id
          LEFT JOIN LATERAL (SELECT n.entity_id FROM graphrag._row_names n WHERE n.name_id = r.source_id OFFSET 0) a ON true
          LEFT JOIN LATERAL (SELECT n.entity_id FROM graphrag._row_names n WHERE n.name_id = r.target_id OFFSET 0) b ON true
          JOIN graphrag.entities s ON s.id = coalesce(a.entity_id, r.source_id)
          JOIN graphrag.entities t ON t.id = coalesce(b.entity_id, r.target_id)
         WHERE l.community_id = ANY ($1) AND s.id <> t.id) x
  LEFT JOIN LATERAL (
       SELECT y.chunk_id FROM graphrag.relationship_mentions y
        WHERE y.relationship_id = x.id ORDER BY y.evidence_rank, y.weight DESC, y.chunk_id LIMIT 1) m ON true
 WHERE x.place <= $2
 ORDER BY x.community_id, x.place
"""
_ENTITIES = """
SELECT x.community_id, x.id, x.name, x.type, x.description, x.strength
  FROM (SELECT c.community_id, e.id, e.name, e.type, e.description, coalesce(w.strength, 0)::float8 AS strength,
               pg_catalog.row_number() OVER (PARTITION BY c.community_id
                   ORDER BY coalesce(w.strength, 0) DESC, e.mention_count DESC, e.key) AS place
          FROM graphrag.community_members c
          JOIN graphrag.entities e ON e.id = c.entity_id
          LEFT JOIN graphrag._row_names o ON o.name_id = c.entity_id
          LEFT JOIN (SELECT l.community_id, coalesce(a.entity_id, u.id) AS id, pg_catalog.sum(r.weight) AS strength
                       FROM graphrag.community_members l
                      CROSS JOIN LATERAL (SELECT y.low_id, y.high_id, y.weight FROM graphrag.relationships y
                                           WHERE y.low_id = l.entity_id OFFSET 0) r
                       JOIN graphrag.community_members h ON h.entity_id = r.high_id AND h.community_id = l.community_id
                      CROSS JOIN LATERAL (VALUES (r.low_id), (r.high_id)) AS u (id)
                       LEFT JOIN LATERAL (SELECT n.entity_id FROM graphrag._row_names n WHERE n.name_id = u.id OFFSET 0) a
                              ON true
                      WHERE l.community_id = ANY ($1)
                      GROUP BY l.community_id, 2) w ON w.community_id = c.community_id AND w.id = e.id
         WHERE c.community_id = ANY ($1) AND o.name_id IS NULL) x
 WHERE x.place <= $2
 ORDER BY x.community_id, x.place
"""
_CHILDREN = """
SELECT c.parent_id, c.id, r.title, r.summary, r.content, r.token_count, r.input_hash,
       ARRAY(SELECT m.entity_id FROM graphrag.community_members m WHERE m.community_id = c.id) AS members
  FROM graphrag.communities c
  JOIN graphrag.community_reports r ON r.community_id = c.id
 WHERE c.parent_id = ANY ($1)
 ORDER BY c.parent_id, c.size DESC, r.title COLLATE "C", c.id
"""


def read_inputs(db: Database, communities: Sequence[Row], limit: int, children: bool) -> list[Input]:
    """Return the inputs of communities, rows {id, level, size, version}, each with at most so many rows of a kind."""
    inputs = {row["id"]: Input(row["id"], row["level"], row["size"], row["version"]) for row in communities}
    ids = list(inputs)
    for row in db.query(_ENTITIES, ["int8[]", "int4"], [ids, limit]):
        inputs[row["community_id"]].entities.append(row)
    for row in db.query(_RELATIONSHIPS, ["int8[]", "int4"], [ids, limit]):
        source = inputs[row["community_id"]]
        source.relationship_count = row["n"]
        source.relationships.append(row)
    if children:
        reports_below: dict[int, list[Row]] = defaultdict(list)
        for row in db.query(_CHILDREN, ["int8[]"], [ids]):
            reports_below[row["parent_id"]].append(row)
        for number, rows in reports_below.items():
            inputs[number].children = rows
    return list(inputs.values())
