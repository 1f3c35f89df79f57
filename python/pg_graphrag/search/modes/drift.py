"""drift: DRIFT search (Microsoft Research 2024), which starts from reports about the query and goes into the graph.

Search and context ask no model, except for keywords as other modes do: they look around the entities of the best
reports and of the query. For ask, models read the best reports (a primer), and graph_local follows up the questions
that this raises: one expansion, `primer_folds`, `n_depth` rounds of `drift_k_followups`, one answer. If a step fails,
the answer does without it, and the context says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import np
from pg_graphrag.llm.asking.tasks import MAX_EXAMPLE
from pg_graphrag.search import modes
from pg_graphrag.search.contexts import claims
from pg_graphrag.search.contexts.context_packing import MAX_REPORTS, assemble
from pg_graphrag.search.contexts.points import (
    Passage,
    Sources,
    citing_only,
    context_of,
    counter,
    first_batch,
    tokens_read,
    tolerated,
    uncited,
)
from pg_graphrag.search.contexts.report_passages import (
    cut_reports,
    outside_note,
    outside_passages,
    passages_of,
    report_passage,
    unknown_outside,
)
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.query.mode import Context, Mode, shares
from pg_graphrag.search.query.mode_options import Option, integer
from pg_graphrag.search.query.query import Query, once
from pg_graphrag.search.query.rankings import Fused, ranking, single_ranking
from pg_graphrag.search.retrievers import evidence_chunks, graph_evidence, themes
from pg_graphrag.search.retrievers.lexical import is_about_the_whole
from pg_graphrag.search.retrievers.near_chunks import outside
from pg_graphrag.search.retrievers.relevant_reports import CommunityReport, ReportMatch, match_reports, read_reports
from pg_graphrag.text.marks import without_headings

if TYPE_CHECKING:
    from pg_graphrag.search.contexts.dry_run import DryRun

PRIMER_FOLDS = Option("primer_folds", 5, integer(1, 20), ask_only=True)
DRIFT_K_FOLLOWUPS = Option("drift_k_followups", 5, integer(0, 100), ask_only=True)
N_DEPTH = Option("n_depth", 3, integer(0, 3), ask_only=True)
# Reports that the primer is made of (GraphRAG: drift_k_followups, 20 there), and those that a search with a target looks around.
PRIMER_REPORTS = 20
SEARCHED_REPORTS = 5


def retrieve(query: Query, depth: int) -> Fused:
    """Local retrieval from the query's entities and those of the best reports together; and what no community tells of."""
    (ranked,) = evidence_chunks.rank(query, {"drift": evidence(query)}, depth)
    ranked_ids = set(ranked.ids.tolist())
    others = {chunk: score for chunk, score in outside(query).items() if chunk not in ranked_ids}
    ids = np.append(ranked.ids, np.array(list(others), np.int64))
    scores = np.append(ranked.scores, list(others.values()))

    def explain(chunk: int) -> dict[str, Any]:
        return {"community": None} if chunk in others else ranked.reason(chunk)

    return single_ranking([ranking("drift", ids, scores, explain)])


def evidence(query: Query) -> graph_evidence.Evidence:
    """Return the query's own evidence, then that of its best reports."""
    local, primer = themes.local_evidence(query), _primer(query).evidence
    return graph_evidence.Evidence(
        local.entities | {number: score for number, score in primer.entities.items() if number not in local.entities},
        local.relationships
        | {number: score for number, score in primer.relationships.items() if number not in local.relationships},
        primer.reasons | local.reasons,
        local.scored_mentions,
    )


def matched_reports(query: Query, limit: int) -> list[ReportMatch]:
    """Return the reports of the level that a query is about, best first; with a WARNING if there are none at all."""
    cut = themes.level_cut(query)
    if cut:
        return match_reports(query, limit, communities=cut)
    themes.without_reports(query, has_texts=bool(outside(query)))
    return []


def searched_reports(query: Query, _: int) -> list[CommunityReport]:
    """Return the reports that a search looks around, best first."""
    return _primer(query).reports


@dataclass
class _Primer:
    """The best reports; and their entities, the relationships among these, and the report of each."""

    reports: list[CommunityReport] = field(default_factory=list)
    evidence: graph_evidence.Evidence = field(default_factory=graph_evidence.Evidence)


# For each community the members in its report's findings, then those with most relationships.
_MEMBERS = """
SELECT s.community_id, s.entity_id
  FROM (SELECT m.community_id, m.entity_id, e.key,
               pg_catalog.row_number() OVER (PARTITION BY m.community_id
                   ORDER BY (m.entity_id = ANY ($2)) DESC, e.degree DESC, e.key) AS place
          FROM graphrag.community_members m
          JOIN graphrag.entities e ON e.id = m.entity_id
         WHERE m.community_id = ANY ($1) {visible}) s
 WHERE s.place <= $3
 ORDER BY s.community_id, s.place
"""
_VISIBLY = "AND EXISTS (SELECT FROM graphrag.entity_mentions x WHERE x.entity_id = e.id AND x.document_id = ANY ($4))"


