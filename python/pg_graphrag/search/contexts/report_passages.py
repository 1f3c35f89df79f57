"""What models read for questions about a whole corpus: reports on communities, and texts outside of all communities."""

import random
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pg_graphrag.search.contexts.points import (
    BATCH_TOKENS,
    Passage,
    Sources,
    cited,
    counter,
    first_batch,
    tokens_read,
    window_passage,
)
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.retrievers import passages
from pg_graphrag.search.retrievers.near_chunks import outside
from pg_graphrag.search.retrievers.relevant_reports import CommunityReport, read_reports, visible_communities
from pg_graphrag.search.retrievers.themes import level_cut
from pg_graphrag.text.marks import neutral, neutral_line, without_headings

if TYPE_CHECKING:
    from pg_graphrag.search.contexts.dry_run import DryRun

# Seed that shuffles the reports: neighbours are about the same things.
SEED = 86


def cut_reports(query: Query) -> list[CommunityReport]:
    """Return the reports of the level that the caller may see."""
    return reports_of(query, level_cut(query))


def reports_of(query: Query, communities: Iterable[int]) -> list[CommunityReport]:
    """Return the reports on communities that the caller may see, by id."""
    return read_reports(query.db, sorted(visible_communities(query, list(communities))))


def passages_of(query: Query, reports: list[CommunityReport]) -> tuple[list[Passage], Sources]:
    """Return (reports, shuffled; the texts that they rest on)."""
    sources = Sources()
    sources.add(query, (chunk for report in reports for chunk in report.chunk_ids))
    return [report_passage(report, sources) for report in shuffled(reports)], sources


def shuffled(reports: list[CommunityReport]) -> list[CommunityReport]:
    """Return reports in a fixed random order."""
    return random.Random(SEED).sample(reports, len(reports))


def report_passage(report: CommunityReport, sources: Sources) -> Passage:
    """Return a report whose findings carry the numbers of the documents they rest on."""
    parts, all_numbers = [f"# {neutral_line(report.title)}", neutral(without_headings(report.summary))], set()
    for finding in report.findings:
        numbers = sources.numbers_of(finding.chunk_ids)
        all_numbers.update(numbers)
        parts.append(f"## {neutral_line(finding.summary)} {cited(numbers)}".rstrip())
        parts.append(neutral(without_headings(finding.explanation)))
    return Passage("\n\n".join(part for part in parts if part), frozenset(all_numbers))


def outside_passages(query: Query, sources: Sources, task: str) -> list[Passage]:
    """Return the texts of `outside`, each by its nearest window, as many as one request of a task reads."""
    chunks = list(outside(query))
    sources.add(query, chunks)
    nearest = passages.nearest(query, chunks)
    texts = [window_passage(chunk, nearest, sources) for chunk in chunks if chunk in sources.chunks]
    return first_batch(texts, counter(query), tokens_read(query, task, question=query.text, reports=""))


def outside_note(query: Query, read: Sequence[Passage]) -> dict[str, Any]:
    """Return how many texts of `outside` were read, and how many had no room; where there are any."""
    number = len(outside(query))
    return {"outside": {"read": len(read), "left": number - len(read)}} if number else {}


def unknown_outside(dry_run: "DryRun") -> int:
    """Return the tokens that `outside_passages` have at most where only the query's vector tells; it is counted."""
    if dry_run.query.has_vector:
        return 0
    dry_run.embeds(1)
    return dry_run.quarter(dry_run.bytes_of(BATCH_TOKENS))
