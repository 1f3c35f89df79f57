"""lazy: LazyGraphRAG (Microsoft Research 2024): best-first over chunks, breadth-first over communities, a budget of tests.

The index costs no call. A relevance test says whether a chunk helps: a model's word where one is asked, else the chunk's
nearness to the query, with a threshold. What was not published is ours: `k`, `z`, the threshold.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pg_graphrag.numeric import np
from pg_graphrag.retrieval import claims, dense, evidence_chunks
from pg_graphrag.retrieval.lexical import bm25
from pg_graphrag.retrieval.mode import Budgets, Context, Mode
from pg_graphrag.retrieval.options import Option, SearchOptions, whole
from pg_graphrag.retrieval.points import Passage, Sources, cited, points_of, tolerated
from pg_graphrag.retrieval.query import Query, once
from pg_graphrag.retrieval.rankings import Fused, alone, ranking
from pg_graphrag.server import Row

if TYPE_CHECKING:
    from pg_graphrag.retrieval.dry_run import DryRun

RELEVANCE_TEST_BUDGET = Option("relevance_test_budget", 100, whole(1, 100_000))
# Chunks of a community that are tested at a time; and barren communities in a row after which the search goes deeper.
K = Option("k", 10, whole(1, 1000))
Z = Option("z", 5, whole(1, 1000))
# Chunks that are looked at for a query, by BM25 and by windows each.
CANDIDATES = 1000
# Without a model, a chunk is relevant that is so near as a share of the nearest: chosen on the dev questions of two sets
# (bench/lazy.py) as the highest share at which hardly anything is lost of what all tested chunks hold.
NEAR_ENOUGH = 0.5
# Chunks that mention no clustered entity are a group of their own.
NOWHERE = 0

# Sub-queries that one question may be taken apart into.
MAX_QUERIES = 5
# Of a context, the share that the claims of its chunks may have.
CLAIMS = 0.15

# Of (a query, chunks in the order in which the budget is spent, how much of it would be left) to (whether each chunk is
# relevant, how much more than one for each was spent: requests that were sent again).
Tester = Callable[[Query, Sequence[int], int], tuple[Sequence[bool], int]]


@dataclass
class Match:
    """What a search found: {chunk: (its community, the number of its test)}, in the order of the tests; and what it cost."""

    relevant: dict[int, tuple[int, int]] = field(default_factory=dict)
    near: dict[int, float] = field(default_factory=dict)
    tests: int = 0


def retrieve(query: Query, depth: int) -> Fused:
    """Return the relevant chunks, the nearest first."""
    found = match(query, query.options[RELEVANCE_TEST_BUDGET], near_enough)
    query.notes["relevance_tests"] = {
        "spent": found.tests,
        "budget": query.options[RELEVANCE_TEST_BUDGET],
        "relevant": len(found.relevant),
        "by": "nearness",
    }
    ids = np.array(sorted(found.relevant), np.int64)
    scores = np.array([found.near[chunk] for chunk in ids.tolist()])

    def why(chunk: int) -> dict[str, Any]:
        community, test = found.relevant[chunk]
        return {"test": test} | ({"community": community} if community != NOWHERE else {})

    return alone([ranking("lazy", ids, scores, why)])


def near_enough(query: Query, chunks: Sequence[int], spare: int) -> tuple[list[bool], int]:
    """The relevance test without a model: nearness as a share of the nearest chunk's."""
    near = _near(query)
    best = max(near.values(), default=0.0)
    return [near[chunk] > 0 and near[chunk] >= NEAR_ENOUGH * best for chunk in chunks], 0


