"""What a corpus can be told, its defaults and its checks."""

from dataclasses import asdict, dataclass, field
from typing import Any

from pg_graphrag.errors import GraphRAGError
from pg_graphrag.text.languages import REGCONFIG

LOCAL_MODEL = "all-MiniLM-L6-v2"
LOCAL_DIMENSIONS = 384


@dataclass(frozen=True, slots=True)
class Embedding:
    """Where vectors come from: ``local`` is the model inside the server."""

    provider: str = "local"
    model: str = LOCAL_MODEL
    dimensions: int = LOCAL_DIMENSIONS


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a corpus (DESIGN.md 4); sizes in tokens of the corpus' tokenizer."""

    extractor: str = "nlp"
    language: str = "auto"
    chunk_token_size: int = 1200
    chunk_overlap: int = 100
    tokenizer: str = LOCAL_MODEL
    embedding: Embedding = field(default_factory=Embedding)


# Options that decide chunks, terms or mentions: a change of one re-indexes the corpus.
INDEXING = ("extractor", "language", "chunk_token_size", "chunk_overlap")
# Fixed once there are documents.
PINNED = ("tokenizer", "embedding")

_KNOWN = set(Options.__dataclass_fields__)
_KNOWN_EMBEDDING = set(Embedding.__dataclass_fields__)


def parse(options: dict[str, Any]) -> Options:
    """Check `options` and fill in what is absent.

    Raises
    ------
    GraphRAGError
        22023, naming the option and the value, when a key is unknown or a value is not usable.
    """
    _refuse_unknown(options, _KNOWN, "corpus option")
    given = dict(options)
    embedding = given.pop("embedding", {})
    if not isinstance(embedding, dict):
        raise _bad("embedding", embedding, 'an object, for example {"provider": "local"}')
    _refuse_unknown(embedding, _KNOWN_EMBEDDING, "embedding option")
    parsed = Options(**given, embedding=Embedding(**embedding))
    _choice("extractor", parsed.extractor, {"nlp"})
    _choice("language", parsed.language, {"auto", *REGCONFIG})
    _whole("chunk_token_size", parsed.chunk_token_size, 50, 8192)
    _whole("chunk_overlap", parsed.chunk_overlap, 0, parsed.chunk_token_size // 2)
    if not isinstance(parsed.tokenizer, str):
        raise _bad("tokenizer", parsed.tokenizer, "the name of a tokenizer")
    _choice("embedding.provider", parsed.embedding.provider, {"local"})
    _choice("embedding.model", parsed.embedding.model, {LOCAL_MODEL})
    if not isinstance(parsed.embedding.dimensions, int) or parsed.embedding.dimensions != LOCAL_DIMENSIONS:
        raise _bad("embedding.dimensions", parsed.embedding.dimensions, f"{LOCAL_DIMENSIONS} for {LOCAL_MODEL}")
    return parsed


def changed(old: Options, new: Options, names: tuple[str, ...]) -> list[str]:
    """Return those of `names` whose value differs."""
    before, after = asdict(old), asdict(new)
    return [name for name in names if before[name] != after[name]]


def _refuse_unknown(given: dict[str, Any], known: set[str], what: str) -> None:
    for name in given:
        if name not in known:
            raise GraphRAGError(f'unknown {what} "{name}"', hint=f"Known: {', '.join(sorted(known))}.")


def _choice(name: str, value: Any, allowed: set[str]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise _bad(name, value, "one of " + ", ".join(sorted(allowed)))


def _whole(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise _bad(name, value, f"a whole number from {low} to {high}")


def _bad(name: str, value: Any, wanted: str) -> GraphRAGError:
    return GraphRAGError(f'option "{name}" cannot be {value!r}', hint=f"Give {wanted}.")
