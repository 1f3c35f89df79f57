"""insert_graph: merges a graph from elsewhere with what documents say (LightRAG's insert_custom_kg)."""

from decimal import Decimal, InvalidOperation
from typing import Any

from pg_graphrag.ground import bounds
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.json_checks import as_list, bad_field, check_object, check_text, shown
from pg_graphrag.ground.json_reading import read_exact_json
from pg_graphrag.index.curation.curation_records import Curation, Item
from pg_graphrag.index.curation.entities import UNKNOWN
from pg_graphrag.index.curation.relationships import checked_weight, clean_keywords
from pg_graphrag.server import Database
from pg_graphrag.text.concept import key as key_of

_EXAMPLE = (
    'For example {"entities": [{"name": "Ada Lovelace", "type": "person", "description": "…"}],'
    ' "relationships": [{"source": "Ada Lovelace", "target": "Charles Babbage", "keywords": ["notes"], "weight": 1}]}.'
)
_ENTITY = {"name", "type", "description", "source"}
_RELATIONSHIP = {"source", "target", "keywords", "description", "weight"}


def insert(db: Database, corpus: str | None, graph: str | None) -> int:
    """Serve graphrag.insert_graph(): each entry is a fragment, as a mention would be."""
    source_graph = read_exact_json(graph) if graph else {}
    if not isinstance(source_graph, dict):
        raise GraphRAGError(f"a graph cannot be {shown(source_graph)}", hint=_EXAMPLE)
    check_object(source_graph, "graph", ("entities", "relationships"))
    entities = [_entity(entry, place) for place, entry in enumerate(as_list(source_graph, "graph", "entities"))]
    entries = as_list(source_graph, "graph", "relationships")
    relationships = [_relationship(entry, place) for place, entry in enumerate(entries)]
    if not entities and not relationships:
        raise GraphRAGError("the graph is empty", hint=_EXAMPLE)
    items = [
        Item("fragment", key_of(item["name"]), value={name: item[name] for name in ("name", "type", "description")})
        for item in entities
    ]
    items += [Item("fragment", key_of(item["source"]), key_of(item["target"]), value=item) for item in relationships]
    names = [item["name"] for item in entities] + [item[end] for item in relationships for end in ("source", "target")]
    curation = Curation(db, corpus, names)
    return curation.record("insert_graph", {"entities": entities, "relationships": relationships}, items)


def _entity(entry: Any, place: int) -> dict[str, Any]:
    path = f"entities[{place}]"
    check_object(entry, path, _ENTITY)
    properties = {
        "name": _name(entry, "name", path),
        "type": _text(entry, "type", path) or UNKNOWN,
        "description": _text(entry, "description", path),
    }
    if source := _text(entry, "source", path):
        properties["source"] = source
    return properties


def _relationship(entry: Any, place: int) -> dict[str, Any]:
    path = f"relationships[{place}]"
    check_object(entry, path, _RELATIONSHIP)
    source, target = _name(entry, "source", path), _name(entry, "target", path)
    if key_of(source) == key_of(target):
        raise GraphRAGError(f'{path}: "{source}" cannot be related to itself', hint="Give two entities.")
    keywords = entry.get("keywords") or []
    if isinstance(keywords, str):
        keywords = keywords.split(",")
    if not isinstance(keywords, list) or not all(isinstance(keyword, str) for keyword in keywords):
        raise bad_field(path, "keywords", keywords, "an array of strings, or one string with commas")
    return {
        "source": source,
        "target": target,
        "keywords": clean_keywords(keywords),
        "description": _text(entry, "description", path),
        "weight": _weight(entry.get("weight"), path),
    }


def _weight(value: Any, path: str) -> str:
    if value is None:
        value = 1
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise bad_field(path, "weight", value, "a number, 0 or more")
    try:
        return checked_weight(Decimal(value))
    except (GraphRAGError, InvalidOperation):
        raise bad_field(path, "weight", value, "a number, 0 or more") from None


def _name(entry: dict[str, Any], field: str, path: str) -> str:
    name = _text(entry, field, path)
    if not key_of(name):
        raise bad_field(path, field, entry.get(field), "the name of an entity")
    return name


def _text(entry: dict[str, Any], field: str, path: str) -> str:
    check_text(entry, path, field)
    value = entry.get(field)
    return bounds.description(value) if field == "description" else " ".join(bounds.name(value).split())
