"""Filters: compiles a JSON object to an SQL condition over ``graphrag.documents d``, with parameters.

A condition is true or false of a document, never unknown, so `$not` matches exactly the documents that the inner
condition leaves out. Comparisons with metadata values are jsonpath in lax mode: if a value is an array, one matching
element is enough.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.json_reading import read_exact_json
from pg_graphrag.server.access.moments import A_DATE, DATES, has_form_of_date, is_date, zoned

MAX_DEPTH = 32
# Maximum depth of nested $row: PostgreSQL plans the inner part of each twice.
MAX_ROWS = 4
MAX_CHARACTERS = 1 << 23
# Values of one list. A relation holds more.
MAX_LIST = 10_000
# In short lists, and in objects that metadata must contain.
_VALUES = "values that are compared one by one"
# The planner copies them again and again: a million takes gigabytes.
_LONG = "values in lists of more than 64"
# Each is read for itself, in memory of its own.
_READS = "relations and $row"
_CONDITIONS = "conditions"
_MAX_COUNTS = {_CONDITIONS: 1000, _VALUES: 10_000, _LONG: 100_000, _READS: 16}
# Values of a list that an index looks up one by one; more are hashed, and each document is looked at.
_MAX_LOOKUPS = 64
_MAX_ID = 2**63 - 1

_ORDERINGS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_OF_FIELDS = ("$contains", "$eq", "$exists", *_ORDERINGS, "$in", "$ne", "$nin", "$not", "$prefix")
_OF_KEYS = ("$eq", "$in", "$ne", "$nin", "$prefix")
_OF_DOCUMENTS = ("$and", "$as_of", "$contains", "$ids", "$not", "$or", "$relation", "$row", "$source_key")
_NEGATIONS = {"$ne": "$eq", "$nin": "$in"}
# Other names that begin with "$" are those of fields, as they have been before there were operators.
_OPERATOR = re.compile(r"\$[A-Za-z_]+")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition over ``graphrag.documents d`` in SQL.

    `types`, `values`: of its parameters, from ``$2`` on; ``$1`` is the number of the corpus. `joins`: SQL after ``d`` that
    reads relations, with the rights of whoever runs it.
    """

    sql: str
    types: tuple[str, ...]
    values: tuple[Any, ...]
    joins: str = ""


_SOURCE_KEY = "{d}.source_key"
# For a version, whose own key ends with its moment (graphrag._version_key).
_DOCUMENT_KEY = "pg_catalog.left({d}.source_key, -28)"
EVERY = Condition("true", (), ())


def compile_filter(text: str, corpus: str, keys_of: Callable[[str], str], of_versions: bool = False) -> Condition:
    """Return the condition of a filter, in jsonb's text.

    `of_versions`: whether the corpus is a history that stands in for its corpus: then keys are those of the documents.
    `keys_of`: returns for the name of a relation SQL that reads its keys, as rows of one column ``key``.

    Raises GraphRAGError: 22023 if it is no filter, naming the value; 54001 and 54000 if it is nested too deep or too long.
    """
    if len(text) > MAX_CHARACTERS:
        raise _too_large(f"{len(text):,} characters, more than {MAX_CHARACTERS:,}: {text[:60]}…")
    filter_ = read_exact_json(text)
    if not isinstance(filter_, dict):
        raise _no_object(text)
    compilation = _Compilation(corpus, keys_of, _DOCUMENT_KEY if of_versions else _SOURCE_KEY)
    # jsonb shows keys unchanged. Without such a key a filter is containment.
    if '"$' not in text:
        compilation.count_values(filter_, "")
        return Condition("d.metadata @> $2", ("jsonb",), (text,))
    try:
        sql = compilation.documents(filter_, "", 1)
    except RecursionError:
        raise _too_deep("$contains") from None
    return Condition(sql, tuple(compilation.types), tuple(compilation.values), " ".join(compilation.joins))


