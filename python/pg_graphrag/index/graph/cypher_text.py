"""Reads a Cypher query before Apache AGE does: checks that it only reads, finds its columns, and turns agtype's text
into JSON.

The scanner follows AGE's own (1.5), so that both take the same words for keywords.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from pg_graphrag.ground.errors import GraphRAGError

REFERENCE = (
    "Cypher is what Apache AGE understands (https://age.apache.org/age-manual/master/); the graph has the vertices "
    "Entity, Chunk, Document and the edges RELATED (both directions), MENTIONED_IN, PART_OF. "
    "Any other label of a vertex is a type: (m:machine)."
)

# AGE lets a role with SELECT write, even in a READ ONLY transaction, so these never reach it.
_WRITING = frozenset({"CREATE", "MERGE", "SET", "REMOVE", "DELETE", "DETACH", "DROP", "CALL"})
_FIRST = frozenset({"MATCH", "OPTIONAL", "UNWIND", "WITH", "RETURN"})
_AFTER_RETURN = frozenset({"ORDER", "SKIP", "LIMIT", "UNION"})
_OPENING = {"(": ")", "[": "]", "{": "}"}
# Functions that load the whole graph, as variable-length patterns do; and that fetch a vertex past row-level security.
_LOADING = frozenset({"VLE", "VERTEX_STATS", "GRAPH_STATS"})
_FETCHING = frozenset({"STARTNODE", "ENDNODE"})

_TOKEN = re.compile(
    r"""(?P<space>[\t\n\v\f\r\ ]+|//[^\n\r]*|/\*.*?\*/)
      | (?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*"|'[^'\\]*+(?:\\.[^'\\]*+)*')
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<number>(?:[0-9]++\.?+[0-9]*+|\.[0-9]++)[Ee][+-]?[0-9]+|0[Xx][0-9A-Fa-f]+|[0-9]++\.(?!\.)[0-9]*|\.[0-9]+|[0-9]+)
      | (?P<parameter>\$[A-Z_a-z\x80-\U0010ffff][$0-9A-Z_a-z\x80-\U0010ffff]*)
      | (?P<word>[A-Z_a-z\x80-\U0010ffff][$0-9A-Z_a-z\x80-\U0010ffff]*)
      | (?P<unclosed>["'`]|/\*)
      | (?P<symbol>\.\.|.)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A lexeme: its kind, its text, and where it starts and ends in the query."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """The word in upper case, as keywords are compared; empty for anything else, quoted names among them."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def is_name(self) -> bool:
        """Whether it is a word or a quoted name."""
        return self.kind in ("word", "quoted")


@dataclass(frozen=True, slots=True)
class Label:
    """A label of a vertex in a pattern: its place, and where its map of properties begins, behind the bracket.

    `map_start` is None if there is no map; `map_has_keys`: whether the map has keys.
    """

    name: str
    start: int
    end: int
    map_start: int | None
    map_has_keys: bool


@dataclass(frozen=True, slots=True)
class Query:
    """A query that only reads.

    `text`: the query as given.
    `columns`: what RETURN gives: the alias, else the expression as written.
    `parameters`: names used as ``$name``.
    `labels`: of vertices, in the order of the text.
    `loads_graph`, `fetches_vertices`: whether it needs what fails on a standby and passes by row-level security.
    """

    text: str
    columns: list[str]
    parameters: frozenset[str]
    labels: tuple[Label, ...]
    loads_graph: bool
    fetches_vertices: bool


def parse_cypher(text: str) -> Query:
    """Scan `text` and refuse clauses that write.

    Raises GraphRAGError: 42601 for a text that cannot be read, 25006 for a query that would write, 0A000 for ``RETURN *``
      and functions of other schemas, 42701 for two columns of one name.
    """
    tokens = list(_scan(text))
    _refuse_writing(tokens)
    branches = [_columns(text, branch) for branch in _branches(tokens)]
    if len({len(columns) for columns in branches}) > 1:
        raise _syntax(
            "the parts of a UNION return different numbers of columns", "Let each RETURN have the same columns."
        )
    columns = branches[0]
    doubled = [name for name, count in Counter(columns).items() if count > 1]
    if doubled:
        raise GraphRAGError(
            f'RETURN gives two columns the name "{min(doubled)}"', sqlstate="42701", hint="Name one otherwise with AS."
        )
    functions = {
        name.word or name.text[1:-1].upper()
        for name, next_token in pairwise(tokens)
        if name.is_name and next_token.text == "("
    }
    return Query(
        text=text,
        columns=columns,
        parameters=frozenset(token.text[1:] for token in tokens if token.kind == "parameter"),
        labels=tuple(_labels(tokens)),
        loads_graph=_has_variable_length(tokens) or bool(functions & _LOADING),
        fetches_vertices=bool(functions & _FETCHING),
    )


def with_types(query: Query, types: Mapping[str, str]) -> str:
    """Return the query's text with each label in `types`, {label: type}, replaced by the graph's own terms.

    These are the label Entity and the property type: a vertex of AGE has one label, which is a part of its number.
    """
    parts, end = [], 0
    for label in query.labels:
        if label.name not in types:
            continue
        property_ = f"type: {json.dumps(types[label.name], ensure_ascii=False)}"
        parts += [query.text[end : label.start], "Entity"]
        if label.map_start is None:
            parts.append(f" {{{property_}}}")
            end = label.end
        else:
            parts += [query.text[label.end : label.map_start], property_, ", " if label.map_has_keys else ""]
            end = label.map_start
    return "".join([*parts, query.text[end:]])


def _labels(tokens: list[Token]) -> Iterator[Label]:
    """Yield the label of each pattern ``(name:label {…})``; only patterns have a colon and a name there."""
    end = Token("symbol", "", 0, 0)
    padded = [*tokens, end, end, end, end]
    for i, token in enumerate(tokens):
        if token.kind != "symbol" or token.text != "(":
            continue
        colon = i + 2 if padded[i + 1].is_name else i + 1
        label, after, first = padded[colon + 1 : colon + 4]
        if padded[colon].text != ":" or padded[colon].kind != "symbol" or not label.is_name:
            continue
        has_map = after.text == "{" and after.kind == "symbol"
        yield Label(
            name=_unquoted(label),
            start=label.start,
            end=label.end,
            map_start=after.end if has_map else None,
            map_has_keys=has_map and first.text != "}",
        )


def _scan(text: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup)
        if kind == "unclosed":
            raise _syntax(
                f"a {_NAMES[match.group()]} in the query is not closed", f"It begins at character {match.start() + 1}."
            )
        if kind != "space":
            yield Token(kind, match.group(), match.start(), match.end())


_NAMES = {'"': "string", "'": "string", "`": "quoted name", "/*": "comment"}


def _refuse_writing(tokens: list[Token]) -> None:
    if not tokens:
        raise _syntax("the Cypher query is empty", "For example: MATCH (e:Entity) RETURN e.name LIMIT 10")
    for token in tokens:
        if token.word in _WRITING:
            raise GraphRAGError(
                f"graphrag.cypher only reads: {token.word} at character {token.start + 1}",
                sqlstate="25006",
                hint="The graph follows the documents: change those. A name that is a keyword goes in backticks.",
            )
    if tokens[0].word not in _FIRST:
        raise _syntax(
            f'a query cannot begin with "{tokens[0].text[:40]}"',
            "Begin with MATCH, OPTIONAL MATCH, UNWIND, WITH or RETURN.",
        )
    for (schema, dot), (name, parenthesis) in zip(pairwise(tokens), pairwise(tokens[2:]), strict=False):
        if schema.is_name and dot.text == "." and name.is_name and parenthesis.text == "(":
            raise GraphRAGError(
                f"function {schema.text}.{name.text} may not be called: functions outside Cypher can write",
                sqlstate="0A000",
                hint="Call it in SQL, on the result of graphrag.cypher.",
            )


def _branches(tokens: list[Token]) -> Iterator[list[Token]]:
    """Yield, for each part of a UNION, the tokens of its RETURN clause up to ORDER BY, SKIP and LIMIT."""
    closing: list[str] = []
    clause: list[Token] | None = None
    collecting = False
    previous = ""
    last = Token("word", "UNION", 0, 0)
    for token in [*tokens, last]:
        # After a dot a keyword is the name of a property.
        keyword = token.word if previous != "." or token is last else ""
        previous = token.text
        if not closing and keyword == "RETURN":
            clause, collecting = [], True
            continue
        if not closing and (keyword in _AFTER_RETURN or token.text == ";"):
            collecting = False
            if keyword == "UNION":
                if not clause:
                    raise _syntax(
                        "the query returns nothing",
                        "End it with RETURN and what you want, for example RETURN e.name AS name.",
                    )
                yield clause
                clause = None
            continue
        if token.kind == "symbol" and token.text in _OPENING:
            closing.append(_OPENING[token.text])
        elif (
            token.kind == "symbol" and token.text in _OPENING.values() and (not closing or closing.pop() != token.text)
        ):
            raise _syntax(
                f'"{token.text}" at character {token.start + 1} closes nothing', "Check brackets and parentheses."
            )
        if collecting and clause is not None:
            clause.append(token)
    if closing:
        raise _syntax(f'a "{closing[-1]}" is missing', "Check brackets and parentheses.")


def _columns(text: str, clause: list[Token]) -> list[str]:
    if clause[0].word == "DISTINCT":
        clause = clause[1:]
    items: list[list[Token]] = [[]]
    depth = 0
    for token in clause:
        if token.kind == "symbol" and token.text in _OPENING:
            depth += 1
        elif token.kind == "symbol" and token.text in _OPENING.values():
            depth -= 1
        if depth == 0 and token.text == "," and token.kind == "symbol":
            items.append([])
        else:
            items[-1].append(token)
    return [_column(text, item) for item in items]


def _column(text: str, item: list[Token]) -> str:
    if not item:
        raise _syntax("RETURN has an empty item", "Check its commas.")
    if len(item) == 1 and item[0].text == "*":
        raise GraphRAGError("RETURN * is not supported", sqlstate="0A000", hint="Name what you want: RETURN a, r, b.")
    if len(item) > 2 and item[-2].word == "AS" and item[-3].text != ".":
        return _unquoted(item[-1])
    if len(item) == 1:
        return _unquoted(item[0])
    return text[item[0].start : item[-1].end]


def _unquoted(token: Token) -> str:
    return token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text


def _has_variable_length(tokens: list[Token]) -> bool:
    """Whether a relationship pattern, ``-[…]-``, has a ``*`` of its own."""
    brackets: list[bool] = []
    previous = ""
    for token in tokens:
        symbol = token.text if token.kind == "symbol" else ""
        if symbol in _OPENING:
            brackets.append(symbol == "[" and previous == "-")
        elif symbol in _OPENING.values() and brackets:
            brackets.pop()
        elif symbol == "*" and brackets and brackets[-1]:
            return True
        previous = symbol
    return False


def _syntax(message: str, hint: str) -> GraphRAGError:
    return GraphRAGError(message, sqlstate="42601", hint=f"{hint} {REFERENCE}")


_AGTYPE = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*(?:"|\Z)|::(?:vertex|edge|path|numeric)|-?Infinity|NaN', re.DOTALL)


def json_of(agtype: str | None) -> str:
    """Return the text of an agtype value as JSON.

    Annotations (``::vertex``, ``::edge``, ``::path``, ``::numeric``) go; NaN and the infinities become strings, as
    PostgreSQL's own to_jsonb() makes them; no value is null.
    """
    return "null" if agtype is None else _AGTYPE.sub(_replace, agtype)


def _replace(match: re.Match[str]) -> str:
    text = match.group()
    if text.startswith('"'):
        return text
    return "" if text.startswith("::") else json.dumps(text)
