"""Citations in an answer, piece by piece as it comes: valid ones become [n], the others are removed.

Models cite in many forms: [1, 3], [1-3], [^1], [[1]], [citation:1], 【1†source】, 【1】, ［1］, and (1).
"""

import re
from collections.abc import Iterable
from typing import Any

from pg_graphrag.retrieval.places import pieces

# Longest citation.
MAX_MARK = 100
_NUMBERS = r"(?P<numbers>\^?\d{1,9}\^?(?:\s*[,;、，；–-]\s*\^?\d{1,9}\^?)*)"
_LABEL = r"\s*(?:(?:source|reference|ref|document|doc|citation)s?[.:]?\s*)?"
# The second number, and the text after the dagger, refer to the model's own tools.
_INNER = rf"{_LABEL}{_NUMBERS}(?:(?::\d+)?†[^\]］】\n]*)?\s*"
_MARK = re.compile(rf"(?:\[\[{_INNER}\]\]|[\[［【]{_INNER.replace('numbers', 'alone')}[\]］】])", re.I)
_ROUND = re.compile(rf"[(（]\s*{_NUMBERS}\s*[)）]")
# A beginning that may become a citation.
_OPENING = re.compile(r"(?:[\[［【]{1,2}[A-Za-z.:\s]{0,12}|[(（])[\s\d^,;、，；:–-]*(?:†[^\]］】\n]*)?[\]］】]?\Z")
_ANY = "[［【(（"
_RANGE = re.compile(r"(\d+)\s*[–-]\s*\^?\s*(\d+)|(\d+)")
# Places in an array or interval, dates.
_NO_NUMBERS = re.compile(r"(?<!\d)0\d|(?<!\d)0\s*[,;、，；–-]|[,;、，；–-]\s*0(?!\d)|\d\s*[–-]\s*\d+\s*[–-]")
_TICKS = re.compile(r"`+")
_PLAIN = re.compile(r"[^\s`\[［【(（]+")
_BLANK = " \t\u3000"
_SPACE = re.compile(r"\s+")
# Characters before a citation that it can refer to.
MAX_BEFORE = 2000
MAX_RANGE = 100
# 【1】 begins a heading where a line begins with it, unless the sentence goes on about what is cited.
_LINE_START = re.compile(r"(?:\A|\n)[\s#>*_+•・●■◆○□◎※-]*(?:\d{1,3}[.)）、．]\s*)?[*_]*\Z")
_CITING = re.compile(
    r"\s*(?:によ[るれりっ]|では|に(?:は|も)?[示記書述あお基従]|が[示述記書]|[はも]、|の(?:記述|資料|文書|文献)|[、。，]"
    r"|指出|提到|[显顯]示|[认認][为為]|表明|[说說]明|中(?:[提指的说說]|，)|所[述示说說])"
)
_LOOK_AHEAD = 12
# Marks in a row that are skipped to see what follows them.
MAX_IN_A_ROW = 50
# No context has so many documents: greater numbers in 【】 are years and the like.
_MAX_CITED = 1000
# (1) cites only at the end of a sentence, after a word that has no number of its own.
_SENTENCE_END = re.compile(r"[.!?。！？](?=\s|\Z)|[。！？]|[ \t]*(?:\n|\Z)")
_BEFORE_ROUND = re.compile(r"(?:(?P<word>[^\W_]{2,})[\"'”’]?[ \t]|[ぁ-ん])\Z")
_NUMBERED = frozenset(
    "equation eq formula figure fig table section sec chapter part step stage phase item option case type class group level"
    " note example rule condition point clause article paragraph line row column page version method function no number"
    " category question problem exercise appendix and or".split()
)
_POINTING = re.compile(r"\b(?:see|cf|man|refer|manual|page)\b", re.I)


