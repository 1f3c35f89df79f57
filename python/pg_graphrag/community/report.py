"""A report: its parts, its text, and how one is put together without a model."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field

from pg_graphrag.community.inputs import Input
from pg_graphrag.server import Row

# A title names so many entities; a summary has so many telling sentences, and so many findings follow.
TITLE_NAMES = 3
SUMMARY_SENTENCES = 3
FINDINGS = 5
SENTENCES_PER_FINDING = 3


@dataclass(slots=True)
class Finding:
    """One insight, and its evidence."""

    summary: str
    explanation: str
    entity_ids: list[int] = field(default_factory=list)
    relationship_ids: list[int] = field(default_factory=list)
    chunk_ids: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    """A report; `model` is None where it was put together without one, `text` the whole where it came as one text."""

    title: str
    summary: str
    findings: list[Finding]
    rating: float
    rating_explanation: str
    model: str | None = None
    text: str = ""

    @property
    def content(self) -> str:
        """The whole report as text."""
        if self.text:
            return self.text
        parts = [f"# {self.title}", self.summary]
        for finding in self.findings:
            parts += [f"## {finding.summary}", finding.explanation]
        return "\n\n".join(part for part in parts if part)

    def findings_json(self) -> str:
        """The findings as they are stored."""
        return json.dumps([asdict(finding) for finding in self.findings], ensure_ascii=False)


def rating(source: Input) -> float:
    """Return an importance of 0 to 10 that grows with the logarithm of how much is said: 1,000 relationships are 10."""
    return round(min(10.0, math.log2(1 + source.relationship_count)), 1)


def extract(source: Input) -> Report:
    """Put a report together: central entities, the strongest relationships, and the sentences that say them."""
    names = [row["name"] for row in source.entities]
    findings, lines = [], set[str]()
    summary_rows = _telling(source.relationships, lines, SUMMARY_SENTENCES)
    summary = "\n".join(_sentence(row) for row in summary_rows) or "\n".join(
        f"{row['name']} ({row['type']}): {_line(row['description'])}".rstrip(": ")
        for row in source.entities[:TITLE_NAMES]
    )
    for entity in source.entities[:FINDINGS]:
        of_it = [row for row in source.relationships if entity["id"] in (row["source_id"], row["target_id"])]
        rows = _telling(of_it, lines, SENTENCES_PER_FINDING)
        if not rows:
            continue
        partners = dict.fromkeys(row["target"] if row["source_id"] == entity["id"] else row["source"] for row in rows)
        findings.append(
            Finding(
                f"{entity['name']}: {', '.join(partners)}",
                "\n".join(_sentence(row) for row in rows),
                list(
                    dict.fromkeys(
                        [entity["id"], *(end for row in rows for end in (row["source_id"], row["target_id"]))]
                    )
                ),
                [row["id"] for row in rows],
                list(dict.fromkeys(row["chunk_id"] for row in rows if row["chunk_id"] is not None)),
            )
        )
    if summary_rows:
        ends = (end for row in summary_rows for end in (row["source_id"], row["target_id"]))
        findings.insert(
            0,
            Finding(
                ", ".join(names[:TITLE_NAMES]),
                summary,
                list(dict.fromkeys(ends)),
                [row["id"] for row in summary_rows],
                list(dict.fromkeys(row["chunk_id"] for row in summary_rows if row["chunk_id"] is not None)),
            ),
        )
    rating_reason = "by the number of relationships among its members"
    return Report(", ".join(names[:TITLE_NAMES]), summary, findings, rating(source), rating_reason)


def content_hash(report: Report) -> str:
    """Return the hash of a report put together without a model, by its content."""
    return digest("extract", report.title, report.content, report.findings_json())


def digest(*parts: str) -> str:
    """Return the hash of texts, as ``community_reports.input_hash`` keeps it."""
    return hashlib.blake2b("\x1f".join(parts).encode("utf-8", "replace"), digest_size=16).hexdigest()


def _telling(rows: list[Row], lines: set[str], limit: int) -> list[Row]:
    """Return the first rows whose description is not among `lines`, and add it there."""
    new_rows = []
    for row in rows:
        line = _line(row["description"])
        if line and line not in lines:
            lines.add(line)
            new_rows.append(row)
            if len(new_rows) == limit:
                break
    return new_rows


def _sentence(row: Row) -> str:
    return f"{row['source']} – {row['target']}: {_line(row['description'])}"


def _line(text: str) -> str:
    return " ".join(text.split())
