"""lazy: LazyGraphRAG (Microsoft Research 2024): best-first over chunks, breadth-first over communities, a budget of
tests.

The index needs no call of a model. A relevance test decides whether a chunk helps: a model, or a threshold on the
chunk's similarity to the query. `k`, `z` and the threshold were not published; they are ours.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from pg_graphrag.ground.numeric import difference, np
from pg_graphrag.llm.asking.length_limits import MAX_PARTS
from pg_graphrag.search.contexts import claims
from pg_graphrag.search.contexts.points import (
    Passage,
    Sources,
    cited,
    least_batch,
    points_of,
    warn_of_faults,
    window_passage,
    window_text,
)
from pg_graphrag.search.contexts.relevance_tests import ModelTests
from pg_graphrag.search.contexts.row_tables import MAX_ROWS
from pg_graphrag.search.graph_view.row_references import referenced_chunks
from pg_graphrag.search.query.found_chunk import FoundChunk
from pg_graphrag.search.query.mode import Budgets, Context, Mode
from pg_graphrag.search.query.mode_options import Option, SearchOptions, integer
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.query.rankings import Fused, best_places, ranking, single_ranking
from pg_graphrag.search.retrievers import concept_graph as concepts
from pg_graphrag.search.retrievers import evidence_chunks, passages
from pg_graphrag.search.retrievers.lexical import is_about_the_whole
from pg_graphrag.search.retrievers.near_chunks import CANDIDATES, NOWHERE, candidates, communities_of, near_enough
from pg_graphrag.server import Row
from pg_graphrag.text.marks import neutral_line

if TYPE_CHECKING:
    from pg_graphrag.search.contexts.dry_run import DryRun

RELEVANCE_TEST_BUDGET = Option("relevance_test_budget", 100, integer(1, 100_000))
# Chunks of a community that are tested at a time; and barren communities in a row after which the search goes deeper.
K = Option("k", 10, integer(1, 1000))
Z = Option("z", 5, integer(1, 1000))
# Passages that the model is shown in one request.
TESTS_PER_CALL = Option("tests_per_call", 10, integer(1, 50), ask_only=True)
# Concepts that the model is shown to refine a question with, and those of one sub-query.
CONCEPTS = 40
CONCEPTS_EACH = 5
# Share of a context that the claims of its chunks may have.
CLAIMS = 0.15

# From (a query, chunks in the order in which the budget is spent, the rest of the budget) to (whether each chunk is
# relevant, how many tests beyond one for each were spent: requests that were sent again).
Tester = Callable[[Query, Sequence[int], int], tuple[Sequence[bool], int]]


@dataclass
class Match:
    """The result of a search: {chunk: (its community, the number of its test)} in the order of the tests; and its cost."""

    relevant: dict[int, tuple[int, int]] = field(default_factory=dict)
    nearness: dict[int, float] = field(default_factory=dict)
    tests: int = 0


def retrieve(query: Query, depth: int) -> Fused:
    """Return the relevant chunks, the nearest first."""
    result = match(query, query.options[RELEVANCE_TEST_BUDGET], by_nearness)
    query.notes["relevance_tests"] = {
        "spent": result.tests,
        "budget": query.options[RELEVANCE_TEST_BUDGET],
        "relevant": len(result.relevant),
        "by": "nearness",
    }
    nearness = {chunk: result.nearness[chunk] for chunk in result.relevant} | _led_to(query, result.relevant)
    if is_about_the_whole(query):
        nearness = _in_turns(nearness, result)
    ids = np.array(sorted(nearness), np.int64)
    scores = np.array([nearness[chunk] for chunk in ids.tolist()])

    def explain(chunk: int) -> dict[str, Any]:
        if chunk not in result.relevant:
            return {"of_row": True}
        community, test = result.relevant[chunk]
        return {"test": test} | ({"community": community} if community != NOWHERE else {})

    return single_ranking([ranking("lazy", ids, scores, explain)])


def _in_turns(nearness: dict[int, float], result: Match) -> dict[int, float]:
    """Return scores of chunks by which communities take turns, the one with the nearest chunk first."""
    places: dict[int, int] = defaultdict(int)
    turns = {}
    for chunk in sorted(nearness, key=lambda chunk: -nearness[chunk]):
        community, _ = result.relevant.get(chunk, (NOWHERE, 0))
        places[community] += 1
        turns[chunk] = 1 / places[community] + nearness[chunk] / (2 * places[community] * (places[community] + 1))
    return turns


def _led_to(query: Query, relevant: Iterable[int]) -> dict[int, float]:
    """Return {chunk: nearness} of the rows to which rows among relevant chunks lead: no test is spent on these.

    At most MAX_ROWS, the nearest.
    """
    chunks = np.array(list(relevant), np.int64)
    referenced = difference(referenced_chunks(query, chunks), chunks)
    scores = np.round(evidence_chunks.nearness(query, referenced), 9)
    best = best_places(query, referenced, scores, MAX_ROWS)
    return dict(zip(referenced[best].tolist(), scores[best].tolist(), strict=True))


def by_nearness(query: Query, chunks: Sequence[int], spare: int) -> tuple[list[bool], int]:
    """Test relevance without a model, by nearness."""
    return near_enough(query, chunks), 0


def match(query: Query, budget: int, tester: Tester) -> Match:
    """Search communities breadth first, their chunks best first; go deeper into those with relevant chunks.

    Of each community the `k` nearest untested chunks are tested. After `z` communities in a row with nothing relevant the
    search goes into the parts of the relevant ones. It ends when none remain or the budget is spent.
    """
    result = Match(nearness=candidates(query))
    ids, scores = np.array([*result.nearness], np.int64), np.array([*result.nearness.values()])
    nearest_first = ids[best_places(query, ids, scores, len(ids))].tolist()
    place_of = {chunk: place for place, chunk in enumerate(nearest_first)}
    chunks_of, parts_of = communities_of(query, nearest_first)
    tested: set[int] = set()
    frontier = _best_first(place_of, chunks_of, parts_of[None], tested)
    while frontier and result.tests < budget:
        barren, fertile = 0, []
        for community in frontier:
            batch = _untested(chunks_of[community], tested, min(query.options[K], budget - result.tests))
            if not batch:
                continue
            tested.update(batch)
            hits = 0
            verdicts, more = tester(query, batch, budget - result.tests - len(batch))
            for chunk, helps in zip(batch, verdicts, strict=True):
                result.tests += 1
                if helps:
                    hits += 1
                    result.relevant[chunk] = (community, result.tests)
            result.tests += more
            barren = 0 if hits else barren + 1
            if hits:
                fertile.append(community)
            if barren == query.options[Z] or result.tests >= budget:
                break
        deeper = [part for parent in fertile for part in (parts_of.get(parent) or [parent])]
        frontier = _best_first(place_of, chunks_of, deeper, tested)
    return result


def _best_first(
    place_of: dict[int, int], chunks_of: dict[int, list[int]], communities: Sequence[int], tested: set[int]
) -> list[int]:
    """Return the communities that have an untested chunk, by the places of their first ones."""
    best = {community: _untested(chunks_of[community], tested, 1) for community in communities}
    return sorted(
        (community for community in communities if best[community]), key=lambda community: place_of[best[community][0]]
    )


def _untested(chunks: Sequence[int], tested: set[int], limit: int) -> list[int]:
    """Return the first `limit` chunks that were not tested."""
    return list(islice((chunk for chunk in chunks if chunk not in tested), limit))


@dataclass(frozen=True)
class SubQuery:
    """A part of a question, and the concepts of the graph that it is about."""

    question: str
    concepts: tuple[str, ...]

    @property
    def search_text(self) -> str:
        """The words that chunks are searched by."""
        missing = [name for name in self.concepts if name.casefold() not in self.question.casefold()]
        return " ".join([self.question, *missing])


def answer(query: Query, total: int) -> dict[str, Any]:
    """Return the context made of claims.

    Without a model for relevance the tests are made by nearness, and cost nothing.

    Raises GraphRAGError when no claims could be made of anything: the first one's fault.
    """
    least = least_batch(query)
    # Without chunks there is nothing to refine for.
    queries, expanded = _refined(query) if has_chunks(query) else ([SubQuery(query.text, ())], query.text)
    model = ModelTests(query.options[TESTS_PER_CALL]) if query.corpus.options.llm.has("relevance") else None
    budget = query.options[RELEVANCE_TEST_BUDGET]
    relevant: dict[int, int] = {}
    spent = 0
    for number, part in enumerate(queries):
        tester: Tester = by_nearness if model is None else partial(_tested, model, part.question)
        result = match(query.with_text(part.search_text), (budget - spent) // (len(queries) - number), tester)
        spent += result.tests
        for chunk, (community, _) in result.relevant.items():
            relevant.setdefault(chunk, community)
    if model is not None and model.faults:
        warn_of_faults(query, model.faults, model.tests, "passages were not tested, and count as near or far")
    sources = Sources()
    sources.add(query, relevant)
    number_relevant = len(sources.chunks)
    relevant |= dict.fromkeys(_led_to(query, relevant), NOWHERE)
    sources.add(query, relevant)
    searched = query.with_text(" ".join(dict.fromkeys([expanded, *(part.search_text for part in queries)])))
    context = points_of(query, expanded, _by_community(searched, relevant, sources), sources, total, least)
    context["relevance_tests"] = {
        "spent": spent,
        "requests": 0 if model is None else model.requests,
        "budget": budget,
        "relevant": number_relevant,
        "by": "nearness" if model is None else "model",
        "queries": [part.question for part in queries],
        "concepts": [list(part.concepts) for part in queries],
    }
    return context


def _tested(
    model: ModelTests, question: str, query: Query, chunks: Sequence[int], spare: int
) -> tuple[list[bool], int]:
    """Test relevance by a model; by nearness where it fails."""
    verdicts, more = model.test(question, query, chunks, spare)
    near = near_enough(query, chunks)
    return [is_near if helps is None else helps for helps, is_near in zip(verdicts, near, strict=True)], more


def has_chunks(query: Query) -> bool:
    """Return whether there is any text that the caller may see."""
    return bool(
        query.db.query(
            "SELECT FROM graphrag.chunks c WHERE c.corpus_id = $1 AND ($2 IS NULL OR c.document_id = ANY ($2)) LIMIT 1",
            ["int4", "int8[]"],
            [query.corpus.id, query.visible_ids],
        )
    )


def _refined(query: Query) -> tuple[list[SubQuery], str]:
    """Return (sub-queries with their concepts, the question expanded).

    The model chooses among the concepts around the question; a sub-query for which it chooses none has those that it names.
    Where the model fails, the question itself is the only one, with a WARNING.
    """
    question = query.text
    # By its noun phrases: reading it is what the model is asked for here.
    names_near = concepts.names_about(query.with_text(question), CONCEPTS)
    outcome = query.models.ask("refine", {"question": question, "concepts": names_near})
    query.usage.append(outcome.usage)
    parts, expanded = [], question
    if outcome.fault is not None:
        query.db.warning(f"the question was not refined: {outcome.fault.message}", hint="It is taken as it is.")
    else:
        parts, expanded = outcome.value["queries"][:MAX_PARTS], outcome.value["expanded"] or question
    queries = []
    for part in parts or [{"question": question, "concepts": []}]:
        names = part["concepts"] or concepts.names_matching(query.with_text(part["question"]), CONCEPTS_EACH)
        queries.append(SubQuery(part["question"], tuple(names[:CONCEPTS_EACH])))
    return queries, expanded


def _by_community(query: Query, relevant: dict[int, int], sources: Sources) -> list[Passage]:
    """Return for each community a passage with its concepts and claims, then one for each of its relevant chunks.

    A chunk's passage has the window nearest the question, and what else the chunk states of the concept subgraph.
    """
    groups: dict[int, list[int]] = {}
    for chunk, community in relevant.items():
        if chunk in sources.chunks:
            groups.setdefault(community if community != NOWHERE else -chunk, []).append(chunk)
    every_chunk = [chunk for group in groups.values() for chunk in group]
    nearest, statements = passages.nearest(query, every_chunk), concepts.stated_in(query, every_chunk)
    claims_of: dict[int, list[Row]] = {}
    for claim in claims.of_chunks(query, every_chunk):
        claims_of.setdefault(claim["chunk_id"], []).append(claim)
    community_passages = []
    for group in groups.values():
        lines = [
            claims.line(claim | {"reference": sources.numbers[claim["document_id"]]})
            for member in group
            for claim in claims_of.get(member, ())
        ]
        names = concepts.about({chunk: statements[chunk] for chunk in group if chunk in statements})
        parts = [neutral_line("# " + ", ".join(names))] if names else []
        parts += ["Claims:\n" + "\n".join(lines)] if lines else []
        if parts:
            community_passages.append(Passage("\n\n".join(parts), frozenset(sources.numbers_of(group))))
        for chunk in group:
            passage, numbers = window_passage(chunk, nearest, sources), cited(sources.numbers_of([chunk]))
            parts = [passage.text]
            in_passage = " ".join(window_text(chunk, nearest, sources).split())
            others = [
                statement
                for statement in statements.get(chunk, ())
                if statement.share > 0 and statement.sentence not in in_passage
            ]
            parts += [f"- {neutral_line(statement.line)} {numbers}" for statement in others[: concepts.STATEMENTS_EACH]]
            community_passages.append(Passage("\n\n".join(parts), passage.numbers))
    return community_passages


def budgets(options: SearchOptions, total: int) -> Budgets:
    """The text has what the claims leave."""
    return Budgets(None, 0, int(total * CLAIMS), (0, 0))


def group_by_community(rows: list[FoundChunk]) -> list[FoundChunk]:
    """Put the chunks of a community together, at the place of its best one."""
    groups: dict[int, list[FoundChunk]] = {}
    for row in rows:
        groups.setdefault(row.explain.get("lazy", {}).get("community", -row.chunk_id), []).append(row)
    return [row for group in groups.values() for row in group]


_SIZES = """
SELECT coalesce(pg_catalog.max(CASE WHEN s.is_ascii THEN s.longest ELSE 4 * s.longest END), 0)::int8 AS window,
       CASE WHEN coalesce(pg_catalog.bool_and(s.is_ascii), true) THEN 1 ELSE 4 END AS width,
       coalesce(pg_catalog.max(s.title), 0)::int8 AS title,
       (SELECT coalesce(pg_catalog.sum(pg_catalog.octet_length(pg_catalog.concat(
                   x.subject, x.object, x.type, x.description)) + 100), 0)
          FROM graphrag.claims x
         WHERE x.corpus_id = $1 AND ($2 IS NULL OR x.document_id = ANY ($2)))::int8 AS claims,
       (SELECT coalesce(pg_catalog.sum(pg_catalog.octet_length(m.description)), 0)
          FROM graphrag.relationship_mentions m
         WHERE m.corpus_id = $1 AND ($2 IS NULL OR m.document_id = ANY ($2)))::int8 AS described
  FROM (SELECT pg_catalog.octet_length(c.content) = pg_catalog.char_length(c.content) AS is_ascii,
               pg_catalog.octet_length(coalesce(d.title, '')) AS title,
               (SELECT pg_catalog.max(w.end_offset - w.start_offset)
                  FROM graphrag.chunk_windows w WHERE w.chunk_id = c.id) AS longest
          FROM graphrag.chunks c
          JOIN graphrag.documents d ON d.id = c.document_id
         WHERE c.corpus_id = $1 AND ($2 IS NULL OR c.document_id = ANY ($2))) s