@once
def _primer(query: Query) -> _Primer:
    matches = matched_reports(query, MAX_REPORTS if is_about_the_whole(query) else SEARCHED_REPORTS)
    if not matches:
        return _Primer()
    reports = read_reports(query.db, [match.community_id for match in matches])
    limit = query.options.graph_top_k
    telling = {entity for report in reports for finding in report.findings for entity in finding.entity_ids}
    members: dict[int, list[int]] = {}
    for row in query.db.query(
        _MEMBERS.format(visible="" if query.visible is None else _VISIBLY),
        ["int8[]", "int8[]", "int4", "int8[]"],
        [[match.community_id for match in matches], sorted(telling), limit, query.visible_ids],
    ):
        members.setdefault(row["community_id"], []).append(row["entity_id"])
    merged = graph_evidence.Evidence()
    # The reports take turns, the best first, so that a large community does not crowd out the others.
    for place in range(limit):
        for match, report in zip(matches, reports, strict=True):
            member_ids = members.get(match.community_id, [])
            if place < len(member_ids) and member_ids[place] not in merged.entities and len(merged.entities) < limit:
                merged.entities[member_ids[place]] = match.score
                merged.reasons["entity", member_ids[place]] = f"of the report “{report.title}”"
    _relate(query, merged, limit)
    return _Primer(reports, merged)


def _relate(query: Query, merged: graph_evidence.Evidence, limit: int) -> None:
    """Add the relationships among the entities of `merged`, the heaviest first."""
    edges = graph_of(query).among(list(merged.entities))
    keys = graph_of(query).keys(merged.entities)
    rows = sorted(
        zip(edges.ids.tolist(), edges.low.tolist(), edges.high.tolist(), edges.weights.tolist(), strict=True),
        key=lambda row: (-row[3], *sorted((keys[row[1]].encode(), keys[row[2]].encode()))),
    )
    for relationship, low, high, _ in rows[:limit]:
        end = min((low, high), key=merged.entities.__getitem__)
        merged.relationships[relationship] = merged.entities[end]
        merged.reasons["relationship", relationship] = merged.reasons["entity", end]


@dataclass
class _Open:
    """A question that nobody has followed up yet; the higher its score, the sooner. `raised_by`: the question before it."""

    question: str
    score: int
    raised_by: str | None = None


@dataclass
class _Search:
    """The state of the search for one question."""

    query: Query
    question: str
    total: int
    sources: Sources = field(default_factory=Sources)
    # {question, answer, score, round, raised_by}; round 0 is the primer.
    steps: list[dict[str, Any]] = field(default_factory=list)
    open: list[_Open] = field(default_factory=list)
    known_questions: set[str] = field(default_factory=set)
    uncited: bool = False

    def take(self, asked: _Open, reply: dict[str, Any], numbers: Sequence[int] | frozenset[int], number: int) -> None:
        """Note an answer that helps, and new follow-up questions also of one that does not."""
        answer = citing_only(reply["answer"], numbers)
        if reply["score"] > 0 and reply["answer"] and not answer:
            self.uncited = True
        if answer and reply["score"] > 0:
            step = {"question": asked.question, "answer": answer, "score": reply["score"], "round": number}
            self.steps.append(step | {"raised_by": asked.raised_by})
        for follow_up in reply["follow_ups"]:
            self.ask(_Open(follow_up["question"], follow_up["score"], asked.question))

    def ask(self, item: _Open) -> None:
        """Put a question on the list, once and never the question that is asked for."""
        key = _key(item.question)
        if key and key not in self.known_questions:
            self.known_questions.add(key)
            self.open.append(item)


def _key(question: str) -> str:
    return " ".join(question.casefold().split()).strip(" ?？")


def answer(query: Query, total: int) -> dict[str, Any]:
    """Return the context made of the answers to primer and follow-ups.

    Raises GraphRAGError when no part of the primer was answered: the first one's fault.
    """
    search = _Search(query, query.text, total)
    rows = _reports(search)
    others, folds, failed = _prime(search, rows)
    if search.open or search.steps:
        search.known_questions.add(_key(query.text))
        search.open = [item for item in search.open if _key(item.question) != _key(query.text)]
    else:
        # Without reports, or where they say nothing and raise nothing, the question itself is followed.
        search.ask(_Open(query.text, 100))
    rounds: list[dict[str, int]] = []
    while True:
        if (ended := _end(search, rounds)) is not None:
            break
        rounds.append(_follow(search, len(rounds) + 1))
    if search.uncited and not search.steps:
        raise uncited()
    return _context(search) | {
        "drift": {
            "level": query.options.level,
            "reports": len(rows),
            "folds": folds,
            "failed": failed,
            "rounds": rounds,
            "left": len(search.open),
            "ended": ended,
            **others,
        }
    }


