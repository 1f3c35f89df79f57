"""Points that models note in batches of texts, read side by side, as the context of one answer."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from pg_graphrag.llm.asking.models import NO_CITATION, ModelFault, Outcome
from pg_graphrag.search.contexts import row_tables
from pg_graphrag.search.contexts.context_packing import reference_name, too_small
from pg_graphrag.search.query.query import Query
from pg_graphrag.server import Row
from pg_graphrag.text.marks import neutral, neutral_line, without_headings
from pg_graphrag.text.tokenizers import tokenizer

if TYPE_CHECKING:
    from pg_graphrag.search.contexts.citations import Citations
    from pg_graphrag.search.retrievers import passages as chunk_passages

# Tokens of texts in one request (GraphRAG's map), and the fewest where a model reads slowly.
BATCH_TOKENS, LEAST_BATCH_TOKENS = 12_000, 500
NOTHING_NOTED = "the models noted nothing that helps"

_CHUNKS = f"""
SELECT c.id AS chunk_id, c.document_id, c.content, d.source_key, d.title, {row_tables.TABLE_NAME} AS table_name, a.key_prefix
  FROM graphrag.chunks c
  JOIN graphrag.documents d ON d.id = c.document_id AND d.indexed_hash IS NOT NULL
  LEFT JOIN graphrag._attached_tables a ON a.id = d.attached_id AND a.kind <> 'documents'
 WHERE c.id = ANY ($1) AND ($2 IS NULL OR c.document_id = ANY ($2))
 ORDER BY d.source_key COLLATE "C", c.ordinal
"""


@dataclass
class Sources:
    """Chunks that statements may rest on, by id, and the citation numbers of their documents."""

    chunks: dict[int, Row] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)

    def add(self, query: Query, ids: Iterable[int]) -> None:
        """Add the chunks that the caller may see; number their documents by source key."""
        new_ids = sorted(set(ids) - self.chunks.keys())
        for row in query.db.query(_CHUNKS, ["int8[]", "int8[]"], [new_ids, query.visible_ids]):
            self.chunks[row["chunk_id"]] = row
            self.numbers.setdefault(row["document_id"], len(self.numbers) + 1)

    def reference(self, chunk: Row) -> dict[str, Any]:
        """Return the reference of a chunk's document; of a row with its table and key."""
        reference: dict[str, Any] = {"number": self.numbers[chunk["document_id"]]}
        reference |= {name: chunk[name] for name in ("document_id", "source_key", "title")}
        if chunk["table_name"] is not None:
            reference |= {"table": chunk["table_name"], "key": row_tables.key_of(chunk)}
        return reference

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
        """Join several passages."""
        return cls(
            "\n\n".join(passage.text for passage in passages),
            frozenset().union(*(passage.numbers for passage in passages)),
        )


def cited(numbers: Iterable[int]) -> str:
    """Return numbers as a citation."""
    return "".join(f"[{number}]" for number in numbers)


def counter(query: Query) -> Callable[[str], int]:
    """Return a function that counts tokens with the corpus' tokenizer."""
    return tokenizer(query.corpus.tokenizer, query.corpus.tokenizer_fingerprint).count


def window_text(chunk: int, nearest: Mapping[int, "chunk_passages.Passage"], sources: Sources) -> str:
    """Return the nearest window of a chunk; the whole of one that has none."""
    window: str = nearest[chunk].window if chunk in nearest else sources.chunks[chunk]["content"]
    return window


def window_passage(chunk: int, nearest: Mapping[int, "chunk_passages.Passage"], sources: Sources) -> Passage:
    """Return the nearest window of a chunk below its title and number."""
    row, numbers = sources.chunks[chunk], sources.numbers_of([chunk])
    title, text = neutral_line(row["title"] or row["source_key"]), window_text(chunk, nearest, sources)
    return Passage(f"## {title} {cited(numbers)}\n\n{neutral(without_headings(text))}", frozenset(numbers))


def tokens_read(query: Query, task: str, most: int = BATCH_TOKENS, share: float = 1.0, **arguments: str) -> int:
    """Return how many tokens of texts a request of a task is given: what its model reads in a share of the time that is left.

    At most `most`, which it is where nothing is known of the model.
    """
    readable = query.models.readable(task, arguments, share * query.models.seconds_left)
    return most if readable is None else min(most, max(readable[1], LEAST_BATCH_TOKENS))


