"""Packs the context for a language model into token budgets, with numbered references.

Source: LightRAG (arXiv 2410.05779); budgets cut whole entries. Unlike there, excerpts fill the rest of a budget.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.search.contexts import claims as claims_of
from pg_graphrag.search.contexts import row_tables
from pg_graphrag.search.contexts.best_rows import best_rows
from pg_graphrag.search.contexts.excerpts import excerpts, fitting_sentences, whole_beside
from pg_graphrag.search.contexts.sentences_in_order import Sentence, answering
from pg_graphrag.search.query.found_chunk import FoundChunk
from pg_graphrag.search.query.mode import Budgets, Mode
from pg_graphrag.search.query.mode_options import SearchOptions
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.retrievers import graph_evidence
from pg_graphrag.search.retrievers.empty import warn_of_nothing
from pg_graphrag.search.retrievers.relevance import relevant
from pg_graphrag.server import Row, cached_property
from pg_graphrag.text.marks import neutral, neutral_line
from pg_graphrag.text.tokenizers import Tokenizer, tokenizer

MAX_REPORTS = 100
# From so many tokens on, entities and relationships get their whole part. In a smaller context they get less of it, and
# what the texts leave: `python -m bench extracts --contexts`.
WHOLE_GRAPH = 4000
_CHUNK = ("chunk_id", "document_id", "content", "excerpt", "score", "explain")
# What a document is called.
_SOURCE = ("source_key", "title")
_CLAIM = (
    "claim_id",
    "chunk_id",
    "document_id",
    "subject",
    "object",
    "type",
    "status",
    "start_date",
    "end_date",
    "description",
)


@dataclass(frozen=True)
class TableStatements:
    """What the tables of a context say, so that nothing else repeats it: {chunk: the statements that its row makes}.

    Rows that have no place in a table have them in their texts; there, too, other rows have names in place of keys (`titles`),
    behind the names of `columns` that lead to rows.
    """

    heads: dict[int, str] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    columns: frozenset[str] = frozenset()

    def rest(self, description: str) -> str:
        """Return the rest of a description."""
        text = " ".join(description.split())
        for statement in self._statements:
            text = text.replace(statement, " ")
        text = " ".join(text.split())
        return "" if text in self._lines else self.named(text)

    def text(self, chunk: int, content: str) -> str:
        """Return the rest of a chunk's text."""
        head = self.heads.get(chunk)
        return content if head is None else content.removeprefix(head).lstrip()

    @classmethod
    def of(cls, near: row_tables.RowsNear, entries: list[dict[str, Any]]) -> "TableStatements":
        """Make those of tables with these entries of `near.fitting`."""
        documents = {entry["document_id"] for entry in entries}
        # Keys without a prefix are words as others are.
        keys = {row.row["source_key"] for row in near.rows if row.row["key_prefix"]}
        return cls(
            {row.row["chunk_id"]: row.row["head"] for row in near.rows if row.row["document_id"] in documents},
            {key: title for key, title in near.titles.items() if key in keys},
            frozenset(name for row in near.rows for name in row.row["reference_types"]),
        )

    @cached_property
    def _statements(self) -> list[str]:
        statements = {" ".join(head.split()) for head in self.heads.values()}
        return sorted(statements, key=lambda statement: (-len(statement), statement))

    @cached_property
    def _lines(self) -> frozenset[str]:
        return frozenset(" ".join(line.split()) for head in self.heads.values() for line in head.split("\n"))

    @cached_property
    def _keys(self) -> re.Pattern[str]:
        columns, keys = (
            "|".join(sorted(map(re.escape, names), key=len, reverse=True)) for names in (self.columns, self.titles)
        )
        return re.compile(rf"(?<!\w)({columns}): ({keys})(?!\S)")

    def named(self, text: str) -> str:
        """Return what a row says with names of other rows in place of their keys."""
        if not (self.titles and self.columns and ": " in text):
            return text
        return self._keys.sub(lambda match: f"{match[1]}: {self.titles[match[2]]}", text)


NO_STATEMENTS = TableStatements()
# {document: table and key} of rows.
NO_PLACES: Mapping[int, dict[str, str]] = MappingProxyType({})


