"""The extension in other frameworks. Each module needs the extra with its name."""

from collections.abc import Mapping, Sequence
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError

# In a filter's list.
MAX_LIST = 10_000


def among(name: str, values: Sequence[Any]) -> dict[str, Any]:
    """Return the filter to documents whose field, or ``$source_key``, is one of values, however many these are."""
    starts = range(0, max(len(values), 1), MAX_LIST)
    return {"$or": [{name: {"$in": list(values[start : start + MAX_LIST])}} for start in starts]}


def of_one_corpus(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a search whose results are documents, or rows, of one corpus; 22023 with `corpora`."""
    if "corpora" in arguments:
        raise GraphRAGError("these results are of one corpus", hint="Leave corpora out; retrievers search several.")
    return arguments


def with_own(metadata: Mapping[str, Any], **own: Any) -> dict[str, Any]:
    """Return a document's metadata with the fields of a search. If the document has a field of the same name, it is called
    graphrag_NAME, and if it has that too, graphrag_graphrag_NAME.
    """
    result = dict(metadata)
    for name, value in own.items():
        free = name
        while free in result and result[free] != value:
            free = f"graphrag_{free}"
        result[free] = value
    return result


def place_of(explain: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a search says of a picture whose words it found: its number, and its page where it has one."""
    return {name: explain[name] for name in ("picture", "pages") if name in explain} if "picture" in explain else {}


def title_of(metadata: Mapping[str, Any]) -> str | None:
    """Return the title that loaders of a framework put into the metadata of a document."""
    title = metadata.get("title")
    return title if isinstance(title, str) else None