class _Compilation:
    """The compilation of one filter: its parameters and joins. A `place` is the way to a part, for errors."""

    def __init__(self, corpus: str, keys_of: Callable[[str], str], source_key: str) -> None:
        self.types: list[str] = []
        self.values: list[Any] = []
        self.joins: list[str] = []
        self._corpus = corpus
        self._keys_of = keys_of
        self._key_of = source_key
        # Aliases of relations by their names, and by the SQL that reads them: one relation has many spellings.
        self._relations: dict[str, str] = {}
        self._aliases: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._rows_within = 0
        # The alias of the documents that conditions apply to.
        self._d = "d"

    @property
    def _key(self) -> str:
        """The key of the documents that conditions apply to."""
        return self._key_of.format(d=self._d)

    def documents(self, filter_: Any, place: str, depth: int) -> str:
        """Return the condition of an object whose names are operators on documents, or fields."""
        if not isinstance(filter_, dict):
            raise _bad(place, filter_, 'an object, for example {"lang": "en"}')
        operators = {name: value for name, value in filter_.items() if _is_operator(name)}
        parts = [self._of_documents(name, value, _at(place, name), depth) for name, value in operators.items()]
        fields = {name: value for name, value in filter_.items() if name not in operators}
        if fields or not operators:
            parts.append(self._fields(fields, (), place, depth))
        return _joined(parts, "AND")

    def _of_documents(self, name: str, value: Any, place: str, depth: int) -> str:
        _check_depth(place, depth)
        if name in ("$and", "$or"):
            if not isinstance(value, list) or not value:
                raise _bad(place, value, "a list of one condition or more")
            parts = [self.documents(part, f"{place}[{number}]", depth + 1) for number, part in enumerate(value)]
            return _joined(parts, name[1:].upper())
        if name == "$not":
            return _negated(self.documents(value, place, depth + 1))
        self._count(_CONDITIONS, place)
        if name == "$as_of":
            if not is_date(value):
                raise _bad(place, value, A_DATE)
            moment = self._parameter("timestamptz", zoned(value))
            return (
                f"(coalesce({self._d}.valid_from <= {moment}, true) AND coalesce({self._d}.valid_to > {moment}, true))"
            )
        if name == "$contains":
            if not isinstance(value, dict):
                raise _bad(place, value, "an object that the metadata contains")
            return self._contains(value, place)
        if name == "$ids":
            ids = [_id(item, place) for item in self._list(value, place)]
            return f"{self._d}.id = ANY ({self._parameter('int8[]', ids)})"
        if name == "$row":
            return self._rows(value, place, depth)
        if name == "$source_key":
            return self._source_key(value, place)
        if name == "$relation":
            if self._d != "d":
                raise GraphRAGError(
                    f"filter has a relation within $row, at {place[:200]}",
                    hint='Give it beside $row: {"$relation": "app.my_docs", "$row": {…}}.',
                )
            if not isinstance(value, str):
                raise _bad(place, value, 'the name of a table or view with its schema, such as "app.my_docs"')
            return f"{self._relation(value, place)}.key IS NOT NULL"
        raise _unknown(place, name, _OF_DOCUMENTS, _OF_FIELDS, 'after the name of a field: {"year": {"$gte": 2020}}')

    def _relation(self, name: str, place: str) -> str:
        """Return the alias of a relation. Each is joined once, however it is spelled."""
        if name not in self._relations:
            self._count(_READS, place)
            keys = self._keys_of(name)
            if keys not in self._aliases:
                alias = self._aliases[keys] = f"r{len(self.joins)}"
                own_corpus = f"d.corpus = {self._parameter('text', self._corpus)}"
                self.joins.append(f"LEFT JOIN ({keys}) {alias} ON {own_corpus} AND {self._key} = {alias}.key")
            self._relations[name] = self._aliases[keys]
        return self._relations[name]

    def _rows(self, value: Any, place: str, depth: int) -> str:
        """Return the condition of an object {field: filter}: the field has the key of a document that meets the filter."""
        if not isinstance(value, dict) or not value:
            raise _bad(place, value, 'an object of fields with a filter each, such as {"stands in": {"city": "Lyon"}}')
        parts = []
        outer = self._d
        if self._rows_within == MAX_ROWS:
            raise _too_large(f"more than {MAX_ROWS} $row within each other", place, "54001")
        self._rows_within += 1
        for name, filter_ in value.items():
            here = _at(place, name)
            if _is_operator(name):
                raise _bad(here, filter_, "fields with a filter each; operators stand in the filter")
            self._count(_READS, here)
            field = self._parameter("text", name)
            self._d = f"d{depth}"
            condition = self.documents(filter_, here, depth + 1)
            # A join may be a loop over all pairs, where statistics lie. EXISTS … IS TRUE is no join: its rows are hashed, or
            # looked up by their key, for which versions have no index.
            is_no_join = " IS TRUE" if self._key_of == _SOURCE_KEY else ""
            parts.append(
                f"EXISTS (SELECT FROM graphrag.documents {self._d}"
                f" WHERE {self._d}.corpus = {self._parameter('text', self._corpus)}"
                f" AND {self._key} = {outer}.metadata ->> {field} AND {condition}){is_no_join}"
            )
            self._d = outer
        self._rows_within -= 1
        return _joined(parts, "AND")

    def _source_key(self, value: Any, place: str) -> str:
        if isinstance(value, str):
            value = {"$eq": value}
        if not isinstance(value, dict) or not value:
            raise _bad(place, value, 'a key, or an object such as {"$in": ["a", "b"]}')
        parts = []
        for name, operand in value.items():
            here = _at(place, name)
            if name not in _OF_KEYS:
                raise _unknown(here, name, _OF_KEYS)
            is_list = name in ("$in", "$nin")
            keys = self._list(operand, here) if is_list else [operand]
            for key in keys:
                if not isinstance(key, str):
                    raise _bad(here, key, "a key, which is a text")
            if name == "$prefix":
                sql = f"pg_catalog.starts_with({self._key}, {self._parameter('text', keys[0])})"
            else:
                # With the corpus, so that the index of the keys serves it.
                own_corpus = f"{self._d}.corpus = {self._parameter('text', self._corpus)}"
                sql = f"({own_corpus} AND {self._key} = ANY ({self._parameter('text[]', keys)}))"
            parts.append(_negated(sql) if name in _NEGATIONS else sql)
        return _joined(parts, "AND")

    def _fields(self, fields: Mapping[str, Any], path: tuple[str, ...], place: str, depth: int) -> str:
        """Return the condition of an object of fields: containment, unless operators are within."""
        contained, parts = {}, []
        for name, value in fields.items():
            here = _at(place, name)
            if not _has_operators(value, here, depth):
                contained[name] = value
            elif any(map(_is_operator, value)):
                parts += [
                    self._of_field(operator, operand, (*path, name), _at(here, operator), depth + 1)
                    for operator, operand in value.items()
                ]
            else:
                parts.append(self._fields(value, (*path, name), here, depth + 1))
        if contained or not fields:
            self._count(_CONDITIONS, place)
            parts.append(self._contains(_nested(path, contained), place))
        return _joined(parts, "AND")

    def _of_field(self, name: str, value: Any, path: tuple[str, ...], place: str, depth: int) -> str:
        if name not in _OF_FIELDS:
            raise _unknown(place, name, _OF_FIELDS, _OF_DOCUMENTS, 'outside of fields: {"$or": [{"year": 2020}, …]}')
        if name == "$not":
            if not isinstance(value, dict) or not value:
                raise _bad(place, value, 'an object of operators, such as {"$gte": 2020}')
            _check_depth(place, depth)
            parts = [self._of_field(key, operand, path, _at(place, key), depth + 1) for key, operand in value.items()]
            return _negated(_joined(parts, "AND"))
        if name in _NEGATIONS:
            return _negated(self._of_field(_NEGATIONS[name], value, path, place, depth))
        self._count(_CONDITIONS, place)
        field = "$" + "".join(f".{json.dumps(key, ensure_ascii=False)}" for key in path)
        if name == "$contains":
            return self._contains(_nested(path, value), place)
        if name == "$exists":
            if not isinstance(value, bool):
                raise _bad(place, value, "true or false")
            sql = self._path_exists(field)
            return sql if value else _negated(sql)
        if name == "$prefix":
            if not isinstance(value, str):
                raise _bad(place, value, "a text")
            return self._path_exists(f"{field} ? (@ starts with {_json(value)})")
        if name in _ORDERINGS:
            return self._ordered(field, _ORDERINGS[name], value, place)
        values = self._list(value, place) if name == "$in" else [value]
        for item in values:
            if isinstance(item, (dict, list)):
                raise _bad(
                    place, item, 'a text, a number, true, false or null; of a list, containment: {"tags": ["a"]}'
                )
        if not values:
            return "false"
        if len(values) > _MAX_LOOKUPS:
            self._count(_LONG, place, len(values))
            items, path_ = (
                self._parameter("jsonb[]", list(map(_json, values))),
                self._parameter("jsonpath", f"{field}[*]"),
            )
            return (
                f"EXISTS (SELECT FROM pg_catalog.jsonb_path_query({self._d}.metadata, {path_}, '{{}}', true) v (item)"
                f" WHERE v.item = ANY ({items}))"
            )
        return self._path_exists(f"{field} ? ({' || '.join(f'@ == {_json(item)}' for item in values)})")

    def _ordered(self, field: str, operator: str, value: Any, place: str) -> str:
        if has_form_of_date(value):
            if not is_date(value):
                raise _bad(place, value, 'a date that exists, such as "2024-02-29"')
            path, date = self._parameter("jsonpath", f"{field}[*]"), self._parameter("timestamptz", zoned(value))
            return (
                f"EXISTS (SELECT FROM pg_catalog.jsonb_path_query({self._d}.metadata, {path}, '{{}}', true) v (item)"
                f" CROSS JOIN LATERAL ({DATES}) s WHERE CASE WHEN pg_catalog.pg_input_is_valid(s.value, 'timestamptz')"
                f" THEN s.value::timestamptz {operator} {date} ELSE false END)"
            )
        if isinstance(value, bool) or not isinstance(value, (str, int, Decimal)):
            raise _bad(place, value, "a number, a text or a date")
        return self._path_exists(f"{field} ? (@ {operator} {_json(value)})")

    def _path_exists(self, path: str) -> str:
        return f"{self._d}.metadata @? {self._parameter('jsonpath', path)}"

    def _contains(self, value: Mapping[str, Any], place: str) -> str:
        self.count_values(value, place)
        return f"{self._d}.metadata @> {self._parameter('jsonb', _json(value))}"

    def _parameter(self, type_: str, value: Any) -> str:
        self.types.append(type_)
        self.values.append(value)
        return f"${len(self.values) + 1}"

    def _list(self, value: Any, place: str) -> list[Any]:
        if not isinstance(value, list):
            raise _bad(place, value, "a list")
        if len(value) > MAX_LIST:
            raise _too_large(f"a list of {len(value):,} values, more than {MAX_LIST:,}", place)
        if len(value) <= _MAX_LOOKUPS:
            self._count(_VALUES, place, len(value))
        return value

    def count_values(self, value: Any, place: str) -> None:
        """Count what a value is made of, at any depth."""
        rest = [value]
        while rest:
            part = rest.pop()
            if isinstance(part, (dict, list)):
                self._count(_VALUES, place, len(part))
                rest += part.values() if isinstance(part, dict) else part

    def _count(self, what: str, place: str, count: int = 1) -> None:
        self._counts[what] += count
        if self._counts[what] > _MAX_COUNTS[what]:
            raise _too_large(f"more than {_MAX_COUNTS[what]:,} {what}", place)


