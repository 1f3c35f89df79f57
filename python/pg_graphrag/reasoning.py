"""What models think before and between what they answer: left out of whole replies and of streams by one rule.

Reasoning stands between marks at the beginning; before a closing mark alone, where a template has written the opening one; and,
once there was some, between marks that begin a line. A mark that is quoted, or a word of a sentence, is one of the text.
"""

import re
from itertools import islice

from pg_graphrag.lenient_json import MAX_READINGS, Reader, mended

_NAME = r"(?:[a-z]{1,20}:)?(?:(?:ant)?think(?:ing)?|thoughts?|reasoning|reflection|scratchpad)"
# Tags, <|begin_of_thought|> (OpenThinker), <|START_THINKING|> (Command), ◁think▷ (Kimi), [THINK] (Magistral), <unused94>
# (MedGemma); then the channels of gpt-oss, and what is left of them without their marks.
_OPENING = (
    rf"<{_NAME}(?:\s[^<>\n]{{0,100}})?>|<\|(?:(?:begin|start)_(?:of_)?)?{_NAME}\|>"
    rf"|◁{_NAME}▷|\[{_NAME}\]|<unused94>(?:thought)?"
)
_CLOSING = rf"</{_NAME}\s*>|<\|(?:end_(?:of_)?|/){_NAME}\|>|◁/{_NAME}▷|\[/{_NAME}\]|<unused95>"
_ROLE, _MESSAGE = r"(?:<\|start\|>assistant)?<\|channel\|>", r"(?:<\|constrain\|>[^<]{0,20})?<\|message\|>"
_CHANNEL = rf"{_ROLE}(?!\s*final)[^<]{{0,60}}{_MESSAGE}|\A\s*analysis(?=[A-Z])"
_FINAL = rf"{_ROLE}\s*final[^<]{{0,20}}{_MESSAGE}|assistantfinal"
_MARK = re.compile(
    rf"(?P<opening>{_OPENING})|(?P<closing>{_CLOSING})|(?P<channel>{_CHANNEL})|(?P<final>{_FINAL})", re.IGNORECASE
)
_OPENING_LINE = re.compile(rf"(?:^|(?<=\n))[ \t]*(?:{_OPENING})", re.IGNORECASE)
_CLOSING_MARK = re.compile(_CLOSING, re.IGNORECASE)
# The marks with which a message ends, and the beginning of a mark at the end of a text.
_END_MARKS = re.compile(r"(?:\s*<\|(?:return|end|call|im_end|eot_id|endoftext)\|>)+\s*\Z")
_BEGUN_MARK = re.compile(
    r"(?:(?:<\|(?:start|channel|constrain)\|>[^<\n]{0,60}){1,4}(?:<[^<>\n]{0,20})?|<[^<>\n]{0,120}|\[/?[a-z:]{0,30}|◁/?[a-z:]{0,30})\Z",
    re.IGNORECASE,
)
_QUOTES = {
    '"': '"',
    "'": "'",
    "`": "`",
    "“": "”",
    "‘": "’",
    "«": "»",
    "„": "“",
    "「": "」",
    "『": "』",
    "(": ")",
    "（": "）",
}
_FENCE = "```"
_CITATION = re.compile(r"\[\d{1,6}\]")
# A sentence ends so; what goes on within one.
_SENTENCE_END = ".!?。！？…:;：；)]}\"'”’」』"
_GOES_ON = re.compile(r"[ \t]*(?:[.,;:!?)\]。，、]|\[\d)|[ \t]+[a-zà-ÿа-я]")
# Characters in which the end of a mark is looked for.
_TAIL = 200
# Characters of an answer before reasoning that is none: "Let me see."
_MAX_PREAMBLE = 300
# JSON in which marks are looked for; marks outside of reasoning that are judged: each takes a look at all before it.
_MAX_STARTS = _MAX_JUDGED = 200

# Characters of a stream that are held back where it begins as thinking does, and in which such words are looked for.
MAX_HELD, LOOKED_AT = 40_000, 160
# Words with which models begin to think, and those that are said of who asks.
_BEGINNINGS = (
    "okay", "ok", "alright", "all right", "hmm", "hm", "well", "wait", "so", "now", "first", "let me", "let's", "let us",
    "i need", "i should", "i will", "i have", "i think", "i must", "i'll", "i'm", "we", "looking at", "to answer", "given",
    "got it", "they", "who", "what", "which", "does", "did", "the user", "this user", "the question", "this question",
    "the query", "the context", "the passage", "user", "my task", "thinking", "also", "gut", "zuerst", "ich muss",
    "der nutzer", "die frage", "d'accord", "bon", "voyons", "l'utilisateur", "vale", "bien", "el usuario", "хорошо", "итак",
    "пользователь", "好的", "好，", "嗯", "首先", "我", "让我", "用户", "まず", "ユーザー", "음", "먼저", "사용자",
)  # fmt: skip
_THINKS = re.compile(
    r"\b(?:the user|(?:the|this) question|user (?:asks|wants)|they (?:ask|want)|he asks|she asks|let me"
    r"|(?:I|we) (?:need|should|must))\b|用户|ユーザー|사용자|пользователь",
    re.IGNORECASE,
)
# Models that think by their names: most of their templates write the opening mark.
_THINKING_MODEL = re.compile(r"think|reason|(?<![a-z0-9])r1(?![a-z0-9])|qwq|magistral", re.IGNORECASE)


