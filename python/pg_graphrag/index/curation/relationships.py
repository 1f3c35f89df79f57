"""create_relationship, edit_relationship and delete_relationship."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from pg_graphrag.ground import bounds
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.index.curation.curation_records import Curation, EntityRef, Item
from pg_graphrag.server import Database


def create(
    db: Database,
    corpus: str | None,
    source: str | None,
    target: str | None,
    keywords: Sequence[str | None] | None,
    description: str | None,
    weight: Decimal | None,
) -> int:
    """Relate two entities; this counts as one mention."""
    curation = Curation(db, corpus)
    ends = _ends(curation, source, target)
    if _exists(curation, ends):
        raise GraphRAGError(
            f'"{ends[0].name}" and "{ends[1].name}" are related already',
            sqlstate="23505",
            hint="Change the relationship with graphrag.edit_relationship().",
        )
    keys = ends[0].key, ends[1].key
    curation.refuse_deleted(keys[0], f'the relationship of "{ends[0].name}" and "{ends[1].name}"', other_key=keys[1])
    value = {
        "source": ends[0].name,
        "target": ends[1].name,
        "keywords": clean_keywords(keywords or ()),
        "description": bounds.description(description),
        "weight": checked_weight(Decimal(1) if weight is None else weight),
    }
    return curation.record(
        "create_relationship", value | {"source": keys[0], "target": keys[1]}, [Item("fragment", *keys, value=value)]
    )


def edit(
    db: Database,
    corpus: str | None,
    source: str | None,
    target: str | None,
    keywords: Sequence[str | None] | None,
    description: str | None,
    weight: Decimal | None,
) -> int:
    """Set keywords, a description or a weight, which win over the merged ones."""
    curation = Curation(db, corpus)
    ends = _related_ends(curation, source, target)
    value: dict[str, Any] = {}
    if keywords is not None:
        value["keywords"] = clean_keywords(keywords)
    if description is not None:
        value["description"] = bounds.description(description)
    if weight is not None:
        value["weight"] = checked_weight(weight)
    if not value:
        raise GraphRAGError(
            f'nothing is to be changed of the relationship of "{source}" and "{target}"',
            hint="Give keywords, description, weight, or several of them.",
        )
    keys = ends[0].key, ends[1].key
    arguments = {"source": keys[0], "target": keys[1]} | value
    return curation.record("edit_relationship", arguments, [Item("edit", *keys, value=value)])


def delete(db: Database, corpus: str | None, source: str | None, target: str | None) -> int:
    """Hide a relationship and its mentions."""
    curation = Curation(db, corpus)
    ends = _related_ends(curation, source, target)
    keys = ends[0].key, ends[1].key
    return curation.record(
        "delete_relationship", {"source": keys[0], "target": keys[1]}, [Item("delete", keys[0], keys[1])]
    )


def clean_keywords(keywords: Sequence[str | None]) -> list[str]:
    """Return keywords trimmed, each once, in the order of the C collation."""
    phrases = bounds.keywords(keywords, "keywords") or []
    return sorted({" ".join(keyword.split()) for keyword in phrases})


def checked_weight(weight: Decimal) -> str:
    """Return a weight as JSON holds it exactly.

    Raises GraphRAGError: 22023 unless it is a finite number, 0 or more.
    """
    if not weight.is_finite() or weight < 0:
        raise GraphRAGError(f"a weight cannot be {weight}", hint="Give a number, 0 or more.")
    return str(weight)


def _ends(curation: Curation, source: str | None, target: str | None) -> tuple[EntityRef, EntityRef]:
    ends = curation.entity(source), curation.entity(target)
    if ends[0].key == ends[1].key:
        raise GraphRAGError(
            f'entity "{ends[0].name}" cannot be related to itself', hint="Give two entities; aliases are one."
        )
    return ends


def _related_ends(curation: Curation, source: str | None, target: str | None) -> tuple[EntityRef, EntityRef]:
    ends = _ends(curation, source, target)
    if not _exists(curation, ends):
        subject = f'the relationship of "{ends[0].name}" and "{ends[1].name}"'
        curation.refuse_deleted(ends[0].key, subject, "42704", ends[1].key)
        raise GraphRAGError(
            f"{subject} does not exist",
            sqlstate="42704",
            hint="graphrag.neighbors() lists what an entity is related to; graphrag.create_relationship() adds one.",
        )
    return ends


def _exists(curation: Curation, ends: tuple[EntityRef, EntityRef]) -> bool:
    low, high = sorted(end.id for end in ends)
    return bool(
        curation.db.query(
            "SELECT FROM graphrag.relationships r WHERE r.low_id = $1 AND r.high_id = $2", ["int8", "int8"], [low, high]
        )
    )
