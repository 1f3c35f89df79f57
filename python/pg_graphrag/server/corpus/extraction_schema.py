"""What a model is to extract: types of entities, or a schema with attributes and relations of types."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError

# Types of attributes: how a model is told, and what its values are in JSON.
VALUE_TYPES = ("text", "integer", "number", "boolean", "date")
MAX_TYPES = 100
MAX_RELATIONS = 500
MAX_ATTRIBUTES = 50
MAX_NAME = 64
# Characters of an attribute's text.
MAX_VALUE = 1000
_EXAMPLE = (
    '{"entities": {"machine": {"attributes": {"serial": "text"}}, "plant": {}},'
    ' "relations": [["machine", "located_in", "plant"]]}'
)
_INTEGER = re.compile(r"[-+]?\d{1,18}")
_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True, slots=True)
class ExtractionSchema:
    """Types of entities: `entities` has the attributes of each, {attribute: type of its values}.

    `relations`: (type of the source, relation, type of the target); None: any. `is_closed`: what does not fit is kept apart;
    else the types are what a model is asked for first.
    """

    entities: Mapping[str, Mapping[str, str]]
    relations: tuple[tuple[str, str, str], ...] | None = None
    is_closed: bool = False

    @property
    def types(self) -> tuple[str, ...]:
        """The types of entities."""
        return tuple(self.entities)

    def relation(self, source: str, words: tuple[str, ...], target: str) -> tuple[str, bool] | None:
        """Return (the relation of a relationship with these keywords, whether it goes from `source` to `target`).

        None: there is no such relation between these types. If relations are given, one that no keyword names does not
        count.
        """
        if self.relations is None:
            return (words[0] if words else "", True)
        spellings = {folded(word) for word in words}
        for start, end, forward in ((source, target, True), (target, source, False)):
            for one_source, name, one_target in self.relations:
                if (one_source, one_target) == (start, end) and folded(name) in spellings:
                    return name, forward
        return None


def of_types(*types: str) -> ExtractionSchema:
    """Return the open schema of a list of types."""
    return ExtractionSchema({name: {} for name in types})


def parse(value: Any) -> ExtractionSchema:
    """Check the option ``entity_types``: a list of types, or a schema.

    Raises GraphRAGError: 22023, naming the part and the value.
    """
    if isinstance(value, list):
        if not value or not all(isinstance(name, str) and name.strip() for name in value):
            raise _bad("entity_types", value, "a list of types, or a schema")
        return of_types(*value)
    if not isinstance(value, dict):
        raise _bad("entity_types", value, "a list of types, or a schema")
    _only(value, {"entities", "relations"}, "entity_types")
    entities = value.get("entities")
    if not isinstance(entities, dict) or not 0 < len(entities) <= MAX_TYPES:
        raise _bad("entity_types.entities", entities, f"an object of 1 to {MAX_TYPES} types")
    types: dict[str, dict[str, str]] = {}
    for name, details in entities.items():
        kind = _name("entity_types.entities", name)
        if kind in types:
            raise _bad("entity_types.entities", name, "types that differ in more than case")
        if not isinstance(details, dict):
            raise _bad(
                f"entity_types.entities.{name}", details, 'an object, for example {"attributes": {"serial": "text"}}'
            )
        _only(details, {"attributes"}, f"entity_types.entities.{name}")
        types[kind] = _attributes(f"entity_types.entities.{name}.attributes", details.get("attributes", {}))
    return ExtractionSchema(types, _relations(value.get("relations"), types), is_closed=True)


def _attributes(option: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > MAX_ATTRIBUTES:
        raise _bad(option, value, f"an object of at most {MAX_ATTRIBUTES} attributes with their types")
    attributes: dict[str, str] = {}
    for name, kind in value.items():
        if kind not in VALUE_TYPES:
            raise _bad(f"{option}.{name}", kind, f"one of {', '.join(VALUE_TYPES)}")
        attributes[_name(option, name)] = kind
    return attributes


def _relations(value: Any, types: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...] | None:
    if value is None:
        return None
    option = "entity_types.relations"
    if not isinstance(value, list) or len(value) > MAX_RELATIONS:
        raise _bad(option, value, f"a list of at most {MAX_RELATIONS} triples [type, relation, type]")
    relations = []
    for item in value:
        if not isinstance(item, list) or len(item) != 3:
            raise _bad(option, item, "a triple [type, relation, type]")
        source, name, target = (_name(option, part) for part in item)
        for kind in (source, target):
            if kind not in types:
                raise _bad(option, kind, f"a type of entity_types.entities: {', '.join(types)}")
        relations.append((source, name, target))
    return tuple(dict.fromkeys(relations))


def _name(option: str, value: Any) -> str:
    name = " ".join(value.split()).lower() if isinstance(value, str) else ""
    if not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise _bad(option, value, f"a name of 1 to {MAX_NAME} characters")
    return name


def folded(name: str) -> str:
    """Return a relation's name in the form for comparison: models write located in for located_in."""
    return re.sub(r"[\s_-]+", " ", name).strip().casefold()


def _only(value: Mapping[str, Any], fields: set[str], option: str) -> None:
    if unknown := sorted(set(value) - fields):
        raise GraphRAGError(
            f'unknown part of option "{option}": {unknown[0]!r:.60}', hint=f"Known: {', '.join(sorted(fields))}."
        )


def _bad(option: str, value: Any, expectation: str) -> GraphRAGError:
    return GraphRAGError(
        f'option "{option}" cannot be {str(value)[:60]!r}', hint=f"Give {expectation}. For example {_EXAMPLE}."
    )


def as_value(raw: str, kind: str) -> Any:
    """Return the value of an attribute for JSON; None if `raw` is no value of the type.

    An integer has at most 18 digits, a number is finite, a date is ISO 8601.
    """
    text = " ".join(raw.split())
    if not text or len(text) > MAX_VALUE:
        return None
    if kind == "text":
        return text
    if kind == "integer":
        return int(text) if _INTEGER.fullmatch(text) else None
    if kind == "boolean":
        return _BOOLEANS.get(text.casefold())
    if kind == "date":
        try:
            return date.fromisoformat(text).isoformat() if len(text) == 10 else None
        except ValueError:
            return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return float(number) if number.is_finite() and abs(number.adjusted()) < 300 else None