def match(query: Query, budget: int, tester: Tester) -> Match:
    """Search communities breadth first, their chunks best first; go deeper into those that hold what is relevant.

    Of each community the `k` nearest untested chunks are tested; after `z` communities in a row with nothing relevant the
    search goes into the parts of the relevant ones; it ends when none remain or the budget is spent.
    """
    found = Match(near=_near(query))
    held, below = _communities(query, list(found.near))
    tested: set[int] = set()
    frontier = _best_first(found.near, held, below[None], tested)
    while frontier and found.tests < budget:
        barren, fertile = 0, []
        for community in frontier:
            some = _nearest(found.near, held[community], tested)[: min(query.options[K], budget - found.tests)]
            if not some:
                continue
            tested.update(some)
            hits = 0
            verdicts, more = tester(query, some, budget - found.tests - len(some))
            for chunk, helps in zip(some, verdicts, strict=True):
                found.tests += 1
                if helps:
                    hits += 1
                    found.relevant[chunk] = (community, found.tests)
            found.tests += more
            barren = 0 if hits else barren + 1
            if hits:
                fertile.append(community)
            if barren == query.options[Z] or found.tests >= budget:
                break
        deeper = [part for one in fertile for part in (below.get(one) or [one])]
        frontier = _best_first(found.near, held, deeper, tested)
    return found


@once
def _near(query: Query) -> dict[int, float]:
    """Return {chunk: nearness} of the candidates of a query."""
    found = [bm25(query, CANDIDATES).ids[:CANDIDATES]]
    if query.dense_works:
        found.append(dense.windows(query, CANDIDATES).ids[:CANDIDATES])
    ids = np.unique(np.concatenate(found))
    near = np.round(evidence_chunks.nearness(query, ids), 9)
    return dict(zip(ids.tolist(), near.tolist(), strict=True))


def _communities(query: Query, chunks: list[int]) -> tuple[dict[int, list[int]], dict[int | None, list[int]]]:
    """Return ({community: its chunks}, {community: its parts; None: those of level 0}).

    At each level a chunk belongs to the community that most of its mentions are in. Where communities are closed to the caller
    all chunks are a group of their own.
    """
    if query.is_closed:
        return {NOWHERE: chunks}, {None: [NOWHERE]}
    rows = query.db.query(
        "SELECT x.chunk_id, c.id, c.level, c.parent_id, pg_catalog.sum(x.tf)::int AS n"
        "  FROM graphrag.entity_mentions x"
        "  JOIN graphrag.community_members m ON m.entity_id = x.entity_id"
        "  JOIN graphrag.communities c ON c.id = m.community_id"
        " WHERE x.chunk_id = ANY ($1) GROUP BY x.chunk_id, c.id, c.level, c.parent_id"
        " ORDER BY x.chunk_id, c.level, n DESC, c.id",
        ["int8[]"],
        [chunks],
    )
    home: dict[tuple[int, int], int] = {}
    held: dict[int, list[int]] = defaultdict(list)
    below: dict[int | None, list[int]] = defaultdict(list)
    for row in rows:
        level, chunk = row["level"], row["chunk_id"]
        # A part of the community that the chunk is in, one level up.
        if (chunk, level) in home or (level and home.get((chunk, level - 1)) != row["parent_id"]):
            continue
        home[chunk, level] = row["id"]
        if row["id"] not in held:
            below[row["parent_id"]].append(row["id"])
        held[row["id"]].append(chunk)
    lost = [chunk for chunk in chunks if (chunk, 0) not in home]
    if lost:
        held[NOWHERE] = lost
        below[None].append(NOWHERE)
    return held, below


def _best_first(
    near: dict[int, float], held: dict[int, list[int]], communities: Sequence[int], tested: set[int]
) -> list[int]:
    best = {one: _nearest(near, held[one], tested)[:1] for one in communities}
    return sorted((one for one in communities if best[one]), key=lambda one: (-near[best[one][0]], one))


def _nearest(near: dict[int, float], chunks: Sequence[int], tested: set[int]) -> list[int]:
    return sorted((chunk for chunk in chunks if chunk not in tested), key=lambda chunk: (-near[chunk], chunk))


