"""A report: its parts, its text, and how one is put together without a model."""

import hashlib
import json
import math
import re
from dataclasses import asdict, dataclass, field

from pg_graphrag.index.community.inputs import Input
from pg_graphrag.server import Row
from pg_graphrag.text.languages import detect

# A title names so many of the most central entities. A report has so many sentences where there are as many, the first as its
# summary.
TITLE_NAMES, CENTRAL = 3, 10
MIN_SENTENCES, MAX_SENTENCES = 5, 8
_MARKS = re.compile(r"\A(?:(?:[-*+•>]|#{1,6}|\d{1,3}[.)]) )+")
_EMPHASIS = re.compile(r"\*\*(\S[^*]*)\*\*|__(\S[^_]*)__")


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
            if finding.explanation or self.model is not None:
                parts += [f"## {finding.summary}", finding.explanation]
        return "\n\n".join(part for part in parts if part)

    def findings_json(self) -> str:
        """The findings as they are stored."""
        return json.dumps([asdict(finding) for finding in self.findings], ensure_ascii=False)


def rating(source: Input) -> float:
    """Return an importance of 0 to 10 that grows with the logarithm of how much is said: 1,000 relationships are 10."""
    return round(min(10.0, math.log2(1 + source.relationship_count)), 1)


def extract(source: Input) -> Report:
    """Put a report together: the sentences that say most of the members, each once and in one language."""
    chosen = _chosen(_statements(source.relationships))
    title = ", ".join(_title_names(source.entities, chosen))
    findings: list[Finding] = []
    if chosen:
        summary = chosen[0].text
        # Each under the most central entity that it names.
        centrality = {row["id"]: place for place, row in enumerate(source.entities)}
        rest: dict[str, list[_Statement]] = {}
        for statement in chosen[1:]:
            rest.setdefault(statement.subject(centrality), []).append(statement)
        findings = [
            _finding(name, "\n".join(statement.text for statement in statements), statements)
            for name, statements in rest.items()
        ]
        # What the summary rests on is evidence, but no text again.
        first = findings[0] if findings else _finding(title, "", [])
        evidence = _finding("", "", [chosen[0]])
        first.entity_ids = list(dict.fromkeys(evidence.entity_ids + first.entity_ids))
        first.relationship_ids = evidence.relationship_ids + first.relationship_ids
        first.chunk_ids = list(dict.fromkeys(evidence.chunk_ids + first.chunk_ids))
        findings = findings or [first]
    else:
        summary = "\n".join(
            f"{row['name']} ({row['type']}): {_line(row['description'])}".rstrip(": ")
            for row in source.entities[:TITLE_NAMES]
        )
    rating_reason = "by the number of relationships among its members"
    return Report(title, summary, findings, rating(source), rating_reason)


@dataclass(slots=True)
class _Statement:
    """A sentence, and the relationships that it states, the strongest first."""

    text: str
    rows: list[Row]

    @property
    def ends(self) -> set[int]:
        """Ids of the entities that it relates."""
        return {end for row in self.rows for end in (row["source_id"], row["target_id"])}

    def subject(self, centrality: dict[int, int]) -> str:
        """Return the name of the end with the smallest place of {entity id: place}; others come last."""
        names = {row[f"{end}_id"]: str(row[end]) for row in self.rows for end in ("source", "target")}
        return names[min(names, key=lambda end: (centrality.get(end, len(centrality)), names[end]))]


def _statements(rows: list[Row]) -> list[_Statement]:
    """Return the sentences of relationships, each once, in one language: that of most of their weight."""
    by_text: dict[str, list[Row]] = {}
    for row in rows:
        if text := _plain(row["description"]):
            by_text.setdefault(text, []).append(row)
    weights: dict[str, float] = {}
    languages = {text: detect(text) for text in by_text}
    for text, stating in by_text.items():
        weights[languages[text]] = weights.get(languages[text], 0.0) + sum(row["weight"] for row in stating)
    language = max(sorted(weights), key=weights.__getitem__, default="")
    return [_Statement(text, stating) for text, stating in by_text.items() if languages[text] == language]


def _chosen(statements: list[_Statement]) -> list[_Statement]:
    """Return the statements that a report has: each time the one with most members of which nothing is said yet.

    Ties go to the stronger relationships. From MIN_SENTENCES on, only what says something of a new member.
    """
    chosen: list[_Statement] = []
    rest = list(statements)
    covered: set[int] = set()
    while rest and len(chosen) < MAX_SENTENCES:
        best = max(rest, key=lambda statement: len(statement.ends - covered))
        if len(chosen) >= MIN_SENTENCES and not best.ends - covered:
            break
        chosen.append(best)
        covered |= best.ends
        rest.remove(best)
    return chosen


def _title_names(entities: list[Row], chosen: list[_Statement]) -> list[str]:
    """Return the central entities of which the report says something; of "engine" and "Kestrel engine" the longer."""
    covered = {end for statement in chosen for end in statement.ends}
    names: list[str] = []
    for row in entities[:CENTRAL]:
        if covered and row["id"] not in covered:
            continue
        name = row["name"]
        shorter = [place for place, other in enumerate(names) if _is_part(other, name)]
        if shorter:
            names[shorter[0]] = name
            names = [other for place, other in enumerate(names) if place not in shorter[1:]]
        elif len(names) < TITLE_NAMES and not any(_is_part(name, other) for other in names):
            names.append(name)
    return names


def _is_part(name: str, longer: str) -> bool:
    return name != longer and name.casefold() in longer.casefold()


def _finding(summary: str, explanation: str, statements: list[_Statement]) -> Finding:
    rows = [row for statement in statements for row in statement.rows]
    return Finding(
        summary,
        explanation,
        list(dict.fromkeys(end for row in rows for end in (row["source_id"], row["target_id"]))),
        [row["id"] for row in rows],
        list(dict.fromkeys(row["chunk_id"] for row in rows if row["chunk_id"] is not None)),
    )


def content_hash(report: Report) -> str:
    """Return the hash of a report put together without a model, by its content."""
    return digest("extract", report.title, report.content, report.findings_json())


def digest(*parts: str) -> str:
    """Return the hash of texts, as ``community_reports.input_hash`` keeps it."""
    return hashlib.blake2b("\x1f".join(parts).encode("utf-8", "replace"), digest_size=16).hexdigest()


def _plain(text: str) -> str:
    """Return a sentence without the marks of Markdown: of lists, quotations, headings, emphasis and tables."""
    text = _line(text)
    if text.startswith("|"):
        return "; ".join(cell for cell in map(str.strip, text.split("|")) if cell)
    return _EMPHASIS.sub(r"\1\2", _MARKS.sub("", text))


def _line(text: str) -> str:
    return " ".join(text.split())