def _end(search: _Search, rounds: Sequence[dict[str, int]]) -> str | None:
    """Return why there is no further round; None: there is one."""
    options = search.query.options
    if rounds and 0 < rounds[-1]["asked"] == rounds[-1]["failed"]:
        return "every question of a round failed"
    if not search.open:
        return "no question is open"
    # Without any answer the next round says that it is late.
    if search.steps and search.query.models.seconds_left <= 0:
        return "answer_timeout"
    if sum(each["asked"] > 0 for each in rounds) >= options[N_DEPTH]:
        return "n_depth"
    if not options[DRIFT_K_FOLLOWUPS]:
        return "drift_k_followups"
    most = options[N_DEPTH] * options[DRIFT_K_FOLLOWUPS]
    return "nothing is near" if sum(each["empty"] for each in rounds) > most else None


def _reports(search: _Search) -> list[CommunityReport]:
    """Return the reports of the primer, best first: those near the question, which is expanded to what a report could say
    of it.
    """
    query = search.query
    matches = matched_reports(query, PRIMER_REPORTS)
    if matches and query.dense_works:
        # The nearest report is the model for the expansion; only a vector can use it.
        (example,) = read_reports(query.db, [matches[0].community_id])
        arguments = {"question": search.question, "report": example.content}
        outcome = query.models.ask("expand", arguments)
        query.usage.append(outcome.usage)
        if outcome.fault is not None:
            query.db.warning(
                f"the question was not expanded: {outcome.fault.message}", hint="Reports were found by it as it is."
            )
        else:
            matches = matched_reports(query.with_text(search.question, passage=outcome.value), PRIMER_REPORTS)
    return read_reports(query.db, [match.community_id for match in matches])


def _prime(search: _Search, reports: Sequence[CommunityReport]) -> tuple[dict[str, Any], int, int]:
    """Have the reports and what no community tells of read, in folds side by side.

    Returns a note on the latter, how many folds there were, and how many failed.
    """
    query = search.query
    search.sources.add(query, (chunk for report in reports for chunk in report.chunk_ids))
    count = counter(query)
    others = outside_passages(query, search.sources, "primer")
    passages = [report_passage(report, search.sources) for report in reports] + others
    number = min(query.options[PRIMER_FOLDS], len(passages))
    # Dealt out, so that each fold has its share of the best.
    dealt = [passages[start::number] for start in range(number)]
    # Reports that do not fit one request are left out, the last first.
    most = tokens_read(query, "primer", question=search.question, reports="")
    read = [first_batch(fold, count, most) for fold in dealt]
    folds = [Passage.together(fold) for fold in read]
    arguments = [{"question": search.question, "reports": fold.text} for fold in folds]
    outcomes, usage = query.models.ask_all("primer", arguments)
    query.usage.append(usage)
    failed = tolerated(query, outcomes, "parts of the primer were not read")
    for fold, outcome in zip(folds, outcomes, strict=True):
        if outcome.fault is None:
            search.take(_Open(search.question, 100), outcome.value, fold.numbers, 0)
    ids_read = {id(passage) for fold in read for passage in fold}
    return outside_note(query, [passage for passage in others if id(passage) in ids_read]), number, failed


def _near(search: _Search) -> tuple[list[tuple[_Open, dict[str, Any]]], int]:
    """Take the questions of a round off the list, the best scored first, among equals the first, each with its local context.

    Returns at most `drift_k_followups` questions; and how many more, as many at most, were looked at that nothing is near.
    """
    query, limit = search.query, search.query.options[DRIFT_K_FOLLOWUPS]
    search.open.sort(key=lambda item: -item.score)
    asked = search.question
    total = tokens_read(query, "follow_up", search.total, question=asked, whole=asked, context="")
    near: list[tuple[_Open, dict[str, Any]]] = []
    empty = 0
    while search.open and len(near) < limit and empty < limit:
        item = search.open.pop(0)
        context = assemble(query.with_text(item.question), modes.find("graph_local"), total, search.sources.numbers)
        table_rows = (row for table in context["tables"] for row in table["rows"])
        search.sources.add(query, (row["chunk_id"] for row in [*context["claims"], *table_rows, *context["chunks"]]))
        if context["prompt"]:
            near.append((item, context))
        else:
            empty += 1
    return near, empty