class Citations:
    """A filter over the pieces of an answer.

    ``"".join(feed(piece) for piece in pieces) + finish()`` is the same however the answer is cut into pieces. Code
    (between backticks) is left alone: ``a[5]`` is no citation there.

    Attributes
    ----------
    cited_sentences : list of (int, str)
        Numbers cited, each with the sentence that cites it.
    invalid : int
        Numbers cited that are not in the context.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = frozenset(numbers)
        self._pending = ""
        self._blanks: list[str] = []
        self._has_text = False
        self._code = ""
        self._recent_output = ""
        # Whether round brackets may cite: not where square ones do, nor where they number items.
        self._round = True
        self.cited_sentences: list[tuple[int, str]] = []
        self.invalid = 0

    def feed(self, piece: str) -> str:
        """Take a piece of the answer; return the text that is final so far."""
        # White space alone decides nothing; it is not looked at again with each piece.
        self._blanks.append(piece)
        if not piece or piece.isspace():
            return ""
        return self._pass(last=False)

    def finish(self) -> str:
        """Return the rest. White space at the end of the answer is left out."""
        return self._pass(last=True)

    def _pass(self, last: bool) -> str:
        text, parts, position = "".join([self._pending, *self._blanks]), [], 0
        self._blanks.clear()
        if not self._has_text:
            body = text.lstrip()
            position = len(text) - len(body)
            self._has_text = bool(body)
        while position < len(text):
            step = self._step(text, position, last)
            if step is None:
                break
            output, position = step
            parts.append(output)
        self._pending = "" if last else text[position:]
        text_out = "".join(parts)
        self._recent_output = (self._recent_output + text_out)[-MAX_BEFORE:]
        return text_out

    def _text_before(self, text: str, position: int) -> str:
        """Return the end of the text before a position."""
        return (self._recent_output + text[max(0, position - MAX_BEFORE) : position])[-MAX_BEFORE:]

    def _step(self, text: str, position: int, last: bool) -> tuple[str, int] | None:
        """Return the output for the text at `position` and where to go on; None when more text must come first."""
        character = text[position]
        if character.isspace():
            space = _SPACE.match(text, position)
            assert space is not None
            end = space.end()
            if end == len(text):
                return None  # the end of the answer, or more comes
            if "\n" in text[position:end] and len(self._code) < 3:
                self._code = ""  # code within a line ends with it
            if not self._code and text[end] in _ANY and not text[position:end].strip(_BLANK):
                return self._mark(text, end, text[position:end], last)
            return text[position:end], end
        if character == "`":
            match = _TICKS.match(text, position)
            assert match is not None
            if match.end() == len(text) and not last:
                return None
            ticks = match.group()
            self._code = "" if ticks == self._code else self._code or ticks
            return ticks, match.end()
        if not self._code and character in _ANY:
            return self._mark(text, position, "", last)
        run = _PLAIN.match(text, position)
        return (run.group(), run.end()) if run else (character, position + 1)

    def _mark(self, text: str, position: int, blanks: str, last: bool) -> tuple[str, int] | None:
        """Read a bracket at `position`, with `blanks` before it: a citation, ordinary text, or not yet known."""
        is_round = text[position] in "(（"
        match = (_ROUND if is_round else _MARK).match(text, position, position + MAX_MARK)
        if match is None:
            if not last and len(text) - position < MAX_MARK and _OPENING.match(text, position):
                return None
            return blanks + text[position], position + 1
        groups = match.groupdict()
        numbers = groups["numbers"] or groups["alone"]
        cites = (
            self._ends_a_sentence(text, match, numbers, last) if is_round else self._cites(text, match, numbers, last)
        )
        if cites is None:
            return None
        if not cites:
            return blanks + match.group(), match.end()
        valid, invalid = self._valid_numbers(numbers)
        self._round = self._round and is_round
        self.invalid += invalid
        sentence = re.split(r"[.!?。！？\n]\s*", self._text_before(text, position).rstrip(" .!?。！？"))[-1]
        self.cited_sentences += [(number, sentence) for number in valid]
        return (blanks + "".join(f"[{number}]" for number in valid) if valid else ""), match.end()

    def _cites(self, text: str, match: re.Match[str], numbers: str, last: bool) -> bool | None:
        """Whether numbers in square brackets are a citation: not an interval, a date or a heading; None: not yet known."""
        if _NO_NUMBERS.search(numbers):
            return False
        if match.group()[0] == "[" or "†" in match.group():
            return True
        preceding = self._text_before(text, match.start())
        if any(int(number) >= _MAX_CITED for number in re.findall(r"\d+", numbers)):
            return False
        if not _LINE_START.search(preceding):
            return True
        end = match.end()
        for _ in range(MAX_IN_A_ROW):
            further = _MARK.match(text, end, end + MAX_MARK)
            if further is None:
                break
            end = further.end()
        rest = text[end : end + _LOOK_AHEAD]
        if not last and len(rest) < _LOOK_AHEAD and "\n" not in rest:
            return None
        if not rest.partition("\n")[0].strip():
            # Alone on its line: it belongs to the line before, if that is one.
            return bool(re.search(r"\S[ \t]*\n[^\n]*\Z", preceding))
        return _CITING.match(rest) is not None

    def _ends_a_sentence(self, text: str, match: re.Match[str], numbers: str, last: bool) -> bool | None:
        """Whether a number in round brackets can be nothing but a citation; None: not yet known."""
        rest = text[match.end() : match.end() + 3]
        if not last and (not rest.strip() or len(rest) < 2) and "\n" not in rest:
            return None
        preceding = self._text_before(text, match.start())
        word = _BEFORE_ROUND.search(preceding)
        sentence = re.split(r"[.!?。！？\n]\s*", preceding)[-1]
        cites = (
            self._round
            and _SENTENCE_END.match(rest) is not None
            and word is not None
            and (word["word"] or "").lower() not in _NUMBERED
            and not _POINTING.search(sentence)
            and not self._valid_numbers(numbers)[1]
        )
        self._round = self._round and cites
        return cites

    def _valid_numbers(self, mark: str) -> tuple[list[int], int]:
        """Return the valid numbers of a citation, in order, and the number of invalid ones."""
        valid: dict[int, None] = {}
        invalid = 0
        for first, end, single in _RANGE.findall(mark):
            numbers = [int(single)] if single else [int(first), int(end)]
            good = [number for number in numbers if number in self._numbers]
            invalid += len(numbers) - len(good)
            if not single and len(good) == 2 and good[0] <= good[1] <= good[0] + MAX_RANGE:
                good = [number for number in range(good[0], good[1] + 1) if number in self._numbers]
            valid.update(dict.fromkeys(good))
        return list(valid), invalid


def cited_documents(cited_sentences: list[tuple[int, str]], context: dict[str, Any]) -> list[dict[str, Any]]:
    """Return [{number, document_id, source_key, title, chunk_id}] of the numbers cited, ascending; of rows {table, key} too.

    A number stands for a document; `chunk_id` is the chunk of it in the context, or that of a claim or row there, that shares
    most with the sentences that cite it (ties: the better ranked). What is of no document (rows of a statement) has none.
    """
    sentences: dict[int, str] = {}
    for number, sentence in cited_sentences:
        sentences[number] = f"{sentences.get(number, '')} {sentence}"
    references = {reference["number"]: reference for reference in context["references"]}
    cited = []
    for number in sorted(sentences):
        sentence_pieces = pieces(sentences[number])
        texts = [(chunk["content"], chunk) for chunk in context["chunks"] if chunk["reference"] == number]
        texts += [(claim["description"], claim) for claim in context["claims"] if claim["reference"] == number]
        rows = [row for table in context["tables"] for row in table["rows"] if row["reference"] == number]
        texts += [(" ".join(map(str, row["values"].values())), row) for row in rows]
        _, best = max(texts, key=lambda text: len(sentence_pieces & pieces(text[0])), default=("", {"chunk_id": None}))
        names = ("number", "document_id", "source_key", "title", "table", "key")
        reference = {name: references[number][name] for name in names if name in references[number]}
        cited.append(reference | {"chunk_id": best["chunk_id"]})
    return cited
