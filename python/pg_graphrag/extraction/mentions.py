"""From what a model found to mentions: where the chunk's text says it, and the texts that retrieval scores."""

import unicodedata
from collections.abc import Callable, Sequence

from pg_graphrag.extraction.records import Extraction
from pg_graphrag.graph.drafts import ChunkDraft, EntityDraft, RelationshipDraft, Statement
from pg_graphrag.text.lexical import lexical

# A merged description holds this many tokens; no single one may be longer.
MAX_TOKENS = 1200


def add_mentions(made: ChunkDraft, content: str, found: Extraction, count: Callable[[str], int]) -> None:
    """Make a chunk's mentions of what was found in it.

    Parameters
    ----------
    content : str
        The document's, which the chunk's offsets count.
    count : callable
        Tokens of a text, by the corpus' tokenizer.
    """
    whole = fold(made.content)
    parts = [fold(content[start:end]) for start, end in made.windows]
    for entity_key, entity in sorted(found.entities.items()):
        made.entities[entity_key] = EntityDraft(
            entity.type,
            None,
            {entity.name: 1},
            max(1, occurrences(whole, entity_key)),
            sum(1 << place for place, part in enumerate(parts) if occurrences(part, entity_key)),
            _statement(made, f"{entity.name}\n", entity.description, count),
        )
    for pair, relationship in sorted(found.relationships.items()):
        ends = [made.entities[end] for end in pair]
        source, target = (found.entities[end].name for end in (relationship.source, relationship.target))
        keywords = tuple(sorted(relationship.keywords))
        made.relationships[pair] = RelationshipDraft(
            None,
            1 if relationship.source == pair[0] else -1,
            relationship.strength,
            # Where no window has both names, each of them is where it may be said.
            (ends[0].windows & ends[1].windows) or (ends[0].windows | ends[1].windows),
            _statement(
                made,
                f"{', '.join(keywords)}\t{source}\t{target}\t",
                relationship.description,
                count,
                keywords,
            ),
        )
    made.claims = list(found.claims)
    made.extraction = "repaired" if found.repaired else "complete"


def _statement(
    made: ChunkDraft, head: str, description: str, count: Callable[[str], int], keywords: Sequence[str] = ()
) -> Statement:
    tokens = count(description)
    while tokens > MAX_TOKENS:
        description = description[: len(description) * MAX_TOKENS // (tokens + 1)].rstrip()
        tokens = count(description)
    text = (head + description).rstrip()
    return Statement(description, tokens, text, lexical(text, made.language), tuple(keywords))


def fold(text: str) -> str:
    """Fold a text as names are folded for their keys."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


def occurrences(folded: str, name: str) -> int:
    """Count a key in a folded text; in scripts with spaces as whole words."""
    found, at = 0, folded.find(name)
    while at >= 0:
        after = at + len(name)
        if not (_runs_on(folded, at - 1, at) or _runs_on(folded, after - 1, after)):
            found += 1
        at = folded.find(name, after)
    return found


def _runs_on(text: str, left: int, right: int) -> bool:
    """Whether two neighbouring characters belong to one word: letters and digits of alphabets, not Han, kana or Thai."""
    if left < 0 or right >= len(text):
        return False
    first, second = text[left], text[right]
    return (
        first.isalnum()
        and second.isalnum()
        and (first < "\u0e00" or "\u1e00" <= first <= "\u1fff")
        and (second < "\u0e00" or "\u1e00" <= second <= "\u1fff")
    )
