"""Who speaks in a document that is a conversation: lines that begin with a name and a colon.

A speaker is a person, and a name that is written as one word with capitals (LiHua) is a name of two (Li Hua). A function of the
text of one document, so that no order of documents changes it.
"""

import re
from collections import Counter
from collections.abc import Mapping

from pg_graphrag.text.concept import Concept, key
from pg_graphrag.text.words.english_words import may_be_name

_LINE = re.compile(
    r"^[ \t]{0,8}(?P<label>[A-Z][\w'’.-]*(?: [A-Z][\w'’.-]*){0,2}):[ \t]+(?P<said>\S[^\n]*)$", re.MULTILINE
)
_ANY_LINE = re.compile(r"\S[^\n]*")
# Who speaks says I and you.
_SPOKEN = re.compile(r"\b(?:I|I['’]m|I['’]ve|I['’]ll|[Yy]ou|[Yy]our|[Mm]y|[Mm]e|[Ww]e|[Ll]et['’]s|us)\b")
_LEAST_LINES = 2
# "Erik Arvidsson (EA)", in a list of who is there; and "EA: …", what he says.
_PRESENT = re.compile(
    r"(?P<name>[^\W\d_][\w'’.-]{0,40}(?: [^\W\d_][\w'’.-]{0,40}){1,3}) \((?P<initials>[A-Z]{2,4})\)(?=[\s,.;]|$)",
    re.MULTILINE,
)
_LABEL = re.compile(r"^[ \t>*•-]{0,8}(?P<initials>[A-Z]{2,4}):[ \t]", re.MULTILINE)
# LiHua; not McDonald.
_JOINT = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")
_PREFIXES = ("Mc", "Mac", "De", "La", "Le", "Di", "Du", "Van", "Fitz")


def speakers(text: str) -> dict[str, str]:
    """Return {label: name with blanks} of who speaks; empty where a text is no conversation and has no minutes."""
    if ":" not in text:
        return {}
    return _present(text) | _speakers(text)


def _present(text: str) -> dict[str, str]:
    """Return {initials: name} of persons of whom minutes say both, and what they said."""
    labels = Counter(match["initials"] for match in _LABEL.finditer(text))
    if not any(count >= _LEAST_LINES for count in labels.values()):
        return {}
    names: dict[str, set[str]] = {}
    for match in _PRESENT.finditer(text):
        initials = match["initials"]
        if labels[initials] >= _LEAST_LINES and _are_initials(initials, re.split("[ -]", match["name"])):
            names.setdefault(initials, set()).add(match["name"])
    return {initials: min(of) for initials, of in names.items() if len(of) == 1}


def _are_initials(initials: str, names: list[str]) -> bool:
    """Whether letters are those that names begin with: all, or the first and the last (Mark S. Miller: MSM, MM)."""
    letters = "".join(name[:1] for name in names)
    return initials in (letters, letters[0] + letters[-1])


def _speakers(text: str) -> dict[str, str]:
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
