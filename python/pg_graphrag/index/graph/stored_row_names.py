"""Names of rows, and the numbers of rows that have names, kept by the merge (sql/07_graph/025_row_names.sql).

Like all merged values they are counted, at the cost of the change; where a row gets or loses a name, they are made anew.
"""

from collections import Counter
from collections.abc import Collection, Iterable

from pg_graphrag.index.graph.change import Change
from pg_graphrag.server import Database, columns, slices

Pair = tuple[int, int]

_ROWS = """
SELECT r.name_id, r.entity_id FROM graphrag._row_names r WHERE r.name_id = ANY ($1)
 UNION
SELECT r.entity_id, r.entity_id FROM graphrag._row_names r WHERE r.entity_id = ANY ($1)
"""
_COUNT = """
UPDATE graphrag._named_rows n
   SET degree = n.degree + u.degree, mention_count = n.mention_count + u.mentions,
       row_mention_count = n.row_mention_count + u.row_mentions
  FROM unnest($1, $2, $3, $4) AS u (id, degree, mentions, row_mentions)
 WHERE n.entity_id = u.id
"""


def renew_row_names(db: Database, entity_ids: Collection[int]) -> set[int]:
    """Bring the names up to date after mentions of these entities came, went or moved; return the rows with other names."""
    return {
        row["id"]
        for part in slices(sorted(entity_ids))
        for row in db.query("SELECT graphrag._renew_row_names($1) AS id", ["int8[]"], [part])
    }


def count_named_rows(
    db: Database, change: Change, new_pairs: Iterable[Pair], removed_pairs: Iterable[Pair], renamed_ids: set[int]
) -> None:
    """Count a change in the numbers of rows with names; those of `renamed_ids` are made anew.

    `new_pairs`, `removed_pairs`: ends of relationships.
    """
    degrees = Counter(new_pairs)
    degrees.subtract(removed_pairs)
    rows = _rows_of(db, {*change.entities, *(end for pair in degrees for end in pair)})
    counts: dict[int, list[int]] = {row: [0, 0, 0] for row in set(rows.values()) - renamed_ids}
    for pair, count in degrees.items():
        low, high = (rows.get(end) for end in pair)
        # What is between names of one row is none.
        for row in (low, high) if low != high else ():
            if row in counts:
                counts[row][0] += count
    for sign, mentions in ((-1, change.removed_mentions), (1, change.new_mentions)):
        for chunk, entities in mentions.items():
            for row in {rows[entity] for entity in entities if entity in rows}:
                if row in counts:
                    counts[row][1] += sign
                    counts[row][2] += sign * (chunk in change.row_chunks)
    changed = [(row, *numbers) for row, numbers in sorted(counts.items()) if any(numbers)]
    for part in slices(changed):
        db.query(_COUNT, ["int8[]", "int4[]", "int4[]", "int4[]"], columns(part))
    recount_named_rows(db, renamed_ids)


def recount_named_rows(db: Database, entity_ids: Collection[int]) -> None:
    """Make the numbers of rows anew, whose own entities are given, with the names that they have now."""
    for part in slices(sorted(entity_ids)):
        db.query("SELECT graphrag._recount_named_rows($1)", ["int8[]"], [part])


def rows_of(db: Database, entity_ids: Collection[int]) -> set[int]:
    """Return the own entities of the rows with names that these entities are, or are names of."""
    return set(_rows_of(db, entity_ids).values())


def _rows_of(db: Database, entity_ids: Collection[int]) -> dict[int, int]:
    """Return {entity: the row's own} of those that are a row with names, or a name of one."""
    return {
        row["name_id"]: row["entity_id"]
        for part in slices(sorted(entity_ids))
        for row in db.query(_ROWS, ["int8[]"], [part])
    }
