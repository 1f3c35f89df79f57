"""Brings the graph in line with mentions and curations after a change of curations, for the affected items alone.

The merge counts what a batch changes; this module recomputes the affected entities and relationships from all their
mentions.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from pg_graphrag.index.curation.recompute import recompute, recount_degrees
from pg_graphrag.index.curation.storage import Storage
from pg_graphrag.index.graph.merge import Effects, effects, recount_named_rows, renew_row_names, rows_of
from pg_graphrag.index.indexing.item_vectors import delete_vectors, insert_vectors
from pg_graphrag.index.indexing.outcomes import add_dead_letters
from pg_graphrag.server import Database, columns, slices
from pg_graphrag.server.corpus.corpora import revise
from pg_graphrag.server.queue import queue

ResolvedAliases = dict[str, tuple[str, bool]]


@dataclass
class Changes:
    """The changes of curations: `moved_keys`, whose mentions may now belong to another entity; `changed_keys` and
    `changed_pairs`, of which people now state something else; the resolved aliases before and after.
    """

    old_aliases: ResolvedAliases
    new_aliases: ResolvedAliases
    moved_keys: set[str] = field(default_factory=set)
    changed_keys: set[str] = field(default_factory=set)
    changed_pairs: set[tuple[str, str]] = field(default_factory=set)

    def ends(self, keys: Iterable[str]) -> set[str]:
        """Return the keys of the entities that `keys` resolve to, before and after."""
        return {aliases.get(key, (key,))[0] for key in keys for aliases in (self.old_aliases, self.new_aliases)}

    def names(self, entity_keys: Collection[str]) -> set[str]:
        """Return all keys that resolve to these entities, before or after."""
        names = set(entity_keys)
        for aliases in (self.old_aliases, self.new_aliases):
            names.update(key for key, (entity, _) in aliases.items() if entity in names or entity in entity_keys)
        return names


def settle(db: Database, storage: Storage, changes: Changes) -> None:
    """Move mentions, insert and remove entities and relationships, renew their values, the projection and the vectors.

    The corpus is locked, and the tables aliases and curated are up to date.
    """
    corpus_id = storage.corpus.id
    moved_keys = changes.ends(changes.moved_keys)
    names = changes.names(moved_keys)
    keys = (
        moved_keys
        | changes.ends(changes.changed_keys)
        | changes.ends(key for pair in changes.changed_pairs for key in pair)
    )
    curation_effects = effects(db, corpus_id, names | keys)
    ids = _ids(db, corpus_id, keys)
    owners = [ids[key] for key in moved_keys if key in ids]
    new_keys = sorted(_needed(db, corpus_id, curation_effects, owners, names, keys) - set(ids))
    ids |= _insert_entities(db, storage, new_keys)
    mentions = _move_mentions(db, corpus_id, owners, {name: curation_effects.entity(name) for name in names}, ids)
    add_dead_letters(
        db, corpus_id, "entity", {ids[key]: storage.without[key] for key in new_keys if key in storage.without}
    )
    renamed = renew_row_names(db, ids.values())
    relationships = _settle_relationships(db, corpus_id, changes, moved_keys, owners, names, ids)
    is_summary_due = recompute(db, storage, "relationship", sorted(relationships))
    ends = _remove_relationships(db, sorted(relationships))
    is_summary_due |= recompute(db, storage, "entity", sorted(ids.values()))
    _remove_entities(db, storage, sorted(ids.values()))
    entities = sorted({*ids.values(), *ends})
    recount_degrees(db, entities)
    recount_named_rows(db, renamed | rows_of(db, entities))
    if is_summary_due:
        queue(db, "summarize", corpus_id)
    _project(db, corpus_id, entities, sorted(relationships), mentions)
    revise(db, corpus_id)


def _ids(db: Database, corpus_id: int, keys: Iterable[str]) -> dict[str, int]:
    return {
        row["key"]: row["id"]
        for row in db.query_rows(
            'SELECT e.id, e.key FROM graphrag.entities e WHERE e.corpus_id = $1 AND e.key = ANY ($2 COLLATE "C")',
            ["int4", "text[]"],
            sorted(keys),
            corpus_id,
        )
    }


def _needed(
    db: Database, corpus_id: int, curation_effects: Effects, owners: list[int], names: set[str], keys: set[str]
) -> set[str]:
    """Return the keys of the entities of mentions of `names` and of fragments of `keys`."""
    rows = db.query(
        "SELECT DISTINCT m.raw_key AS key FROM graphrag.entity_mentions m WHERE m.entity_id = ANY ($1) UNION"
        " SELECT m.raw_key FROM graphrag.entity_mentions m"
        ' WHERE m.corpus_id = $2 AND m.entity_id IS NULL AND m.raw_key = ANY ($3 COLLATE "C")',
        ["int8[]", "int4", "text[]"],
        [owners, corpus_id, sorted(names)],
    )
    mention_keys = {curation_effects.entity(row["key"]) for row in rows}
    added = {
        row["key"]
        for row in db.query_rows(
            'SELECT k.key FROM (SELECT u.key COLLATE "C" AS key FROM pg_catalog.unnest($2) AS u (key)) k WHERE EXISTS'
            " (SELECT FROM graphrag.curated c WHERE c.corpus_id = $1 AND c.effect = 'fragment'"
            "     AND (c.entity_key = k.key OR c.other_entity_key = k.key))",
            ["int4", "text[]"],
            sorted(keys),
            corpus_id,
        )
    }
    return {key for key in mention_keys if key is not None} | {
        key for key in added if curation_effects.entity(key) == key
    }


def _insert_entities(db: Database, storage: Storage, keys: list[str]) -> dict[str, int]:
    """Insert entities with the vectors of their names; `recompute` describes them."""
    ids: dict[str, int] = {}
    for row in db.query_rows(
        "INSERT INTO graphrag.entities (corpus_id, key, name, type) SELECT $1, u.key, u.key, 'UNKNOWN'"
        " FROM pg_catalog.unnest($2) AS u (key) RETURNING id, key",
        ["int4", "text[]"],
        keys,
        storage.corpus.id,
    ):
        ids[row["key"]] = row["id"]
    vectors = storage.embed(keys)
    insert_vectors(db, storage.active, "entity", [(number, 0, 0, key) for key, number in ids.items()], vectors)
    return ids


def _move_mentions(
    db: Database, corpus_id: int, owners: list[int], entity_keys: dict[str, str | None], ids: dict[str, int]
) -> list[int]:
    """Give mentions to the entity that their key resolves to; return those that moved."""
    rows = [(name, None if key is None else ids.get(key)) for name, key in sorted(entity_keys.items())]
    return [
        row["id"]
        for part in slices(rows)
        for row in db.query(
            "UPDATE graphrag.entity_mentions m SET entity_id = u.id FROM unnest($1, $2) AS u (name, id)"
            ' WHERE m.raw_key = u.name COLLATE "C"'
            "   AND (m.entity_id = ANY ($3) OR m.entity_id IS NULL AND m.corpus_id = $4)"
            "   AND m.entity_id IS DISTINCT FROM u.id RETURNING m.id",
            ["text[]", "int8[]", "int8[]", "int4"],
            [*columns(part), owners, corpus_id],
        )
    ]


_STATED_PAIRS = """
SELECT DISTINCT m.source_key, m.target_key FROM graphrag.relationship_mentions m WHERE m.relationship_id = ANY ($1)
 UNION