def answer(asked: Query, question: str, total: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return (the context made of claims, what each step cost).

    Without a model for relevance the tests are made by nearness, and cost nothing.

    Raises
    ------
    GraphRAGError
        When every test failed, or no claims could be made of anything: the first one's fault.
    """
    usage: list[dict[str, Any]] = []
    # With nothing to read there is nothing to pay for.
    queries, expanded = _refined(asked, question, usage) if has_chunks(asked) else ([question], question)
    model = _ByModel(usage) if asked.corpus.options.llm.has("relevance") else None
    tester: Tester = near_enough if model is None else model
    budget = asked.options[RELEVANCE_TEST_BUDGET]
    relevant: dict[int, int] = {}
    spent = 0
    for at, text in enumerate(queries):
        found = match(asked.about(text), (budget - spent) // (len(queries) - at), tester)
        spent += found.tests
        for chunk, (community, _) in found.relevant.items():
            relevant.setdefault(chunk, community)
    if model is not None and model.faults:
        tolerated(asked, model.faults, model.tests, "chunks were not tested, and are taken for irrelevant")
    sources = Sources()
    sources.add(asked, relevant)
    context, used = points_of(asked, expanded, _by_community(asked, relevant, sources), sources, total)
    usage.append(used)
    context["relevance_tests"] = {
        "spent": spent,
        "budget": budget,
        "relevant": len(sources.chunks),
        "by": "nearness" if model is None else "model",
        "queries": queries,
    }
    return context, usage


def has_chunks(asked: Query) -> bool:
    """Return whether there is any text that the caller may see."""
    return bool(
        asked.db.query(
            "SELECT FROM graphrag.chunks c WHERE c.corpus_id = $1 AND ($2 IS NULL OR c.document_id = ANY ($2)) LIMIT 1",
            ["int4", "int8[]"],
            [asked.corpus.id, asked.visible_ids],
        )
    )


def _refined(asked: Query, question: str, usage: list[dict[str, Any]]) -> tuple[list[str], str]:
    """Return (sub-queries, the question expanded); the question itself where the model fails, with a WARNING."""
    outcome = asked.models.ask("refine", {"question": question})
    usage.append(outcome["usage"])
    if "fault" in outcome:
        asked.db.warning(f"the question was not refined: {outcome['fault']['message']}", hint="It is taken as it is.")
        return [question], question
    return outcome["value"]["queries"][:MAX_QUERIES] or [question], outcome["value"]["expanded"] or question


@dataclass
class _ByModel:
    """A model's word on each chunk. A test that fails says no, and counts, as does each request that is sent again."""

    usage: list[dict[str, Any]]
    tests: int = 0
    faults: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, query: Query, chunks: Sequence[int], spare: int) -> tuple[list[bool], int]:
        read = Sources()
        read.add(query, chunks)
        rows = read.chunks
        texts = [{"question": query.text, "text": rows[chunk]["content"] if chunk in rows else ""} for chunk in chunks]
        outcomes, used = query.models.ask_all("relevant", texts, retries=spare)
        self.usage.append(used)
        self.tests += len(chunks)
        self.faults += [outcome["fault"] for outcome in outcomes if "fault" in outcome]
        verdicts = [bool(outcome.get("value")) for outcome in outcomes]
        return verdicts, used.get("sent_again", 0)


def _by_community(asked: Query, relevant: dict[int, int], sources: Sources) -> list[Passage]:
    """The relevant chunks, to find claims in: those of one community together, behind the claims they are known to make."""
    groups: dict[int, list[int]] = {}
    for chunk, community in relevant.items():
        if chunk in sources.chunks:
            groups.setdefault(community if community != NOWHERE else -chunk, []).append(chunk)
    made: dict[int, list[Row]] = {}
    for claim in claims.of_chunks(asked, [chunk for group in groups.values() for chunk in group]):
        made.setdefault(claim["chunk_id"], []).append(claim)
    passages = []
    for group in groups.values():
        lines = [
            claims.line(claim | {"reference": _number(claim, sources)}) for one in group for claim in made.get(one, ())
        ]
        if lines:
            passages.append(Passage("Claims:\n" + "\n".join(lines), frozenset(sources.numbers_of(group))))
        for chunk in group:
            row, numbers = sources.chunks[chunk], sources.numbers_of([chunk])
            text = f"## {row['title'] or row['source_key']} {cited(numbers)}\n\n{row['content']}"
            passages.append(Passage(text, frozenset(numbers)))
    return passages


