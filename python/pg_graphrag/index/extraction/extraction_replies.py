"""Parses a model's reply as an extraction: complete, or an item fault whose readable parts can be salvaged.

A reply is JSON, or the delimited rows that LightRAG's and GraphRAG's prompts ask for.
"""

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

from pg_graphrag.ground.lenient_json import joined, mended, readings
from pg_graphrag.ground.reasoning import without_reasoning
from pg_graphrag.index.extraction.records import STATUSES, Extraction
from pg_graphrag.index.graph.drafts import Claim
from pg_graphrag.llm.endpoints.faults import ItemFault

# <|> of GraphRAG and of LightRAG before 1.4, <|#|> since, and what models make of the latter.
_DELIMITER = re.compile(r"<\|#\|>|<\|>|<#>|<\|#>|<#\|>")
_OPENING = re.compile(r"\(\s*[\"']?\w")
_COMPLETE = re.compile(r"<\|COMPLETE\|>", re.I)
_CELL_OF_STRENGTH = re.compile(r'^["\']?\d+(?:\.\d+)?(?:\s*/\s*10)?["\']?$')


def has_rows(text: str) -> bool:
    """Whether `text` looks like delimited rows."""
    return bool(_DELIMITER.search(text) or _COMPLETE.search(text))


def read_rows(text: str) -> tuple[Extraction, str | None]:
    """Return the extraction of the rows, and their fault, None if there is none.

    Entities: ``entity, name, type, description``. Relationships: ``relation, source, target`` and ``keywords, description``
    (LightRAG), ``description, keywords, strength`` (LightRAG before 1.4) or ``description, strength`` (GraphRAG). Claims,
    without a first word: ``subject, object, type, status, start, end, description, source``. Only the end marker shows that
    the answer is complete.
    """
    extraction = Extraction()
    marker = _COMPLETE.search(text)
    wrong = None if marker else "the rows have no end marker"
    body = text[: marker.start()] if marker else text
    rows = _rows(body)
    # Without it, the last row may be torn.
    for row in rows if marker else rows[:-1]:
        if not _DELIMITER.search(row):
            continue
        cells = [_cell(cell) for cell in _DELIMITER.split(row)]
        if not _add(extraction, cells):
            wrong = f"a row has {len(cells)} cells, or none that says what it is: {row[:80]!r}"
    return extraction, wrong


def _rows(text: str) -> list[str]:
    if _bracketed(text):
        rows = re.split(r"##|\)[^\S\n]*+\n\s*+(?=\()", text)
        return [row.strip().removeprefix("(").removesuffix(")") for row in rows]
    return text.splitlines()


def _bracketed(text: str) -> bool:
    """Whether a row begins with a bracket: "(", a word, and a delimiter on the line of the word."""
    delimiter = line_end = -1
    for opening in _OPENING.finditer(text):
        position = opening.end()
        # Search again only when the last match lies behind: the text is read once.
        if delimiter < position and (delimiter := text.find("<|", position)) < 0:
            return False
        if line_end < position and (line_end := text.find("\n", position)) < 0:
            line_end = len(text)
        if delimiter < line_end:
            return True
    return False


def _cell(cell: str) -> str:
    return cell.strip().strip("\"'").strip()


def _add(extraction: Extraction, cells: list[str]) -> bool:
    kind = cells[0].lower().lstrip("(-* ").strip("\"'")
    if kind == "entity" and len(cells) == 4:
        extraction.add_entity(*cells[1:])
    elif kind in ("relation", "relationship") and len(cells) == 5 and _CELL_OF_STRENGTH.match(cells[4]):
        extraction.add_relationship(cells[1], cells[2], (), cells[3], cells[4])
    elif kind in ("relation", "relationship") and len(cells) == 5:
        extraction.add_relationship(cells[1], cells[2], split_keywords(cells[3]), cells[4])
    elif kind in ("relation", "relationship") and len(cells) == 6:
        extraction.add_relationship(cells[1], cells[2], split_keywords(cells[4]), cells[3], cells[5])
    elif len(cells) == 8 and cells[3].upper() in STATUSES:
        subject, object_, type_, status, start, end, description, source = cells
        extraction.add_claim(Claim(subject, object_, type_, status, start, end, description, source))
    else:
        return kind == "content_keywords"
    return True


