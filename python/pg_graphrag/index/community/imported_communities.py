"""Communities and reports of another system: graphrag.import_communities, and how a corpus takes them over.

They wait until the documents are indexed. Then the next refresh takes them over instead of clustering. From then on
they are ordinary communities: unchanged ones stay, and changed parts are clustered again, starting from them.
"""

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.json_checks import as_list, bad_field, check_object, check_text
from pg_graphrag.ground.json_reading import read_json
from pg_graphrag.ground.numeric import Ids, np
from pg_graphrag.index.community.leiden import Cluster
from pg_graphrag.index.community.report import BEST_CHUNK, Finding, Report
from pg_graphrag.index.community.reports import write_rows
from pg_graphrag.index.extraction.records import clean_name
from pg_graphrag.server import Database, columns
from pg_graphrag.server.corpus.corpora import Corpus, find_corpus
from pg_graphrag.server.queue import queue_refresh
from pg_graphrag.text.concept import key
from pg_graphrag.text.letters import clean

_COMMUNITY = {"number", "level", "parent", "entities", "created", "report"}
_REPORT = {"title", "summary", "content", "findings", "rating", "rating_explanation", "model"}
_FINDING = {"summary", "explanation"}
_KINDS = {"Entities", "Relationships"}
# GraphRAG's references: [Data: Entities (5, 7); Relationships (23, +more)].
_BRACKET = re.compile(r" ?\[Data:([^\[\]]*)\]")
_PART = re.compile(r"\s*(\w+)\s*\(([^()]*)\)\s*")

Numbers = dict[str, dict[str, int]]


def import_communities(
    db: Database, corpus: str | None, communities: str | None, references: str | None, more: bool | None = False
) -> None:
    """Serve graphrag.import_communities(); everything is checked before anything is written.

    Raises GraphRAGError: 22023 with the place of the error; 42704 for an unknown corpus; 55000 if there are no communities
      to add `more` to.
    """
    target = find_corpus(db, corpus)
    levels, part = _earlier_parts(db, target) if more else ({}, 1)
    _check(communities, levels)
    _check_references(references)
    # A refresh that is running sees these communities, or has ended.
    db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [target.id])
    if part == 1:
        db.query("DELETE FROM graphrag.imported_communities WHERE corpus_id = $1", ["int4"], [target.id])
    db.query(
        "INSERT INTO graphrag.imported_communities (corpus_id, communities, cited, part) VALUES ($1, $2, $3, $4)",
        ["int4", "jsonb", "jsonb", "int4"],
        [target.id, communities, references, part],
    )
    queue_refresh(db, target.id)


def _earlier_parts(db: Database, corpus: Corpus) -> tuple[dict[int, int], int]:
    """Return {number: level} of the communities that came before, and the number of the next part. Locks the corpus."""
    db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus.id])
    rows = db.query(
        "SELECT pg_catalog.max(i.part) AS last FROM graphrag.imported_communities i WHERE i.corpus_id = $1",
        ["int4"],
        [corpus.id],
    )
    if rows[0]["last"] is None:
        raise GraphRAGError(
            f'no communities of corpus "{corpus.name}" wait for more',
            sqlstate="55000",
            hint="Send all parts in one transaction, the first without more.",
        )
    rows_before = db.stream(
        "SELECT (c.one ->> 'number')::int8 AS number, (c.one ->> 'level')::int8 AS level"
        "  FROM graphrag.imported_communities i, pg_catalog.jsonb_array_elements(i.communities) AS c (one)"
        " WHERE i.corpus_id = $1",
        ["int4"],
        [corpus.id],
    )
    return {row["number"]: row["level"] for row in rows_before}, int(rows[0]["last"]) + 1


@dataclass(frozen=True, slots=True)
class PendingImport:
    """Imported communities that the next refresh takes over; `entities`: {name: id of the entity it resolves to}."""

    communities: list[dict[str, Any]]
    cited: dict[str, dict[str, Any]]
    entities: dict[str, int]

    def members(self) -> dict[int, list[int]]:
        """Return {number: ids of members}, parents before children, without what cannot be: see `nested`."""
        by_level = sorted(self.communities, key=lambda community: community["level"])
        communities = [
            (
                community["number"],
                community["level"],
                community.get("parent"),
                self._ids(community.get("entities") or ()),
            )
            for community in by_level
        ]
        return nested(communities)

    def _ids(self, names: Iterable[str]) -> set[int]:
        return {self.entities[name] for name in names if name in self.entities}


