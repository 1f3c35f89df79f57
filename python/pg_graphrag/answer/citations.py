"""Citations in an answer: those that exist stay, the others go, piece by piece as the answer comes."""

import re
from collections.abc import Iterable
from typing import Any

# [1], [1, 3], [1-3], [^1], and the brackets of Chinese and Japanese. Longer than this is no citation.
MAX_MARK = 60
_NUMBER = r"\^?\d{1,9}"
_MARK = re.compile(rf"[\[［【]\s*{_NUMBER}(?:\s*[,;、，–-]\s*{_NUMBER})*\s*[\]］】]")
# What may yet become one.
_OPENING = re.compile(r"[\[［【][\s\d^,;、，–-]*\Z")
_RANGE = re.compile(r"(\d+)\s*[–-]\s*\^?\s*(\d+)|(\d+)")
_TICKS = re.compile(r"`+")
_PLAIN = re.compile(r"[^\s`\[［【]+")
_BLANK = " \t\u3000"
MAX_RANGE = 100


class Citations:
    """A filter over the pieces of an answer.

    ``"".join(feed(piece) for piece in pieces) + finish()`` is the same however the answer is cut into pieces. Code
    (between backticks) is left alone: ``a[5]`` is no citation there.

    Attributes
    ----------
    found : list of (int, str)
        Numbers cited, each with the sentence that cites it.
    invalid : int
        Numbers cited that are not in the context.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = frozenset(numbers)
        self._waiting = ""
        self._begun = False
        self._code = ""
        self._said = ""
        self.found: list[tuple[int, str]] = []
        self.invalid = 0

    def feed(self, piece: str) -> str:
        """Take a piece of the answer; return what is sure of it so far."""
        self._waiting += piece
        return self._pass(last=False)

    def finish(self) -> str:
        """Return the rest. White space at the end of the answer is left out."""
        return self._pass(last=True)

    def _pass(self, last: bool) -> str:
        text, out, at = self._waiting, [], 0
        if not self._begun:
            stripped = text.lstrip()
            at = len(text) - len(stripped)
            self._begun = bool(stripped)
        while at < len(text):
            step = self._step(text, at, last)
            if step is None:
                break
            shown, at = step
            out.append(shown)
        self._waiting = "" if last else text[at:]
        whole = "".join(out)
        self._said = (self._said + whole)[-2000:]
        return whole

    def _step(self, text: str, at: int, last: bool) -> tuple[str, int] | None:
        """Return what is shown of the text from `at` on and where to go on, or None when more must come first."""
        character = text[at]
        if character.isspace():
            end = at
            while end < len(text) and text[end].isspace():
                end += 1
            if end == len(text):
                return None  # the end of the answer, or more comes
            if "\n" in text[at:end] and len(self._code) < 3:
                self._code = ""  # code within a line ends with it
            if not self._code and text[end] in "[［【" and not text[at:end].strip(_BLANK):
                return self._mark(text, end, text[at:end], last)
            return text[at:end], end
        if character == "`":
            match = _TICKS.match(text, at)
            assert match is not None
            if match.end() == len(text) and not last:
                return None
            ticks = match.group()
            self._code = "" if ticks == self._code else self._code or ticks
            return ticks, match.end()
        if not self._code and character in "[［【":
            return self._mark(text, at, "", last)
        plain = _PLAIN.match(text, at)
        return (plain.group(), plain.end()) if plain else (character, at + 1)

    def _mark(self, text: str, at: int, before: str, last: bool) -> tuple[str, int] | None:
        """A bracket at `at`, `before` it blanks: a citation, ordinary text, or not yet known."""
        match = _MARK.match(text, at, at + MAX_MARK)
        if match is None:
            if not last and len(text) - at < MAX_MARK and _OPENING.match(text, at):
                return None
            return before + text[at], at + 1
        valid, invalid = self._split(match.group())
        self.invalid += invalid
        sentence = re.split(r"[.!?。！？\n]\s*", (self._said + text[:at]).rstrip(" .!?。！？"))[-1]
        self.found += [(number, sentence) for number in valid]
        if not invalid:
            return before + match.group(), match.end()
        if not valid:
            return "", match.end()
        return before + f"[{', '.join(map(str, valid))}]", match.end()

    def _split(self, mark: str) -> tuple[list[int], int]:
        """Return the valid numbers of a citation, in order, and how many of those written are not."""
        valid: dict[int, None] = {}
        invalid = 0
        for first, end, single in _RANGE.findall(mark):
            written = [int(single)] if single else [int(first), int(end)]
            good = [number for number in written if number in self._numbers]
            invalid += len(written) - len(good)
            if not single and len(good) == 2 and good[0] <= good[1] <= good[0] + MAX_RANGE:
                good = [number for number in range(good[0], good[1] + 1) if number in self._numbers]
            valid.update(dict.fromkeys(good))
        return list(valid), invalid


def listed(found: list[tuple[int, str]], context: dict[str, Any]) -> list[dict[str, Any]]:
    """Return [{number, document_id, source_key, title, chunk_id}] of the numbers cited, ascending.

    A number stands for a document; `chunk_id` is the chunk of it in the context, or that of a claim there, that shares most
    with the sentences that cite it (ties: the better ranked).
    """
    sentences: dict[int, str] = {}
    for number, sentence in found:
        sentences[number] = f"{sentences.get(number, '')} {sentence}"
    references = {reference["number"]: reference for reference in context["references"]}
    rows = []
    for number in sorted(sentences):
        wanted = _pieces(sentences[number])
        texts = [(chunk["content"], chunk) for chunk in context["chunks"] if chunk["reference"] == number]
        texts += [(claim["description"], claim) for claim in context["claims"] if claim["reference"] == number]
        _, best = max(texts, key=lambda text: len(wanted & _pieces(text[0])))
        reference = {name: references[number][name] for name in ("number", "document_id", "source_key", "title")}
        rows.append(reference | {"chunk_id": best["chunk_id"]})
    return rows


def _pieces(text: str) -> set[str]:
    """Runs of four characters: words enough, in any script."""
    folded = " ".join(text.casefold().split())
    return {folded[at : at + 4] for at in range(len(folded) - 3)}