def split_keywords(text: str) -> list[str]:
    """Return the keywords of a list in one string."""
    return [word for word in re.split(r"[,;，；、\n]", text) if word.strip()]


# Keys of the lists and of the items, folded to letters and digits; the first is the one that our prompts ask for. List
# names may have further words: "extracted_entities", "relationship_list".
_LISTS = {
    "entities": ("entities", "entity", "nodes", "node", "vertices", "实体", "エンティティ"),
    "relationships": (
        "relationships", "relationship", "relations", "relation", "triples", "triplets", "edges", "edge", "links", "关系", "関係",
    ),
    "claims": ("claims", "claim", "covariates"),
}  # fmt: skip
_KINDS = {name: kind for kind, names in _LISTS.items() for name in names}
_LIST_WORDS = re.compile(r"^(?:extracted|identified|named|all|listof)+|lists?$|列表$")
_NAME = ("name", "entityname", "title", "entity", "nodename", "名称")
_ID = ("id", "entityid", "nodeid")
# Fields that may hold the name, if no better one is there.
_POSSIBLE_NAME = ("text", "mention", "term", "value", "label")
_TYPE = ("type", "entitytype", "category", "class", "kind", "nodetype", "labels", "label", "类型")
_CALL = {"arguments", "parameters", "function", "toolcalls", "toolinput", "input"}
_DESCRIPTION = (
    "description", "entitydescription", "relationshipdescription", "desc", "summary", "evidence", "描述",
)  # fmt: skip
_SOURCE = (
    "source", "src", "srcid", "sourceid", "sourceentity", "sourcename", "sourcenode", "subject", "head", "headentity", "from",
    "fromentity", "fromnode", "fromid", "entity1", "node1", "subj", "源实体", "主体",
)  # fmt: skip
_TARGET = (
    "target", "tgt", "tgtid", "targetid", "targetentity", "targetname", "targetnode", "object", "tail", "tailentity", "to",
    "toentity", "tonode", "toid", "entity2", "node2", "obj", "目标实体", "客体",
)  # fmt: skip
_KEYWORDS = (
    "keywords", "relationshipkeywords", "relation", "predicate", "relationship", "relationtype", "relationshiptype", "edgetype",
    "type", "label", "verb", "rel", "name",
)  # fmt: skip
_STRENGTH = ("strength", "weight", "relationshipstrength")
# The key of an entity that stands for it in relationships: 3, n1, node_12.
_NUMBERED = re.compile(r"[A-Za-z]{0,8}[\s_-]?\d{1,9}")

# A block between tags of any name, before JSON: reasoning.
_FIRST_BLOCK = re.compile(
    r"\s*(?:```\w*\s*)?(?:<([a-z][\w:-]{0,40})(?: [^<>\n]{0,100})?>.*?</\1>|\[([A-Z]{3,20})\].*?\[/\2\])"
    r"\s*(?:```\w*\s*){0,2}(?=[\[{])",
    re.DOTALL,
)
# Words between a draft and its replacement; and the share of the draft's entities that the replacement must have.
_AGAIN = re.compile(
    r"\b(?:wait|hm+|actually|let me (?:re|fix|correct|double)|i (?:forgot|missed|should (?:re|also|not))"
    r"|(?:corrected|revised|final|updated|complete) (?:version|json|output|answer|extraction|result))|等等|等一下|重新|待って",
    re.IGNORECASE,
)
_REPEATED = 0.6
# Wrappers around each other that are opened.
_MAX_WRAPPERS = 40
# Entities, relationships and claims of one answer: no chunk has more, and a worker needs half a minute for them.
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


