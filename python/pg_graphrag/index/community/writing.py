"""Reports written by a model (GraphRAG, arXiv 2404.16130), bottom-up: where a community's graph is too large, reports
one level down replace it.

GraphRAG's code never calls its own roll-up, and keeps one relationship for each entity; here both follow the paper.
"""

import json
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pg_graphrag.ground.lenient_json import objects
from pg_graphrag.ground.reasoning import without_reasoning
from pg_graphrag.index.community.report import Child, Finding, Input, Member, Pair, Report, digest
from pg_graphrag.llm.endpoints.faults import ContextTooLong, ItemFault
from pg_graphrag.llm.endpoints.requests import (
    BYTES_PER_TOKEN,
    STRING,
    STRINGS,
    ChatRequest,
    Reply,
    asked_again,
    list_of,
    object_of,
    reply_of,
)
from pg_graphrag.server.corpus.options import Options
from pg_graphrag.text.letters import clean
from pg_graphrag.text.prompts import render

# Tokens of data that one request holds (GraphRAG: max_input_length).
INPUT_TOKENS = 8000
# Share of relationships where not all fits: they say how things hang together.
RELATIONSHIP_SHARE = 0.6
# A prompt that the model still finds too long is tried with half as much, so often.
HALVINGS = 3
# Output tokens of a report: by so many more than it reads, up to a maximum.
LEAST_OUTPUT, MOST_OUTPUT = 1000, 4000
# Limits on the length of a looping model's answer.
MAX_FINDINGS = 20
MAX_CHARACTERS = 20_000

T = TypeVar("T")
Writing = Generator[ChatRequest, Reply, Report]
Count = Callable[[str], int]


@dataclass(slots=True)
class Data:
    """What a prompt says, and what its numbers stand for: {E1: entity id}, {R1: relationship id}, {R1: chunk id}."""

    text: str
    entities: dict[str, int] = field(default_factory=dict)
    relationships: dict[str, int] = field(default_factory=dict)
    chunks: dict[str, int] = field(default_factory=dict)


def input_hash(options: Options, source: Input, count: Count) -> str:
    """Return the hash of a report's prompt and of the items that its references stand for."""
    data = gather(source, INPUT_TOKENS, count)
    numbers = (data.entities, data.relationships, data.chunks)
    return digest("model", render(options.prompts, "report", data=data.text), *(json.dumps(ids) for ids in numbers))


