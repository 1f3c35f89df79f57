"""A model's answer read as an extraction: complete, or a fault of the item, whose whole parts can still be had."""

import json
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from pg_graphrag.extraction.records import Extraction
from pg_graphrag.extraction.rows import has_rows, read_rows, split_keywords
from pg_graphrag.graph.drafts import Claim
from pg_graphrag.lenient_json import Reader, joined
from pg_graphrag.llm.faults import ItemFault
from pg_graphrag.model_access.replies import without_reasoning

# Keys of the lists, folded to lower case; the first is the one our prompts ask for.
_ENTITIES = ("entities", "named_entities", "nodes")
_RELATIONSHIPS = ("relationships", "relations", "triples", "edges")
_CLAIMS = ("claims", "covariates")
_LISTS = {*_ENTITIES, *_RELATIONSHIPS, *_CLAIMS}
# Keys of the items.
_NAME = ("name", "entity_name", "title", "entity")
_TYPE = ("type", "entity_type", "label")
_DESCRIPTION = ("description", "entity_description", "relationship_description")
_SOURCE = ("source", "src", "src_id", "source_entity", "subject")
_TARGET = ("target", "tgt", "tgt_id", "target_entity", "object")
_KEYWORDS = ("keywords", "relationship_keywords", "relation", "predicate", "relationship")
_STRENGTH = ("strength", "weight", "relationship_strength")

# Braces in prose that are tried as the beginning of JSON.
_MAX_STARTS = 200
# An answer that packs this well says the same thing over and over.
_LOOP_BYTES, _LOOP_RATIO = 4000, 40


def parse(text: str, cut_off: bool, may_be_nothing: bool = False) -> Extraction:
    """Return what an answer says.

    Parameters
    ----------
    text : str
        JSON (see `pg_graphrag.prompts` "extract"), alone or within prose or a code fence, or delimited rows.
    cut_off : bool
        Whether the endpoint says that the answer ends too early.
    may_be_nothing : bool
        Whether prose counts as "nothing": the answer to "what was missed?".

    Raises
    ------
    ItemFault
        When a part of it is missing, unreadable or of a wrong type.
    """
    found, wrong = _read(text)
    if cut_off:
        wrong = "it is cut off"
    elif wrong == _NO_LISTS and may_be_nothing and not re.search(r"[\[{<]", text):
        return found
    if wrong is not None:
        raise ItemFault(f"the model's answer cannot be used: {wrong}", raw=text)
    return found


def salvage(text: str) -> Extraction | None:
    """Return what is whole of an answer that `parse` refuses, marked as repaired; None when nothing is."""
    found, _ = _read(text)
    found.repaired = True
    return found if len(found) else None


_NO_LISTS = "it holds no list of entities or relationships"


def _read(text: str) -> tuple[Extraction, str | None]:
    """Return (what can be used, what is wrong; None when the answer is complete)."""
    body = without_reasoning(text)
    values, torn = _values(body)
    if not values and not torn and has_rows(body):
        return read_rows(body)
    found = Extraction()
    wrong = "its JSON is torn" if torn else None
    seen = False
    for value in values:
        for kind, items in _lists(value):
            seen = True
            if not isinstance(items, list):
                wrong = f'"{kind}" is not a list'
                continue
            for place, item in enumerate(items):
                if problem := _ADD[kind](found, item):
                    wrong = f"{kind}[{place}] {problem}"
    if not seen and wrong is None:
        wrong = _NO_LISTS
    return found, wrong or _loop(body)


def _loop(text: str) -> str | None:
    data = text.encode("utf-8", "replace")
    if len(data) < _LOOP_BYTES or len(zlib.compress(data, 1)) * _LOOP_RATIO > len(data):
        return None
    return "it repeats itself without end"


def _values(text: str) -> tuple[list[Any], bool]:
    """Return the JSON values of a text that hold lists we know, and whether one of them, or JSON at the end, is torn."""
    try:
        whole = json.loads(text.strip(), strict=False, object_pairs_hook=joined)
        return ([whole], False) if isinstance(whole, (dict, list)) else ([], False)
    except (ValueError, RecursionError):
        pass
    values: list[Any] = []
    torn = False
    at = 0
    for _ in range(_MAX_STARTS):
        match = re.compile(r"[\[{]").search(text, at)
        if match is None:
            break
        reader = Reader(text, match.start())
        known = any(True for _ in _lists(reader.value))
        if known:
            values.append(reader.value)
        torn |= reader.torn and (known or reader.at_end)
        at = match.start() + 1 if reader.torn and not known else reader.end
        if reader.torn and known:
            break
    return values, torn


