"""The parts and the text of a report, and how a report is made without a model."""

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from pg_graphrag.server import Database
from pg_graphrag.server.corpus.options import Options
from pg_graphrag.text.languages import detect


class Community(NamedTuple):
    """A community whose report is due; `version` is its row's."""

    id: int
    level: int
    size: int
    version: str


class Member(NamedTuple):
    """An entity of a community; `strength`: weights of its relationships there."""

    id: int
    name: str
    type: str
    description: str
    strength: float


class Pair(NamedTuple):
    """A relationship within a community, the names of its ends, and the chunk with its best evidence."""

    id: int
    source_id: int
    target_id: int
    source: str
    target: str
    weight: float
    description: str
    chunk_id: int | None


class Child(NamedTuple):
    """The report one level down, and the entities that it is about."""

    id: int
    title: str
    summary: str
    content: str
    members: list[int]


@dataclass(slots=True)
class Input:
    """One community as its report sees it: entities, relationships and reports one level down, the most important first.

    `relationship_count`: of all among the members.
    """

    community_id: int
    level: int
    size: int
    version: str
    entities: list[Member] = field(default_factory=list)
    relationships: list[Pair] = field(default_factory=list)
    relationship_count: int = 0
    children: list[Child] = field(default_factory=list)


# The chunk that states a relationship best; of equal ones the first by source key and ordinal.
BEST_CHUNK = """
SELECT b.chunk_id
  FROM (SELECT y.chunk_id, y.document_id FROM graphrag.relationship_mentions y WHERE y.relationship_id = {relationship}
         ORDER BY y.evidence_rank, y.weight DESC FETCH FIRST ROW WITH TIES) b
  JOIN graphrag.chunks c ON c.id = b.chunk_id
  LEFT JOIN graphrag.documents d ON d.id = b.document_id
 ORDER BY d.source_key COLLATE "C", c.ordinal
 LIMIT 1
"""
# The strongest first; ties by key, so that no order of ids shows. OFFSET 0: no plan pairs all members of a community first, nor
# reads all for each relationship.
_RELATIONSHIPS = f"""
SELECT x.community_id, x.id, x.n, x.source_id, x.target_id, x.source, x.target, x.weight, x.description, m.chunk_id
  FROM (SELECT l.community_id, r.id, s.id AS source_id, t.id AS target_id, s.name AS source, t.name AS target,
               r.weight::float8 AS weight, r.description,
               pg_catalog.count(*) OVER (PARTITION BY l.community_id) AS n,
               pg_catalog.row_number() OVER (PARTITION BY l.community_id ORDER BY r.weight DESC, s.key, t.key) AS place
          FROM graphrag.community_members l
         CROSS JOIN LATERAL (SELECT y.* FROM graphrag.relationships y WHERE y.low_id = l.entity_id OFFSET 0) r
         CROSS JOIN LATERAL (SELECT FROM graphrag.community_members h
                              WHERE h.community_id = l.community_id AND h.entity_id = r.high_id OFFSET 0) h
          LEFT JOIN LATERAL (SELECT n.entity_id FROM graphrag._row_names n WHERE n.name_id = r.source_id OFFSET 0) a ON true
          LEFT JOIN LATERAL (SELECT n.entity_id FROM graphrag._row_names n WHERE n.name_id = r.target_id OFFSET 0) b ON true
          JOIN graphrag.entities s ON s.id = coalesce(a.entity_id, r.source_id)
          JOIN graphrag.entities t ON t.id = coalesce(b.entity_id, r.target_id)
         WHERE l.community_id = ANY ($1) AND s.id <> t.id) x
  LEFT JOIN LATERAL ({BEST_CHUNK.format(relationship="x.id")}) m ON true
 WHERE x.place <= $2
 ORDER BY x.community_id, x.place
"""
_ENTITIES = """
SELECT x.community_id, x.id, x.name, x.type, x.description, x.strength
  FROM (SELECT c.community_id, e.id, e.name, e.type, e.description, coalesce(w.strength, 0)::float8 AS strength,
               pg_catalog.row_number() OVER (PARTITION BY c.community_id
                   ORDER BY coalesce(w.strength, 0) DESC, e.mention_count DESC, e.key) AS place
          FROM graphrag.community_members c
          JOIN graphrag.entities e ON e.id = c.entity_id
          LEFT JOIN graphrag._row_names o ON o.name_id = c.entity_id
          LEFT JOIN (SELECT l.community_id, coalesce(a.entity_id, u.id) AS id, pg_catalog.sum(r.weight) AS strength
                       FROM graphrag.community_members l
                      CROSS JOIN LATERAL (SELECT y.low_id, y.high_id, y.weight FROM graphrag.relationships y
                                           WHERE y.low_id = l.entity_id OFFSET 0) r
                      CROSS JOIN LATERAL (SELECT FROM graphrag.community_members h
                                           WHERE h.community_id = l.community_id AND h.entity_id = r.high_id OFFSET 0) h
                      CROSS JOIN LATERAL (VALUES (r.low_id), (r.high_id)) AS u (id)
                       LEFT JOIN LATERAL (SELECT n.entity_id FROM graphrag._row_names n WHERE n.name_id = u.id OFFSET 0) a
                              ON true
                      WHERE l.community_id = ANY ($1)
                      GROUP BY l.community_id, 2) w ON w.community_id = c.community_id AND w.id = e.id
         WHERE c.community_id = ANY ($1) AND o.name_id IS NULL) x
 WHERE x.place <= $2
 ORDER BY x.community_id, x.place
"""
_CHILDREN = """
SELECT c.parent_id, c.id, r.title, r.summary, r.content,
       ARRAY(SELECT m.entity_id FROM graphrag.community_members m WHERE m.community_id = c.id) AS members
  FROM graphrag.communities c
  JOIN graphrag.community_reports r ON r.community_id = c.id
 WHERE c.parent_id = ANY ($1)
 ORDER BY c.parent_id, c.size DESC, r.title COLLATE "C", c.id
"""