def least_batch(query: Query) -> int:
    """Return the minimum tokens of a batch: what is read in half of the remaining time.

    Call it before models take part of that time; it then bounds the batches, however late they are made.
    """
    return tokens_read(query, "map", share=0.5, question=query.text, reports="")


def batches(passages: Sequence[Passage], count: Callable[[str], int], most: int = BATCH_TOKENS) -> list[Passage]:
    """Join passages to batches of at most so many tokens; a longer one stays alone."""
    groups: list[list[Passage]] = []
    room = 0
    for passage in passages:
        cost = count(passage.text) + 2
        if not groups or cost > room:
            groups.append([])
            room = most
        groups[-1].append(passage)
        room -= cost
    return [Passage.together(batch) for batch in groups]


def first_batch(passages: Sequence[Passage], count: Callable[[str], int], most: int) -> list[Passage]:
    """Return the first passages, as many as go into one batch."""
    sizes = list(accumulate(count(passage.text) + 2 for passage in passages))
    return list(passages[: max(bisect_right(sizes, most), 1)])


def points_of(
    query: Query,
    question: str,
    passages: Sequence[Passage],
    sources: Sources,
    total: int,
    least: int = LEAST_BATCH_TOKENS,
) -> dict[str, Any]:
    """Have texts read in batches of `least` tokens or more, side by side; return the context made of the best points.

    Raises GraphRAGError when no batch was answered: the first one's fault.
    """
    count = counter(query)
    parts = batches(passages, count, max(tokens_read(query, "map", question=question, reports=""), least))
    arguments = [{"question": question, "reports": batch.text} for batch in parts]
    outcomes, usage = query.models.ask_all("map", arguments)
    query.usage.append(usage)
    failed = tolerated(query, outcomes, "batches were not read")
    noted = [
        point | {"description": citing_only(point["description"], batch.numbers)}
        for batch, outcome in zip(parts, outcomes, strict=True)
        for point in outcome.value or ()
        if point["score"] > 0
    ]
    points = sorted(
        (point for point in noted if point["description"]), key=lambda point: (-point["score"], point["description"])
    )
    if noted and not points:
        raise uncited()
    heading = "Points, each with its score from 0 to 100 and the numbers of its documents:"
    lines = [f"- ({point['score']}) {point['description']}" for point in points]
    context = context_of(query, heading, list(zip(points, lines, strict=True)), total, sources)
    context["map"] = {"batches": len(parts), "failed": failed}
    if uncited_points := len(noted) - len(points):
        context["map"]["uncited"] = uncited_points
    return context


def tolerated(query: Query, outcomes: Sequence[Outcome], consequence: str) -> int:
    """Return how many requests failed, with a WARNING that names the `consequence`.

    Raises GraphRAGError when all did: the first one's fault.
    """
    faults = [outcome.fault for outcome in outcomes if outcome.fault is not None]
    if faults and len(faults) == len(outcomes):
        raise faults[0]
    warn_of_faults(query, faults, len(outcomes), consequence)
    return len(faults)


def warn_of_faults(query: Query, faults: Sequence[ModelFault], number: int, consequence: str) -> None:
    """Send a WARNING that so many of `number` requests failed, with the `consequence`."""
    if faults:
        query.db.warning(f"{len(faults)} of {number} {consequence}: {faults[0].message}")


def _citations(numbers: Iterable[int]) -> "Citations":
    # Its patterns take 4 ms to compile, and a search needs none of them.
    from pg_graphrag.search.contexts.citations import Citations

    return Citations(numbers)


def citing_only(statement: str, numbers: Collection[int]) -> str:
    """Return a statement without citations of texts that its model did not see; "" if no other citation remains."""
    citations = _citations(numbers)
    text = citations.feed(statement) + citations.finish()
    return text if citations.cited_sentences or not numbers else ""


def uncited() -> ModelFault:
    """Return the fault of models whose statements all cite nothing that they saw."""
    return ModelFault("what the models noted cites none of the documents", reason=NO_CITATION)