def without_reasoning(text: str, *, is_prose: bool = False) -> str:
    """Return a reply without its reasoning; nothing, where reasoning has no end.

    `is_prose`: whether it is an answer in prose. Else it is JSON or rows, and what stands before them says nothing.
    """
    if not is_prose:
        text = mended(text)
    shown, is_open, has_reasoning = _visible(text, is_prose)
    return _END_MARKS.sub("", shown) if has_reasoning or is_open else text


def hides_opening(text: str) -> bool:
    """Whether a whole reply ends its reasoning, and does not begin it: its template has done that."""
    return _MARK.match(text.lstrip()) is None and _MARK.search(text) is not None and _visible(text, is_prose=True)[2]


def thinks_by_name(model: str) -> bool:
    """Whether a model's name says that it thinks."""
    return bool(_THINKING_MODEL.search(model))


def _visible(text: str, is_prose: bool) -> tuple[str, bool, bool]:
    """Return (what is no reasoning, whether reasoning has no end, whether there was any)."""
    shown, begin, is_open, is_channel, seen, is_quoted = "", 0, False, False, False, False
    spans: list[tuple[int, int]] | None = None
    judged = 0
    for mark in _MARK.finditer(text):
        kind = mark.lastgroup
        if not is_prose:
            spans = _json_spans(text) if spans is None else spans
            if not is_open and any(start < mark.start() < end for start, end in spans):
                continue
        if is_open:
            if kind == ("final" if is_channel else "closing") and not _is_between_quotes(text, mark):
                begin, is_open = mark.end(), False
            continue
        judged += 1
        if judged > _MAX_JUDGED:
            break
        if kind in ("opening", "channel"):
            before = shown + text[begin : mark.start()]
            if _opens(before, text, mark, is_prose, seen):
                shown, is_open, is_channel, seen = before if before.strip() else "", True, kind == "channel", True
            else:
                is_quoted = True
        elif is_quoted:
            # It belongs to an opening mark that is a word.
            is_quoted = False
        elif _closes(text, mark, is_prose):
            shown, begin, seen = "", mark.end(), True
    return (shown if is_open else shown + text[begin:]), is_open, seen


def _opens(before: str, text: str, mark: re.Match[str], is_prose: bool, seen: bool) -> bool:
    """Whether an opening mark begins reasoning."""
    if not before.strip():
        return True
    if _is_between_quotes(text, mark) or before.count(_FENCE) % 2:
        return False
    if not is_prose or mark.lastgroup == "channel":
        return True
    if before.rpartition("\n")[2].strip():
        return False
    return seen or _may_precede(before)


def _may_precede(text: str) -> bool:
    """Whether what stands before an opening mark is no answer: "Let me see."; an answer cites, or says that it quotes."""
    return len(text) <= _MAX_PREAMBLE and not text.rstrip().endswith((":", "：")) and not _CITATION.search(text)


def _closes(text: str, mark: re.Match[str], is_prose: bool) -> bool:
    """Whether a closing mark without an opening one ends reasoning."""
    before, after = text[: mark.start()], text[mark.end() :]
    line = before.rpartition("\n")[2]
    if _is_between_quotes(text, mark) or before.count(_FENCE) % 2 or line.count("`") % 2:
        return False
    if not is_prose or mark.lastgroup == "final" or not line.strip() or not after.partition("\n")[0].strip():
        return True
    is_word = line[-1] in " \t" and line.rstrip()[-1] not in _SENTENCE_END
    return not (is_word and _GOES_ON.match(after))


def _is_between_quotes(text: str, mark: re.Match[str]) -> bool:
    closing = _QUOTES.get(text[mark.start() - 1 : mark.start()])
    return closing is not None and text.startswith(closing, mark.end())


def _json_spans(text: str) -> list[tuple[int, int]]:
    """Return where whole JSON stands in a text."""
    spans: list[tuple[int, int]] = []
    characters_left = MAX_READINGS * len(text)
    for brace in islice(re.finditer(r"[\[{]", text), _MAX_STARTS):
        if characters_left <= 0:
            break
        if not spans or brace.start() >= spans[-1][1]:
            reader = Reader(text, brace.start())
            characters_left -= reader.end - brace.start()
            if not reader.torn:
                spans.append((brace.start(), reader.end))
    return spans