def write(options: Options, source: Input, count: Count) -> Writing:
    """Ask for a report.

    Raises ItemFault, ProviderFault, BudgetReached: as in the gateway.
    """
    model = options.llm.of("report")[1]
    tokens, fault = INPUT_TOKENS, None
    for _ in range(HALVINGS):
        data = gather(source, tokens, count)
        message = ({"role": "user", "content": render(options.prompts, "report", data=data.text)},)
        most = min(LEAST_OUTPUT + len(data.text.encode()) // BYTES_PER_TOKEN, MOST_OUTPUT)
        try:
            reply = yield from asked_again(ChatRequest("report", message, _parse, _schema(), max_tokens=most))
            return _report(reply.value, data, model)
        except ContextTooLong as error:
            fault, tokens = error, tokens // 2
    assert fault is not None
    raise fault


def gather(source: Input, tokens: int, count: Count) -> Data:
    """Return the data of a community within a limit of tokens.

    If not all fits, reports replace sub-communities, the largest first, until the rest fits; relationships between
    sub-communities stay. If it still does not fit, the least important data are left out.
    """
    summarized: list[Child] = []
    group_of: dict[int, int] = {}
    spent = 0
    while True:
        entities = [row for row in source.entities if row.id not in group_of]
        relationships = [
            row for row in source.relationships if group_of.get(row.source_id, -1) != group_of.get(row.target_id, -2)
        ]
        complete = source.relationship_count <= len(source.relationships) and source.size <= len(source.entities)
        size = sum(count(_entity(row)) + 4 for row in entities)
        size += sum(count(_relationship(row)) + 4 for row in relationships)
        remaining_children = source.children[len(summarized) :]
        if not remaining_children or (size + spent <= tokens and (complete or summarized)):
            break
        child = remaining_children[0]
        summarized.append(child)
        group_of |= dict.fromkeys(child.members, child.id)
        spent += count(_child_text(child, tokens // len(source.children), count)) + 4
    groups = [f"G{n} {_child_text(row, tokens // len(source.children), count)}" for n, row in enumerate(summarized, 1)]
    return _number_data(entities, relationships, groups, max(tokens - spent, tokens // 4), count)


def _child_text(row: Child, tokens: int, count: Count) -> str:
    text = row.content if count(row.content) <= tokens else f"{row.title}: {row.summary}"
    return " ".join(text.split())


def _number_data(
    entities: list[Member], relationships: list[Pair], groups: list[str], tokens: int, count: Count
) -> Data:
    kept_relationships = _fitting(relationships, _relationship, int(tokens * RELATIONSHIP_SHARE), count)
    used_tokens = sum(count(_relationship(row)) + 4 for row in kept_relationships)
    ends = {end for row in kept_relationships for end in (row.source_id, row.target_id)}
    # Ends of the relationships come first.
    order = sorted(entities, key=lambda row: row.id not in ends)
    kept_entities = {row.id for row in _fitting(order, _entity, tokens - used_tokens, count)}
    data = Data("")
    entity_numbers: dict[int, str] = {}
    lines = []
    for row in entities:
        if row.id in kept_entities:
            entity_numbers[row.id] = f"E{len(entity_numbers) + 1}"
            data.entities[entity_numbers[row.id]] = row.id
            lines.append(f"{entity_numbers[row.id]} {_entity(row)}")
    parts = ["Entities:\n" + "\n".join(lines)] if lines else []
    lines = []
    for number, pair in enumerate(kept_relationships, 1):
        data.relationships[f"R{number}"] = pair.id
        if pair.chunk_id is not None:
            data.chunks[f"R{number}"] = pair.chunk_id
        lines.append(f"R{number} {_relationship(pair)}")
    parts += ["Relationships:\n" + "\n".join(lines)] if lines else []
    parts += ["Reports on parts of the group:\n" + "\n\n".join(groups)] if groups else []
    data.text = "\n\n".join(parts)
    return data


def _fitting(rows: Iterable[T], line: Callable[[T], str], tokens: int, count: Count) -> list[T]:
    fitting_rows = []
    for row in rows:
        tokens -= count(line(row)) + 4
        if tokens < 0:
            break
        fitting_rows.append(row)
    return fitting_rows


def _entity(row: Member) -> str:
    return " ".join(f"{row.name} ({row.type}): {row.description}".split())


def _relationship(row: Pair) -> str:
    return " ".join(f"{row.source} – {row.target}: {row.description}".split())


def _schema() -> dict[str, Any]:
    finding = object_of(summary=STRING, explanation=STRING, entities=STRINGS, relationships=STRINGS)
    return reply_of(
        "report",
        title=STRING,
        summary=STRING,
        rating={"type": "number"},
        rating_explanation=STRING,
        findings=list_of(finding),
    )


def _parse(text: str, cut_off: bool) -> dict[str, Any]:
    """Return the first object that is a report: with a title, a summary and findings."""
    if not cut_off:
        for candidate in objects(without_reasoning(text)):
            if (
                _text_of(candidate.get("title"))
                and _text_of(candidate.get("summary"))
                and isinstance(candidate.get("findings"), list)
            ):
                return candidate
    raise ItemFault("the model's report is cut off" if cut_off else "the model gave no report", raw=text)


def _text_of(value: Any) -> str:
    return clean(value).strip()[:MAX_CHARACTERS] if isinstance(value, str) else ""


def _report(reply: dict[str, Any], data: Data, model: str) -> Report:
    findings = []
    for item in reply["findings"][:MAX_FINDINGS]:
        fields = {"summary": item} if isinstance(item, str) else item if isinstance(item, dict) else {}
        summary, explanation = _text_of(fields.get("summary")), _text_of(fields.get("explanation"))
        if summary or explanation:
            relationships = [name for name in _numbers(fields.get("relationships")) if name in data.relationships]
            findings.append(
                Finding(
                    summary or explanation,
                    explanation if summary else "",
                    [data.entities[name] for name in _numbers(fields.get("entities")) if name in data.entities],
                    [data.relationships[name] for name in relationships],
                    list(dict.fromkeys(data.chunks[name] for name in relationships if name in data.chunks)),
                )
            )
    rating = reply.get("rating")
    number = rating if isinstance(rating, (int, float)) and not isinstance(rating, bool) and rating == rating else 0.0
    number = float(min(10.0, max(0.0, number)))
    rating_reason = _text_of(reply.get("rating_explanation"))
    return Report(_text_of(reply["title"]), _text_of(reply["summary"]), findings, number, rating_reason, model)


def _numbers(value: Any) -> list[str]:
    items = value if isinstance(value, list) else []
    return list(dict.fromkeys(str(item).strip().upper() for item in items if isinstance(item, (str, int))))
