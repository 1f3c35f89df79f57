"""Reads a LightRAG working directory: its default stores, GraphML and JSON (HKUDS/LightRAG 1.x)."""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from pg_graphrag.beside.exchange.foreign_documents import Unit, document, shares
from pg_graphrag.ground.errors import GraphRAGError

# Between the parts of a field that has several.
_SEPARATOR = "<SEP>"
_NAMESPACE = "{http://graphml.graphdrawing.org/xmlns}"


class WorkingDirectory:
    """The folder (of a workspace) that LightRAG keeps its stores in."""

    def __init__(self, folder: Path):
        self._folder = folder

    def documents(self) -> Iterator[dict[str, Any]]:
        """Yield the documents as import_documents() takes them."""
        full_docs = self._store("full_docs")
        units: dict[str, Unit] = {}
        by_document: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for number, chunk in self._store("text_chunks").items():
            units[number] = Unit(chunk["content"])
            by_document[chunk["full_doc_id"]].append((chunk.get("chunk_order_index", 0), number))
        for kind, row in self._graph():
            _add(kind, row, units)
        for number, row in full_docs.items():
            path = row.get("file_path")
            title = path if path and path != "unknown_source" else None
            pieces = [units[chunk] for _, chunk in sorted(by_document.get(number, ()))]
            yield document(number, title, row["content"], {"file_path": title} if title else {}, pieces)

    def _path(self, name: str) -> Path:
        path = self._folder / name
        if not path.is_file():
            raise GraphRAGError(
                f"{self._folder} has no {name}",
                sqlstate="58P01",
                hint="Name LightRAG's working directory, or that of a workspace in it. Its default stores are read: NetworkX "
                "graph and JSON.",
            )
        return path

    def _store(self, name: str) -> dict[str, Any]:
        store = json.loads(self._path(f"kv_store_{name}.json").read_text(encoding="utf-8"))
        return dict(store)

    def _graph(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield ("node" or "edge", its attributes by name); an edge's are with source and target, a node's with id."""
        names: dict[str, str] = {}
        for _, element in ElementTree.iterparse(self._path("graph_chunk_entity_relation.graphml")):
            kind = element.tag.removeprefix(_NAMESPACE)
            if kind == "key":
                names[element.attrib["id"]] = element.attrib["attr.name"]
            elif kind in ("node", "edge"):
                values = {names[data.attrib["key"]]: data.text or "" for data in element}
                yield kind, values | dict(element.attrib)
                element.clear()


def _add(kind: str, row: dict[str, str], units: dict[str, Unit]) -> None:
    """Add an entity or relationship to its chunks.

    If a description has as many parts as there are chunks, each chunk gets one part. Otherwise (it was summarised, or
    shortened) each gets the whole.
    """
    row_units = [
        units[number] for number in dict.fromkeys(row.get("source_id", "").split(_SEPARATOR)) if number in units
    ]
    parts = [part for part in row.get("description", "").split(_SEPARATOR) if part]
    texts = parts if len(parts) == len(row_units) else ["\n".join(parts)] * len(row_units)
    if kind == "node":
        for unit, text in zip(row_units, texts, strict=True):
            unit.entities.append({"name": row["id"], "type": row.get("entity_type"), "description": text})
        return
    keywords = [word.strip() for part in row.get("keywords", "").split(_SEPARATOR) for word in part.split(",")]
    weights = shares(float(row.get("weight") or 1), len(row_units))
    for unit, text, weight in zip(row_units, texts, weights, strict=True):
        unit.relationships.append(
            {
                "source": row["source"],
                "target": row["target"],
                "keywords": [word for word in keywords if word],
                "description": text,
                "weight": weight,
            }
        )