def read_inputs(db: Database, communities: Sequence[Community], limit: int, children: bool) -> list[Input]:
    """Return the inputs of communities, each with a limited number of rows of each kind."""
    inputs = {community.id: Input(*community) for community in communities}
    ids = list(inputs)
    for row in db.query(_ENTITIES, ["int8[]", "int4"], [ids, limit]):
        inputs[row.pop("community_id")].entities.append(Member(**row))
    for row in db.query(_RELATIONSHIPS, ["int8[]", "int4"], [ids, limit]):
        source = inputs[row.pop("community_id")]
        source.relationship_count = row.pop("n")
        source.relationships.append(Pair(**row))
    for row in db.query(_CHILDREN, ["int8[]"], [ids]) if children else ():
        inputs[row.pop("parent_id")].children.append(Child(**row))
    return list(inputs.values())


# The maximum of central entities in a title, and of sentences in a report; the first sentence is its summary.
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
        """The findings in their stored form."""
        return json.dumps([asdict(finding) for finding in self.findings], ensure_ascii=False)


def writes(options: Options) -> bool:
    """Whether a model writes the corpus' reports: only where the role names one, as it takes thousands of calls."""
    return "report" in options.llm.roles and options.llm.has("report")


def rating(source: Input) -> float:
    """Return an importance of 0 to 10 that grows with the logarithm of the number of statements: 1,000 relationships are
    10.
    """
    return round(min(10.0, math.log2(1 + source.relationship_count)), 1)


def extract(source: Input) -> Report:
    """Put a report together: the sentences that say most of the members, each once and in one language."""
    chosen = _chosen(_statements(source.relationships))
    title = ", ".join(_title_names(source.entities, chosen))
    findings: list[Finding] = []
    if chosen:
        summary = chosen[0].text
        # Each under the most central entity that it names.
        centrality = {row.id: place for place, row in enumerate(source.entities)}
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
            f"{row.name} ({row.type}): {_line(row.description)}".rstrip(": ") for row in source.entities[:TITLE_NAMES]
        )
    rating_reason = "by the number of relationships among its members"
    return Report(title, summary, findings, rating(source), rating_reason)


@dataclass(slots=True)
class _Statement:
    """A sentence, and the relationships that it states, the strongest first."""

    text: str
    rows: list[Pair]

    @property
    def ends(self) -> set[int]:
        """Ids of the entities that it relates."""
        return {end for row in self.rows for end in (row.source_id, row.target_id)}

    def subject(self, centrality: dict[int, int]) -> str:
        """Return the name of the end with the smallest place of {entity id: place}; others come last."""
        names = {row.source_id: row.source for row in self.rows} | {row.target_id: row.target for row in self.rows}
        return names[min(names, key=lambda end: (centrality.get(end, len(centrality)), names[end]))]


def _statements(rows: list[Pair]) -> list[_Statement]:
    """Return the sentences of relationships, each once, in one language: the one with most of their weight."""
    by_text: dict[str, list[Pair]] = {}
    for row in rows:
        if text := _plain(row.description):
            by_text.setdefault(text, []).append(row)
    weights: dict[str, float] = {}
    languages = {text: detect(text) for text in by_text}
    for text, stating in by_text.items():
        weights[languages[text]] = weights.get(languages[text], 0.0) + sum(row.weight for row in stating)
    language = max(sorted(weights), key=weights.__getitem__, default="")
    return [_Statement(text, stating) for text, stating in by_text.items() if languages[text] == language]


def _chosen(statements: list[_Statement]) -> list[_Statement]:
    """Return the statements of a report: each time the one with the most members that no chosen statement mentions.

    Ties go to the stronger relationships. After MIN_SENTENCES, a statement must mention a new member.
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


def _title_names(entities: list[Member], chosen: list[_Statement]) -> list[str]:
    """Return the central entities that the report mentions; of "engine" and "Kestrel engine" the longer."""
    covered = {end for statement in chosen for end in statement.ends}
    names: list[str] = []
    for row in entities[:CENTRAL]:
        if covered and row.id not in covered:
            continue
        name = row.name
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
        list(dict.fromkeys(end for row in rows for end in (row.source_id, row.target_id))),
        [row.id for row in rows],
        list(dict.fromkeys(row.chunk_id for row in rows if row.chunk_id is not None)),
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
