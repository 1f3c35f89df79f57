"""Which entity a name leads to: merges and renames, folded in the order in which they were made."""

from dataclasses import dataclass, field

from pg_graphrag.json_reading import read_json
from pg_graphrag.server import Database, columns, slices


@dataclass(slots=True)
class _Class:
    """Names of one entity: the one it is found by, and for the others whether they are earlier names of it (or merged)."""

    key: str
    members: dict[str, bool] = field(default_factory=dict)


class Aliases:
    """Names that lead to other entities: `{key: (key of the entity, renamed)}` in `led`.

    Each merge or rename makes the sets of names one and says which name leads; there are no cycles, whatever was undone.
    """

    def __init__(self) -> None:
        self._of: dict[str, _Class] = {}

    @property
    def led(self) -> dict[str, tuple[str, bool]]:
        return {key: (found.key, found.members[key]) for key, found in self._of.items() if key != found.key}

    def _find(self, key: str) -> _Class:
        if key not in self._of:
            self._of[key] = _Class(key, {key: True})
        return self._of[key]

    def merge(self, keys: list[str], target: str) -> None:
        """Let `keys` and all their names lead to the entity of `target`."""
        into = self._find(target)
        for key in keys:
            gone = self._find(key)
            if gone is not into:
                self._move(gone, into)

    def rename(self, key: str, new_key: str) -> None:
        """Find the entity of `key` by `new_key` from now on."""
        entity, taken = self._find(key), self._find(new_key)
        if taken is not entity:
            self._move(taken, entity)
        entity.key = new_key
        entity.members[new_key] = True

    def _move(self, gone: _Class, into: _Class) -> None:
        for name in gone.members:
            into.members[name] = False
            self._of[name] = into


def fold(db: Database, corpus_id: int) -> dict[str, tuple[str, bool]]:
    """Return what the merges and renames in force come to: {key: (key of the entity, renamed)}."""
    found = Aliases()
    for row in db.query(
        "SELECT c.kind, c.arguments FROM graphrag.curations c WHERE c.corpus_id = $1 AND c.undone_at IS NULL"
        " AND c.kind IN ('merge_entities', 'rename_entity') ORDER BY c.id",
        ["int4"],
        [corpus_id],
    ):
        given = read_json(row["arguments"])
        if row["kind"] == "merge_entities":
            found.merge(given["entities"], given["target"])
        else:
            found.rename(given["entity"], given["new_key"])
    return found.led


def stored(db: Database, corpus_id: int) -> dict[str, tuple[str, bool]]:
    """Return the aliases as the table has them."""
    rows = db.query(
        "SELECT a.key, a.entity_key, a.renamed FROM graphrag.aliases a WHERE a.corpus_id = $1", ["int4"], [corpus_id]
    )
    return {row["key"]: (row["entity_key"], row["renamed"]) for row in rows}


def store(
    db: Database, corpus_id: int, before: dict[str, tuple[str, bool]], after: dict[str, tuple[str, bool]]
) -> set[str]:
    """Bring the table, and what was said of these names, from `before` to `after`; return the keys that changed."""
    changed = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
    for part in slices(changed):
        db.query(
            'DELETE FROM graphrag.aliases a WHERE a.corpus_id = $1 AND a.key = ANY ($2 COLLATE "C")',
            ["int4", "text[]"],
            [corpus_id, part],
        )
    for rows in slices([(key, *after[key]) for key in changed if key in after]):
        db.query(
            "INSERT INTO graphrag.aliases (corpus_id, key, entity_key, renamed) SELECT $1, u.* FROM unnest($2, $3, $4) u",
            ["int4", "text[]", "text[]", "bool[]"],
            [corpus_id, *columns(rows)],
        )
    for part in slices(changed):
        db.query(_LEAD, ["int4", "text[]"], [corpus_id, part])
    return set(changed)


_LEAD = """
UPDATE graphrag.curated c
   SET entity_key = CASE WHEN l.target < l.source THEN l.target ELSE l.source END,
       other_entity_key = CASE WHEN l.target < l.source THEN l.source ELSE l.target END,
       forward = l.target IS NULL OR l.source <= l.target,
       own = l.own
  FROM (SELECT x.curation_id, x.ordinal,
               coalesce(s.entity_key, x.key) AS source,
               coalesce(t.entity_key, x.other_key) AS target,
               coalesce(s.renamed, true) AND coalesce(t.renamed, true) AS own
          FROM graphrag.curated x
          LEFT JOIN graphrag.aliases s ON s.corpus_id = $1 AND s.key = x.key
          LEFT JOIN graphrag.aliases t ON t.corpus_id = $1 AND t.key = x.other_key
         WHERE x.corpus_id = $1
           AND (x.key = ANY ($2 COLLATE "C") OR x.other_key = ANY ($2 COLLATE "C"))) l
 WHERE c.curation_id = l.curation_id AND c.ordinal = l.ordinal
"""
