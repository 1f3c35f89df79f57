"""Which entity a name leads to: applies merges and renames in the order in which they were made."""

from dataclasses import dataclass, field

from pg_graphrag.ground.json_reading import read_json
from pg_graphrag.server import Database


@dataclass(slots=True)
class _NameClass:
    """Names of one entity: the key it is found by, and of every name whether a rename gave it (else a merge)."""

    key: str
    members: dict[str, bool] = field(default_factory=dict)


class Aliases:
    """Names that resolve to other entities: `{key: (key of the entity, renamed)}` in `resolution`.

    Each merge or rename joins two sets of names and says which name they resolve to. Undoing any of them makes no cycle.
    """

    def __init__(self) -> None:
        self._classes: dict[str, _NameClass] = {}

    @property
    def resolution(self) -> dict[str, tuple[str, bool]]:
        """{key: (key of the entity that it leads to, whether it was renamed)}, without keys that lead to themselves."""
        return {key: (names.key, names.members[key]) for key, names in self._classes.items() if key != names.key}

    def _find(self, key: str) -> _NameClass:
        if key not in self._classes:
            self._classes[key] = _NameClass(key, {key: True})
        return self._classes[key]

    def merge(self, keys: list[str], target: str) -> None:
        """Let `keys` and all their names resolve to the entity of `target`."""
        into = self._find(target)
        for key in keys:
            other_class = self._find(key)
            if other_class is not into:
                self._move(other_class, into)

    def rename(self, key: str, new_key: str) -> None:
        """Find the entity of `key` by `new_key` from now on."""
        entity, previous = self._find(key), self._find(new_key)
        if previous is not entity:
            self._move(previous, entity)
        entity.key = new_key
        entity.members[new_key] = True

    def _move(self, source: _NameClass, into: _NameClass) -> None:
        for name in source.members:
            into.members[name] = False
            self._classes[name] = into


def resolve_aliases(db: Database, corpus_id: int) -> dict[str, tuple[str, bool]]:
    """Return the aliases that the merges and renames in force make: {key: (key of the entity, renamed)}."""
    aliases = Aliases()
    for row in db.query(
        "SELECT c.kind, c.arguments FROM graphrag.curations c WHERE c.corpus_id = $1 AND c.undone_at IS NULL"
        " AND c.kind IN ('merge_entities', 'rename_entity') ORDER BY c.id",
        ["int4"],
        [corpus_id],
    ):
        arguments = read_json(row["arguments"])
        if row["kind"] == "merge_entities":
            aliases.merge(arguments["entities"], arguments["target"])
        else:
            aliases.rename(arguments["entity"], arguments["new_key"])
    return aliases.resolution


def stored_aliases(db: Database, corpus_id: int) -> dict[str, tuple[str, bool]]:
    """Return the stored aliases."""
    rows = db.query(
        "SELECT a.key, a.entity_key, a.renamed FROM graphrag.aliases a WHERE a.corpus_id = $1", ["int4"], [corpus_id]
    )
    return {row["key"]: (row["entity_key"], row["renamed"]) for row in rows}


def store_aliases(
    db: Database, corpus_id: int, old: dict[str, tuple[str, bool]], new: dict[str, tuple[str, bool]]
) -> set[str]:
    """Bring the table, and the curations of these names, from `old` to `new`; return the keys that changed."""
    changed_keys = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
    db.query_rows(
        'DELETE FROM graphrag.aliases a WHERE a.corpus_id = $1 AND a.key = ANY ($2 COLLATE "C")',
        ["int4", "text[]"],
        changed_keys,
        corpus_id,
    )
    db.query_rows(
        "INSERT INTO graphrag.aliases (corpus_id, key, entity_key, renamed) SELECT $1, u.* FROM unnest($2, $3, $4) u",
        ["int4", "text[]", "text[]", "bool[]"],
        [(key, *new[key]) for key in changed_keys if key in new],
        corpus_id,
    )
    db.query_rows(_RESOLVE, ["int4", "text[]"], changed_keys, corpus_id)
    return set(changed_keys)


_RESOLVE = """
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