def nested(communities: Iterable[tuple[int, int, int | None, set[int]]]) -> dict[int, list[int]]:
    """Return {number: members, ascending} of communities (number, level, parent, members), parents first.

    An entity is in one community of a level: the first that lists it, and only if the parent lists it too (two names may
    resolve to one entity). A community without members is left out.
    """
    members_of: dict[int, list[int]] = {}
    assigned: set[tuple[int, int]] = set()
    for number, level, parent, members in communities:
        ids = {entity for entity in members if (level, entity) not in assigned}
        if parent is not None:
            ids &= set(members_of.get(parent, ()))
        if ids:
            assigned |= {(level, entity) for entity in ids}
            members_of[number] = sorted(ids)
    return members_of


def take_pending(db: Database, corpus_id: int) -> PendingImport | None:
    """Remove the communities that wait for a refresh, and return them; the corpus is locked."""
    communities: list[dict[str, Any]] = []
    cited: dict[str, dict[str, Any]] = {kind: {} for kind in _KINDS}
    parts = "SELECT i.communities, i.cited FROM graphrag.imported_communities i WHERE i.corpus_id = $1 ORDER BY i.part"
    has_rows = False
    # One part at a time: each is as long as an argument may be.
    for row in db.stream(parts, ["int4"], [corpus_id], fetch=1):
        has_rows = True
        communities += read_json(row["communities"])
        for kind, stands_for in read_json(row["cited"] or "{}").items():
            cited[kind].update(stands_for)
    if not has_rows:
        return None
    db.query("DELETE FROM graphrag.imported_communities WHERE corpus_id = $1", ["int4"], [corpus_id])
    names = {name for community in communities for name in community.get("entities") or ()}
    names |= set(cited["Entities"].values())
    names |= {name for pair in cited["Relationships"].values() for name in pair}
    keys = {name: key(clean_name(name)) for name in names}
    ids = db.query(
        "SELECT k.key, e.id FROM pg_catalog.unnest($2) AS k (key)"
        '  LEFT JOIN graphrag.aliases a ON a.corpus_id = $1 AND a.key = k.key COLLATE "C"'
        '  JOIN graphrag.entities e ON e.corpus_id = $1 AND e.key = coalesce(a.entity_key, k.key COLLATE "C")',
        ["int4", "text[]"],
        [corpus_id, sorted(set(keys.values()))],
    )
    ids_by_key = {row["key"]: int(row["id"]) for row in ids}
    return PendingImport(communities, cited, {name: ids_by_key[k] for name, k in keys.items() if k in ids_by_key})


def clusters(pending: PendingImport, entities: Ids) -> tuple[list[int], list[Cluster]]:
    """Return numbers of communities and their clusters over `entities` (n,), ids by node number; parents first."""
    members = pending.members()
    by_id = np.argsort(entities)
    places = {number: index for index, number in enumerate(members)}
    communities = {community["number"]: community for community in pending.communities}
    results = []
    for number, ids in members.items():
        nodes = by_id[np.searchsorted(entities, np.array(ids, np.int64), sorter=by_id)]
        parent = communities[number].get("parent")
        results.append(
            Cluster(communities[number]["level"], None if parent is None else places[parent], np.sort(nodes))
        )
    return list(members), results


def entities_not_imported(db: Database, corpus_id: int) -> list[int]:
    """Return the entities that documents without an imported extraction mention: these must still be clustered."""
    rows = db.query(
        "SELECT DISTINCT m.entity_id AS id FROM graphrag.entity_mentions m"
        " WHERE m.corpus_id = $1 AND m.entity_id IS NOT NULL"
        "   AND NOT EXISTS (SELECT FROM graphrag.imported_extractions i WHERE i.document_id = m.document_id)",
        ["int4"],
        [corpus_id],
    )
    return [row["id"] for row in rows]


