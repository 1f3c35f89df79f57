"""lazy for ask: refine, match within the budget of relevance tests, claims of what is relevant, answer (LazyGraphRAG)."""

from collections.abc import Sequence
from typing import Any

from pg_graphrag.answer.call import ask_model, ask_models
from pg_graphrag.answer.global_answers import chunk_rows, points_of
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.retrieval.lazy import NOWHERE, Tester, match, near_enough
from pg_graphrag.retrieval.query import Query
from pg_graphrag.server import Row

# Sub-queries that one question may be taken apart into.
MAX_QUERIES = 5


def mapped(asked: Query, question: str, total: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return (the context made of claims, what each step cost).

    Without a model for relevance the tests are made by nearness, and cost nothing.
    """
    usage: list[dict[str, Any]] = []
    queries, expanded = _refined(asked, question, usage)
    tester = _by_model(usage) if asked.corpus.options.llm.has("relevance") else near_enough
    budget = asked.options.relevance_test_budget
    relevant: dict[int, int] = {}
    spent, by = 0, "model" if tester is not near_enough else "nearness"
    for at, text in enumerate(queries):
        one = Query(asked.db, asked.corpus, text, asked.options, asked.filter)
        one.existing_only, one.usage = asked.existing_only, asked.usage
        found = match(one, (budget - spent) // (len(queries) - at), tester)
        spent += found.tests
        for chunk, (community, _) in found.relevant.items():
            relevant.setdefault(chunk, community)
    known = chunk_rows(asked, sorted(relevant))
    numbers: dict[int, int] = {}
    for row in known.values():
        numbers.setdefault(row["document_id"], len(numbers) + 1)
    context, used = points_of(asked, expanded, _by_community(relevant, known, numbers), known, numbers, total)
    usage.append(used)
    context["relevance_tests"] = {
        "spent": spent,
        "budget": budget,
        "relevant": len(known),
        "by": by,
        "queries": queries,
    }
    return context, usage


def _refined(asked: Query, question: str, usage: list[dict[str, Any]]) -> tuple[list[str], str]:
    """Return (sub-queries, the question expanded); the question itself where the model fails, with a WARNING."""
    outcome = ask_model(asked.db, asked.corpus, "refine", {"question": question}, record=True)
    usage.append(outcome["usage"])
    if "fault" in outcome:
        asked.db.warning(f"the question was not refined: {outcome['fault']['message']}", hint="It is taken as it is.")
        return [question], question
    return outcome["value"]["queries"][:MAX_QUERIES] or [question], outcome["value"]["expanded"] or question


def _by_model(usage: list[dict[str, Any]]) -> Tester:
    """A model's word on each chunk; a test that fails says no, and counts."""

    def test(query: Query, chunks: Sequence[int]) -> list[bool]:
        rows = chunk_rows(query, list(chunks))
        texts = [{"question": query.text, "text": rows[chunk]["content"] if chunk in rows else ""} for chunk in chunks]
        outcomes, used = ask_models(query.db, query.corpus, "relevant", texts, record=True)
        usage.append(used)
        faults = [outcome["fault"] for outcome in outcomes if "fault" in outcome]
        if faults and len(faults) == len(outcomes):
            raise GraphRAGError(
                faults[0]["message"], sqlstate=faults[0]["sqlstate"], detail=faults[0]["detail"], hint=faults[0]["hint"]
            )
        return [bool(outcome.get("value")) for outcome in outcomes]

    return test


def _by_community(relevant: dict[int, int], known: dict[int, Row], numbers: dict[int, int]) -> list[str]:
    """The relevant chunks as texts to find claims in: those of one community together."""
    groups: dict[int, list[str]] = {}
    for chunk, community in relevant.items():
        if chunk in known:
            row = known[chunk]
            heading = f"## {row['title'] or row['source_key']} [{numbers[row['document_id']]}]"
            groups.setdefault(community if community != NOWHERE else -chunk, []).append(
                f"{heading}\n\n{row['content']}"
            )
    return [text for texts in groups.values() for text in texts]