def parse_extraction(text: str, cut_off: bool, may_be_nothing: bool = False) -> Extraction:
    """Return the extraction of an answer.

    `text`: JSON (see `pg_graphrag.text.prompts` "extract"), alone or within prose or a code fence, or delimited rows.
    `cut_off`: whether the endpoint says that the answer ended too early.
    `may_be_nothing`: whether prose counts as "nothing": the answer to "what was missed?".

    Raises ItemFault when a part is missing, unreadable or has a wrong type.
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
        why = REPEATS if is_loop else CUT_OFF if cut_off else NOTHING if wrong == _ALL_DROPPED else NO_EXTRACTION
        message = f"the model's answer cannot be used: {wrong}"
        raise UnusableReply(message, raw=text, why=why, is_endless=cut_off or is_loop)
    return extraction


def salvage(text: str) -> Extraction | None:
    """Return the readable parts of an answer that `parse_extraction` refuses, marked as repaired; None if there are none."""
    extraction, _ = _read_extraction(text)
    extraction.repaired = True
    return extraction if 0 < len(extraction) <= MAX_ITEMS else None


_LOOPS = "it repeats itself without end"
_ALL_DROPPED = "nothing of it can be used"
_NO_LISTS = "it holds no list of entities or relationships"


def _read_extraction(text: str) -> tuple[Extraction, str | None]:
    """Return (the usable extraction, its fault; None when the answer is complete)."""
    body = without_reasoning(text)
    values, torn = _values(body)
    if block := _FIRST_BLOCK.match(body):
        behind = _values(body[block.end() :])
        if behind[0] and _has_kinds_of(behind[0], _values(block[0])[0]):
            values, torn = behind
    if not values and not torn and has_rows(body):
        return read_rows(body)
    extraction = Extraction()
    wrong = "its JSON is torn" if torn else None
    lists = [(kind, items) for value in values for kind, items in _lists(value)]
    names_by_id = _names_by_id(items for kind, items in lists if kind == "entities")
    for kind, items in lists:
        if not isinstance(items, list):
            wrong = f'"{kind}" is not a list'
            continue
        for place, item in enumerate(items):
            try:
                _ADD[kind](extraction, item, names_by_id)
            except _WrongType as problem:
                wrong = f"{kind}[{place}] {problem}"
    if not lists and wrong is None:
        wrong = _NO_LISTS
    if wrong is None and not len(extraction) and any(items for _, items in lists):
        wrong = _ALL_DROPPED
    return extraction, _loop(body) or wrong


def _loop(text: str) -> str | None:
    data = text.encode("utf-8", "replace")
    if len(data) < _LOOP_BYTES or len(zlib.compress(data, 1)) * _LOOP_RATIO > len(data):
        return None
    return _LOOPS


def _values(text: str) -> tuple[list[Any], bool]:
    """Return the JSON values of a text that hold known lists, and whether one of them, or JSON at the end, is torn."""
    text = mended(text)
    try:
        value = json.loads(text.strip(), strict=False, object_pairs_hook=joined)
        return ([value], False) if isinstance(value, (dict, list)) else ([], False)
    except (ValueError, RecursionError):
        pass
    values: list[Any] = []
    torn, end = False, 0
    for reader in readings(text):
        is_extraction = any(True for _ in _lists(reader.value))
        torn |= reader.torn and (is_extraction or reader.at_end)
        if is_extraction:
            if values and _AGAIN.search(text, end, reader.start):
                draft, names = map(_names, (values, [reader.value]))
                if len(draft & names) >= _REPEATED * len(draft) > 0 and _has_kinds_of([reader.value], values):
                    values = []
            values.append(reader.value)
            end = reader.end
            if reader.torn:
                break
    return values, torn


def _has_kinds_of(values: list[Any], draft: list[Any]) -> bool:
    """Whether values have a list of each kind that a draft has items of, so that they may replace the draft."""
    kinds = {kind for value in values for kind, _ in _lists(value)}
    return kinds >= {kind for value in draft for kind, items in _lists(value) if items}


def _names(values: list[Any]) -> set[str]:
    """Return the folded names of the entities of values."""
    lists = (
        items for value in values for kind, items in _lists(value) if kind == "entities" and isinstance(items, list)
    )
    names: set[str] = set()
    for item in chain.from_iterable(lists):
        with suppress(_WrongType):
            names.add(_folded(item if isinstance(item, str) else _entity_name(_fields(item))))
    return names


def _folded(name: Any) -> str:
    return re.sub(r"[\W_]", "", str(name).casefold())


def _kind(name: Any) -> str | None:
    """Return the kind of items in a list, by its key."""
    return _KINDS.get(_folded(name)) or _KINDS.get(_LIST_WORDS.sub("", _folded(name)))


def _lists(value: Any, depth: int = 0, bare: bool = True) -> Iterator[tuple[str, Any]]:
    """Yield (entities | relationships | claims, the list) of a value and of wrappers around it.

    `bare`: whether items of lists with other names, or none, may be entities.
    """
    if depth > _MAX_WRAPPERS:
        return
    if isinstance(value, str):
        # The arguments of a tool's call.
        for inner in _values(value)[0] if value.lstrip()[:1] in ("{", "[") else ():
            yield from _lists(inner, depth + 1)
    elif isinstance(value, dict):
        kinds = {name: _kind(name) for name in value}
        bare &= not any(kind == "entities" and isinstance(value[name], (list, dict)) for name, kind in kinds.items())
        for name, kind in kinds.items():
            # {"relation": "knows"} is no list.
            if kind == "entities" and isinstance(value[name], dict) and value[name] and _are_lists(value[name]):
                yield kind, list(_of_types(value[name]))
            elif kind and (isinstance(value[name], list) or _folded(name).endswith("s")):
                yield kind, value[name]
            else:
                yield from _lists(value[name], depth + 1, bare)
    elif isinstance(value, list):
        for item in value:
            fields = {_folded(name) for name in item} if isinstance(item, dict) else set()
            if fields & _CALL or not isinstance(item, dict):
                yield from _lists(item, depth + 1, bare)
            elif {"subject", "status"} <= fields:
                yield "claims", [item]
            elif fields & {*_SOURCE} and fields & {*_TARGET}:
                yield "relationships", [item]
            elif bare and (fields & {*_NAME} or (fields & {*_ID} and fields & {*_TYPE})):
                yield "entities", [item]
            else:
                yield from _lists(item, depth + 1, bare)


def _are_lists(value: dict[str, Any]) -> bool:
    return all(isinstance(items, list) for items in value.values())


def _of_types(lists: dict[str, list[Any]]) -> Iterator[Any]:
    """Yield the entities of {type: [entity]}."""
    for type_, items in lists.items():
        for item in items:
            if isinstance(item, dict):
                yield item if {_folded(name) for name in item} & {*_TYPE} else {**item, "type": type_}
            else:
                yield {"name": item, "type": type_} if isinstance(item, str) else item


def _names_by_id(lists: Iterable[Any]) -> dict[str, str]:
    """Return {id: name} of entities that relationships refer to by id."""
    names: dict[str, str] = {}
    for items in lists:
        for item in items if isinstance(items, list) else ():
            fields = _fields(item) if isinstance(item, dict) else {}
            number = next((fields[name] for name in _ID if isinstance(fields.get(name), (str, int))), None)
            try:
                name = _entity_name(fields)
            except _WrongType:
                continue
            if number is not None and name and str(number) != name:
                names[str(number)] = name
    return names


class _WrongType(Exception):
    pass


def _text(item: dict[str, Any], names: Iterable[str]) -> str:
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


def _fields(item: Any) -> dict[str, Any]:
    """Return the fields of an item by their folded names; those of a property graph stand within."""
    if not isinstance(item, dict):
        raise _WrongType(f"is not an object: {str(item)[:40]!r}")
    fields = {_folded(name): value for name, value in item.items()}
    inner = fields.get("properties")
    return {_folded(name): value for name, value in inner.items()} | fields if isinstance(inner, dict) else fields


def _entity_name(fields: dict[str, Any]) -> str:
    """Return the name of an entity: its id, unless that is a number and another field says the name."""
    if any(name in fields for name in _NAME):
        return _text(fields, _NAME)
    number, others = _text(fields, _ID), [name for name in _POSSIBLE_NAME if name in fields]
    if not others:
        return number
    if not number or _NUMBERED.fullmatch(number):
        return _text(fields, others)
    # A label is a type if there is no other.
    is_name = others == ["label"] and fields.keys() & {*_TYPE} - {"label"}
    return _text(fields, others) if is_name else number


def _entity(extraction: Extraction, item: Any, names_by_id: Mapping[str, str]) -> None:
    if isinstance(item, str):
        extraction.add_entity(item)
        return
    fields = _fields(item)
    if not fields.keys() & {*_NAME, *_ID, *_POSSIBLE_NAME}:
        raise _WrongType("has no name")
    name, labels = _entity_name(fields), fields.get("labels")
    if isinstance(labels, list) and labels:
        fields["labels"] = labels[0]
    type_ = _text(fields, [field for field in _TYPE if field != "label" or _text(fields, [field]) != name])
    attributes = _attributes(fields.get("attributes"))
    extraction.add_entity(name, type_, _text(fields, _DESCRIPTION), attributes=attributes)
    for key, items in fields.items():
        for nested in items if _kind(key) == "relationships" and isinstance(items, list) else ():
            if isinstance(nested, dict) and (inner := _fields(nested)).keys() & {*_TARGET}:
                _relationship(extraction, inner if inner.keys() & {*_SOURCE} else inner | {"source": name}, names_by_id)


def _attributes(value: Any) -> dict[str, str]:
    """Return {attribute: value as text} of an object, or of a list of {name, value}; a value that is no scalar is left out."""
    if isinstance(value, list):
        items = [item for item in value if isinstance(item, dict)]
        value = {item["name"]: item.get("value") for item in items if isinstance(item.get("name"), str)}
    if not isinstance(value, dict):
        return {}
    scalars = {name: scalar for name, scalar in value.items() if isinstance(scalar, (str, int, float))}
    return {name: str(scalar).lower() if isinstance(scalar, bool) else str(scalar) for name, scalar in scalars.items()}


def _relationship(extraction: Extraction, item: Any, names_by_id: Mapping[str, str]) -> None:
    if isinstance(item, list):
        if len(item) != 3 or not all(isinstance(part, str) for part in item):
            raise _WrongType(f"is not a triple of texts: {str(item)[:40]!r}")
        extraction.add_triple(*item)
        return
    fields = _fields(item)
    if not any(name in fields for name in _SOURCE) or not any(name in fields for name in _TARGET):
        raise _WrongType("has no source or no target")
    for name in (*_SOURCE, *_TARGET):
        if isinstance(fields.get(name), dict):
            fields[name] = _entity_name(_fields(fields[name]))
    source, target = (names_by_id.get(end, end) for end in (_text(fields, _SOURCE), _text(fields, _TARGET)))
    strength = next((fields[name] for name in _STRENGTH if fields.get(name) is not None), None)
    # A line is a fact.
    description = " ".join(_text(fields, _DESCRIPTION).split())
    extraction.add_relationship(source, target, _keywords(fields), description, strength)


def _keywords(fields: dict[str, Any]) -> list[str]:
    value: Any = next((fields[name] for name in _KEYWORDS if fields.get(name)), [])
    if isinstance(value, str):
        return split_keywords(value)
    if not isinstance(value, list) or not all(isinstance(word, (str, int, float)) for word in value):
        raise _WrongType(f"has keywords that are no list of texts: {str(value)[:40]!r}")
    return [str(word) for word in value]


def _claim(extraction: Extraction, item: Any, names_by_id: Mapping[str, str]) -> None:
    fields = _fields(item)
    texts = [
        _text(fields, names)
        for names in (
            ("subject", "subjectid"),
            ("object", "objectid"),
            ("type", "claimtype"),
            ("status", "claimstatus"),
            ("start", "startdate", "claimstartdate"),
            ("end", "enddate", "claimenddate"),
            ("description", "claimdescription"),
            ("sourcetext", "claimsourcetext", "source"),
        )
    ]
    extraction.add_claim(Claim(*texts))


_ADD = {"entities": _entity, "relationships": _relationship, "claims": _claim}