def _number(claim: Row, sources: Sources) -> int:
    return sources.numbers[claim["document_id"]]


def budgets(options: SearchOptions, total: int) -> Budgets:
    """The text has what the claims leave."""
    return Budgets(None, 0, int(total * CLAIMS), (0, 0))


def grouped(rows: list[Row]) -> list[Row]:
    """Put the chunks of a community together: where its best one stands."""
    groups: dict[int, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["explain"].get("lazy", {}).get("community", -row["chunk_id"]), []).append(row)
    return [row for group in groups.values() for row in group]


def estimate(made: "DryRun") -> None:
    """No more tests than the budget, and of the relevant chunks the largest."""
    asked = made.asked
    if not has_chunks(asked):
        return
    made.send("refine", question=asked.text)
    made.embeds(MAX_QUERIES)
    spend = asked.options[RELEVANCE_TEST_BUDGET]
    sizes = made.largest_chunks(min(spend, MAX_QUERIES * 2 * CANDIDATES))
    if asked.corpus.options.llm.has("relevance"):
        tested = [size for size in sizes for _ in range(MAX_QUERIES)][:spend]
        read = len(tested) * made.tokens("relevant", question=made.longest_part()) + made.quarter(sum(tested))
        made.add("relevant", len(tested), read)
    row = asked.db.query(
        "SELECT coalesce(pg_catalog.sum(s.token_count), 0) AS tokens, coalesce((SELECT pg_catalog.sum(pg_catalog.octet_length("
        "       pg_catalog.concat(x.subject, x.object, x.type, x.description)) + 100) FROM graphrag.claims x"
        "        WHERE x.corpus_id = $1 AND ($3 IS NULL OR x.document_id = ANY ($3))), 0) AS claims"
        "  FROM (SELECT c.token_count FROM graphrag.chunks c"
        "         WHERE c.corpus_id = $1 AND ($3 IS NULL OR c.document_id = ANY ($3)) ORDER BY 1 DESC LIMIT $2) s",
        ["int4", "int4", "int8[]"],
        [asked.corpus.id, len(sizes), asked.visible_ids],
    )[0]
    around = made.HEADING * len(sizes) + int(row["claims"])
    made.points(sum(sizes) + around, int(row["tokens"]) + made.quarter(around))


MODE = Mode(
    name="lazy",
    place=120,
    does="Chunks best first, communities breadth first, within a budget of relevance tests. No calls at index time.",
    details="""`relevance_test_budget` (100) bounds the tests; `k` (10) chunks of a community are tested at a time,
    and after `z` (5) barren communities it goes deeper. `search` and `context` test by nearness (half that of the
    nearest chunk) and ask nobody; `context` puts the chunks of a community together. `ask` refines the question,
    tests by the model of the role `relevance`, and answers from the claims in what is relevant. It never makes more
    requests than the budget, those sent again included. It works with reports and without.""",
    source="LazyGraphRAG, Microsoft Research 2024",
    options=("bm25_idf", RELEVANCE_TEST_BUDGET, Z, K),
    defaults={"max_total_tokens": 12_000},
    retrieve=retrieve,
    context=Context(
        claims=lambda query, _, rows: claims.of_chunks(query, [row["chunk_id"] for row in rows]),
        arrange=grouped,
        budgets=budgets,
    ),
    answer=answer,
    estimate=estimate,
)
