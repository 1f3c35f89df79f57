"""lazy for ask: refine, match within the budget of relevance tests, claims of what is relevant, answer (LazyGraphRAG)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pg_graphrag.answer.points import Passage, Sources, cited, points_of, tolerated
from pg_graphrag.model_access.models import ask_model, ask_models
from pg_graphrag.retrieval import claims
from pg_graphrag.retrieval.lazy import NOWHERE, Tester, match, near_enough
from pg_graphrag.retrieval.query import Query
from pg_graphrag.server import Row

# Sub-queries that one question may be taken apart into.
MAX_QUERIES = 5


def mapped(asked: Query, question: str, total: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
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
    budget = asked.options.relevance_test_budget
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
    outcome = ask_model(asked.db, asked.corpus, asked.caller, "refine", {"question": question})
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
        outcomes, used = ask_models(query.db, query.corpus, query.caller, "relevant", texts, retries=spare)
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
