"""What models noted, put together: points of many texts, read in batches side by side, as the context of one answer."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pg_graphrag.errors import GraphRAGError
from pg_graphrag.retrieval.query import Query
from pg_graphrag.server import Row
from pg_graphrag.text.tokenizers import tokenizer

if TYPE_CHECKING:
    from pg_graphrag.retrieval.citations import Citations

# Tokens of texts that one request holds (GraphRAG's map).
BATCH_TOKENS = 12_000

_CHUNKS = """
SELECT c.id AS chunk_id, c.document_id, c.content, d.source_key, d.title
  FROM graphrag.chunks c
  JOIN graphrag.documents d ON d.id = c.document_id AND d.indexed_hash IS NOT NULL
 WHERE c.id = ANY ($1) AND ($2 IS NULL OR c.document_id = ANY ($2))
 ORDER BY d.source_key COLLATE "C", c.ordinal
"""


@dataclass
class Sources:
    """Chunks that statements may rest on, by id, and the numbers that their documents are cited by."""

    chunks: dict[int, Row] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)

    def add(self, asked: Query, ids: Iterable[int]) -> None:
        """Take up chunks, those that the caller may see, numbering their documents by source key."""
        wanted = sorted(set(ids) - self.chunks.keys())
        for row in asked.db.query(_CHUNKS, ["int8[]", "int8[]"], [wanted, asked.visible_ids]):
            self.chunks[row["chunk_id"]] = row
            self.numbers.setdefault(row["document_id"], len(self.numbers) + 1)

    def numbers_of(self, ids: Iterable[int]) -> list[int]:
        """Return the numbers of the documents of chunks, ascending."""
        return sorted({self.numbers[self.chunks[chunk]["document_id"]] for chunk in ids if chunk in self.chunks})


@dataclass(frozen=True, slots=True)
class Passage:
    """A text to be read, and the numbers that it may be cited by."""

    text: str
    numbers: frozenset[int]

    @classmethod
    def together(cls, passages: Sequence["Passage"]) -> "Passage":
        """Return several as one."""
        return cls("\n\n".join(one.text for one in passages), frozenset().union(*(one.numbers for one in passages)))


def cited(numbers: Iterable[int]) -> str:
    """Return numbers as a citation has them."""
    return "".join(f"[{number}]" for number in numbers)


def counter(asked: Query) -> Callable[[str], int]:
    """Return what counts tokens as the corpus does."""
    return tokenizer(asked.corpus.tokenizer, asked.corpus.tokenizer_fingerprint).count


def report_passage(row: Row, sources: Sources) -> Passage:
    """Return a report whose findings carry the numbers of the documents they rest on."""
    parts, every = [f"# {row['title']}", row["summary"]], set()
    for finding in row["findings"]:
        numbers = sources.numbers_of(finding["chunk_ids"])
        every.update(numbers)
        parts += [f"## {finding['summary']} {cited(numbers)}".rstrip(), finding["explanation"]]
    return Passage("\n\n".join(part for part in parts if part), frozenset(every))


def batches(passages: Sequence[Passage], count: Callable[[str], int]) -> list[Passage]:
    """Return passages put together to BATCH_TOKENS; one that is longer stays alone."""
    made: list[list[Passage]] = []
    room = 0
    for one in passages:
        cost = count(one.text) + 2
        if not made or cost > room:
            made.append([])
            room = BATCH_TOKENS
        made[-1].append(one)
        room -= cost
    return [Passage.together(batch) for batch in made]


def points_of(
    asked: Query, question: str, passages: Sequence[Passage], sources: Sources, total: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Have texts read in batches, side by side; return (the context made of the best points, what it cost).

    Raises
    ------
    GraphRAGError
        When no batch was answered: the first one's fault.
    """
    count = counter(asked)
    read = batches(passages, count)
    wanted = [{"question": question, "reports": batch.text} for batch in read]
    outcomes, usage = asked.models.ask_all("map", wanted)
    failed = tolerated(asked, faults_of(outcomes), len(outcomes), "batches were not read")
    points = sorted(
        (
            point | {"description": citing_only(point["description"], batch.numbers)}
            for batch, outcome in zip(read, outcomes, strict=True)
            for point in outcome.get("value", ())
            if point["score"] > 0
        ),
        key=lambda point: (-point["score"], point["description"]),
    )
    heading = "Points, each with its score from 0 to 100 and the numbers of its documents:"
    lines = [f"- ({point['score']}) {point['description']}" for point in points]
    context = context_of(heading, list(zip(points, lines, strict=True)), total, count, sources)
    context["map"] = {"batches": len(read), "failed": failed}
    return context, usage