def _is_operator(name: str) -> bool:
    """Return whether a name is an operator's, known or not."""
    return _OPERATOR.fullmatch(name) is not None


def _has_operators(value: Any, place: str, depth: int) -> bool:
    """Return whether an object holds an operator at any depth; refuse one within a list, which would never hold."""
    # $contains takes any value.
    if isinstance(value, dict):
        if any(map(_is_operator, value)):
            strange = next((name for name in value if not _is_operator(name)), None)
            if strange is not None:
                raise GraphRAGError(
                    f'filter has the field "{strange[:100]}" beside operators, at {place[:200]}',
                    hint='Give operators alone ({"year": {"$gte": 2020}}), or $contains for metadata with such names.',
                )
            return True
        _check_depth(place, depth)
        # Not any(): each is looked at.
        return bool([name for name, part in value.items() if _has_operators(part, _at(place, name), depth + 1)])
    if isinstance(value, list):
        for number, part in enumerate(value):
            here = f"{place}[{number}]"
            _check_depth(here, depth)
            if _has_operators(part, here, depth + 1):
                raise GraphRAGError(
                    f"filter has an operator within a list, at {here[:200]}",
                    hint='A list is contained as it is. Give {"tags": {"$in": ["a", "b"]}}, or $contains for such metadata.',
                )
    return False