def store_reports(db: Database, corpus: Corpus, pending: PendingImport, ids: dict[int, int]) -> None:
    """Store the reports and creation times of imported communities, {number: id}; the corpus is locked.

    A report has no hash before `hash_reports`.
    """
    communities = {community["number"]: community for community in pending.communities if community["number"] in ids}
    dates = [
        (ids[number], _time(community["created"]))
        for number, community in communities.items()
        if community.get("created")
    ]
    if dates:
        db.query(
            "UPDATE graphrag.communities c SET created_at = u.created FROM unnest($1, $2) AS u (id, created)"
            " WHERE c.id = u.id",
            ["int8[]", "timestamptz[]"],
            columns(dates),
        )
    numbers_with_report = [number for number, community in communities.items() if community.get("report")]
    if not numbers_with_report:
        return
    numbers = _numbers(db, corpus.id, pending, ids)
    reports = [(ids[number], _report(communities[number]["report"], numbers)) for number in numbers_with_report]
    _cite_chunks(db, [finding for _, report in reports for finding in report.findings])
    stored_reports = _stored_reports(db, [number for number, _ in reports])
    new_reports = [
        (number, report)
        for number, report in reports
        if stored_reports.get(number) != (report.content, report.findings_json())
    ]
    if new_reports:
        ids_of_fresh = [number for number, _ in new_reports]
        db.query("DELETE FROM graphrag.report_vectors WHERE community_id = ANY ($1)", ["int8[]"], [ids_of_fresh])
        write_rows(db, corpus, [(number, report, "") for number, report in new_reports])
        db.query("SELECT graphrag._project_communities($1, $2)", ["int4", "int8[]"], [corpus.id, ids_of_fresh])
    db.query(
        "WITH due AS (UPDATE graphrag.communities SET report_due = false WHERE id = ANY ($1) AND report_due RETURNING id)"
        " UPDATE graphrag.community_reports r SET input_hash = '' FROM due WHERE r.community_id = due.id",
        ["int8[]"],
        [[number for number, _ in reports]],
    )


