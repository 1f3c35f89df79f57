"""A model's answer read as an extraction: complete, or a fault of the item, whose readable parts can be salvaged."""

import json
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from pg_graphrag.extraction.records import Extraction
from pg_graphrag.extraction.rows import has_rows, read_rows, split_keywords
from pg_graphrag.graph.drafts import Claim
from pg_graphrag.lenient_json import MAX_READINGS, Reader, joined
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

# Wrappers around each other that are opened.
_MAX_WRAPPERS = 40
# Braces in prose that are tried as the beginning of JSON.
_MAX_STARTS = 200
# Entities, relationships and claims of one answer: no chunk has so many, and a worker needs half a minute for them.
MAX_ITEMS = 5000
# An answer that compresses this well repeats itself, counting upwards it may be, which `llm.repetition` lets pass.
_LOOP_BYTES, _LOOP_RATIO = 4000, 40


class UnusableReply(ItemFault):
    """A reply that is no complete extraction. `why`: one of a few phrases, which quote nothing; `is_endless`: it did not end."""

    def __init__(self, message: str, *, raw: str, why: str, is_endless: bool = False):
        super().__init__(message, raw=raw)
        self.why = why
        self.is_endless = is_endless


# What `why` may be.
CUT_OFF, REPEATS, NO_EXTRACTION = "the reply was cut off", "the reply repeats itself", "the reply is no extraction"
TEMPLATE, UNGROUNDED = "the reply repeats the prompt", "the reply names nothing of the text"
NOTHING = "the model found nothing"


def parse(text: str, cut_off: bool, may_be_nothing: bool = False) -> Extraction:
    """Return the extraction of an answer.

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
        When a part is missing, unreadable or of a wrong type.
    """
    extraction, wrong = _read_extraction(text)
    if len(extraction) > MAX_ITEMS:
        wrong = f"it has {len(extraction):,} entities, relationships and claims, more than {MAX_ITEMS:,}"
    elif cut_off:
        wrong = "it is cut off"
    elif wrong == _NO_LISTS and may_be_nothing and not re.search(r"[\[{<]", text):
        return extraction
    if wrong is not None:
        is_loop = wrong == _LOOPS
        why = REPEATS if is_loop else CUT_OFF if cut_off else NO_EXTRACTION
        message = f"the model's answer cannot be used: {wrong}"
        raise UnusableReply(message, raw=text, why=why, is_endless=cut_off or is_loop)
    return extraction


def salvage(text: str) -> Extraction | None:
    """Return the readable parts of an answer that `parse` refuses, marked as repaired; None when there are none."""
    extraction, _ = _read_extraction(text)
    extraction.repaired = True
    return extraction if 0 < len(extraction) <= MAX_ITEMS else None


_LOOPS = "it repeats itself without end"
_NO_LISTS = "it holds no list of entities or relationships"


def _read_extraction(text: str) -> tuple[Extraction, str | None]:
    """Return (the usable extraction, what is wrong; None when the answer is complete)."""
    body = without_reasoning(text)
    values, torn = _values(body)
    if not values and not torn and has_rows(body):
        return read_rows(body)
    extraction = Extraction()
    wrong = "its JSON is torn" if torn else None
    has_lists = False
    for value in values:
        for kind, items in _lists(value):
            has_lists = True
            if not isinstance(items, list):
                wrong = f'"{kind}" is not a list'
                continue
            for place, item in enumerate(items):
                if problem := _ADD[kind](extraction, item):
                    wrong = f"{kind}[{place}] {problem}"
    if not has_lists and wrong is None:
        wrong = _NO_LISTS
    return extraction, _loop(body) or wrong


def _loop(text: str) -> str | None:
    data = text.encode("utf-8", "replace")
    if len(data) < _LOOP_BYTES or len(zlib.compress(data, 1)) * _LOOP_RATIO > len(data):
        return None
    return _LOOPS


def _values(text: str) -> tuple[list[Any], bool]:
    """Return the JSON values of a text that hold known lists, and whether one of them, or JSON at the end, is torn."""
    try:
        value = json.loads(text.strip(), strict=False, object_pairs_hook=joined)
        return ([value], False) if isinstance(value, (dict, list)) else ([], False)
    except (ValueError, RecursionError):
        pass
    values: list[Any] = []
    torn = False
    position = 0
    characters_left = MAX_READINGS * len(text)
    for _ in range(_MAX_STARTS):
        match = re.compile(r"[\[{]").search(text, position)
        if match is None or characters_left <= 0:
            break
        reader = Reader(text, match.start())
        characters_left -= reader.end - match.start()
        is_extraction = any(True for _ in _lists(reader.value))
        if is_extraction:
            values.append(reader.value)
        torn |= reader.torn and (is_extraction or reader.at_end)
        position = match.start() + 1 if reader.torn and not is_extraction else reader.end
        if reader.torn and is_extraction:
            break
    return values, torn


