"""Writes GraphML and GEXF, node by node."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from io import TextIOBase
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias
from xml.sax.saxutils import XMLGenerator
from xml.sax.xmlreader import AttributesImpl

from pg_graphrag.beside.client.graph_items import Edge, Item, Levels, Node
from pg_graphrag.ground.errors import GraphRAGError

# What XML 1.0 cannot hold, not even escaped.
_REFUSED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
# Between the keywords of an edge: these formats have no lists that readers agree on.
SEPARATOR = ", "

_TYPES: dict[Any, str] = {int: "long", float: "double", float | None: "double"}
# Columns that are attributes of their own in both formats, or say what those say.
_ENDS = {"source_id", "target_id", "source", "target"}
# Columns by level and by attribute.
_NAMED = {"communities", "values"}
_JSON_TYPES = {"number": "double", "boolean": "boolean"}
_NODE = {field.name: _TYPES.get(field.type, "string") for field in fields(Node) if field.name not in _NAMED}
_Columns: TypeAlias = dict[str, dict[str, str]]
_EDGE = {field.name: _TYPES.get(field.type, "string") for field in fields(Edge) if field.name not in _ENDS}


def write(path: Path, items: Iterable[Item]) -> tuple[int, int]:
    """Write a graph to a file whose ending names the format; return the numbers of nodes and edges.

    Nodes come before edges. The file appears when it is whole.

    Raises GraphRAGError: 22023 for another ending.
    """
    try:
        writer = {".graphml": _graphml, ".gexf": _gexf}[path.suffix.lower()]
    except KeyError:
        raise GraphRAGError(f"no format for {path.name}", hint="Name the file *.graphml or *.gexf.") from None
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as file:
            count = writer(file, *_with_levels(items))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return count


def _with_levels(items: Iterable[Item]) -> tuple[_Columns, Iterator[Node | Edge]]:
    """Return the columns of nodes and edges (formats declare them first), and the items."""
    rest = iter(items)
    first = next(rest, None)
    head = first if isinstance(first, Levels) else Levels(0)
    levels = {f"community_{level}": "long" for level in range(head.count)}
    attributes = {
        f"attribute_{name}": _JSON_TYPES.get(type_, "string") for name, type_ in sorted(head.attributes.items())
    }
    columns = {"node": _NODE | levels | attributes, "edge": _EDGE}
    all_items = chain([] if first is None else [first], rest)
    return columns, (item for item in all_items if not isinstance(item, Levels))


class _Writer(XMLGenerator):
    """Writes elements with their contents; characters that XML refuses become U+FFFD."""

    def __init__(self, file: TextIOBase):
        super().__init__(file, "utf-8", short_empty_elements=True)
        self._file = file

    @contextmanager
    def element(self, name: str, **attributes: Any) -> Iterator[None]:
        clean = {key.rstrip("_"): _REFUSED.sub("\ufffd", str(value)) for key, value in attributes.items()}
        self.startElement(name, AttributesImpl(clean))
        yield
        self.endElement(name)

    def leaf(self, name: str, text: str = "", **attributes: Any) -> None:
        with self.element(name, **attributes):
            if text:
                # A carriage return that is not escaped is read as a line end.
                first, *rest = _REFUSED.sub("\ufffd", text).split("\r")
                self.characters(first)
                for piece in rest:
                    self.ignorableWhitespace("&#13;")
                    self.characters(piece)

    def newline(self) -> None:
        self.ignorableWhitespace("\n")


def _graphml(file: TextIOBase, declared: _Columns, items: Iterable[Node | Edge]) -> tuple[int, int]:
    """GraphML (graphml.graphdrawing.org): attributes are declared, then given by key."""
    xml = _Writer(file)
    xml.startDocument()
    counts = [0, 0]
    with xml.element("graphml", xmlns="http://graphml.graphdrawing.org/xmlns"):
        xml.newline()
        for kind, columns in declared.items():
            for name, type_ in columns.items():
                attributes = {"id": f"{kind}_{name}", "for": kind, "attr.name": name, "attr.type": type_}
                xml.leaf("key", **attributes)
                xml.newline()
        with xml.element("graph", edgedefault="undirected"):
            xml.newline()
            for item in items:
                kind, attributes = _item(item)
                counts[kind == "edge"] += 1
                with xml.element(kind, **attributes):
                    for name, value in _values(item):
                        xml.leaf("data", value, key=f"{kind}_{name}")
                xml.newline()
    xml.endDocument()
    return counts[0], counts[1]


def _gexf(file: TextIOBase, declared: _Columns, items: Iterable[Node | Edge]) -> tuple[int, int]:
    """GEXF 1.2 (gexf.net): nodes and edges in lists of their own."""
    xml = _Writer(file)
    xml.startDocument()
    counts = [0, 0]
    with (
        xml.element("gexf", xmlns="http://www.gexf.net/1.2draft", version="1.2"),
        xml.element("graph", defaultedgetype="undirected", mode="static"),
    ):
        for kind, columns in declared.items():
            with xml.element("attributes", class_=kind, mode="static"):
                for name, type_ in columns.items():
                    xml.leaf("attribute", id=f"{kind}_{name}", title=name, type=type_)
        xml.startElement("nodes", AttributesImpl({}))
        xml.newline()
        for item in items:
            kind, attributes = _item(item)
            if kind == "edge" and not counts[1]:
                xml.endElement("nodes")
                xml.startElement("edges", AttributesImpl({}))
            counts[kind == "edge"] += 1
            more = {"label": item.name} if isinstance(item, Node) else {"weight": item.weight}
            with xml.element(kind, **attributes, **more), xml.element("attvalues"):
                for name, value in _values(item):
                    xml.leaf("attvalue", for_=f"{kind}_{name}", value=value)
            xml.newline()
        xml.endElement("edges" if counts[1] else "nodes")
    xml.endDocument()
    return counts[0], counts[1]


def _item(item: Node | Edge) -> tuple[str, dict[str, Any]]:
    """Return the element of an item, and the attributes that both formats have."""
    if isinstance(item, Node):
        return "node", {"id": f"n{item.entity_id}"}
    ends = {"source": f"n{item.source_id}", "target": f"n{item.target_id}"}
    return "edge", {"id": f"e{item.relationship_id}", **ends}


def _values(item: Node | Edge) -> Iterator[tuple[str, str]]:
    values = item.attributes() if isinstance(item, Node) else {name: getattr(item, name) for name in _EDGE}
    for name, value in values.items():
        if value is not None:
            yield name, _text(value)


def _text(value: Any) -> str:
    """Return a value as text for both formats; a list or an object within it as JSON."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return SEPARATOR.join(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)
