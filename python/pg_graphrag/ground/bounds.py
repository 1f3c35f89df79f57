"""Maximum lengths of the texts of a call. Longer texts are no questions, and reading them would waste time."""

from collections.abc import Sequence

from pg_graphrag.ground.errors import GraphRAGError

# Characters of all keywords of one kind together, and of a name.
MAX_KEYWORDS = 100
MAX_KEYWORD_CHARACTERS = 8192
MAX_NAME = 2048
# Characters of a question, of one to a model without documents, which nothing searches, and of how to answer.
MAX_QUESTION, MAX_PROMPT = 8192, 131_072
MAX_INSTRUCTIONS = 32_768
# Output tokens of an answer, whatever its asker or its form says.
MAX_ANSWER_TOKENS = 8000
# For one search: corpora, the name for all that the caller may read, and the maximum seconds of each.
MAX_CORPORA = 100
ALL = "*"
LEAST_CORPUS_SECONDS, MAX_CORPUS_SECONDS = 0.001, 600.0
# Turns of a conversation so far, and their characters together: some forty answers of a page.
MAX_TURNS = 200
MAX_HISTORY = 131_072
# PostgreSQL's text search parser takes time quadratic in a run without blanks, and cannot be cancelled meanwhile.
MAX_DESCRIPTION = 32_768


def history(contents: Sequence[str]) -> None:
    """Refuse a conversation of more than MAX_TURNS turns, or of more than MAX_HISTORY characters: 22023."""
    hint = f"Give the latest turns: at most {MAX_TURNS}, of {MAX_HISTORY:,} characters together."
    if len(contents) > MAX_TURNS:
        raise GraphRAGError(f"history has {len(contents):,} turns, more than {MAX_TURNS}", hint=hint)
    characters = sum(map(len, contents))
    if characters > MAX_HISTORY:
        raise GraphRAGError(
            f"history has {characters:,} characters, more than {MAX_HISTORY:,}: {begin(max(contents, key=len))}",
            hint=hint,
        )


def keywords(phrases: Sequence[str | None] | None, name: str) -> list[str] | None:
    """Return keywords without empty ones; 22023 when they are too many or too long. `name` is the argument's name."""
    if phrases is None:
        return None
    words = [word for word in phrases if word and not word.isspace()]
    if len(words) > MAX_KEYWORDS:
        raise GraphRAGError(f"{name} holds {len(words):,} keywords", hint=f"Give at most {MAX_KEYWORDS}.")
    characters = sum(map(len, words))
    if characters > MAX_KEYWORD_CHARACTERS:
        raise GraphRAGError(
            f"{name} holds {characters:,} characters: {begin(max(words, key=len))}",
            hint=f"Give phrases, of at most {MAX_KEYWORD_CHARACTERS:,} characters together.",
        )
    return words


def name(text: str | None) -> str:
    """Return the name of an entity unchanged, "" for None; 22023 when it is longer than MAX_NAME characters."""
    if len(text or "") > MAX_NAME:
        raise GraphRAGError(
            f"the name of an entity has {len(text or ''):,} characters: {begin(text)}",
            hint=f"Give a name of at most {MAX_NAME:,} characters.",
        )
    return text or ""


def description(text: str | None) -> str:
    """Return a description without white space around it; 22023 when it is longer than MAX_DESCRIPTION characters."""
    if len(text or "") > MAX_DESCRIPTION:
        raise GraphRAGError(
            f"the description has {len(text or ''):,} characters: {begin(text)}",
            hint=f"Give at most {MAX_DESCRIPTION:,}. A longer text belongs into graphrag.documents.",
        )
    return (text or "").strip()


def begin(text: str | None) -> str:
    """Return how a text begins, for an error."""
    return f'"{(text or "")[:60]}…"'