SELECT m.source_key, m.target_key FROM graphrag.relationship_mentions m
 WHERE m.corpus_id = $2 AND m.relationship_id IS NULL AND m.source_key = ANY ($3 COLLATE "C")
 UNION
SELECT m.source_key, m.target_key FROM graphrag.relationship_mentions m
 WHERE m.corpus_id = $2 AND m.relationship_id IS NULL AND m.target_key = ANY ($3 COLLATE "C")
"""


def _settle_relationships(
    db: Database,
    corpus_id: int,
    changes: Changes,
    moved_keys: set[str],
    owners: list[int],
    names: set[str],
    ids: dict[str, int],
) -> set[int]:
    """Give the mentions of relationships to the pairs they belong to now; return all affected relationships."""
    ends = changes.ends(key for pair in changes.changed_pairs for key in pair)
    pairs = {
        tuple(sorted(aliases.get(key, (key,))[0] for key in pair))
        for pair in changes.changed_pairs
        for aliases in (changes.old_aliases, changes.new_aliases)
    }
    low_high = [tuple(sorted(ids[key] for key in pair)) for pair in pairs if all(key in ids for key in pair)]
    old_ids = {
        row["id"]
        for row in db.query(
            "SELECT r.id FROM graphrag.relationships r WHERE r.low_id = ANY ($1) UNION"
            " SELECT r.id FROM graphrag.relationships r WHERE r.high_id = ANY ($1) UNION"
            " SELECT r.id FROM unnest($2, $3) AS u (low, high)"
            " JOIN graphrag.relationships r ON r.low_id = u.low AND r.high_id = u.high",
            ["int8[]", "int8[]", "int8[]"],
            [owners, [pair[0] for pair in low_high], [pair[1] for pair in low_high]],
        )
    }
    affected_keys = sorted(names | changes.names(ends)) if ends else sorted(names)
    stated_pairs = [
        (row["source_key"], row["target_key"])
        for row in db.query(_STATED_PAIRS, ["int8[]", "int4", "text[]"], [sorted(old_ids), corpus_id, affected_keys])
    ]
    added = _added_pairs(db, corpus_id, moved_keys, pairs)
    curation_effects = effects(db, corpus_id, {key for pair in (*stated_pairs, *added) for key in pair})
    entity_pairs = {pair: curation_effects.pair(*pair) for pair in stated_pairs}
    needed_pairs = {
        pair for pair in (*entity_pairs.values(), *(curation_effects.pair(*pair) for pair in added)) if pair is not None
    }
    ids = ids | _ids(db, corpus_id, {key for pair in needed_pairs for key in pair} - set(ids))
    relationship_ids = _relationships(
        db,
        corpus_id,
        {pair: (min(ids[pair[0]], ids[pair[1]]), max(ids[pair[0]], ids[pair[1]])) for pair in needed_pairs},
    )
    rows = []
    for (source, target), pair in sorted(entity_pairs.items()):
        relationship = None if pair is None else relationship_ids[pair]
        # The source resolves to the end with the smaller id, or to the other end.
        low = None if pair is None else min(pair, key=ids.__getitem__)
        rows.append((source, target, relationship, pair is None or curation_effects.entity(source) == low))
    for part in slices(rows):
        db.query(
            "UPDATE graphrag.relationship_mentions m SET relationship_id = u.id, forward = u.forward"
            "  FROM unnest($1, $2, $3, $4) AS u (source, target, id, forward)"
            ' WHERE m.source_key = u.source COLLATE "C" AND m.target_key = u.target COLLATE "C"'
            "   AND (m.relationship_id = ANY ($5) OR m.relationship_id IS NULL AND m.corpus_id = $6)"
            "   AND (m.relationship_id, m.forward) IS DISTINCT FROM (u.id, u.forward)",
            ["text[]", "text[]", "int8[]", "bool[]", "int8[]", "int4"],
            [*columns(part), sorted(old_ids), corpus_id],
        )
    return old_ids | set(relationship_ids.values())


def _added_pairs(
    db: Database, corpus_id: int, moved_keys: set[str], pairs: Iterable[tuple[str, ...]]
) -> set[tuple[str, str]]:
    """Return those of the affected pairs of entity keys that people related."""
    rows = db.query(
        "SELECT c.entity_key, c.other_entity_key FROM graphrag.curated c WHERE c.corpus_id = $1 AND c.effect = 'fragment'"
        ' AND c.other_entity_key IS NOT NULL AND c.entity_key = ANY ($2 COLLATE "C") UNION'
        " SELECT c.entity_key, c.other_entity_key FROM graphrag.curated c WHERE c.corpus_id = $1 AND c.effect = 'fragment'"
        ' AND c.other_entity_key = ANY ($2 COLLATE "C")',
        ["int4", "text[]"],
        [corpus_id, sorted(moved_keys)],
    )
    for part in slices(sorted(pairs)):
        rows += db.query(
            "SELECT c.entity_key, c.other_entity_key FROM unnest($2, $3) AS u (a, b) JOIN graphrag.curated c"
            ' ON c.corpus_id = $1 AND c.entity_key = u.a COLLATE "C" AND c.other_entity_key = u.b COLLATE "C"'
            " WHERE c.effect = 'fragment'",
            ["int4", "text[]", "text[]"],
            [corpus_id, *columns(part)],
        )
    return {(row["entity_key"], row["other_entity_key"]) for row in rows}


def _relationships(
    db: Database, corpus_id: int, pairs: dict[tuple[str, str], tuple[int, int]]
) -> dict[tuple[str, str], int]:
    """Return the relationships of pairs of keys, {keys: (low id, high id)}; insert missing ones."""
    ids: dict[tuple[int, int], int] = {}
    for part in slices(sorted(pairs.values())):
        db.query(
            "INSERT INTO graphrag.relationships (corpus_id, low_id, high_id, source_id, target_id)"
            " SELECT $1, u.low, u.high, u.low, u.high FROM unnest($2, $3) AS u (low, high)"
            " ON CONFLICT (low_id, high_id) DO NOTHING",
            ["int4", "int8[]", "int8[]"],
            [corpus_id, *columns(part)],
        )
        for row in db.query(
            "SELECT r.id, r.low_id, r.high_id FROM unnest($1, $2) AS u (low, high)"
            " JOIN graphrag.relationships r ON r.low_id = u.low AND r.high_id = u.high",
            ["int8[]", "int8[]"],
            columns(part),
        ):
            ids[row["low_id"], row["high_id"]] = row["id"]
    return {keys: ids[pair] for keys, pair in pairs.items()}


def _remove_relationships(db: Database, ids: list[int]) -> set[int]:
    """Remove relationships that nothing states any more; return the ends of all `ids`."""
    rows = db.query("SELECT r.low_id, r.high_id FROM graphrag.relationships r WHERE r.id = ANY ($1)", ["int8[]"], [ids])
    db.query(
        "DELETE FROM graphrag.relationships r WHERE r.id = ANY ($1) AND r.mention_count = 0 AND NOT r.curated",
        ["int8[]"],
        [ids],
    )
    return {row[end] for row in rows for end in ("low_id", "high_id")}


def _remove_entities(db: Database, storage: Storage, ids: list[int]) -> None:
    """Remove entities that nothing mentions any more, with their vectors."""
    removed_ids = [
        row["id"]
        for row in db.query(
            "DELETE FROM graphrag.entities e WHERE e.id = ANY ($1) AND e.mention_count = 0 AND NOT e.curated RETURNING e.id",
            ["int8[]"],
            [ids],
        )
    ]
    for space in storage.spaces:
        if space.state != "retired":
            delete_vectors(db, space, [], removed_ids)


def _project(
    db: Database, corpus_id: int, entity_ids: list[int], relationship_ids: list[int], mention_ids: list[int]
) -> None:
    db.query_rows("SELECT graphrag._project($1, '{}', $2, '{}')", ["int4", "int8[]"], entity_ids, corpus_id)
    db.query_rows("SELECT graphrag._project($1, '{}', '{}', $2)", ["int4", "int8[]"], relationship_ids, corpus_id)
    db.query_rows("SELECT graphrag._project_mentions($1, $2)", ["int4", "int8[]"], mention_ids, corpus_id)