def _lists(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (entities | relationships | claims, the list) of a value, a wrapper around it or a bare list of items."""
    if isinstance(value, dict):
        folded = {str(name).lower(): part for name, part in value.items()}
        if not _LISTS & folded.keys() and len(folded) == 1:
            yield from _lists(next(iter(folded.values()))) if isinstance(next(iter(folded.values())), dict) else ()
            return
        for kind, names in (("entities", _ENTITIES), ("relationships", _RELATIONSHIPS), ("claims", _CLAIMS)):
            for name in names:
                if name in folded:
                    yield kind, folded[name]
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                fields = {str(name).lower() for name in item}
                if _LISTS & fields:
                    yield from _lists(item)
                elif {"subject", "status"} <= fields:
                    yield "claims", [item]
                elif fields & set(_SOURCE) and fields & set(_TARGET):
                    yield "relationships", [item]
                elif fields & set(_NAME):
                    yield "entities", [item]


class _WrongType(Exception):
    pass


def _text(item: dict[str, Any], names: tuple[str, ...]) -> str:
    """Return the first of the fields that is there, as text: a number may stand for one, null for none."""
    for name in names:
        value = item.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return str(value)
        if value is not None:
            raise _WrongType(f"has a {name} that is not text: {str(value)[:40]!r}")
    return ""


def _folded(item: Any) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise _WrongType(f"is not an object: {str(item)[:40]!r}")
    return {str(name).lower(): value for name, value in item.items()}


def _entity(found: Extraction, item: Any) -> None:
    if isinstance(item, str):
        found.add_entity(item)
        return
    fields = _folded(item)
    if not any(name in fields for name in _NAME):
        raise _WrongType("has no name")
    found.add_entity(_text(fields, _NAME), _text(fields, _TYPE), _text(fields, _DESCRIPTION))


def _relationship(found: Extraction, item: Any) -> None:
    if isinstance(item, list):
        if len(item) != 3 or not all(isinstance(part, str) for part in item):
            raise _WrongType(f"is not a triple of texts: {str(item)[:40]!r}")
        found.add_triple(*item)
        return
    fields = _folded(item)
    if not any(name in fields for name in _SOURCE) or not any(name in fields for name in _TARGET):
        raise _WrongType("has no source or no target")
    source, target = _text(fields, _SOURCE), _text(fields, _TARGET)
    given = next((fields[name] for name in _STRENGTH if fields.get(name) is not None), None)
    found.add_relationship(source, target, _keywords(fields), _text(fields, _DESCRIPTION), given)


def _keywords(fields: dict[str, Any]) -> list[str]:
    value: Any = next((fields[name] for name in _KEYWORDS if fields.get(name) is not None), [])
    if isinstance(value, str):
        return split_keywords(value)
    if not isinstance(value, list) or not all(isinstance(word, (str, int, float)) for word in value):
        raise _WrongType(f"has keywords that are no list of texts: {str(value)[:40]!r}")
    return [str(word) for word in value]


def _claim(found: Extraction, item: Any) -> None:
    fields = _folded(item)
    one = [
        _text(fields, names)
        for names in (
            ("subject", "subject_id"),
            ("object", "object_id"),
            ("type", "claim_type"),
            ("status", "claim_status"),
            ("start", "start_date", "claim_start_date"),
            ("end", "end_date", "claim_end_date"),
            ("description", "claim_description"),
            ("source_text", "claim_source_text", "source"),
        )
    ]
    found.add_claim(Claim(*one))


def _guarded(add: Callable[[Extraction, Any], None]) -> Callable[[Extraction, Any], str | None]:
    def guarded(found: Extraction, item: Any) -> str | None:
        try:
            add(found, item)
        except _WrongType as wrong:
            return str(wrong)
        return None

    return guarded


_ADD = {"entities": _guarded(_entity), "relationships": _guarded(_relationship), "claims": _guarded(_claim)}
