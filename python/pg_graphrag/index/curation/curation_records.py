"""Records of people's changes: a row of graphrag.curations each, applied at once; each can be undone at any time."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pg_graphrag.ground import bounds
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.json_reading import read_json
from pg_graphrag.index.curation import aliases
from pg_graphrag.index.curation.settle import Changes, ResolvedAliases, settle
from pg_graphrag.index.curation.storage import Storage
from pg_graphrag.server import Database, Row
from pg_graphrag.server.corpus.corpora import Corpus, corpus_by_id, find_corpus
from pg_graphrag.text.concept import key as key_of
from pg_graphrag.text.languages import REGCONFIG, detect
from pg_graphrag.text.letters import without_stray_invisible
from pg_graphrag.text.words.search_terms import lexical


@dataclass(frozen=True, slots=True)
class Item:
    """What a curation states of an entity (`key`) or relationship (`key`, `other_key`): a row of graphrag.curated."""

    effect: str
    key: str
    other_key: str | None = None
    value: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EntityRef:
    """The entity that a name given by a caller resolves to."""

    id: int
    key: str
    name: str


class Curation:
    """One change of one corpus, from validation to the record; locks the corpus.

    `names`: names of entities that may be created, and then need vectors.
    """

    def __init__(self, db: Database, corpus: str | None, names: Iterable[str] = ()) -> None:
        self.db = db
        self.storage = Storage(db, find_corpus(db, corpus))
        self.corpus_id = self.storage.corpus.id
        self.storage.embed(
            _keys_without_entity(db, self.corpus_id, {key_of(bounds.name(name)) for name in names if name} - {""})
        )
        self.storage.lock()

    def key(self, name: str | None) -> tuple[str, str]:
        """Return a name, trimmed, and its key.

        Raises GraphRAGError: 22023 where the name is empty or too long.
        """
        trimmed = " ".join(without_stray_invisible(bounds.name(name)).split())
        if not (key := key_of(trimmed)):
            raise GraphRAGError(
                f"an entity cannot be called {json.dumps(name, ensure_ascii=False)}",
                hint="Give a name that is not empty.",
            )
        return trimmed, key

    def resolve(self, key: str) -> str:
        """Return the key of the entity that a key resolves to."""
        rows = self.db.query(
            "SELECT a.entity_key FROM graphrag.aliases a WHERE a.corpus_id = $1 AND a.key = $2",
            ["int4", "text"],
            [self.corpus_id, key],
        )
        return str(rows[0]["entity_key"]) if rows else key

    def look_up(self, name: str | None) -> EntityRef | None:
        """Return the entity of a name or alias; None where there is none."""
        _, key = self.key(name)
        rows = self.db.query(
            "SELECT e.id, e.key, e.name FROM graphrag.entities e WHERE e.corpus_id = $1 AND e.key = $2",
            ["int4", "text"],
            [self.corpus_id, self.resolve(key)],
        )
        return EntityRef(rows[0]["id"], rows[0]["key"], rows[0]["name"]) if rows else None

    def entity(self, name: str | None) -> EntityRef:
        """Return the entity of a name or alias.

        Raises GraphRAGError: 42704 where there is none.
        """
        match = self.look_up(name)
        if match is None:
            self.refuse_deleted(self.key(name)[1], f'entity "{name}"', "42704")
            raise GraphRAGError(
                f'entity "{name}" does not exist in corpus "{self.storage.corpus.name}"',
                sqlstate="42704",
                hint="graphrag.search_entities() finds entities by what they are about.",
            )
        return match

    def refuse_deleted(self, key: str, subject: str, sqlstate: str = "55000", other_key: str | None = None) -> None:
        """Refuse an entity or relationship that a curation in force has deleted, naming the curation."""
        ends = sorted(self.resolve(end) for end in (key, other_key) if end is not None)
        rows = self.db.query(
            "SELECT c.curation_id FROM graphrag.curated c WHERE c.corpus_id = $1 AND c.entity_key = $2"
            " AND c.other_entity_key IS NOT DISTINCT FROM $3 AND c.effect = 'delete' AND c.own ORDER BY 1 LIMIT 1",
            ["int4", "text", "text"],
            [self.corpus_id, ends[0], ends[1] if other_key is not None else None],
        )
        if rows:
            number = rows[0]["curation_id"]
            raise GraphRAGError(
                f"{subject} was deleted by curation {number}",
                sqlstate=sqlstate,
                hint=f"SELECT graphrag.undo_curation({number}) brings it back.",
            )

    def record(self, kind: str, arguments: dict[str, Any], items: list[Item]) -> int:
        """Write the record, apply it to the graph, and return its number."""
        number: int = self.db.value(
            "INSERT INTO graphrag.curations (corpus_id, kind, arguments) VALUES ($1, $2, $3) RETURNING id",
            ["int4", "text", "jsonb"],
            [self.corpus_id, kind, json.dumps(arguments, ensure_ascii=False)],
        )
        _apply(self.db, self.storage, items, number)
        return number


def undo(db: Database, number: int | None) -> None:
    """Serve graphrag.undo_curation()."""
    row = _curation(db, number)
    corpus = corpus_by_id(db, row["corpus_id"])
    assert corpus is not None
    storage = Storage(db, corpus)
    storage.embed(_keys_without_entity(db, corpus.id, set(_keys(read_json(row["arguments"])))))
    storage.lock()
    row = _curation(db, number)
    if row["undone_at"] is not None:
        raise GraphRAGError(
            f"curation {number} was undone already",
            sqlstate="55000",
            detail=f"By {row['undone_by']}, at {row['undone_at']}.",
            hint="SELECT * FROM graphrag.curations WHERE undone_at IS NULL lists those in force.",
        )
    items = [
        Item(item["effect"], item["key"], item["other_key"])
        for item in db.query(
            "DELETE FROM graphrag.curated c WHERE c.curation_id = $1 RETURNING c.effect, c.key, c.other_key",
            ["int8"],
            [number],
        )
    ]
    db.query(
        "UPDATE graphrag.curations SET undone_by = session_user, undone_at = pg_catalog.now() WHERE id = $1",
        ["int8"],
        [number],
    )
    _apply(db, storage, items, None)


def _curation(db: Database, number: int | None) -> Row:
    rows = db.query(
        "SELECT c.corpus_id, c.arguments, c.undone_by, c.undone_at::text FROM graphrag.curations c WHERE c.id = $1",
        ["int8"],
        [number],
    )
    if not rows:
        raise GraphRAGError(
            f"curation {number} does not exist", sqlstate="42704", hint="SELECT * FROM graphrag.curations lists them."
        )
    return rows[0]


def _apply(db: Database, storage: Storage, items: list[Item], made_by: int | None) -> None:
    """Bring the graph in line with the curations in force after `items` were added (by `made_by`) or removed."""
    corpus_id = storage.corpus.id
    old_aliases = aliases.stored_aliases(db, corpus_id)
    new_aliases = aliases.resolve_aliases(db, corpus_id)
    changes = Changes(old_aliases, new_aliases, aliases.store_aliases(db, corpus_id, old_aliases, new_aliases))
    if made_by is not None:
        _insert(db, storage.corpus, made_by, items, new_aliases)
    for item in items:
        if item.other_key is not None:
            changes.changed_pairs.add((item.key, item.other_key))
        elif item.effect == "delete":
            changes.moved_keys.add(item.key)
        else:
            changes.changed_keys.add(item.key)
    settle(db, storage, changes)


def _insert(db: Database, corpus: Corpus, number: int, items: list[Item], alias_map: ResolvedAliases) -> None:
    rows = []
    for place, item in enumerate(items):
        source, is_own = alias_map.get(item.key, (item.key, True))
        target, forward = None, True
        if item.other_key is not None:
            target, is_other_own = alias_map.get(item.other_key, (item.other_key, True))
            is_own, forward = is_own and is_other_own, source <= target
        ends = (source, target) if forward else (target, source)
        value = json.dumps(item.value, ensure_ascii=False)
        row = (place, item.effect, item.key, item.other_key, *ends, forward, is_own, value)
        rows.append((*row, *_lexical(corpus, item)))
    db.query_rows(
        "INSERT INTO graphrag.curated (corpus_id, curation_id, ordinal, effect, key, other_key, entity_key,"
        " other_entity_key, forward, own, value, tsv) SELECT $1, $2, u.ordinal, u.effect, u.key, u.other_key, u.entity_key,"
        " u.other_entity_key, u.forward, u.own, u.value::jsonb, pg_catalog.to_tsvector(u.config::regconfig, u.lexical)"
        " FROM unnest($3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
        " AS u (ordinal, effect, key, other_key, entity_key, other_entity_key, forward, own, value, config, lexical)",
        ["int4", "int8", "int4[]", *["text[]"] * 5, *["bool[]"] * 2, *["text[]"] * 3],
        rows,
        corpus.id,
        number,
    )


def _lexical(corpus: Corpus, item: Item) -> tuple[str | None, str | None]:
    """Return configuration and text of an item's tsv, as for a mention; None where it has no text."""
    value = item.value
    text = "\n".join(
        [
            ", ".join(value.get("keywords", ())),
            *(value[name] for name in ("name", "source", "target", "description") if value.get(name)),
        ]
    ).strip()
    if not text:
        return None, None
    language = detect(text) if corpus.options.language == "auto" else corpus.options.language
    return "pg_catalog." + REGCONFIG[language], lexical(text, language)


def _keys(arguments: Any) -> Iterable[str]:
    """Yield the strings of a record that could be keys of entities."""
    if isinstance(arguments, str):
        yield key_of(arguments)
    elif isinstance(arguments, list):
        for part in arguments:
            yield from _keys(part)
    elif isinstance(arguments, dict):
        for name in ("entity", "entities", "target", "source", "relationships", "name", "new_key"):
            yield from _keys(arguments.get(name))


def _keys_without_entity(db: Database, corpus_id: int, keys: set[str]) -> list[str]:
    """Return those of `keys` that no entity has."""
    rows = db.query(
        "SELECT u.key FROM pg_catalog.unnest($2) AS u (key) WHERE u.key <> '' AND NOT EXISTS"
        ' (SELECT FROM graphrag.entities e WHERE e.corpus_id = $1 AND e.key = u.key COLLATE "C")',
        ["int4", "text[]"],
        [corpus_id, sorted(keys)],
    )
    return [row["key"] for row in rows]
