"""The parts of a mode of search: each mode is one object in one file of `pg_graphrag.search.modes`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pg_graphrag.search.query.found_chunk import FoundChunk
from pg_graphrag.search.query.mode_options import OF_EVERY_MODE, Option, SearchOptions
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.query.rankings import Fused

if TYPE_CHECKING:
    from pg_graphrag.search.contexts.dry_run import DryRun
    from pg_graphrag.search.retrievers.graph_evidence import Evidence, EvidenceSource
    from pg_graphrag.search.retrievers.relevant_reports import CommunityReport

# (a query, how deep each retriever looks) to chunks with their scores.
Retriever = Callable[[Query, int], Fused]


@dataclass(frozen=True, eq=False, repr=False)
class Budgets:
    """Tokens of the parts of a context.

    `text` None: the rest; `graph`: tokens of entities and of relationships, None: half of the rest each.
    """

    text: int | None
    reports: int
    claims: int
    graph: tuple[int, int] | None


def shares(text: float, reports: float) -> Callable[[SearchOptions, int], Budgets]:
    """GraphRAG's shares of the whole; the rest is for claims (a third of it at most), entities and relationships."""

    def budgets(options: SearchOptions, total: int) -> Budgets:
        for_text, for_reports = int(total * text), int(total * reports)
        return Budgets(for_text, for_reports, (total - for_text - for_reports) // 3, None)

    return budgets


@dataclass(frozen=True, eq=False, repr=False)
class Context:
    """The parts of a mode's context besides its chunks.

    `evidence`: the sources of its entities and relationships; `in_order`: relationships keep the order of the evidence
    (GraphRAG: those inside the network first), instead of the best scored first; `reports`: returns at most so many;
    `texts`: chooses the chunks that are shown beside reports; `claims`: of the evidence, or of the chunks; `arrange`: the
    order of the chunks; `budgets`: divides the whole (`context_packing.proportional`).
    """

    evidence: tuple["EvidenceSource", ...] = ()
    in_order: bool = False
    reports: Callable[[Query, int], list["CommunityReport"]] | None = None
    texts: Callable[[list[FoundChunk]], list[FoundChunk]] | None = None
    claims: Callable[[Query, "Evidence", list[FoundChunk]], list[dict[str, Any]]] | None = None
    arrange: Callable[[list[FoundChunk]], list[FoundChunk]] | None = None
    budgets: Callable[[SearchOptions, int], Budgets] | None = None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Mode:
    """A mode of search, context and ask.

    `name`, `does`, `source`, `details`: its name, what it does, its paper or page, and further facts, in the words of the
      manual.
    `place`: its place in lists of modes.
    `function`: the comment of its own SQL function, name_search; None: it has none.
    `options`: names of shared options, and its own options.
    `defaults`: its own defaults of shared options.
    `mistaken_for`: modes that it could be confused with, and the hint for one of their options.
    `reads_keywords`: whether it uses keywords.
    `answer`: makes the context of an answer with models, of so many tokens; None: the answer is made from the context that
      `context` describes.
    `estimate`: counts the requests of `answer` at most; None: `answer` itself makes its requests to the dry run.
    """

    name: str
    does: str
    source: str
    retrieve: Retriever
    details: str = ""
    place: int = 1000
    function: str | None = None
    options: tuple[str | Option[Any], ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    mistaken_for: Mapping[str, str] = field(default_factory=dict)
    reads_keywords: bool = True
    context: Context = Context()
    answer: Callable[[Query, int], dict[str, Any]] | None = None
    estimate: Callable[["DryRun"], None] | None = None

    def has(self, option: str) -> bool:
        """Whether it has an option."""
        return option in OF_EVERY_MODE or option in self.options or option in self.own_options

    @property
    def own_options(self) -> dict[str, Option[Any]]:
        """The options that it alone has."""
        return {option.name: option for option in self.options if isinstance(option, Option)}