def _stored_reports(db: Database, ids: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Return {community: (content, findings)} of the stored reports, in the form that `store_reports` compares."""
    rows = db.query(
        "SELECT r.community_id, r.content, r.findings FROM graphrag.community_reports r WHERE r.community_id = ANY ($1)",
        ["int8[]"],
        [ids],
    )
    return {row["community_id"]: (row["content"], _findings_json(json.loads(row["findings"]))) for row in rows}


def _findings_json(findings: list[dict[str, Any]]) -> str:
    return Report("", "", [Finding(**finding) for finding in findings], 0, "").findings_json()


def _numbers(db: Database, corpus_id: int, pending: PendingImport, ids: dict[int, int]) -> Numbers:
    """Return what the numbers in the texts stand for in this corpus: {kind: {number in the text: id}}."""
    entities = {
        number: pending.entities[name] for number, name in pending.cited["Entities"].items() if name in pending.entities
    }
    pairs = {
        number: (pending.entities[source], pending.entities[target])
        for number, (source, target) in pending.cited["Relationships"].items()
        if source in pending.entities and target in pending.entities
    }
    rows = db.query(
        "SELECT r.id, r.low_id, r.high_id FROM graphrag.relationships r"
        "  JOIN (SELECT DISTINCT * FROM unnest($2, $3)) AS u (low, high) ON u.low = r.low_id AND u.high = r.high_id"
        " WHERE r.corpus_id = $1",
        ["int4", "int8[]", "int8[]"],
        [corpus_id, [min(pair) for pair in pairs.values()], [max(pair) for pair in pairs.values()]],
    )
    ids_by_pair = {(row["low_id"], row["high_id"]): row["id"] for row in rows}
    relationships = {number: ids_by_pair.get((min(pair), max(pair))) for number, pair in pairs.items()}
    return {
        "Entities": entities,
        "Relationships": {
            number: number_here for number, number_here in relationships.items() if number_here is not None
        },
        "Reports": {str(number): number_here for number, number_here in ids.items()},
    }


def renumbered(text: str, numbers: Numbers) -> tuple[str, dict[str, list[int]]]:
    """Return a text whose references have this corpus' numbers, and the numbers by kind. Unknown references are left out."""
    ids_by_kind: dict[str, list[int]] = {}

    def replace(bracket: re.Match[str]) -> str:
        parts = [_PART.fullmatch(part) for part in bracket[1].split(";")]
        if not all(parts):
            return bracket[0]
        parts_kept = []
        for part in parts:
            assert part is not None
            numbers_there = [number.strip() for number in part[2].split(",")]
            numbers_here = list(dict.fromkeys(numbers.get(part[1], {}).get(number, 0) for number in numbers_there))
            if numbers_here := [number for number in numbers_here if number]:
                ids_by_kind.setdefault(part[1], []).extend(numbers_here)
                more = ["+more"] if "+more" in numbers_there else []
                parts_kept.append(f"{part[1]} ({', '.join([*map(str, numbers_here), *more])})")
        lead = " " if bracket[0].startswith(" ") else ""
        return f"{lead}[Data: {'; '.join(parts_kept)}]" if parts_kept else ""

    return _BRACKET.sub(replace, text), ids_by_kind


def _report(source_report: dict[str, Any], numbers: Numbers) -> Report:
    def text(name: str, source: dict[str, Any] = source_report) -> str:
        return renumbered(clean(source.get(name) or ""), numbers)[0]

    findings = []
    for item in source_report.get("findings") or ():
        cited = renumbered(clean(f"{item.get('summary') or ''}\n{item.get('explanation') or ''}"), numbers)[1]
        entities, relationships = (list(dict.fromkeys(cited.get(kind, ()))) for kind in ("Entities", "Relationships"))
        findings.append(Finding(text("summary", item), text("explanation", item), entities, relationships))
    return Report(
        text("title"),
        text("summary"),
        findings,
        float(source_report.get("rating") or 0),
        text("rating_explanation"),
        source_report.get("model"),
        text("content"),
    )


def _cite_chunks(db: Database, findings: Sequence[Finding]) -> None:
    """Have each finding cite the best evidence chunk of each of its relationships."""
    rows = db.query(
        "SELECT u.id, m.chunk_id FROM pg_catalog.unnest($1) AS u (id)"
        f" CROSS JOIN LATERAL ({BEST_CHUNK.format(relationship='u.id')}) m",
        ["int8[]"],
        [sorted({number for finding in findings for number in finding.relationship_ids})],
    )
    best_chunks = {row["id"]: row["chunk_id"] for row in rows}
    for finding in findings:
        finding.chunk_ids = list(
            dict.fromkeys(best_chunks[number] for number in finding.relationship_ids if number in best_chunks)
        )


def _check(communities: str | None, levels: dict[int, int]) -> None:
    """Check communities; `levels`: {number: level} of earlier parts, to which these are added."""
    values = read_json(communities) if communities else None
    if not isinstance(values, list):
        raise GraphRAGError(
            f"communities must be an array, not {str(communities)[:40]!r}",
            hint='For example [{"number": 0, "level": 0, "entities": ["Ada", "Bob"], "report": {"title": "…",'
            ' "summary": "…", "content": "…", "findings": [], "rating": 5}}].',
        )
    for place, community in enumerate(values):
        path = f"communities[{place}]"
        check_object(community, path, _COMMUNITY)
        for name in ("number", "level"):
            if type(community.get(name)) is not int or community[name] < 0:
                raise bad_field(path, name, community.get(name), "a whole number, 0 or more")
        if community["number"] in levels:
            raise bad_field(path, "number", community["number"], "each number once")
        levels[community["number"]] = community["level"]
        if not all(isinstance(name, str) for name in as_list(community, path, "entities")):
            raise bad_field(path, "entities", community["entities"], "an array of names")
        check_text(community, path, "created")
        if community.get("created") is not None and not _is_date(community["created"]):
            raise bad_field(path, "created", community["created"], "a date or time, such as 2026-01-09")
        if community.get("report") is not None:
            _check_report(community["report"], f"{path}.report")
    for place, community in enumerate(values):
        parent = community.get("parent")
        if (parent is None) != (community["level"] == 0) or (
            parent is not None and levels.get(parent) != community["level"] - 1
        ):
            expected = "the number of a community one level up; none at level 0"
            raise bad_field(f"communities[{place}]", "parent", parent, expected)


def _time(text: str) -> str:
    """Return a time with its zone, UTC where the text names none."""
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).isoformat()


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _check_report(report: Any, path: str) -> None:
    check_object(report, path, _REPORT)
    for name in ("title", "summary", "content"):
        check_text(report, path, name, is_required=True)
    for name in ("rating_explanation", "model"):
        check_text(report, path, name)
    rating = report.get("rating", 0)
    if isinstance(rating, bool) or not isinstance(rating, (int, float)) or not 0 <= rating <= 10 or math.isnan(rating):
        raise bad_field(path, "rating", rating, "a number from 0 to 10")
    for number, finding in enumerate(as_list(report, path, "findings")):
        check_object(finding, f"{path}.findings[{number}]", _FINDING)
        for name in _FINDING:
            check_text(finding, f"{path}.findings[{number}]", name)


def _check_references(references: str | None) -> None:
    references_by_kind = read_json(references) if references else {}
    check_object(references_by_kind, "cited", _KINDS)
    for kind, width in (("Entities", 1), ("Relationships", 2)):
        stands_for = references_by_kind.get(kind, {})
        check_object(stands_for, f"cited.{kind}", stands_for if isinstance(stands_for, dict) else ())
        for number, names in stands_for.items():
            name_list = [names] if width == 1 else names
            if (
                not isinstance(name_list, list)
                or len(name_list) != width
                or not all(isinstance(name, str) for name in name_list)
            ):
                raise bad_field(f"cited.{kind}", str(number), names, "a name" if width == 1 else "[source, target]")
