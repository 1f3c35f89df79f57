"""An extraction held against the corpus' schema: what fits, and what is kept apart."""

from dataclasses import replace
from typing import Any

from pg_graphrag.index.extraction.records import Extraction, Relationship
from pg_graphrag.server.corpus.extraction_schema import MAX_NAME, ExtractionSchema, as_value, folded

# Items of a chunk that are kept apart; of more the others are counted by the last one alone.
MAX_UNFIT = 200
_SHOWN = 300


def fit(extraction: Extraction, schema: ExtractionSchema) -> None:
    """Keep in `extraction` what fits; add what does not to `unfit`: {kind, item, reason}, in the order of keys.

    Of an open schema everything fits, but has no attributes. A relationship fits by the types of its ends and by one of its
    keywords, and gets its direction from the schema; that keyword then stands first.
    """
    if not schema.is_closed:
        for key, entity in extraction.entities.items():
            extraction.entities[key] = replace(entity, attributes={}) if entity.attributes else entity
        return
    unfit: list[dict[str, Any]] = []
    for key, entity in sorted(extraction.entities.items()):
        attributes = schema.entities.get(entity.type)
        if attributes is None:
            del extraction.entities[key]
            if entity.is_listed:
                item = {"name": entity.name, "type": entity.type}
                unfit.append({"kind": "entity", "item": item, "reason": "the schema has no such type"})
            continue
        values: dict[str, Any] = {}
        for name, raw in sorted(entity.attributes.items()):
            value = as_value(raw, attributes[name]) if name in attributes else None
            if value is not None:
                values[name] = value
                continue
            reason = f"it is no {attributes[name]}" if name in attributes else f"a {entity.type} has no such attribute"
            item = {"name": entity.name, "attribute": name[:MAX_NAME], "value": raw[:_SHOWN]}
            unfit.append({"kind": "attribute", "item": item, "reason": reason})
        extraction.entities[key] = replace(entity, attributes=values)
    # Each as it was stated: of a pair one relation may fit and another not.
    extraction.relationships.clear()
    for relationship in sorted(dict.fromkeys(extraction.statements), key=lambda stated: stated.pair):
        fitting, reason = _fitting(extraction, relationship, schema)
        if fitting is not None:
            extraction.state(fitting)
            continue
        pair_item: dict[str, Any] = {
            "source": relationship.source,
            "target": relationship.target,
            "keywords": list(relationship.keywords),
        }
        unfit.append({"kind": "relationship", "item": pair_item, "reason": reason})
    extraction.unfit += unfit


def keep_most(extraction: Extraction) -> None:
    """Keep of what does not fit the first items, and how many more there were."""
    if (more := len(extraction.unfit) - MAX_UNFIT) > 0:
        rest = {"kind": "rest", "item": {"count": more}, "reason": "more than are kept"}
        extraction.unfit[MAX_UNFIT:] = [rest]


def _fitting(
    extraction: Extraction, relationship: Relationship, schema: ExtractionSchema
) -> tuple[Relationship | None, str]:
    """Return (a relationship as the schema has it, ""), or (None, why it does not fit)."""
    ends = [extraction.entities.get(end) for end in (relationship.source, relationship.target)]
    source, target = ends
    if source is None or target is None:
        return None, "an end is no entity of the schema"
    relation = schema.relation(source.type, relationship.keywords, target.type)
    if relation is None:
        return None, f"the schema has no such relation of {source.type} and {target.type}"
    name, forward = relation
    if schema.relations is None:
        return relationship, ""
    others = [word for word in relationship.keywords if folded(word) != folded(name)]
    swapped = relationship if forward else replace(relationship, source=relationship.target, target=relationship.source)
    return replace(swapped, keywords=(name, *others)), ""
