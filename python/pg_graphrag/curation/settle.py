"""Bring the graph to what mentions and curations make of it, where curations changed: at the cost of what they touch.

The merge counts what a batch changes; here the touched entities and relationships are made anew from all that is said of them.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from pg_graphrag.corpus.corpora import revise
from pg_graphrag.curation.recompute import recompute, recount_degrees
from pg_graphrag.curation.storage import Storage
from pg_graphrag.graph.effects import Effects, apply_edits, effects
from pg_graphrag.indexing.vectors import delete_vectors, insert_vectors
from pg_graphrag.jobs.queueing import queue
from pg_graphrag.server import Database, columns, slices

Led = dict[str, tuple[str, bool]]


@dataclass
class Touched:
    """What curations changed: keys whose mentions may belong elsewhere now (`moved`), keys and pairs of which something else
    is said (`said`, `pairs`); where aliases led before and lead now."""

    before: Led
    after: Led
    moved: set[str] = field(default_factory=set)
    said: set[str] = field(default_factory=set)
    pairs: set[tuple[str, str]] = field(default_factory=set)

    def ends(self, keys: Iterable[str]) -> set[str]:
        """Return the keys of the entities that `keys` lead to, before and now."""
        return {led.get(key, (key,))[0] for key in keys for led in (self.before, self.after)}

    def names(self, entity_keys: Collection[str]) -> set[str]:
        """Return all keys that led or lead to these entities."""
        found = set(entity_keys)
        for led in (self.before, self.after):
            found.update(key for key, (entity, _) in led.items() if entity in found or entity in entity_keys)
        return found


def settle(db: Database, storage: Storage, touched: Touched) -> None:
    """Move mentions, make and remove entities and relationships, renew their values, the projection and the vectors.

    The corpus is locked, and aliases and curated are as they shall be.
    """
    corpus_id = storage.corpus.id
    moved = touched.ends(touched.moved)
    names = touched.names(moved)
    keys = moved | touched.ends(touched.said) | touched.ends(key for pair in touched.pairs for key in pair)
    known = effects(db, corpus_id, names | keys)
    ids = _ids(db, corpus_id, keys)
    owners = [ids[key] for key in moved if key in ids]
    new = sorted(_needed(db, corpus_id, known, owners, names, keys) - set(ids))
    ids |= _insert_entities(db, storage, new)
    mentions = _move_mentions(db, corpus_id, owners, {name: known.entity(name) for name in names}, ids)
    relationships = _settle_relationships(db, corpus_id, touched, moved, owners, names, ids)
    due = recompute(db, storage, "relationship", sorted(relationships))
    ends = _remove_relationships(db, sorted(relationships))
    due |= recompute(db, storage, "entity", sorted(ids.values()))
    others = sorted(ends - set(ids.values()))
    recount_degrees(db, others)
    gone = _remove_entities(db, storage, sorted(ids.values()))
    if due:
        queue(db, "summarize", corpus_id)
    apply_edits(db, corpus_id, sorted(set(ids.values()) - gone), sorted(relationships))
    _project(db, corpus_id, sorted({*ids.values(), *others}), sorted(relationships), mentions)
    revise(db, corpus_id)


def _ids(db: Database, corpus_id: int, keys: Iterable[str]) -> dict[str, int]:
    return {
        row["key"]: row["id"]
        for part in slices(sorted(keys))
        for row in db.query(
            'SELECT e.id, e.key FROM graphrag.entities e WHERE e.corpus_id = $1 AND e.key = ANY ($2 COLLATE "C")',
            ["int4", "text[]"],
            [corpus_id, part],
        )
    }


def _needed(
    db: Database, corpus_id: int, known: Effects, owners: list[int], names: set[str], keys: set[str]
) -> set[str]:
    """Return the keys of the entities that mentions of `names`, and fragments of `keys`, belong to."""
    rows = db.query(
        "SELECT DISTINCT m.raw_key AS key FROM graphrag.entity_mentions m WHERE m.entity_id = ANY ($1) UNION"
        " SELECT m.raw_key FROM graphrag.entity_mentions m"
        ' WHERE m.corpus_id = $2 AND m.entity_id IS NULL AND m.raw_key = ANY ($3 COLLATE "C")',
        ["int8[]", "int4", "text[]"],
        [owners, corpus_id, sorted(names)],
    )
    mentioned = {known.entity(row["key"]) for row in rows}
    added = {
        row["key"]
        for part in slices(sorted(keys))
        for row in db.query(
            'SELECT k.key FROM (SELECT u.key COLLATE "C" AS key FROM pg_catalog.unnest($2) AS u (key)) k WHERE EXISTS'
            " (SELECT FROM graphrag.curated c WHERE c.corpus_id = $1 AND c.effect = 'fragment'"
            "     AND (c.entity_key = k.key OR c.other_entity_key = k.key))",
            ["int4", "text[]"],
            [corpus_id, part],
        )
    }
    return {key for key in mentioned if key is not None} | {key for key in added if known.entity(key) == key}


def _insert_entities(db: Database, storage: Storage, keys: list[str]) -> dict[str, int]:
    """Make entities, to be described by `recompute`; with the vectors of their names."""
    made: dict[str, int] = {}
    for part in slices(keys):
        for row in db.query(
            "INSERT INTO graphrag.entities (corpus_id, key, name, type) SELECT $1, u.key, u.key, 'UNKNOWN'"
            " FROM pg_catalog.unnest($2) AS u (key) RETURNING id, key",
            ["int4", "text[]"],
            [storage.corpus.id, part],
        ):
            made[row["key"]] = row["id"]
    vectors = storage.embed(keys)
    insert_vectors(db, storage.active, "entity", [(number, 0, 0, key) for key, number in made.items()], vectors)
    return made


def _move_mentions(
    db: Database, corpus_id: int, owners: list[int], led: dict[str, str | None], ids: dict[str, int]
) -> list[int]:
    """Give mentions to the entity that their key leads to; return those that moved."""
    rows = [(name, None if key is None else ids.get(key)) for name, key in sorted(led.items())]
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


_STATED = """
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
    touched: Touched,
    moved: set[str],
    owners: list[int],
    names: set[str],
    ids: dict[str, int],
) -> set[int]:
    """Give the mentions of relationships to the pairs they belong to now; return all relationships concerned."""
    ends = touched.ends(key for pair in touched.pairs for key in pair)
    pairs = {
        tuple(sorted(led.get(key, (key,))[0] for key in pair))
        for pair in touched.pairs
        for led in (touched.before, touched.after)
    }
    low_high = [tuple(sorted(ids[key] for key in pair)) for pair in pairs if all(key in ids for key in pair)]
    before = {
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
    hidden = sorted(names | touched.names(ends)) if ends else sorted(names)
    stated = [
        (row["source_key"], row["target_key"])
        for row in db.query(_STATED, ["int8[]", "int4", "text[]"], [sorted(before), corpus_id, hidden])
    ]
    added = _added_pairs(db, corpus_id, moved, pairs)
    known = effects(db, corpus_id, {key for pair in (*stated, *added) for key in pair})
    led = {pair: known.pair(*pair) for pair in stated}
    wanted = {pair for pair in (*led.values(), *(known.pair(*pair) for pair in added)) if pair is not None}
    ids = ids | _ids(db, corpus_id, {key for pair in wanted for key in pair} - set(ids))
    found = _relationships(
        db, corpus_id, {pair: (min(ids[pair[0]], ids[pair[1]]), max(ids[pair[0]], ids[pair[1]])) for pair in wanted}
    )
    rows = []
    for (source, target), pair in sorted(led.items()):
        relationship = None if pair is None else found[pair]
        # The source leads to the smaller id or to the other one.
        low = None if pair is None else min(pair, key=ids.__getitem__)
        rows.append((source, target, relationship, pair is None or known.entity(source) == low))
    for part in slices(rows):
        db.query(
            "UPDATE graphrag.relationship_mentions m SET relationship_id = u.id, forward = u.forward"
            "  FROM unnest($1, $2, $3, $4) AS u (source, target, id, forward)"
            ' WHERE m.source_key = u.source COLLATE "C" AND m.target_key = u.target COLLATE "C"'
            "   AND (m.relationship_id = ANY ($5) OR m.relationship_id IS NULL AND m.corpus_id = $6)"
            "   AND (m.relationship_id, m.forward) IS DISTINCT FROM (u.id, u.forward)",
            ["text[]", "text[]", "int8[]", "bool[]", "int8[]", "int4"],
            [*columns(part), sorted(before), corpus_id],
        )
    return before | set(found.values())


def _added_pairs(
    db: Database, corpus_id: int, moved: set[str], pairs: Iterable[tuple[str, ...]]
) -> set[tuple[str, str]]:
    """Return the pairs of entity keys that people related, of those concerned."""
    rows = db.query(
        "SELECT c.entity_key, c.other_entity_key FROM graphrag.curated c WHERE c.corpus_id = $1 AND c.effect = 'fragment'"
        ' AND c.other_entity_key IS NOT NULL AND c.entity_key = ANY ($2 COLLATE "C") UNION'
        " SELECT c.entity_key, c.other_entity_key FROM graphrag.curated c WHERE c.corpus_id = $1 AND c.effect = 'fragment'"
        ' AND c.other_entity_key = ANY ($2 COLLATE "C")',
        ["int4", "text[]"],
        [corpus_id, sorted(moved)],
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
    """Return the relationships of pairs of keys, {keys: (low id, high id)}; make those there are none of."""
    found: dict[tuple[int, int], int] = {}
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
            found[row["low_id"], row["high_id"]] = row["id"]
    return {keys: found[pair] for keys, pair in pairs.items()}


def _remove_relationships(db: Database, ids: list[int]) -> set[int]:
    """Remove those that nothing states any more; return the ends of all of them."""
    rows = db.query("SELECT r.low_id, r.high_id FROM graphrag.relationships r WHERE r.id = ANY ($1)", ["int8[]"], [ids])
    db.query(
        "DELETE FROM graphrag.relationships r WHERE r.id = ANY ($1) AND r.mention_count = 0 AND NOT r.curated",
        ["int8[]"],
        [ids],
    )
    return {row[end] for row in rows for end in ("low_id", "high_id")}


def _remove_entities(db: Database, storage: Storage, ids: list[int]) -> set[int]:
    """Remove those that nothing mentions any more, with their vectors; return them."""
    gone = [
        row["id"]
        for row in db.query(
            "DELETE FROM graphrag.entities e WHERE e.id = ANY ($1) AND e.mention_count = 0 AND NOT e.curated RETURNING e.id",
            ["int8[]"],
            [ids],
        )
    ]
    for space in storage.spaces:
        if space.state != "retired":
            delete_vectors(db, space, [], gone)
    return set(gone)


def _project(
    db: Database, corpus_id: int, entity_ids: list[int], relationship_ids: list[int], mention_ids: list[int]
) -> None:
    for part in slices(entity_ids):
        db.query("SELECT graphrag._project($1, '{}', $2, '{}')", ["int4", "int8[]"], [corpus_id, part])
    for part in slices(relationship_ids):
        db.query("SELECT graphrag._project($1, '{}', '{}', $2)", ["int4", "int8[]"], [corpus_id, part])
    for part in slices(mention_ids):
        db.query("SELECT graphrag._project_mentions($1, $2)", ["int4", "int8[]"], [corpus_id, part])