def assemble(query: Query, mode: Mode, max_tokens: int | None, numbers: dict[int, int] | None = None) -> dict[str, Any]:
    """Return the context of a prepared query, as graphrag.context does.

    `numbers`: {document: the number it is cited by}, where several contexts share them; new ones are added.
    """
    total = budget(query, max_tokens)
    parts_of = mode.context
    ranks = tokenizer(query.corpus.tokenizer, query.corpus.tokenizer_fingerprint)
    numbers = {} if numbers is None else numbers
    evidence = _merge_evidence(query, parts_of.evidence) if query.text else graph_evidence.Evidence()
    rows: list[FoundChunk] = []
    if total and (query.options.include_chunks or query.options.min_relevance is not None):
        query, rows = best_rows(query, mode, query.options.chunk_top_k)
    # One row that is relevant lets all stay: an answer may take a passage that shares little with the question.
    least_relevance = query.options.min_relevance
    is_irrelevant = least_relevance is not None and not relevant(query, rows) and total > 0 and least_relevance > 0
    has_found = bool(rows)
    if is_irrelevant:
        evidence = graph_evidence.Evidence()
    if is_irrelevant or not query.options.include_chunks:
        rows = []
    retrieved = rows
    budgets = (parts_of.budgets or proportional)(query.options, total)
    if "instead" in query.notes:
        # Chunks stand in for the mode's own material: they get what a quarter of its reports leaves.
        budgets = replace(budgets, text=None, reports=budgets.reports // 4)
    elif parts_of.texts:
        # They get what reports leave, and a quarter of theirs at most.
        rows = parts_of.texts(rows)
        for_rows = min(budgets.reports // 4, sum(row.token_count for row in rows))
        budgets = replace(budgets, text=None, reports=budgets.reports - for_rows)
    claims = parts_of.claims(query, evidence, rows) if parts_of.claims else []
    claim_lines, argued = _fit(map(_unnumbered_line, claims), budgets.claims, ranks)
    claims = [_referred_to(claim, numbers, _CLAIM) for claim in claims[: len(claim_lines)]]
    entities = graph_evidence.entity_rows(query, evidence.entities)
    row_budget = int(min(1.0, total / (query.options.max_total_tokens or 1)) * query.options.max_row_tokens)
    table_rows: list[dict[str, Any]] = []
    row_tokens, places, tabled = 0, NO_PLACES, NO_STATEMENTS
    if query.corpus.has_rows:
        near = row_tables.rows_near(query, (row.document_id for row in retrieved), [row["id"] for row, _ in entities])
        table_rows, row_tokens = near.fitting(row_budget, ranks, numbers)
        places, tabled = near.places(), TableStatements.of(near, table_rows)
    for_entities, for_relationships = budgets.graph or _halves(
        total - int(budgets.text or 0) - budgets.reports - argued
    )
    # Without excerpts, texts may have no use for the room.
    if budgets.graph and budgets.text is None and query.options.excerpts and total < WHOLE_GRAPH:
        overhead_of = _overhead(ranks, set(), places)
        texts = row_tokens + sum(row.token_count + overhead_of(row) for row in rows)
        left = total - texts - ranks.count_known("Entities:\nRelationships:\nText:\nReferences:\n")
        part = min(1.0, max(total / WHOLE_GRAPH, left / (sum(budgets.graph) or 1)))
        for_entities, for_relationships = int(part * for_entities), int(part * for_relationships)
    entity_lines, entity_tokens = _fit((_entity_line(row, tabled) for row, _ in entities), for_entities, ranks)
    relationships = graph_evidence.relationship_rows(query, evidence.relationships)
    if parts_of.in_order:
        place = {relationship: index for index, relationship in enumerate(evidence.relationships)}
        relationships = sorted(relationships, key=lambda entry: place[entry[0]["id"]])
    descriptions = {tabled.rest(row["description"]) for row, _ in entities[: len(entity_lines)]}
    relationship_lines, more = _fit(
        (_relationship_line(row, tabled, descriptions) for row, _ in relationships), for_relationships, ranks
    )
    # What a table says needs no text.
    in_tables = {entry["document_id"] for entry in table_rows if not entry["has_text"]}
    rows = [row for row in rows if row.document_id not in in_tables]
    reports = [] if is_irrelevant else _reports(query, mode)
    report_texts, report_tokens = _fit(
        (neutral(tabled.named(report["content"])) for report in reports), budgets.reports, ranks
    )
    for_text = (
        total - entity_tokens - more - report_tokens - argued if budgets.text is None else budgets.text
    ) - row_tokens
    fitting, in_order = _whole(rows, for_text), list[Sentence]()
    if query.options.excerpts and len(fitting) < len(rows):
        in_order = answering(query, rows)
        cited = {entry["document_id"] for entry in [*claims, *table_rows]}
        overhead_of = _overhead(ranks, cited, places)
        fitting = whole_beside(rows, fitting, in_order, for_text, ranks.count_known, overhead_of)

    def laid_out(rows: list[FoundChunk]) -> tuple[list[dict[str, Any]], list[str], int]:
        """Return chunks with their references, the prompt in parts and its tokens."""
        chunks = _chunks(rows, dict(numbers), places, tabled)
        parts = prompt_parts(entity_lines, relationship_lines, report_texts, claims, table_rows, chunks, tabled)
        return chunks, parts, sum(map(ranks.count_known, parts))

    def lay_out() -> tuple[list[dict[str, Any]], list[str], int]:
        """Do so with what fits. The sums above leave out headings and references: the last entries are dropped first."""
        while True:
            chunks, parts, tokens = laid_out(parts_of.arrange(fitting) if parts_of.arrange else fitting)
            if tokens <= total or not parts:
                return chunks, parts, tokens
            last_part: list[Any] = fitting or report_texts or claims or table_rows or relationship_lines or entity_lines
            last_part.pop()

    chunks, parts, tokens = lay_out()
    if query.options.excerpts and len(fitting) < len(rows):
        room = min(total - tokens, for_text - sum(row.token_count for row in fitting))
        cited = {entry["document_id"] for entry in [*claims, *table_rows, *chunks]}
        room -= 0 if cited else ranks.count_known("Text:\nReferences:\n")
        overhead_of = _overhead(ranks, cited, places)
        fitting += excerpts(query, rows[len(fitting) :], in_order, room, ranks.count_known, overhead_of)
        chunks, parts, tokens = lay_out()
    least: int | None = None
    if retrieved and total and not (chunks or claims or table_rows or report_texts):
        fitting, least = fitting_sentences(query, retrieved, total, lambda rows: laid_out(rows)[2])
        if not fitting and (entity_lines or relationship_lines):
            # A sentence that can be cited says more.
            entity_lines, relationship_lines = [], []
            fitting, least = fitting_sentences(query, retrieved, total, lambda rows: laid_out(rows)[2])
        chunks, parts, tokens = lay_out()
    numbers |= {chunk["document_id"]: chunk["reference"] for chunk in chunks}
    references = _references([*claims, *table_rows, *chunks])
    for entry in [*claims, *chunks]:
        del entry["source"]
    notes: dict[str, Any] = query.profile_notes()
    if "instead" in query.notes:
        notes["explain"] = {"instead": query.notes["instead"]}
    has_matches = any((rows, table_rows, entities, relationships, reports, claims))
    if is_irrelevant:
        irrelevant = f"no chunk has a relevance of {least_relevance} or more"
        notes["explain"] = {"empty": irrelevant if has_found else warn_of_nothing(query, mode) or irrelevant}
    elif not parts and (has_matches or (query.text and not total)):
        notes["explain"] = too_small(query, total, least)
    elif total and not has_matches:
        reason = warn_of_nothing(query, mode)
        notes |= {} if reason is None else {"explain": {"empty": reason}}
    return {
        "entities": [_entity(*entry) for entry in entities[: len(entity_lines)]],
        "relationships": [_relationship(*entry) for entry in relationships[: len(relationship_lines)]],
        "reports": reports[: len(report_texts)],
        "claims": claims,
        "tables": row_tables.tables(table_rows) if table_rows else [],
        "chunks": chunks,
        "references": references,
        "prompt": "".join(parts),
        "tokens": tokens,
        **notes,
    }


def proportional(options: SearchOptions, total: int) -> Budgets:
    """A smaller whole keeps the proportions of its parts, so that the graph never crowds out the text.

    In LightRAG each part has a budget of its own, so with its profile the text does not get what the graph leaves.
    """
    share = min(1.0, total / options.max_total_tokens) if options.max_total_tokens else 1.0
    graph = int(share * options.max_entity_tokens), int(share * options.max_relation_tokens)
    return Budgets(max(0, total - sum(graph)) if options.profile == "paper" else None, 0, 0, graph)


def _halves(tokens: int) -> tuple[int, int]:
    return tokens // 2, tokens - tokens // 2


def _reports(query: Query, mode: Mode) -> list[dict[str, Any]]:
    """Return the reports that the mode reads, the most important first."""
    reports = mode.context.reports(query, MAX_REPORTS) if mode.context.reports and query.text else []
    names = ("community_id", "level", "title", "summary", "content", "rating")
    return [{name: getattr(report, name) for name in names} for report in reports]


def budget(query: Query, max_tokens: int | None) -> int:
    """Return the tokens that a context may have; 22023 for a bad number."""
    total = query.options.max_total_tokens if max_tokens is None else max_tokens
    if total < 0:
        raise GraphRAGError(f"max_tokens cannot be {total}", hint="Give a number of tokens, 0 or more.")
    return total


def too_small(query: Query, total: int, least: int | None) -> dict[str, Any]:
    """Warn that nothing fits into so many tokens; return that for `explain`, with the least number that is enough."""
    reason = f"nothing of what was found fits into {total} tokens"
    at_least = "more" if least is None else f"at least {least}"
    query.warn_once("small budget", reason, f"Give max_tokens (option max_total_tokens) {at_least}.")
    return {"empty": reason} | ({} if least is None else {"least_tokens": least})


def _merge_evidence(query: Query, sources: Iterable[graph_evidence.EvidenceSource]) -> graph_evidence.Evidence:
    evidence = graph_evidence.Evidence()
    for source in sources:
        part = source(query)
        for mine, theirs in ((evidence.entities, part.entities), (evidence.relationships, part.relationships)):
            for item, score in theirs.items():
                mine[item] = max(score, mine.get(item, 0.0))
    return evidence


def _entity(row: Row, score: float) -> dict[str, Any]:
    names = ("name", "type", "description", "degree")
    return {"entity_id": row["id"]} | {name: row[name] for name in names} | {"score": score}


def _relationship(row: Row, score: float) -> dict[str, Any]:
    names = ("source", "target", "keywords", "description", "weight")
    return {"relationship_id": row["id"]} | {name: row[name] for name in names} | {"score": score}


def _entity_line(row: Row, tabled: TableStatements) -> str:
    """Return an entity as a line, "" if tables say all of it."""
    rest = tabled.rest(row["description"])
    if not rest and row["description"]:
        return ""
    # So begins what a row says.
    start = f"{row['type']}: {row['name']}"
    if rest.startswith(start) and not rest[len(start) : len(start) + 1].isalnum():
        rest = rest[len(start) :].lstrip()
    return neutral_line(f"- {row['name']} ({row['type']}): {rest}") + "\n"


def _relationship_line(row: Row, tabled: TableStatements, descriptions: set[str]) -> str:
    """Return a relationship as a line, "" if tables say all of it; it is added to `descriptions`, which are not repeated."""
    rest = tabled.rest(row["description"])
    if not rest and row["description"]:
        return ""
    # For a row's relationship, the description has it already, with its other end.
    ends = row["source"], row["target"]
    keywords = [word for word in row["keywords"] or () if not any(f"{word}: {end}" in rest for end in ends)]
    kinds = f" [{', '.join(keywords)}]" if keywords else ""
    description = "" if rest in descriptions else f": {rest}"
    descriptions.add(rest)
    return neutral_line(f"- {row['source']} -- {row['target']}{kinds}{description}") + "\n"


def _unnumbered_line(claim: dict[str, Any]) -> str:
    return claims_of.line(claim | {"reference": 0})


def _fit(entries: Iterable[str], budget: int, ranks: Tokenizer) -> tuple[list[str], int]:
    """Return the whole entries, best first, that fit, and their tokens; an empty one takes none."""
    fitting: list[str] = []
    tokens = 0
    for entry in entries:
        cost = ranks.count_known(entry) + 1 if entry else 0
        if tokens + cost > budget:
            break
        fitting.append(entry)
        tokens += cost
    return fitting, tokens


def _whole(rows: list[FoundChunk], budget: int) -> list[FoundChunk]:
    """Return the best chunks, as far as they fit as a whole."""
    fitting: list[FoundChunk] = []
    for row in rows:
        budget -= row.token_count
        if budget < 0:
            break
        fitting.append(row)
    return fitting


def _overhead(ranks: Tokenizer, cited: set[int], places: Mapping[int, dict[str, str]]) -> Callable[[FoundChunk], int]:
    """Return a function of a chunk's row: its tokens besides its text; `cited`: documents that have a reference."""

    def overhead(row: FoundChunk) -> int:
        mark = ranks.count_known("[100] \n\n")
        if row.document_id in cited:
            return mark
        source = {"source_key": row.source_key, "title": row.title} | places.get(row.document_id, {})
        return mark + ranks.count_known(f"[100] {reference_name(source)}\n")

    return overhead


def _chunks(
    rows: list[FoundChunk], numbers: dict[int, int], places: Mapping[int, dict[str, str]], tabled: TableStatements
) -> list[dict[str, Any]]:
    """Return chunks without what tables say (`tabled`), each with the number of its document.

    `places`: {document: table and key} of rows.
    """
    entries = []
    for row in rows:
        if (place := places.get(row.document_id)) is not None:
            content = tabled.text(row.chunk_id, row.content)
            if not content:
                continue
            row = replace(row, content=content, excerpt=row.excerpt or content != row.content)
        entry = _referred_to({name: getattr(row, name) for name in (*_SOURCE, *_CHUNK)}, numbers, _CHUNK)
        entry["source"] |= place or {}
        entries.append(entry)
    return entries


def _referred_to(row: Row, numbers: dict[int, int], names: Sequence[str]) -> dict[str, Any]:
    """Return a chunk or claim with the number of its document, and what that is called."""
    reference = numbers.setdefault(row["document_id"], len(numbers) + 1)
    source = {name: row[name] for name in _SOURCE}
    return {name: row[name] for name in names} | {"reference": reference, "source": source}


def reference_name(reference: dict[str, Any]) -> str:
    """Return what a reference is called: the title of a document, the table and key of a row."""
    if "table" not in reference:
        return neutral_line(reference["title"] or reference["source_key"])
    title = f": {reference['title']}" if reference["title"] not in (None, "", reference["key"]) else ""
    return neutral_line(f"{reference['table']} {reference['key']}{title}")


def _references(cited: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one numbered reference per document."""
    references = {
        entry["reference"]: {"number": entry["reference"], "document_id": entry["document_id"]} | entry["source"]
        for entry in cited
    }
    return [references[number] for number in sorted(references)]


def prompt_parts(
    entities: list[str],
    relationships: list[str],
    reports: list[str],
    claims: list[dict[str, Any]],
    table_rows: list[dict[str, Any]],
    chunks: list[dict[str, Any]],
    tabled: TableStatements = NO_STATEMENTS,
) -> list[str]:
    """Return the prompt in parts whose tokens add up to the whole's: no token crosses these line ends."""
    parts: list[str] = []
    if reports:
        parts.append("Reports:\n" + "\n\n".join(reports) + "\n\n")
    claim_lines = [claims_of.line(claim) + "\n" for claim in claims]
    for heading, lines in (
        ("Entities:\n", entities),
        ("Relationships:\n", relationships),
        ("Claims:\n", claim_lines),
        ("Rows:\n", row_tables.lines(table_rows) if table_rows else []),
    ):
        if lines := [line for line in lines if line]:
            parts += (heading, *lines[:-1], lines[-1] + "\n")
    if chunks:
        parts.append("Text:\n")
        for chunk in chunks:
            content = tabled.named(chunk["content"]) if "table" in chunk["source"] else chunk["content"]
            parts += (f"[{chunk['reference']}]", f" {neutral(content)}\n\n")
    # Rows in tables have their names there.
    in_tables = {entry["reference"] for entry in table_rows}
    references = [entry for entry in _references([*claims, *chunks]) if entry["number"] not in in_tables]
    if references:
        parts.append("References:\n")
        parts += (f"[{reference['number']}] {reference_name(reference)}\n" for reference in references)
    if parts:
        parts[-1] = parts[-1][: -1 if references else -2]
    return parts
