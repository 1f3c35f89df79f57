"""Citations in an answer, while it is written: valid ones become [n], others are removed; and what each one cites.

`text.marks` lists the forms in square brackets that models write. In round brackets, (1) and (Document 1) count.
"""

import re
from collections.abc import Iterable
from typing import Any

from pg_graphrag.text.letters import folded, without_invisible
from pg_graphrag.text.marks import (
    CLOSE,
    LOOSELY_PARTED,
    MAX_CITED,
    MAX_MARK,
    OPEN,
    TEXT_CLOSE,
    TEXT_OPEN,
    cited,
    given_back,
)

_INNER = rf"([^{re.escape(OPEN + CLOSE)}\n]{{1,{MAX_MARK}}})"
# Square brackets within cite by themselves.
_ROUND = re.compile(rf"[(（]{_INNER.replace('[^', '[^()（）')}[)）]")
# A backslash before a bracket: Markdown, or a false LaTeX formula.
_MARK = re.compile(rf"\\{{0,2}}(?:\[\[{_INNER}\]\]|[{re.escape(OPEN)}]{_INNER}[{re.escape(CLOSE)}])")
_ROUND_NUMBERS = re.compile(r"\s*\d{1,9}(?:\s*[,;、，；–-]\s*\d{1,9})*\s*\Z")
_IN_ROUND = re.compile(r"[(（]\s*\d{1,3}\s*[)）]")
# A beginning that may become a citation: at most six words come before its number.
_FEW_WORDS = r"(?:(?:[^\w\n]++|_)*[^\W\d_]{1,20}+){0,6}(?:[^\w\n]++|_)*"
_OPENING = re.compile(
    rf"\\{{1,2}}\Z|\\{{0,2}}[{re.escape(OPEN)}]{{1,2}}{_FEW_WORDS}(?:\d[^{re.escape(OPEN + CLOSE)}\n]*)?[{re.escape(CLOSE)}]?\Z"
    rf"|[(（]{_FEW_WORDS}(?:\d[^()（）\n]*)?\Z"
)
_SUPERSCRIPTS = "¹²³⁴⁵⁶⁷⁸⁹"
_ANY = OPEN + TEXT_OPEN + "(（\\<" + _SUPERSCRIPTS
# Numbers in a tag: <sup>1</sup>, <cite>[1]</cite>; one that may become such; and numbers above the line.
_TAGGED = re.compile(
    r"<(sup|cite|citation|ref|source)>\s{0,4}\[?(\d{1,3}(?:\s?[,;–-]\s?\d{1,3}){0,20})\]?\s{0,4}</\1>", re.IGNORECASE
)
_TAG_BEGUN = re.compile(r"<[a-z]{0,8}(?:>[\s\d\[\],;–-]*(?:<(?:/[a-z]{0,8})?)?)?\Z", re.IGNORECASE)
_ABOVE = re.compile("{0}(?:[,;]? ?{0}){{0,20}}".format(f"[{_SUPERSCRIPTS}][⁰{_SUPERSCRIPTS}]{{0,2}}"))
_ABOVE_BEGUN = re.compile(r"[,;]? ?\Z")
_ABOVE_DIGITS = str.maketrans("⁰" + _SUPERSCRIPTS, "0123456789")
# Superscript numbers are powers, except behind years, units and functions, or other short words; and before + or a letter.
_BEFORE_ABOVE = re.compile(
    r"(?:[.!?。！？…%]|(?P<word>[^\W\d_]{3,}|(?<!\d)(?:1[5-9]|20)\d\d))[,;:\"'”’»)*_]{0,4}(?:\[\d{1,3}\]){0,10}\Z"
)
_RAISED = re.compile(
    r"(?:kilo|centi|milli|deci|quadrat)?m[eè]t(?:er|re|ro)[ns]?|inch(?:es)?|f(?:oo|ee)t|yards?|miles?|(?:milli)?seconds?"
    r"|sin|cos|tan|log|dim|chi|alpha|beta|gamma|lambda|sigma|theta|omega"
)
_AFTER_POWER = re.compile("[A-Za-z+−]")
# Forms of these that a context may contain itself.
_OWN_FORMS = {
    "sup": re.compile(r"<sup>\s*\d", re.IGNORECASE),
    "sign": re.compile(rf"[.!?。！？…][\"'”’»)]?[{_SUPERSCRIPTS}]"),
    "tag": re.compile(r"<(?:cite|citation|ref|source)>", re.IGNORECASE),
    "label": re.compile(r"\b[SD]\d{1,3}\b"),
}
# [S1] and [D2], where the context has no such name.
_SHORT_LABELS = re.compile(r"\s*[SD]\d{1,3}(?:\s*[,;]\s*[SD]\d{1,3})*\s*")
# What a document was given with in place of brackets.
_GIVEN = re.compile(rf"{TEXT_OPEN}([^{TEXT_OPEN}{TEXT_CLOSE}]{{1,{MAX_MARK}}})(?:{TEXT_CLOSE}|(?P<is_open>\Z))")
_IN_CODE = {TEXT_OPEN: "[", TEXT_CLOSE: "]"}
_FENCE = re.compile(r"`+|~+")
# What begins a line that a fence may stand in, and an item of a list, whose text is indented and no code.
_FENCE_BEFORE = re.compile(r"(?:\A|\n)[ \t>]*(?:[-*+][ \t]+|\d{1,9}[.)][ \t]+)?\Z")
_ITEM = re.compile(r"[ >]*(?:[-*+•]|\d{1,9}[.)])\s")
_PLAIN = re.compile(rf"[^\s`~\\<{_SUPERSCRIPTS}{re.escape(OPEN)}(（{TEXT_OPEN}{TEXT_CLOSE}]+")
# A name in code with its call or subscript; and code that follows a subscript.
_NAME = re.compile(
    r"[A-Za-z_$@][\w$]*(?:(?:\.|->|::)[A-Za-z_][\w$]*)*(?:\[[^\[\]\n]{0,40}\]|\([^()\n]{0,40}\))*\Z", re.ASCII
)
_SUBSCRIPTED = re.compile(rf"(?<!\w)([A-Za-z_]\w{{0,60}}+)[\[{TEXT_OPEN}]\d")
# [1 2] is a vector.
_VECTOR_BEFORE = re.compile(r"(?:=|\b(?:vector|matrix|array|row|column)s?)\Z", re.IGNORECASE)
_AFTER_SUBSCRIPT = re.compile(r"(?:\.|->)[A-Za-z_]|[({]|\[[^\d\]]|[ ]?(?:[-+*/%:]?=(?!\S*\])|[+*/%<>][ ]?\w)")
_BLANK = " \t\u3000"
_SPACE = re.compile(r"\s+")
# Characters before a citation that it can refer to.
MAX_BEFORE = 2000
MAX_RANGE = 100
# 【1】 at the beginning of a line begins a heading, unless the sentence goes on about the cited text.
_LINE_START = re.compile(r"(?:\A|\n)[\s#>*_+•・●■◆○□◎※-]*(?:\d{1,3}[.)）、．]\s*)?[*_]*\Z")
_CITING = re.compile(
    r"\s*(?:によ[るれりっ]|では|に(?:は|も)?[示記書述あお基従]|が[示述記書]|[はも]、|の(?:記述|資料|文書|文献)|[、。，]"
    r"|指出|提到|[显顯]示|[认認][为為]|表明|[说說]明|中(?:[提指的说說]|，)|所[述示说說])"
)
_LOOK_AHEAD = 12
# Marks in a row that are skipped to see what follows them.
MAX_IN_A_ROW = 50
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
    (between backticks or tildes, indented by four columns) is left alone: ``a[5]`` is no citation there.

    `cited_sentences` (list of (int, str)): numbers cited, each with the sentence that cites it.
    `invalid`: numbers cited that are not in the context.
    """

    def __init__(self, numbers: Iterable[int], context: str = "") -> None:
        self._numbers, self._context = frozenset(numbers), context
        self._arrays: frozenset[str] | None = None
        self._own: dict[str, frozenset[str]] = {}
        self._pending = ""
        self._blanks: list[str] = []
        self._has_text = False
        # The marks that code began with; and whether the line is indented code.
        self._code = ""
        self._is_indented = False
        self._recent_output = ""
        # Whether round brackets may cite: not where square ones do, where they number items, nor where the context has such.
        self._round = _IN_ROUND.search(context) is None
        # Whether square brackets cite: numbers above the line are powers then.
        self._square = False
        # Whether citations stand right behind words; and names that are subscripted.
        self._cites_words = False
        self._subscripted: set[str] = set()
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
            self._is_indented = text[:position].rpartition("\n")[2].expandtabs(4).startswith("    ")
        while position < len(text):
            step = self._step(text, position, last)
            if step is None:
                break
            output, position = step
            parts.append(output)
            self._recent_output = (self._recent_output + output)[-MAX_BEFORE:]
        self._pending = "" if last else text[position:]
        return "".join(parts)

    def _step(self, text: str, position: int, last: bool) -> tuple[str, int] | None:
        """Return the output for the text at `position` and where to go on; None when more text must come first."""
        character = text[position]
        if character.isspace():
            space = _SPACE.match(text, position)
            assert space is not None
            end = space.end()
            if end == len(text):
                return None  # the end of the answer, or more comes
            if "\n" in space.group():
                self._begin_line(space.group())
            if not self._is_code and text[end] in _ANY and not space.group().strip(_BLANK):
                return self._mark(text, end, space.group(), last)
            return space.group(), end
        if character in "`~":
            match = _FENCE.match(text, position)
            assert match is not None
            if match.end() == len(text) and not last:
                return None
            self._fence(match.group())
            return match.group(), match.end()
        if self._is_code and character in _IN_CODE:
            return _IN_CODE[character], position + 1
        if not self._is_code and character in _ANY:
            return self._mark(text, position, "", last)
        run = _PLAIN.match(text, position)
        return (run.group(), run.end()) if run else (character, position + 1)

    @property
    def _is_code(self) -> bool:
        return bool(self._code) or self._is_indented

    def _begin_line(self, space: str) -> None:
        """Note whether the line behind white space is indented code: by four columns, behind an empty line, in no list."""
        if len(self._code) < 3:
            self._code = ""  # code within a line ends with it
        indent = len(space.rpartition("\n")[2].expandtabs(4))
        if indent < 4 or self._code:
            self._is_indented = False
        elif not self._is_indented and space.count("\n") > 1:
            lines = self._recent_output.split("\n")
            margin = next(
                (line for line in reversed(lines) if line.strip() and not line.startswith(("    ", "\t"))), ""
            )
            self._is_indented = _ITEM.match(margin) is None

    def _fence(self, run: str) -> None:
        """Note what backticks or tildes do: begin code, or end that which the same began."""
        if run[0] == "~" and (len(run) < 3 or not _FENCE_BEFORE.search(self._recent_output)):
            return
        if not self._code:
            self._code = run
        elif run == self._code or (len(self._code) >= 3 and run.startswith(self._code)):
            self._code = ""

    def _mark(self, text: str, position: int, blanks: str, last: bool) -> tuple[str, int] | None:
        """Read a bracket at `position`, with `blanks` before it: a citation, ordinary text, or not yet known."""
        if text[position] == TEXT_OPEN:
            return self._given(text, position, blanks, last)
        if text[position] == "<" or text[position] in _SUPERSCRIPTS:
            return self._above(text, position, blanks, last)
        is_round = text[position] in "(（"
        match = (_ROUND if is_round else _MARK).match(text, position, position + MAX_MARK)
        if match is None:
            if not last and len(text) - position < MAX_MARK and _OPENING.match(text, position):
                return None
            return blanks + text[position], position + 1
        inner = _inner(match)
        if not is_round and _SHORT_LABELS.fullmatch(inner) and not self._has("label") & {*re.findall(r"\w+", inner)}:
            inner = re.sub("[SD]", "", inner)
        mark = cited(inner)
        if mark is None:
            # Code may begin within it.
            return blanks + text[position], position + 1
        ranges, is_labelled = mark
        cites: bool | None = False
        if (
            len(ranges) > 1
            and LOOSELY_PARTED.fullmatch(folded(inner).strip())
            and (self._valid_numbers(ranges)[1] or _VECTOR_BEFORE.search(self._recent_output[-MAX_MARK:]))
        ):
            cites = False
        elif not is_round:
            cites = self._cites(text, match, ranges, blanks, last)
        elif is_labelled:
            # Not where a citation leads to: [1](#ref1).
            is_link = inner[0] == "#" and not blanks and self._recent_output.endswith("]")
            cites = not (is_link or self._valid_numbers(ranges)[1])
        elif _ROUND_NUMBERS.match(inner):
            cites = self._ends_a_sentence(text, match, ranges, blanks, last)
        if cites is None:
            return None
        if not cites:
            return blanks + match.group(), match.end()
        self._round, self._square = self._round and is_round, self._square or not is_round
        return self._citation(ranges, blanks), match.end()

    def _citation(self, ranges: list[tuple[int, int]], blanks: str) -> str:
        """Record the citation behind `blanks`; return it in the answer's form."""
        valid, invalid = self._valid_numbers(ranges)
        self.invalid += invalid
        sentence = re.split(r"[.!?。！？\n]\s*", self._recent_output.rstrip(" .!?。！？"))[-1]
        self.cited_sentences += [(number, sentence) for number in valid]
        return blanks + "".join(f"[{number}]" for number in valid) if valid else ""

    def _above(self, text: str, position: int, blanks: str, last: bool) -> tuple[str, int] | None:
        """Read possible numbers in a tag or in superscript: a citation, unless it is a power or the context has it too."""
        is_tag = text[position] == "<"
        match = (_TAGGED if is_tag else _ABOVE).match(text, position, position + MAX_MARK)
        if not last and (
            (match is None and len(text) - position < MAX_MARK and _TAG_BEGUN.match(text, position))
            or (match is not None and (match.end() == len(text) if is_tag else _ABOVE_BEGUN.match(text, match.end())))
        ):
            return None
        mark = None if match is None else cited(match[2]) if is_tag else (self._above_the_line(match[0]), False)
        if match is None or mark is None:
            return blanks + text[position], position + 1
        tag = match[1].lower() if is_tag else ""
        if tag in ("", "sup"):
            before = None if blanks and not is_tag else _BEFORE_ABOVE.search(self._recent_output[-MAX_MARK:])
            word = (before["word"] or "").lower() if before else ""
            # Behind the end of a sentence the next one may begin at once.
            is_joined = bool(word or before is None) and _AFTER_POWER.match(text, match.end())
            # There is no first power.
            is_power = is_joined or (is_tag and match[2] != "1" and _RAISED.fullmatch(word))
            cites = before is not None and not is_power and not self._square and not self._valid_numbers(mark[0])[1]
            # ² directly behind a word is no citation.
            cites = cites and (is_tag or not word) and not self._has(tag or "sign")
        else:
            cites = not self._has("tag")
        if not cites:
            # Square brackets within a tag cite by themselves.
            end = position + 1 if is_tag else match.end()
            return blanks + text[position:end], end
        return self._citation(mark[0], blanks), match.end()

    def _above_the_line(self, text: str) -> list[tuple[int, int]]:
        """Return the numbers of signs above the line, as ranges: ¹² is 12 where there is such a one, or 1 and 2."""
        runs = re.findall(r"\d+", text.translate(_ABOVE_DIGITS))
        numbers = [int(number) for run in runs for number in ([run] if int(run) in self._numbers else run)]
        return [(number, number) for number in numbers]

    def _has(self, name: str) -> frozenset[str]:
        """Return what the context itself has of a form in which models cite: there it cites nothing."""
        if name not in self._own:
            self._own[name] = frozenset(_OWN_FORMS[name].findall(self._context))
        return self._own[name]

    def _given(self, text: str, position: int, blanks: str, last: bool) -> tuple[str, int] | None:
        """Give back what a document says in brackets, but not what cites there; a subscript stays."""
        match = _GIVEN.match(text, position)
        if match is None or match["is_open"] is not None:
            if not last and (match or position + 1 == len(text)):
                return None
            return blanks + text[position], position + 1
        name = _NAME.search(self._recent_output[-MAX_MARK:])
        is_subscript = name is not None and (not blanks or name[0] in self._subscripted)
        output = f"[{match[1]}]" if is_subscript else given_back(match[1])
        return (blanks + output if output else ""), match.end()

    def _cites(
        self, text: str, match: re.Match[str], ranges: list[tuple[int, int]], blanks: str, last: bool
    ) -> bool | None:
        """Whether numbers in square brackets are a citation: no place in an array, no heading; None: not yet known."""
        preceding = self._recent_output + blanks
        name = _NAME.search(self._recent_output[-MAX_MARK:])
        if name is not None and blanks and not self._valid_numbers(ranges)[0] and self._is_array(name[0]):
            return False
        if name is not None and not blanks:
            return self._cites_a_word(text, match, name.group(), ranges, last)
        if match.group().lstrip("\\")[0] == "[" or "†" in match.group():
            return True
        if any(number >= MAX_CITED for numbers in ranges for number in numbers):
            return False
        if not _LINE_START.search(preceding):
            return True
        end = match.end()
        for _ in range(MAX_IN_A_ROW):
            further = _MARK.match(text, end, end + MAX_MARK)
            if further is None or cited(_inner(further)) is None:
                break
            end = further.end()
        rest = text[end : end + _LOOK_AHEAD]
        is_mark_begun = len(text) - end < MAX_MARK and _OPENING.match(text, end)
        if not last and (is_mark_begun or (len(rest) < _LOOK_AHEAD and "\n" not in rest)):
            return None
        if not rest.partition("\n")[0].strip():
            # Alone on its line: it belongs to the line before, if that is one.
            return bool(re.search(r"\S[ \t]*\n[^\n]*\Z", preceding))
        return _CITING.match(rest) is not None

    def _is_array(self, name: str) -> bool:
        """Whether this answer or the context subscripts a name."""
        if self._arrays is None:
            self._arrays = frozenset(_SUBSCRIPTED.findall(self._context))
        return name in self._subscripted or re.split(r"\W", name)[-1] in self._arrays

    def _cites_a_word(
        self, text: str, match: re.Match[str], name: str, ranges: list[tuple[int, int]], last: bool
    ) -> bool | None:
        """Whether a number right behind a word cites, and is no subscript: rows[7]. None: not yet known.

        One of nothing is a subscript, unless this answer cites so.
        """
        if not self._valid_numbers(ranges)[0]:
            is_subscript = not self._cites_words
        else:
            rest = text[match.end() : match.end() + 4]
            if not last and len(rest) < 4 and "\n" not in rest:
                return None
            is_subscript = name in self._subscripted or _AFTER_SUBSCRIPT.match(rest) is not None
        if is_subscript:
            self._subscripted.add(name)
        self._cites_words = self._cites_words or not is_subscript
        return not is_subscript

    def _ends_a_sentence(
        self, text: str, match: re.Match[str], ranges: list[tuple[int, int]], blanks: str, last: bool
    ) -> bool | None:
        """Whether a number in round brackets can be nothing but a citation; None: not yet known."""
        rest = text[match.end() : match.end() + 3]
        if not last and (not rest.strip() or len(rest) < 2) and "\n" not in rest:
            return None
        preceding = self._recent_output + blanks
        word = _BEFORE_ROUND.search(preceding)
        sentence = re.split(r"[.!?。！？\n]\s*", preceding)[-1]
        cites = (
            self._round
            and _SENTENCE_END.match(rest) is not None
            and word is not None
            and (word["word"] or "").lower() not in _NUMBERED
            and not _POINTING.search(sentence)
            and not self._valid_numbers(ranges)[1]
        )
        self._round = self._round and cites
        return cites

    def _valid_numbers(self, ranges: list[tuple[int, int]]) -> tuple[list[int], int]:
        """Return the valid numbers of a citation, in order, and the number of invalid ones."""
        valid: dict[int, None] = {}
        invalid = 0
        for first, end in ranges:
            numbers = [first] if first == end else [first, end]
            good = [number for number in numbers if number in self._numbers]
            invalid += len(numbers) - len(good)
            if len(good) == 2 and first <= end <= first + MAX_RANGE:
                good = [number for number in range(first, end + 1) if number in self._numbers]
            valid.update(dict.fromkeys(good))
        return list(valid), invalid


def _inner(mark: re.Match[str]) -> str:
    """Return what stands between the brackets of a mark."""
    return str(mark[mark.lastindex or 0]).rstrip("\\")


def cited_documents(cited_sentences: list[tuple[int, str]], context: dict[str, Any]) -> list[dict[str, Any]]:
    """Return [{number, document_id, source_key, title, chunk_id}] of the cited numbers, ascending; for rows {table, key}
    too.

    A number stands for a document; `chunk_id` is its chunk in the context, or that of a claim or row there, that shares
    most with the citing sentences (ties: the better ranked). Rows of a statement have no document.
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


def pieces(text: str) -> set[str]:
    """Return the runs of four characters, which stand for words in any script."""
    lowered = " ".join(without_invisible(text).casefold().split())
    return {lowered[start : start + 4] for start in range(len(lowered) - 3)}
