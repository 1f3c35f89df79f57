"""The extension in other frameworks: LlamaIndex and LangChain. Each module needs the extra of its name."""

from collections.abc import Mapping
from typing import Any


def with_own(metadata: Mapping[str, Any], **own: Any) -> dict[str, Any]:
    """Return the metadata of a document with what a search says of it; where the document has a name too, as graphrag_NAME."""
    result = dict(metadata)
    for name, value in own.items():
        result[name if result.get(name, value) == value else f"graphrag_{name}"] = value
    return result