def faults_of(outcomes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the faults of several requests."""
    return [outcome["fault"] for outcome in outcomes if "fault" in outcome]


def tolerated(asked: Query, faults: Sequence[dict[str, Any]], number: int, what: str) -> int:
    """Return how many of `number` requests failed, with a WARNING that says `what` that cost.

    Raises
    ------
    GraphRAGError
        When all did: the first one's fault.
    """
    if faults and len(faults) == number:
        raise GraphRAGError(
            faults[0]["message"], sqlstate=faults[0]["sqlstate"], detail=faults[0]["detail"], hint=faults[0]["hint"]
        )
    if faults:
        asked.db.warning(f"{len(faults)} of {number} {what}: {faults[0]['message']}")
    return len(faults)


def _citations(numbers: Iterable[int]) -> "Citations":
    # Its patterns take 4 ms to compile, and a search needs none of them.
    from pg_graphrag.retrieval.citations import Citations

    return Citations(numbers)


def citing_only(statement: str, numbers: Iterable[int]) -> str:
    """Return a statement without citations of what the model that made it was not shown."""
    shown = _citations(numbers)
    return shown.feed(statement) + shown.finish()


def context_of(
    heading: str,
    entries: Sequence[tuple[dict[str, Any], str]],
    total: int,
    count: Callable[[str], int],
    sources: Sources,
) -> dict[str, Any]:
    """Put the best (point, its text) that fit under a heading; the references are the documents that they cite."""
    kept: list[tuple[dict[str, Any], str]] = []
    used = count(heading)
    for entry in entries:
        used += count(entry[1]) + 1
        if used > total:
            break
        kept.append(entry)
    # Costs add up only nearly, and references count too. The last points go first.
    while True:
        prompt, references = _prompt(heading, [line for _, line in kept], sources)
        tokens = count(prompt)
        if tokens <= total or not kept:
            break
        kept.pop()
    chunks = [
        {"chunk_id": chunk["chunk_id"], "document_id": chunk["document_id"], "content": chunk["content"]}
        | {"reference": sources.numbers[chunk["document_id"]]}
        for chunk in sources.chunks.values()
        if sources.numbers[chunk["document_id"]] in references
    ]
    whole: dict[str, Any] = {"entities": [], "relationships": [], "reports": [], "claims": []}
    whole |= {"points": [point for point, _ in kept], "chunks": chunks}
    return whole | {
        "references": [references[number] for number in sorted(references)],
        "prompt": prompt,
        "tokens": tokens,
    }


def _prompt(heading: str, lines: Sequence[str], sources: Sources) -> tuple[str, dict[int, dict[str, Any]]]:
    """Return (the text of a context, {number: the reference that it cites})."""
    if not lines:
        return "", {}
    prompt = "\n".join([heading, *lines])
    found = _citations(sources.numbers.values())
    found.feed(prompt)
    found.finish()
    shown = {number for number, _ in found.found}
    references: dict[int, dict[str, Any]] = {}
    for chunk in sources.chunks.values():
        number = sources.numbers[chunk["document_id"]]
        if number in shown:
            references[number] = {"number": number} | {
                name: chunk[name] for name in ("document_id", "source_key", "title")
            }
    if references:
        names = (f"[{number}] {one['title'] or one['source_key']}" for number, one in sorted(references.items()))
        prompt += "\n\nReferences:\n" + "\n".join(names)
    return prompt, references
