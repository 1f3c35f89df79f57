"""Turns an extraction into mentions, with their places in the chunk and the texts that retrieval scores."""

import unicodedata
from collections.abc import Callable, Sequence

from pg_graphrag.index.extraction.records import Extraction
from pg_graphrag.index.graph.drafts import ChunkDraft, EntityDraft, RelationshipDraft, Statement
from pg_graphrag.text.letters import folded
from pg_graphrag.text.words.search_terms import lexical

# Tokens of a merged description; no single description may be longer.
MAX_TOKENS = 1200


def add_mentions(chunk_draft: ChunkDraft, extraction: Extraction, count: Callable[[str], int]) -> None:
    """Add the mentions and claims of an extraction to its chunk.

    `count`: tokens of a text, by the corpus' tokenizer.
    """
    folded_content = fold(chunk_draft.content)
    parts = [fold(text) for text in chunk_draft.window_texts()]
    for entity_key, entity in sorted(extraction.entities.items()):
        chunk_draft.entities[entity_key] = EntityDraft(
            entity.type,
            None,
            {entity.name: 1},
            max(1, occurrences(folded_content, entity_key)),
            sum(1 << place for place, part in enumerate(parts) if occurrences(part, entity_key)),
            _statement(chunk_draft, f"{entity.name}\n", entity.description, count),
            dict(entity.attributes),
        )
    for pair, relationship in sorted(extraction.relationships.items()):
        ends = [chunk_draft.entities[end] for end in pair]
        source, target = (extraction.entities[end].name for end in (relationship.source, relationship.target))
        keywords = tuple(sorted(relationship.keywords))
        chunk_draft.relationships[pair] = RelationshipDraft(
            None,
            1 if relationship.source == pair[0] else -1,
            relationship.strength,
            # Where no window has both names, all windows with either count.
            (ends[0].windows & ends[1].windows) or (ends[0].windows | ends[1].windows),
            _statement(
                chunk_draft, f"{', '.join(keywords)}\t{source}\t{target}\t", relationship.description, count, keywords
            ),
        )
    chunk_draft.claims = list(extraction.claims)
    chunk_draft.unfit = extraction.unfit
    chunk_draft.extraction = "repaired" if extraction.repaired else "complete"


def _statement(
    chunk_draft: ChunkDraft, head: str, description: str, count: Callable[[str], int], keywords: Sequence[str] = ()
) -> Statement:
    tokens = count(description)
    while tokens > MAX_TOKENS:
        description = description[: len(description) * MAX_TOKENS // (tokens + 1)].rstrip()
        tokens = count(description)
    text = (head + description).rstrip()
    return Statement(description, tokens, text, lexical(text, chunk_draft.language), tuple(keywords))


def fold(text: str) -> str:
    """Fold a text as names are folded for their keys."""
    normalized = unicodedata.normalize("NFKC", folded(text))
    return " ".join(normalized.split())


def occurrences(folded: str, name: str) -> int:
    """Count a key in a folded text; in scripts with spaces as whole words."""
    count, position = 0, folded.find(name)
    while position >= 0:
        end = position + len(name)
        if not (_runs_on(folded, position - 1, position) or _runs_on(folded, end - 1, end)):
            count += 1
        position = folded.find(name, end)
    return count


def _runs_on(text: str, first_place: int, second_place: int) -> bool:
    """Whether two neighbouring characters belong to one word: letters and digits of alphabets, not Han, kana or Thai."""
    if first_place < 0 or second_place >= len(text):
        return False
    first, second = text[first_place], text[second_place]
    return (
        first.isalnum()
        and second.isalnum()
        and (first < "\u0e00" or "\u1e00" <= first <= "\u1fff")
        and (second < "\u0e00" or "\u1e00" <= second <= "\u1fff")
    )