"""


def estimate(dry_run: "DryRun") -> None:
    """Count as many tests as the budget, each in a request of its own, and the largest chunks as relevant."""
    query = dry_run.query
    if not has_chunks(query):
        return
    row = query.db.query(_SIZES, ["int4", "int8[]"], [query.corpus.id, query.visible_ids])[0]
    # The concepts that will be shown are not known before the question has a vector.
    name = "x" * (concepts.MAX_CHARACTERS * row["width"])
    dry_run.send("refine", question=query.text, concepts=[name] * CONCEPTS)
    dry_run.embeds(2 * MAX_PARTS + 2)
    spend = query.options[RELEVANCE_TEST_BUDGET]
    sizes = dry_run.largest_chunk_bytes(min(spend, MAX_PARTS * 2 * CANDIDATES))
    if query.corpus.options.llm.has("relevance"):
        task = "relevant" if query.options[TESTS_PER_CALL] == 1 else "relevant_passages"
        tested = [min(size, row["window"]) + row["title"] for size in sizes for _ in range(MAX_PARTS)][:spend]
        tokens = len(tested) * (dry_run.tokens(task, question=dry_run.longest_part()) + 2)
        dry_run.add(task, len(tested), tokens + dry_run.quarter(sum(tested)))
    names = (
        row["width"]
        * concepts.MAX_CHARACTERS
        * (2 * concepts.STATEMENTS_EACH * concepts.PAIRS_EACH + concepts.CONCEPTS_EACH)
    )
    if query.corpus.has_rows:
        # Rows that relevant rows refer to are read too.
        sizes = dry_run.largest_chunk_bytes(len(sizes) + MAX_ROWS)
    overhead = (dry_run.HEADING + names) * len(sizes) + int(row["claims"]) + int(row["described"])
    # A window, and sentences that begin or end outside it.
    size = sum(min(each, row["window"]) + each for each in sizes)
    dry_run.points(size + overhead, dry_run.quarter(size + overhead))


MODE = Mode(
    name="lazy",
    place=120,
    does="Chunks best first, communities breadth first, within a budget of relevance tests. No calls at index time.",
    details="""`ask` has a model take the question apart, in concepts of the graph that are near it, and searches
    for each part. A model of the role `relevance` tests the nearest sentences of each chunk, `tests_per_call` (10)
    passages in a request. The answer is made of the claims in the concept subgraph of what is relevant, community
    by community. `relevance_test_budget` (100) bounds the tests, and so the requests for them, those sent again
    included. `k` (10) chunks of a community are tested at a time; after `z` (5) barren communities it goes deeper.
    `search` and `context` ask nobody: a chunk passes that is half as near as the nearest. A question that names
    nothing the texts are about has something of every community. It works with reports and without.""",
    source="LazyGraphRAG, Microsoft Research 2024",
    options=("bm25_idf", RELEVANCE_TEST_BUDGET, Z, K, TESTS_PER_CALL),
    defaults={"max_total_tokens": 12_000},
    retrieve=retrieve,
    context=Context(
        claims=lambda query, _, rows: claims.of_chunks(query, [row.chunk_id for row in rows]),
        arrange=group_by_community,
        budgets=budgets,
    ),
    answer=answer,
    estimate=estimate,
)
