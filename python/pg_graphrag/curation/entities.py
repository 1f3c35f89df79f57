"""create_entity, edit_entity, rename_entity, merge_entities and delete_entity."""

from collections.abc import Sequence
from typing import Any

from pg_graphrag import bounds
from pg_graphrag.curation.records import Curation, Item, Named
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.server import Database

UNKNOWN = "UNKNOWN"


def create(db: Database, corpus: str | None, name: str | None, type_: str | None, description: str | None) -> int:
    """Add an entity; a fragment of its own keeps it, and its name and type win over those of mentions."""
    curation = Curation(db, corpus, [name or ""])
    trimmed, key = curation.key(name)
    found = curation.look_up(name)
    if found is not None:
        raise _taken(trimmed, found, "Change it with graphrag.edit_entity().")
    curation.refuse_deleted(key, f'entity "{trimmed}"')
    said = {
        "name": trimmed,
        "type": bounds.name(type_).strip() or UNKNOWN,
        "description": bounds.description(description),
    }
    wins = {"name": trimmed} | ({"type": said["type"]} if said["type"] != UNKNOWN else {})
    items = [Item("fragment", key, value=said), Item("edit", key, value=wins)]
    return curation.record("create_entity", said, items)


def edit(db: Database, corpus: str | None, entity: str | None, type_: str | None, description: str | None) -> int:
    """Let a type or description win over what is merged."""
    curation = Curation(db, corpus)
    found = curation.entity(entity)
    if type_ is not None and not type_.strip():
        raise GraphRAGError("a type cannot be empty", hint='Give a type such as person, or "UNKNOWN".')
    given = {
        "type": type_ and bounds.name(type_).strip(),
        "description": description and bounds.description(description),
    }
    value: dict[str, Any] = {name: said for name, said in given.items() if said is not None}
    if not value:
        raise GraphRAGError(
            f'nothing is to be changed of entity "{entity}"',
            hint="Give type, description, or both; or rename_entity().",
        )
    return curation.record("edit_entity", {"entity": found.key} | value, [Item("edit", found.key, value=value)])


def rename(db: Database, corpus: str | None, entity: str | None, new_name: str | None) -> int:
    """Let a new name lead to the entity, and be shown."""
    curation = Curation(db, corpus, [new_name or ""])
    found = curation.entity(entity)
    trimmed, key = curation.key(new_name)
    if curation.lead(key) != found.key:
        taken = curation.look_up(trimmed)
        if taken is not None or curation.lead(key) != key:
            named = taken or Named(0, curation.lead(key), curation.lead(key))
            raise _taken(trimmed, named, "graphrag.merge_entities() makes two entities one.")
        curation.refuse_deleted(key, f'entity "{trimmed}"')
    arguments = {"entity": found.key, "name": trimmed, "new_key": key}
    return curation.record("rename_entity", arguments, [Item("edit", key, value={"name": trimmed})])


def merge(db: Database, corpus: str | None, entities: Sequence[str | None] | None, target: str | None) -> int:
    """Make entities one with `target`, whose name stays what is shown."""
    curation = Curation(db, corpus)
    into = curation.entity(target)
    found = {one.key: one for one in (curation.entity(name) for name in entities or ())}
    if into.key in found:
        raise GraphRAGError(
            f'entity "{into.name}" cannot be merged with itself',
            detail=f"Merged into it already, and so names of its own: {_aliases(curation, into.key)}.",
            hint="Leave the target, and its aliases, out of the entities.",
        )
    if not found:
        raise GraphRAGError("no entities to merge", hint="Give the names of one or more entities.")
    arguments = {"entities": sorted(found), "target": into.key, "name": into.name}
    return curation.record("merge_entities", arguments, [Item("edit", into.key, value={"name": into.name})])


def delete(db: Database, corpus: str | None, entity: str | None) -> int:
    """Hide an entity, its mentions and its relationships."""
    curation = Curation(db, corpus)
    found = curation.entity(entity)
    return curation.record("delete_entity", {"entity": found.key}, [Item("delete", found.key)])


def _aliases(curation: Curation, key: str) -> str:
    rows = curation.db.query(
        "SELECT a.key FROM graphrag.aliases a WHERE a.corpus_id = $1 AND a.entity_key = $2 ORDER BY a.key LIMIT 20",
        ["int4", "text"],
        [curation.corpus_id, key],
    )
    return ", ".join(row["key"] for row in rows) or "none"


def _taken(name: str, found: Named, hint: str) -> GraphRAGError:
    return GraphRAGError(
        f'there is an entity "{name}" already', sqlstate="23505", detail=f'It is "{found.name}".', hint=hint
    )