def _follow(search: _Search, number: int) -> dict[str, int]:
    """Answer the questions of a round from local contexts, side by side.

    Returns how many were asked, how many of these failed, and how many were not asked since nothing is near them ("empty").
    """
    query = search.query
    contexts, empty = _near(search)
    arguments = [
        {"question": item.question, "whole": search.question, "context": context["prompt"]}
        for item, context in contexts
    ]
    outcomes, usage = query.models.ask_all("follow_up", arguments)
    query.usage.append(usage)
    try:
        failed = tolerated(query, outcomes, f"follow-up questions of round {number} were not answered")
    except GraphRAGError as fault:
        if not search.steps:
            raise
        failed = len(outcomes)
        query.db.warning(f"no follow-up question of round {number} was answered: {fault.message}")
    for (item, context), outcome in zip(contexts, outcomes, strict=True):
        if outcome.fault is None:
            numbers = [reference["number"] for reference in context["references"]]
            search.take(item, outcome.value, numbers, number)
    return {"asked": len(contexts), "failed": failed, "empty": empty}


def _context(search: _Search) -> dict[str, Any]:
    """Put the best answers that fit into a context."""
    steps = sorted(search.steps, key=lambda step: (-step["score"], step["round"]))
    lines = [f"## {step['question']} ({step['score']})\n\n{without_headings(step['answer'])}\n" for step in steps]
    heading = (
        "Questions, each with the score of its answer from 0 to 100, and the answer with the numbers of its documents:"
    )
    return context_of(search.query, heading, list(zip(steps, lines, strict=True)), search.total, search.sources)


def estimate(dry_run: "DryRun") -> None:
    """Count one expansion, the folds and the rounds."""
    query = dry_run.query
    rows = cut_reports(query)
    passages, sources = passages_of(query, rows)
    others = outside_passages(query, sources, "primer")
    unknown = unknown_outside(dry_run)
    number = len(others) + min(len(rows), PRIMER_REPORTS)
    number = query.options[PRIMER_FOLDS] if unknown else min(query.options[PRIMER_FOLDS], number)
    if number:
        dry_run.embeds(2)
        if rows and query.dense_works:
            report = max((each.content[:MAX_EXAMPLE] for each in rows), key=lambda text: len(text.encode()))
            dry_run.send("expand", exact=False, question=query.text, report=report)
        sizes = sorted((len(passage.text.encode()) + 2 for passage in passages), reverse=True)[:PRIMER_REPORTS]
        sizes += [len(passage.text.encode()) + 2 for passage in others]
        tokens = number * dry_run.tokens("primer", question=query.text) + dry_run.quarter(sum(sizes))
        dry_run.add("primer", number, tokens + unknown)
    follow_ups = query.options[DRIFT_K_FOLLOWUPS] * query.options[N_DEPTH]
    if follow_ups:
        # As many more may be needed if nothing is near, and those of a round.
        dry_run.embeds(2 * follow_ups + query.options[DRIFT_K_FOLLOWUPS])
        tokens = dry_run.tokens("follow_up", question=dry_run.longest_part(), whole=query.text)
        dry_run.add("follow_up", follow_ups, follow_ups * (tokens + dry_run.quarter(dry_run.room)))


MODE = Mode(
    name="drift",
    place=110,
    does="The best reports raise questions, which local searches follow up.",
    details="""`ask` works in rounds. It expands the question to what a report could say, and has the best reports
    read in folds (the primer). It follows up the questions that this raises by `graph_local`, the best scored
    first, for up to three rounds, and answers from all answers. The context's `drift` says how each round went and
    why there was no further one. Questions that nothing in the corpus is near are counted (`empty`) and take no
    place in a round. Where the reports say nothing and raise nothing, the question itself is followed. That is at
    most 2 + `primer_folds` 5 + `n_depth` 3 × `drift_k_followups` 5 calls. `search` and `context` make none: they
    look around the entities of the query and those that the best reports rest on. Texts in no community are as in
    `graph_global`; the folds read them besides.""",
    source="DRIFT, Microsoft Research 2024",
    options=("bm25_idf", "graph_top_k", "level", "min_community_rank", PRIMER_FOLDS, DRIFT_K_FOLLOWUPS, N_DEPTH),
    defaults={"max_total_tokens": 12_000},
    retrieve=retrieve,
    context=Context(
        evidence=(evidence,),
        in_order=True,
        reports=searched_reports,
        claims=lambda query, results, _: claims.of_entities(query, list(results.entities)),
        budgets=shares(text=0.5, reports=0.15),
    ),
    answer=answer,
    estimate=estimate,
)