def _check_depth(place: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise _too_deep(place)


def _too_deep(place: str) -> GraphRAGError:
    return GraphRAGError(
        f"filter is nested deeper than {MAX_DEPTH} objects, at {place[:200]}",
        sqlstate="54001",
        hint="Write it with fewer objects within each other: $and and $or take lists.",
    )


def _too_large(what: str, place: str = "", sqlstate: str = "54000") -> GraphRAGError:
    return GraphRAGError(
        f"filter has {what}" + (f", at {place[:200]}" if place else ""),
        sqlstate=sqlstate,
        hint="Use $in for many values; put the keys of many documents, or of several relations, into one table or view:"
        ' {"$relation": "app.my_docs"}.',
    )


def _id(value: Any, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_ID:
        raise _bad(place, value, "numbers of documents, as search() gives them in document_id")
    return value


def _nested(path: Sequence[str], value: Any) -> Any:
    for name in reversed(path):
        value = {name: value}
    return value


def _joined(parts: Sequence[str], operator: str) -> str:
    return parts[0] if len(parts) == 1 else f"({f' {operator} '.join(parts)})"


def _negated(sql: str) -> str:
    return f"({sql}) IS NOT TRUE"


def _at(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _json(value: Any) -> str:
    """Return a value as JSON, numbers with all their digits. For a text or number this is also jsonpath."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_json(name)}: {_json(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _no_object(text: str) -> GraphRAGError:
    return GraphRAGError(
        f"filter must be a JSON object, not {text[:100]}", hint='For example {"lang": "en"}: containment on metadata.'
    )


def _bad(place: str, value: Any, expected: str) -> GraphRAGError:
    return GraphRAGError(f"filter: {place[:200]} cannot be {_json(value)[:100]}", hint=f"Give {expected}.")


def _unknown(
    place: str, name: str, names: Sequence[str], elsewhere: Sequence[str] = (), where: str = ""
) -> GraphRAGError:
    if not _is_operator(name):
        return GraphRAGError(
            f"filter: {place[:200]} is no operator", hint=f"Operators here: {', '.join(sorted(names))}."
        )
    hint = f"{name} stands {where}." if name in elsewhere else f"Operators here: {', '.join(sorted(names))}."
    return GraphRAGError(f'filter: unknown operator "{name[:100]}" at {place[:200]}', hint=hint)
