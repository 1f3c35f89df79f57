"""Reads GraphRAG's parquet output (microsoft/graphrag, ``graphrag/data_model/schemas.py``, versions 1 to 3)."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pg_graphrag.beside.exchange.foreign_documents import Unit, document, shares
from pg_graphrag.ground.errors import GraphRAGError, missing_package

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Communities:
    """Communities, what the numbers in their reports mean, and which parts could not be used."""

    communities: list[Row] = field(default_factory=list)
    cited: dict[str, Row] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


class Output:
    """The folder that ``graphrag index`` wrote."""

    def __init__(self, folder: Path):
        self._folder = folder

    def table(self, name: str, must_exist: bool = True) -> list[Row]:
        """Return the rows of a table; none where it is absent and need not be there.

        Raises GraphRAGError: 58P01 where a table or pyarrow is missing.
        """
        path = self._folder / f"{name}.parquet"
        if not path.is_file():
            if not must_exist:
                return []
            raise GraphRAGError(
                f"{self._folder} has no {path.name}",
                sqlstate="58P01",
                hint="Name the output folder of graphrag index: documents, text_units, entities and relationships are needed.",
            )
        rows: list[Row] = parquet().read_table(path).to_pylist()
        return rows

    def documents(self) -> Iterator[Row]:
        """Yield the documents as import_documents() takes them."""
        by_document: dict[str, list[Row]] = defaultdict(list)
        units: dict[str, Unit] = {}
        for row in sorted(self.table("text_units"), key=lambda row: int(row["human_readable_id"])):
            # Before version 3, a chunk could be of several documents.
            owner = row.get("document_id") or (row.get("document_ids") or [None])[0]
            by_document[owner].append(row)
            units[row["id"]] = Unit(row["text"])
        self._add_entities(units)
        self._add_relationships(units)
        self._add_claims(units)
        for row in sorted(self.table("documents"), key=lambda row: int(row["human_readable_id"])):
            pieces = [units[unit["id"]] for unit in by_document.get(row["id"], ())]
            yield document(row["id"], row["title"], row["text"] or "", _metadata(row), pieces)

    def communities(self) -> "Communities":
        """Return the communities with their reports, as import_communities() takes them; none where the index has none."""
        rows = self.table("communities", must_exist=False)
        if rows and not {"entity_ids", "parent"} <= rows[0].keys():
            return Communities(
                left_out=("the communities of GraphRAG before version 1.2, which do not say who is in them",)
            )
        titles = {row["id"]: row["title"] for row in self.table("entities")}
        entity_names = set(titles.values())
        relationships = {row["id"]: row for row in self.table("relationships")}
        reports = {int(row["community"]): row for row in self.table("community_reports", must_exist=False)}
        communities: dict[int, Row] = {}
        left_out = []
        for row in sorted(rows, key=lambda row: (int(row["level"]), int(row["community"]))):
            number, level, parent = (int(row[name]) for name in ("community", "level", "parent"))
            if level and parent not in communities:
                left_out.append(f"community {number}: the index has no community {parent}, which it is a part of")
                continue
            names = [titles[id_] for id_ in row["entity_ids"] if id_ in titles]
            # Names that only relationships have were clustered too, and are in no list of members.
            pairs = (relationships[id_] for id_ in row["relationship_ids"] or () if id_ in relationships)
            names += dict.fromkeys(
                pair[end] for pair in pairs for end in ("source", "target") if pair[end] not in entity_names
            )
            communities[number] = {"number": number, "level": level, "entities": names, "created": row.get("period")}
            if level:
                communities[number]["parent"] = parent
            if number in reports:
                communities[number]["report"] = _report(reports[number])
        cited = {
            "Entities": {str(row["human_readable_id"]): row["title"] for row in self.table("entities")},
            "Relationships": {
                str(row["human_readable_id"]): [row["source"], row["target"]] for row in relationships.values()
            },
        }
        return Communities(list(communities.values()), cited, tuple(left_out))

    def _add_entities(self, units: Mapping[str, Unit]) -> None:
        for row in self.table("entities"):
            entity = {"name": row["title"], "type": row["type"], "description": row["description"]}
            for unit in _units_of(row, units):
                unit.entities.append(entity)

    def _add_relationships(self, units: Mapping[str, Unit]) -> None:
        """Merge GraphRAG's two relationships, one for each direction, into one."""
        by_pair: dict[tuple[int, frozenset[str]], Row] = {}
        for row in self.table("relationships"):
            row_units = list(_units_of(row, units))
            for unit, share in zip(row_units, shares(row["weight"], len(row_units)), strict=True):
                pair = id(unit), frozenset((row["source"], row["target"]))
                relationship = by_pair.get(pair)
                if relationship is None:
                    by_pair[pair] = {name: row[name] for name in ("source", "target", "description")} | {
                        "weight": share
                    }
                    unit.relationships.append(by_pair[pair])
                else:
                    relationship["weight"] += share
                    if row["description"] not in relationship["description"]:
                        relationship["description"] += f"\n{row['description']}"

    def _add_claims(self, units: Mapping[str, Unit]) -> None:
        for row in self.table("covariates", must_exist=False):
            unit = units.get(row["text_unit_id"])
            # A line of the model's answer that was none.
            if unit is None or not row["description"]:
                continue
            unit.claims.append(
                {
                    "subject": row["subject_id"],
                    "object": row["object_id"],
                    "type": row["type"],
                    "status": row["status"],
                    "start": row["start_date"],
                    "end": row["end_date"],
                    "description": row["description"],
                    "source_text": row["source_text"],
                }
            )


def _units_of(row: Row, units: Mapping[str, Unit]) -> Iterator[Unit]:
    for number in dict.fromkeys(row["text_unit_ids"] or ()):
        if number in units:
            yield units[number]


def _report(row: Row) -> Row:
    title = row["title"] or f"Community {row['community']}"
    rank = float(row["rank"] or 0)
    return {
        "title": title,
        "summary": row["summary"] or title,
        "content": row["full_content"] or "",
        # -1: the model gave none.
        "rating": min(10.0, max(0.0, rank)) if rank == rank else 0.0,
        "rating_explanation": row.get("rating_explanation") or row.get("rank_explanation"),
        "findings": [_finding(finding) for finding in row["findings"] or ()],
        "model": "GraphRAG",
    }


def _finding(raw: Any) -> Row:
    finding = raw if isinstance(raw, dict) else {"summary": str(raw)}
    return {name: str(finding.get(name) or "") for name in ("summary", "explanation")}


def _metadata(row: Row) -> Row:
    metadata = row.get("metadata") or {}
    result: Row = dict(metadata) if isinstance(metadata, dict) else {}
    if row.get("creation_date"):
        result["creation_date"] = row["creation_date"]
    return result


def parquet() -> Any:
    """Return ``pyarrow.parquet``.

    Raises GraphRAGError: 58P01 where it is not installed.
    """
    try:
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise missing_package("parquet files need", "pyarrow", "parquet") from error
    return pyarrow.parquet
