"""Who speaks in a document that is a conversation: lines that begin with a name and a colon.

A speaker is a person, and a name that is written as one word with capitals (LiHua) is a name of two (Li Hua). A function of the
text of one document, so that no order of documents changes it.
"""

import re
from collections import Counter
from collections.abc import Mapping

from pg_graphrag.text.concepts import Concept, key
from pg_graphrag.text.english_words import may_be_name

_LINE = re.compile(
    r"^[ \t]{0,8}(?P<label>[A-Z][\w'’.-]*(?: [A-Z][\w'’.-]*){0,2}):[ \t]+(?P<said>\S[^\n]*)$", re.MULTILINE
)
_ANY_LINE = re.compile(r"\S[^\n]*")
# Who speaks says I and you.
_SPOKEN = re.compile(r"\b(?:I|I['’]m|I['’]ve|I['’]ll|[Yy]ou|[Yy]our|[Mm]y|[Mm]e|[Ww]e|[Ll]et['’]s|us)\b")
_LEAST_LINES = 2
# LiHua; not McDonald.
_JOINT = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")
_PREFIXES = ("Mc", "Mac", "De", "La", "Le", "Di", "Du", "Van", "Fitz")


def speakers(text: str) -> dict[str, str]:
    """Return {label: name with blanks} of who speaks; empty where a text is no conversation."""
    if ":" not in text:
        return {}
    lines = list(_LINE.finditer(text))
    if len(lines) < _LEAST_LINES or 2 * len(lines) < sum(1 for _ in _ANY_LINE.finditer(text)):
        return {}
    if 2 * sum(_SPOKEN.search(line["said"]) is not None for line in lines) < len(lines):
        return {}
    counts = Counter(line["label"] for line in lines)
    return {
        label: _parted(label)
        for label, count in counts.items()
        if count > 1 or _JOINT.search(label) or all(may_be_name(word) for word in label.split())
    }


def _parted(label: str) -> str:
    words = _JOINT.sub(" ", label).split(" ")
    return label if any(word in _PREFIXES for word in words) else " ".join(words)


def with_speakers(full: Mapping[str, Concept], speakers: Mapping[str, str]) -> dict[str, Concept]:
    """Return {key of a short name or another spelling: the name it means}, labels of speakers added."""
    by_key = {key(label): Concept(name, 0, 0, "NAME") for label, name in speakers.items()}
    names = {key(concept.name) for concept in by_key.values()}
    others = {short: by_key.get(key(concept.name), concept) for short, concept in full.items() if short not in names}
    return others | {label: concept for label, concept in by_key.items() if label not in names}