def context_of(
    query: Query, heading: str, entries: Sequence[tuple[dict[str, Any], str]], total: int, sources: Sources
) -> dict[str, Any]:
    """Put the best (point, its text) that fit under a heading; the references are the documents that they cite.

    Rows among these are shown as tables where there is room, with those to which they lead. Where none fits, `least` is the
    context of the shortest.
    """
    count = counter(query)
    fitting: list[tuple[dict[str, Any], str]] = []
    total_tokens = count(heading)
    for entry in entries:
        total_tokens += count(entry[1]) + 1
        if total_tokens > total:
            break
        fitting.append(entry)
    # The sums above leave out references. The last points are dropped first.
    while True:
        lines = [line for _, line in fitting]
        prompt, references = _prompt(heading, lines, sources, [])
        tokens = count(prompt)
        if tokens <= total or not fitting:
            break
        fitting.pop()
    notes: dict[str, Any] = {}
    if entries and not fitting:
        sizes = [count(_prompt(heading, [line], sources, [])[0]) for _, line in entries]
        least = min(sizes)
        notes = {"explain": too_small(query, total, least)}
        # Its parts may have a token more than the whole.
        notes["least"] = context_of(query, heading, [entries[sizes.index(least)]], least + 1, sources)
    elif sources.chunks and not entries:
        notes = {"explain": {"empty": NOTHING_NOTED}}
    table_rows = _table_rows(query, references, total - tokens, sources)
    while table_rows:
        with_tables = _prompt(heading, lines, sources, table_rows)
        if count(with_tables[0]) <= total:
            prompt, references = with_tables
            tokens = count(prompt)
            break
        table_rows.pop()
    chunks = [
        {"chunk_id": chunk["chunk_id"], "document_id": chunk["document_id"], "content": chunk["content"]}
        | {"reference": sources.numbers[chunk["document_id"]]}
        for chunk in sources.chunks.values()
        if sources.numbers[chunk["document_id"]] in references
    ]
    context: dict[str, Any] = {"entities": [], "relationships": [], "reports": [], "claims": []}
    context |= {"tables": row_tables.tables(table_rows)}
    context |= {"points": [point for point, _ in fitting], "chunks": chunks}
    return context | {
        "references": [references[number] for number in sorted(references)],
        "prompt": prompt,
        "tokens": tokens,
        **notes,
    }


def _table_rows(
    query: Query, references: dict[int, dict[str, Any]], room: int, sources: Sources
) -> list[dict[str, Any]]:
    """Return the rows that are cited, and those to which they lead, as entries of tables; new ones are numbered."""
    cited_rows = [reference["document_id"] for reference in references.values() if "table" in reference]
    if not cited_rows:
        return []
    ranks = tokenizer(query.corpus.tokenizer, query.corpus.tokenizer_fingerprint)
    near = row_tables.rows_near(query, cited_rows, ())
    entries, _ = near.fitting(min(room, query.options.max_row_tokens), ranks, sources.numbers)
    return entries


def _prompt(
    heading: str, lines: Sequence[str], sources: Sources, table_rows: Sequence[dict[str, Any]]
) -> tuple[str, dict[int, dict[str, Any]]]:
    """Return (the text of a context, {number: the reference that it cites})."""
    if not lines:
        return "", {}
    prompt = "\n".join([heading, *lines])
    citations = _citations(sources.numbers.values())
    citations.feed(prompt)
    citations.finish()
    cited_numbers = {number for number, _ in citations.cited_sentences}
    references: dict[int, dict[str, Any]] = {}
    for chunk in sources.chunks.values():
        number = sources.numbers[chunk["document_id"]]
        if number in cited_numbers:
            references[number] = sources.reference(chunk)
    in_tables = {entry["reference"] for entry in table_rows}
    if table_rows:
        for entry in table_rows:
            reference = {"number": entry["reference"], "document_id": entry["document_id"]} | entry["source"]
            references.setdefault(entry["reference"], reference)
        prompt += "\n\nRows:\n" + "".join(row_tables.lines(list(table_rows))).rstrip("\n")
    names = [f"[{number}] {reference_name(references[number])}" for number in sorted(references.keys() - in_tables)]
    if names:
        prompt += "\n\nReferences:\n" + "\n".join(names)
    return prompt, references