def _lists(value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield (entities | relationships | claims, the list) of a value, a wrapper around it or a bare list of items."""
    if depth > _MAX_WRAPPERS:
        return
    if isinstance(value, dict):
        fields_by_name = {str(name).lower(): part for name, part in value.items()}
        if not _LISTS & fields_by_name.keys() and len(fields_by_name) == 1:
            (wrapped,) = fields_by_name.values()
            if isinstance(wrapped, dict):
                yield from _lists(wrapped, depth + 1)
            return
        for kind, names in (("entities", _ENTITIES), ("relationships", _RELATIONSHIPS), ("claims", _CLAIMS)):
            for name in names:
                if name in fields_by_name:
                    yield kind, fields_by_name[name]
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                fields = {str(name).lower() for name in item}
                if _LISTS & fields:
                    yield from _lists(item, depth + 1)
                elif {"subject", "status"} <= fields:
                    yield "claims", [item]
                elif fields & set(_SOURCE) and fields & set(_TARGET):
                    yield "relationships", [item]
                elif fields & set(_NAME):
                    yield "entities", [item]


class _WrongType(Exception):
    pass


def _text(item: dict[str, Any], names: tuple[str, ...]) -> str:
    """Return the first of the fields that is present, as text: a number counts as text, null as none."""
    for name in names:
        value = item.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return str(value)
        if value is not None:
            raise _WrongType(f"has a {name} that is not text: {str(value)[:40]!r}")
    return ""


def _lower_keys(item: Any) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise _WrongType(f"is not an object: {str(item)[:40]!r}")
    return {str(name).lower(): value for name, value in item.items()}


def _entity(extraction: Extraction, item: Any) -> None:
    if isinstance(item, str):
        extraction.add_entity(item)
        return
    fields = _lower_keys(item)
    if not any(name in fields for name in _NAME):
        raise _WrongType("has no name")
    attributes = _attributes(fields.get("attributes"))
    extraction.add_entity(
        _text(fields, _NAME), _text(fields, _TYPE), _text(fields, _DESCRIPTION), attributes=attributes
    )


def _attributes(value: Any) -> dict[str, str]:
    """Return {attribute: value as text} of an object, or of a list of {name, value}; a value that is no scalar is left out."""
    if isinstance(value, list):
        items = [item for item in value if isinstance(item, dict)]
        value = {item["name"]: item.get("value") for item in items if isinstance(item.get("name"), str)}
    if not isinstance(value, dict):
        return {}
    scalars = {name: scalar for name, scalar in value.items() if isinstance(scalar, (str, int, float))}
    return {name: str(scalar).lower() if isinstance(scalar, bool) else str(scalar) for name, scalar in scalars.items()}


def _relationship(extraction: Extraction, item: Any) -> None:
    if isinstance(item, list):
        if len(item) != 3 or not all(isinstance(part, str) for part in item):
            raise _WrongType(f"is not a triple of texts: {str(item)[:40]!r}")
        extraction.add_triple(*item)
        return
    fields = _lower_keys(item)
    if not any(name in fields for name in _SOURCE) or not any(name in fields for name in _TARGET):
        raise _WrongType("has no source or no target")
    source, target = _text(fields, _SOURCE), _text(fields, _TARGET)
    strength = next((fields[name] for name in _STRENGTH if fields.get(name) is not None), None)
    extraction.add_relationship(source, target, _keywords(fields), _text(fields, _DESCRIPTION), strength)


def _keywords(fields: dict[str, Any]) -> list[str]:
    value: Any = next((fields[name] for name in _KEYWORDS if fields.get(name) is not None), [])
    if isinstance(value, str):
        return split_keywords(value)
    if not isinstance(value, list) or not all(isinstance(word, (str, int, float)) for word in value):
        raise _WrongType(f"has keywords that are no list of texts: {str(value)[:40]!r}")
    return [str(word) for word in value]


def _claim(extraction: Extraction, item: Any) -> None:
    fields = _lower_keys(item)
    texts = [
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
    extraction.add_claim(Claim(*texts))


def _guarded(add: Callable[[Extraction, Any], None]) -> Callable[[Extraction, Any], str | None]:
    def guarded(extraction: Extraction, item: Any) -> str | None:
        try:
            add(extraction, item)
        except _WrongType as wrong:
            return str(wrong)
        return None

    return guarded


_ADD = {"entities": _guarded(_entity), "relationships": _guarded(_relationship), "claims": _guarded(_claim)}
