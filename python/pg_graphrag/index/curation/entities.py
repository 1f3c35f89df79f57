"""create_entity, edit_entity, rename_entity, merge_entities and delete_entity."""

from collections.abc import Sequence
from typing import Any

from pg_graphrag.ground import bounds
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.index.curation.curation_records import Curation, EntityRef, Item
from pg_graphrag.server import Database

UNKNOWN = "UNKNOWN"


def create(db: Database, corpus: str | None, name: str | None, type_: str | None, description: str | None) -> int:
    """Add an entity; its fragment keeps it without mentions, and its name and type win over those of mentions."""
    curation = Curation(db, corpus, [name or ""])
    trimmed, key = curation.key(name)
    existing = curation.look_up(name)
    if existing is not None:
        raise _name_in_use(trimmed, existing, "Change it with graphrag.edit_entity().")
    curation.refuse_deleted(key, f'entity "{trimmed}"')
    properties = {
        "name": trimmed,
        "type": bounds.name(type_).strip() or UNKNOWN,
        "description": bounds.description(description),
    }
    wins = {"name": trimmed} | ({"type": properties["type"]} if properties["type"] != UNKNOWN else {})
    items = [Item("fragment", key, value=properties), Item("edit", key, value=wins)]
    return curation.record("create_entity", properties, items)


def edit(db: Database, corpus: str | None, entity: str | None, type_: str | None, description: str | None) -> int:
    """Set a type or description, which wins over the merged one."""
    curation = Curation(db, corpus)
    target = curation.entity(entity)
    if type_ is not None and not type_.strip():
        raise GraphRAGError("a type cannot be empty", hint='Give a type such as person, or "UNKNOWN".')
    values = {
        "type": type_ and bounds.name(type_).strip(),
        "description": description and bounds.description(description),
    }
    value: dict[str, Any] = {name: new_value for name, new_value in values.items() if new_value is not None}
    if not value:
        raise GraphRAGError(
            f'nothing is to be changed of entity "{entity}"',
            hint="Give type, description, or both; or rename_entity().",
        )
    return curation.record("edit_entity", {"entity": target.key} | value, [Item("edit", target.key, value=value)])


def rename(db: Database, corpus: str | None, entity: str | None, new_name: str | None) -> int:
    """Let a new name resolve to the entity, and be its display name."""
    curation = Curation(db, corpus, [new_name or ""])
    target = curation.entity(entity)
    trimmed, key = curation.key(new_name)
    if curation.resolve(key) != target.key:
        existing = curation.look_up(trimmed)
        if existing is not None or curation.resolve(key) != key:
            existing_entity = existing or EntityRef(0, curation.resolve(key), curation.resolve(key))
            raise _name_in_use(trimmed, existing_entity, "graphrag.merge_entities() makes two entities one.")
        curation.refuse_deleted(key, f'entity "{trimmed}"')
    arguments = {"entity": target.key, "name": trimmed, "new_key": key}
    return curation.record("rename_entity", arguments, [Item("edit", key, value={"name": trimmed})])


def merge(db: Database, corpus: str | None, entities: Sequence[str | None] | None, target: str | None) -> int:
    """Merge entities with `target`, which keeps its display name."""
    curation = Curation(db, corpus)
    into = curation.entity(target)
    sources = {source.key: source for source in (curation.entity(name) for name in entities or ())}
    if into.key in sources:
        raise GraphRAGError(
            f'entity "{into.name}" cannot be merged with itself',
            detail=f"Merged into it already, and so names of its own: {_aliases(curation, into.key)}.",
            hint="Leave the target, and its aliases, out of the entities.",
        )
    if not sources:
        raise GraphRAGError("no entities to merge", hint="Give the names of one or more entities.")
    arguments = {"entities": sorted(sources), "target": into.key, "name": into.name}
    return curation.record("merge_entities", arguments, [Item("edit", into.key, value={"name": into.name})])


def delete(db: Database, corpus: str | None, entity: str | None) -> int:
    """Hide an entity, its mentions and its relationships."""
    curation = Curation(db, corpus)
    target = curation.entity(entity)
    return curation.record("delete_entity", {"entity": target.key}, [Item("delete", target.key)])


def _aliases(curation: Curation, key: str) -> str:
    rows = curation.db.query(
        "SELECT a.key FROM graphrag.aliases a WHERE a.corpus_id = $1 AND a.entity_key = $2 ORDER BY a.key LIMIT 20",
        ["int4", "text"],
        [curation.corpus_id, key],
    )
    return ", ".join(row["key"] for row in rows) or "none"


def _name_in_use(name: str, existing: EntityRef, hint: str) -> GraphRAGError:
    return GraphRAGError(
        f'there is an entity "{name}" already', sqlstate="23505", detail=f'It is "{existing.name}".', hint=hint
    )
