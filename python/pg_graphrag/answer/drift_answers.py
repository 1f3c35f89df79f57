"""drift for ask: a primer over the best reports, its follow-up questions by local retrieval, reduce (DRIFT, Microsoft 2024).

The number of calls is bounded: one expansion, `primer_folds`, `n_depth` rounds of `drift_k_followups`, one answer. What
fails costs itself, not the answer, and the context says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pg_graphrag.answer.points import (
    Sources,
    batches,
    citing_only,
    context_of,
    counter,
    faults_of,
    report_passage,
    tolerated,
)
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.model_access.models import ask_model, ask_models
from pg_graphrag.retrieval.context import assemble
from pg_graphrag.retrieval.drift import PRIMER_REPORTS, matched_reports
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.reports import report_rows
from pg_graphrag.server import Row

# What a follow-up is asked of: GraphRAG's local search.
LOCAL = "graph_local"


@dataclass
class _Open:
    """A question that nobody has followed up yet; the higher its score, the sooner."""

    question: str
    score: int


@dataclass
class _Search:
    """What one question has led to so far."""

    asked: Query
    question: str
    total: int
    sources: Sources = field(default_factory=Sources)
    # {question, answer, score, round}; round 0 is the primer.
    steps: list[dict[str, Any]] = field(default_factory=list)
    open: list[_Open] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    usage: list[dict[str, Any]] = field(default_factory=list)

    def take(self, question: str, said: dict[str, Any], numbers: Sequence[int] | frozenset[int], number: int) -> None:
        """Take down an answer, and the questions it raises that are new."""
        answer = citing_only(said["answer"], numbers)
        if answer and said["score"] > 0:
            self.steps.append({"question": question, "answer": answer, "score": said["score"], "round": number})
        for one in said["follow_ups"]:
            self.ask(one["question"], one["score"])

    def ask(self, question: str, score: int) -> None:
        """Put a question on the list, once."""
        key = " ".join(question.casefold().split()).strip(" ?？")
        if key and key not in self.known:
            self.known.add(key)
            self.open.append(_Open(question, score))


def mapped(asked: Query, question: str, total: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return (the context made of the answers to primer and follow-ups, what each step cost).

    Raises
    ------
    GraphRAGError
        When no part of the primer was answered: the first one's fault.
    """
    search = _Search(asked, question, total)
    rows = _reports(search)
    folds, failed = _prime(search, rows)
    if not rows:
        # The question itself is all there is to follow.
        search.ask(question, 100)
    rounds = []
    for number in range(1, asked.options.n_depth + 1):
        chosen = _best(search)
        if not chosen:
            break
        rounds.append(_follow(search, chosen, number))
        if rounds[-1]["failed"] == rounds[-1]["asked"]:
            break
    return _context(search) | {
        "drift": {
            "level": asked.options.level,
            "reports": len(rows),
            "folds": folds,
            "failed": failed,
            "rounds": rounds,
            "left": len(search.open),
        }
    }, search.usage


def _reports(search: _Search) -> list[Row]:
    """Return the reports of the primer, best first: those near the question, expanded to what a report could say of it."""
    asked = search.asked
    matched = matched_reports(asked, PRIMER_REPORTS)
    if matched and asked.dense_works:
        # The nearest report shows what the expansion has to look like; only a vector makes use of it.
        example = report_rows(asked.db, [matched[0].community_id])[matched[0].community_id]
        arguments = {"question": search.question, "report": example["content"]}
        outcome = ask_model(asked.db, asked.corpus, asked.caller, "expand", arguments)
        search.usage.append(outcome["usage"])
        if "fault" in outcome:
            asked.db.warning(
                f"the question was not expanded: {outcome['fault']['message']}",
                hint="Reports were found by it as it is.",
            )
        else:
            expanded = asked.about(search.question)
            expanded.passage = outcome["value"]
            matched = matched_reports(expanded, PRIMER_REPORTS)
    found = report_rows(asked.db, [one.community_id for one in matched])
    return [found[one.community_id] for one in matched]


def _prime(search: _Search, rows: Sequence[Row]) -> tuple[int, int]:
    """Have the reports read, in folds side by side; return how many folds there were, and how many failed."""
    asked = search.asked
    search.sources.add(asked, (chunk for row in rows for finding in row["findings"] for chunk in finding["chunk_ids"]))
    count = counter(asked)
    number = min(asked.options.primer_folds, len(rows))
    # Dealt out, so that each fold has its share of the best.
    dealt = [[report_passage(row, search.sources) for row in rows[at::number]] for at in range(number)]
    # What does not fit one request is left out, the last first.
    folds = [batches(passages, count)[0] for passages in dealt]
    wanted = [{"question": search.question, "reports": fold.text} for fold in folds]
    outcomes, used = ask_models(asked.db, asked.corpus, asked.caller, "primer", wanted)
    search.usage.append(used)
    failed = tolerated(asked, faults_of(outcomes), len(outcomes), "parts of the primer were not read")
    for fold, outcome in zip(folds, outcomes, strict=True):
        if "value" in outcome:
            search.take(search.question, outcome["value"], fold.numbers, 0)
    return number, failed


def _best(search: _Search) -> list[_Open]:
    """Take the questions of the next round off the list: the best scored, among equals the first."""
    search.open.sort(key=lambda one: -one.score)
    limit = search.asked.options.drift_k_followups
    chosen, search.open = search.open[:limit], search.open[limit:]
    return chosen


def _follow(search: _Search, chosen: Sequence[_Open], number: int) -> dict[str, int]:
    """Answer the questions of a round from local contexts, side by side."""
    asked, contexts = search.asked, []
    for one in chosen:
        context = assemble(asked.about(one.question), LOCAL, search.total, search.sources.numbers)
        search.sources.add(asked, (one["chunk_id"] for one in [*context["claims"], *context["chunks"]]))
        if context["prompt"]:
            contexts.append((one.question, context))
    wanted = [
        {"question": question, "whole": search.question, "context": context["prompt"]} for question, context in contexts
    ]
    outcomes, used = ask_models(asked.db, asked.corpus, asked.caller, "follow_up", wanted)
    search.usage.append(used)
    try:
        failed = tolerated(
            asked, faults_of(outcomes), len(outcomes), f"follow-up questions of round {number} were not answered"
        )
    except GraphRAGError as fault:
        if not search.steps:
            raise
        failed = len(outcomes)
        asked.db.warning(f"no follow-up question of round {number} was answered: {fault.message}")
    for (question, context), outcome in zip(contexts, outcomes, strict=True):
        if "value" in outcome:
            numbers = [reference["number"] for reference in context["references"]]
            search.take(question, outcome["value"], numbers, number)
    return {"asked": len(contexts), "failed": failed}


def _context(search: _Search) -> dict[str, Any]:
    """Put the best answers that fit into a context."""
    steps = sorted(search.steps, key=lambda step: (-step["score"], step["round"]))
    lines = [f"## {step['question']} ({step['score']})\n\n{step['answer']}\n" for step in steps]
    heading = (
        "Questions, each with the score of its answer from 0 to 100, and the answer with the numbers of its documents:"
    )
    return context_of(
        heading, list(zip(steps, lines, strict=True)), search.total, counter(search.asked), search.sources
    )