def _begun(text: str) -> bool | None:
    """Whether a text begins as thinking does; None where it is too short to tell."""
    words = text[:LOOKED_AT].casefold().replace("’", "'").lstrip(" \n\t\r*_>#\"'“")
    if any(beginning.startswith(words) for beginning in _BEGINNINGS):
        return None
    for beginning in _BEGINNINGS:
        after = words[len(beginning) : len(beginning) + 1]
        if words.startswith(beginning) and not (after.isascii() and after.isalnum()):
            return True
    return False


class ReasoningFilter:
    """Leaves the reasoning out of an answer in prose that comes in pieces.

    The beginning is held back until it is none of reasoning; what begins as models think, until its closing mark, the end, or
    `MAX_HELD` characters. `waits`: whether the model is known to think without an opening mark. `hid_opening`: whether it did.
    """

    def __init__(self, waits: bool = False) -> None:
        self._waits = waits
        self._held = self._preamble = self._line = ""
        self._is_due, self._next_look = False, 0
        self._is_shown = self._seen = self._is_open = self._is_thinking = self.hid_opening = False
        self._fences = 0

    def feed(self, piece: str) -> str:
        """Take a piece; return what can be shown."""
        self._held += piece
        if not self._is_shown and not self._shows(len(piece)):
            return ""
        if not self._seen and not _may_precede(self._preamble):
            return self._all()
        text = self._lines()
        self._preamble += "" if self._seen else text
        return text

    def finish(self) -> str:
        """Return the rest."""
        if not self._is_shown:
            self._show()
            return "" if self._is_open else _END_MARKS.sub("", self._all()) if self._seen else self._all()
        if self._is_open:
            return ""
        return _END_MARKS.sub("", self._all()) if self._seen else self._all()

    def _all(self) -> str:
        text, self._held = self._held, ""
        return text

    def _show(self) -> None:
        text, self._is_open, self._seen = _visible(self._held, is_prose=True)
        self.hid_opening = not self._is_open and hides_opening(self._held)
        self._held, self._is_shown = text, True

    def _shows(self, length: int) -> bool:
        """Whether what is held back is the beginning of an answer: then only that is left of it."""
        # Reasoning is read a few times at most.
        is_thought = self._is_open or (self._is_thinking and len(self._held) < MAX_HELD)
        has_new_mark = _MARK.search(self._held, max(0, len(self._held) - length - _TAIL))
        if (is_thought and not (has_new_mark or self._is_due)) or len(self._held) < self._next_look:
            self._is_due |= bool(is_thought and has_new_mark)
            return False
        self._is_due, self._next_look = False, len(self._held) + len(self._held) // 50
        text, self._is_open, seen = _visible(self._held, is_prose=True)
        if self._is_open or not text.strip() or _BEGUN_MARK.search(self._held, max(0, len(self._held) - _TAIL)):
            return False
        # One that closes what it has not opened may do so again.
        is_hidden = seen and _MARK.match(self._held.lstrip()) is None
        if (not seen or is_hidden) and len(self._held) < MAX_HELD:
            # What follows a mark says whether it is one.
            at_mark = any(len(self._held) - mark.end() < 3 for mark in _MARK.finditer(self._held))
            waits = self._waits and not seen
            begun = _begun(text)
            self._is_thinking = waits or begun is True or _THINKS.search(text[:LOOKED_AT]) is not None
            if at_mark or self._is_thinking or begun is None:
                return False
        self._show()
        return True

    def _lines(self) -> str:
        """Return the lines that begin no reasoning; the rest is held back."""
        shown = ""
        while True:
            if self._is_open:
                closing = _CLOSING_MARK.search(self._held)
                if closing is None:
                    self._held = self._held[-_TAIL:]
                    break
                self._held, self._is_open = self._held[closing.end() :], False
            opening = _OPENING_LINE.search(self._held)
            if opening is None:
                begun = _BEGUN_MARK.search(self._held, max(0, len(self._held) - _TAIL)) or _END_MARKS.search(self._held)
                end = begun.start() if begun else len(self._held)
                shown, self._held = shown + self._held[:end], self._held[end:]
                break
            shown, self._held = shown + self._held[: opening.start()], self._held[opening.start() :]
            is_in_code = (self._fences + shown.count(_FENCE)) % 2
            is_in_line = (self._line + shown).rpartition("\n")[2].strip()
            if is_in_code or is_in_line or not (self._seen or _may_precede(self._preamble + shown)):
                shown, self._held = shown + opening[0], self._held[len(opening[0]) :]
                continue
            self._seen = self._is_open = True
        self._fences += shown.count(_FENCE)
        self._line = (self._line + shown).rpartition("\n")[2][-_MAX_PREAMBLE:]
        return shown
