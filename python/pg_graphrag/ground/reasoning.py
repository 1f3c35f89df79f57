"""Removes a model's reasoning from whole replies and from streams, by one rule.

Reasoning stands between marks at the beginning of a reply. The opening mark is missing if the template has written it.
After such a beginning, marks at the start of a line count too. A mark in quotation marks or within a sentence is text.
"""

import math
import re

from pg_graphrag.ground.lenient_json import readings

_NAME = r"(?:[a-z]{1,20}:|longcat_)?(?:(?:ant)?think(?:ing)?|thoughts?|reasoning|reflection|scratchpad|analysis|inner_monologue)"
# What answers stand in behind reasoning.
_WRAPPER = r"(?:(?:final_)?(?:answer|response|output)|final)"
# Tags, <|begin_of_thought|> (OpenThinker), <|START_THINKING|> (Command), ◁think▷ (Kimi), [THINK] (Magistral),
# <unused94> (MedGemma), <|channel>thought (Gemma 4), <|inner_prefix|> (Apertus), [BEGIN FINAL RESPONSE] (Apriel); then
# the channels of gpt-oss, and their names without the marks.
_OPENING = (
    rf"<{_NAME}(?:[ \t][^<>\n]{{0,100}})?(?<!/)>|<\|(?:(?:begin|start)_(?:of_)?)?{_NAME}\|>"
    rf"|◁{_NAME}▷|(?-i:\[THINK\])|<unused94>(?:thought)?|<\|channel>(?:thought)?|<\|inner_prefix\|>"
)
_CLOSING = (
    rf"</{_NAME}[ \t]{{0,9}}>|<\|(?:end_(?:of_)?|/){_NAME}\|>|◁/{_NAME}▷|(?-i:\[/THINK\])|<unused95>"
    rf"|<channel\|>|<\|inner_suffix\|>|(?-i:\[BEGIN FINAL RESPONSE\])|<\|{_WRAPPER}\|>"
)
_ROLE, _MESSAGE = r"(?:<\|start\|>assistant)?<\|channel\|>", r"(?:<\|constrain\|>[^<\n]{0,20})?<\|message\|>"
_MARK = re.compile(
    rf"(?P<opening>{_OPENING})|(?P<closing>{_CLOSING})|(?P<channel>{_ROLE}(?! ?final)[^<\n]{{0,60}}{_MESSAGE})"
    rf"|(?P<final>{_ROLE} ?final[^<\n]{{0,20}}{_MESSAGE}|assistantfinal)"
    rf"|(?P<empty><{_NAME}[ \t]{{0,9}}/>|<{_WRAPPER}>|<\|start_response\|>|<\|begin_of_solution\|>)",
    re.IGNORECASE,
)
# Marks of a plan at the beginning of an answer, with its end: <plan>, <self_reflection>. Such elements are XML that was asked for
# where an element begins in them or comes next, where text goes on behind them, or nothing does; and words of a sentence.
_PLAN = re.compile(
    r"\s*(?P<mark><\|?)(?P<name>plan|planning|deliberation|rationale|brainstorm(?:ing)?|contemplation|introspection|cot"
    r"|self_critique|(?:self|internal|inner|chain_of)_(?:thoughts?|thinking|reasoning|reflection|monologue)"
    r"|(?:thought|thinking|reasoning)_process)(?:[ \t][^<>\n]{0,100})?(?<!/)\|?>(?!\s*<|[ \t]+(?-i:[a-z]))",
    re.IGNORECASE,
)
_BEGUN_PLAN = re.compile(r"\s*(?:<\|?(?:[a-z_]{1,30}(?:[ \t][^<>\n]{0,100})?\|?>?)?\s*)?\Z", re.I)
# These begin answers, and end reasoning; marks of templates occur in documents too.
_ANSWER_MARK = re.compile(rf"<\|(?!final\|){_WRAPPER}\|>", re.IGNORECASE)
_BARE_CHANNEL, _BARE_LENGTH = re.compile(r"\s*analysis(?=[A-Z])"), 9
# Texts contain these within a line, too.
_WORD_MARK = re.compile(r"<(?:thoughts?|reasoning|reflection|scratchpad|analysis)>[^\n]", re.IGNORECASE)
# The marks with which a message ends, and the beginning of a mark at the end of a text.
_END_MARKS = (
    r"(?:(?:<\|(?:return|end|call|im_end|eot_id|endoftext|end_response|end_of_solution)\|>"
    rf"|</{_WRAPPER}>|\[END FINAL RESPONSE\])\s{{0,20}}+)"
)
_ENDING = re.compile(rf"{_END_MARKS}+\Z", re.IGNORECASE)
_BEGUN_MARK = re.compile(
    rf"{_END_MARKS}*(?:(?:<\|(?:start|channel|constrain)\|>[^<\n]{{0,60}}){{1,4}}(?:<[^<>\n]{{0,20}})?|<[^<>\n]{{0,150}}"
    r"|\[/?[a-z]{0,5}|\[(?:BEGIN|END)[A-Z ]{0,16}|◁/?[a-z:]{0,40})?\Z",
    re.IGNORECASE,
)
_QUOTES = dict(zip("\"'`“‘«„「『(（", "\"'`”’»“」』)）", strict=True))
_FENCE = "```"
_CITATION = re.compile(r"\[\d{1,6}\]")
# A sentence ends so; what goes on within one.
_SENTENCE_END = ".!?。！？…:：;；)]}\"'”’」』"
_GOES_ON = re.compile(r"[ \t]*(?:[.,;:!?)\]。，、]|\[\d)|[ \t]+[a-zà-ÿа-я]")
# Characters behind a mark that say whether it is one; and those that are kept of reasoning.
_AHEAD, _TAIL = 12, 300
# Maximum characters of an answer before reasoning, such as "Let me see."
_MAX_PREAMBLE = 300
# Marks outside of reasoning that are judged: each takes a look at all before it.
_MAX_JUDGED = 200

# Characters of a stream that are held back where it begins as thinking does, and in which that is looked for: up to the end of
# a sentence, which is longer than "1." and "Dr."
MAX_HELD, LOOKED_AT, _SHORTEST = 40_000, 160, 40
_SENTENCE = re.compile(r"[.](?:\[\d{1,6}\]|[\"'”)*])*\s+(?=\S)|。(?=\S)")
_THINKS = re.compile(
    r"\A[\s*_>#\"'“]*(?:okay|ok|alright|all right|hm+|wait|got it|voyons|thinking|好的|嗯|음)(?!\w)"
    r"|\buser(?: is| was)? (?:ask|want|wonder)(?:s|ed|ing)\b|\b(?:they(?:'re)?|he|she|it) ask(?:s|ing)?\b|\bthey want\b"
    r"|\b(?:question|query) (?:asks|wants|says|seems|requires|is (?:about|whe|wh[aoiy]|how))|\buser's (?:question|query|request)"
    r"|\blet(?:'s| us| me) (?:see|look|check|think|find|read|start|go|recall|anal|examine|consider|parse|scan|break|re-?read)"
    r"|\bI(?:'ll| need| should| must| will| have to| think)\b|\bmy task\b|\bto answer (?:this|the question)"
    r"|\bwe (?:need|should|must|have)(?: to)? (?:answer|find|look|check|respond|produce|give|see|read|identify|determine|cite)"
    r"|\b(?:ich muss|der nutzer (?:fragt|will|möchte)|l['’]utilisateur (?:demande|veut)|el usuario (?:pregunta|quiere|pide))"
    r"|пользователь (?:спрашивает|хочет|просит)|用户(?:想|问|询问|要|希望|提)|我(?:们)?(?:需要|应该|得)|让我"
    r"|ユーザー(?:は|が|の質問)|사용자(?:가|는)",
    re.IGNORECASE,
)
# With one of these a text begins that is held back; else its first word is shown at once.
_OPENERS = (
    "okay ok alright all hm well wait so now first let i it he she we my they who what which how why when where does did is the "
    "this to from in based looking given got user question query context analy step thinking also here 1. gut zuerst ich der die "
    "d'accord bon voyons l' vale bien el хорошо итак пользователь 好 嗯 首先 我 让 用户 根据 まず ユーザー 質問 음 먼저 사용자"
).split()
# Models that think by their names: most of their templates write the opening mark.
_THINKING_MODEL = re.compile(r"think|reason|(?<![a-z0-9])r1(?![a-z0-9])|qwq|magistral", re.IGNORECASE)


def without_reasoning(text: str, *, is_prose: bool = False) -> str:
    """Return a reply without its reasoning; nothing, where reasoning has no end.

    `is_prose`: whether it is an answer in prose. Else it is JSON or rows, and what stands before them says nothing.
    """
    if not (_MARK.search(text) or _BARE_CHANNEL.match(text) or _PLAN.match(text)):
        return text
    return ReasoningFilter(math.inf, None if is_prose else _json_spans(text)).whole(text)


def begins_unmarked(text: str, *, is_prose: bool = False) -> bool:
    """Whether a reply begins with reasoning that only a closing mark shows: a template has written the opening one."""
    if not _MARK.search(text):
        return False
    reasoning = ReasoningFilter(0, None if is_prose else _json_spans(text))
    reasoning.whole(text)
    return reasoning.has_shown_reasoning


def held_of(model: str) -> int:
    """Return how many characters of a model's stream are held back: many, where its name says that it thinks."""
    return MAX_HELD if _THINKING_MODEL.search(model) else LOOKED_AT


def _json_spans(text: str) -> list[tuple[int, int]]:
    """Return where whole JSON stands in a text."""
    # Only quotes matter here, not other escapes.
    text = re.sub(r'\\[^"]', "--", text, flags=re.DOTALL)
    return [(reader.start, reader.end) for reader in readings(text) if not reader.torn]


class ReasoningFilter:
    """Leaves the reasoning out of a reply that comes whole or in pieces: however it is cut, the result is the same.

    The beginning is held back, as a closing mark may come that nothing has opened: `held` characters or a sentence; what
    thinks by its words, up to `MAX_HELD`. Behind a mark that comes later still, the answer begins a paragraph. `spans`: the
    values of a reply in JSON, which comes whole; None: it is prose.
    """

    def __init__(self, held: float = LOOKED_AT, spans: list[tuple[int, int]] | None = None) -> None:
        self._held, self._spans = held, spans
        # Text not judged yet; text outside of reasoning, and how much of it was shown; text that may be reasoning.
        self._text = self._answer = self._doubtful = self._last = ""
        self._shown = self._judged = 0
        # The kind of mark that ends the reasoning.
        self._end = ""
        # Whether text was shown that a closing mark without an opening one then called reasoning.
        self.has_shown_reasoning = False
        self._is_begun = self._is_released = self._has_reasoning = self._is_nested = self._is_quoted = False
        # Where the end of a plan is looked for next; 0: none is open; None: nothing of the answer is one.
        self._plan_at: int | None = 0

    @property
    def may_think(self) -> bool:
        """Whether the held-back text may be reasoning, by its words or the model's name."""
        return not self._is_released and (self._held > LOOKED_AT or bool(self._plan_at))

    def feed(self, piece: str) -> str:
        """Take a piece; return what can be shown."""
        self._text += piece
        self._read(is_end=False)
        return self._show() if self._is_released else ""

    def finish(self) -> str:
        """Return the rest."""
        self._read(is_end=True)
        self._answer += self._doubtful
        return self._show()

    def whole(self, text: str) -> str:
        """Take a reply as a whole, the places of whose values are known; return what can be shown."""
        self._text = text
        return self.finish()

    def _show(self) -> str:
        start, self._shown = self._shown, len(self._answer)
        return self._answer[start:]

    def _read(self, is_end: bool) -> None:
        text, at = self._text, 0
        if not self._is_begun:
            if len(text.lstrip()) < _BARE_LENGTH and "analysis".startswith(text.lstrip()) and not is_end:
                return
            self._is_begun = True
            if bare := _BARE_CHANNEL.match(text):
                self._open("channel")
                at = bare.end()
        end = len(text)
        while self._judged < _MAX_JUDGED or self._end:
            if self._plan_at is not None and not self._end and not self._answer.strip():
                while (behind := self._behind_plan(text, at, is_end)) != at:
                    if behind is None:
                        self._text = text[at:]
                        return
                    at = behind
            mark = _MARK.search(text, at)
            if mark is None or (mark.end() + _AHEAD > len(text) and not is_end):
                break
            self._take(text[at : mark.start()])
            if not self._judge(mark):
                self._take(mark[0])
            self._last, at = text[mark.end() - 1], mark.end()
        else:
            mark = None
        begun = (_ENDING if is_end else _BEGUN_MARK).search(text, max(at, end - _TAIL))
        if begun and (self._has_reasoning or not is_end):
            end = min(begun.start(), mark.start() if mark else end)
        if self._end == "final" and not is_end:
            # "assistantfinal" needs no search for a beginning.
            end = max(at, min(end, len(text) - _BARE_LENGTH * 2))
        self._take(text[at:end])
        self._text = text[end:]

    def _behind_plan(self, text: str, at: int, is_end: bool) -> int | None:
        """Return where the answer begins behind a plan at a place; that place if there is no plan; None if more text is
        needed.
        """
        opening = _PLAN.match(text, at)
        if not opening or _MARK.match(text, opening.start("mark")):
            return None if not is_end and _BEGUN_PLAN.match(text, at) else at
        name = opening["name"]
        ends = re.compile(rf"<\|?/{name}\|?>|<\|end_(?:of_)?{name}\|>|<\|{_WRAPPER}\|>", re.IGNORECASE)
        closing = ends.search(text, max(opening.end(), at + (self._plan_at or 0)))
        if closing is None:
            if not is_end and len(text) - at < MAX_HELD:
                self._plan_at = max(1, len(text) - at - _TAIL)
                return None
        else:
            behind = text[closing.end() :]
            rest = behind.lstrip()
            if not is_end and (_BEGUN_MARK.match(rest) or _BEGUN_PLAN.match(rest)):
                self._plan_at = self._plan_at or 1
                return None
            is_mark = not rest[:1].isalpha() and (_MARK.match(rest) or _PLAN.match(rest))
            is_answer = rest[:1] not in ("", "<") and (
                closing[0][1] == "|" or "\n" in behind[: len(behind) - len(rest)]
            )
            # What the reply is asked for may stand in it.
            holds_value = self._spans and opening.end() <= self._spans[-1][0] < closing.start()
            if (is_mark or is_answer) and not holds_value:
                self._has_reasoning, self._plan_at = True, 0
                return closing.end()
        self._plan_at = None
        return at

    def _take(self, text: str) -> None:
        """Take text that is no mark."""
        if not text:
            return
        self._last = text[-1]
        if self._end:
            self._doubtful += text if self._doubtful else ""
            return
        self._answer += text
        while not self._is_released:
            beginning = self._answer[self._shown :]
            words = beginning[:LOOKED_AT].casefold().replace("’", "'").lstrip(" \n\t\r*_>#\"'“")
            if self._held == LOOKED_AT and words and not self._has_reasoning:
                self._is_released = not any(words.startswith(word) or word.startswith(words) for word in _OPENERS)
                if self._is_released:
                    return
            sentence = _SENTENCE.search(beginning, _SHORTEST, LOOKED_AT) if self._held == LOOKED_AT else None
            end = sentence.end() if sentence else self._held
            if len(beginning) <= end:
                return
            if self._held == LOOKED_AT and _THINKS.search(beginning[: int(end)].replace("’", "'")):
                self._held = MAX_HELD
            else:
                self._is_released = True

    def _open(self, kind: str) -> None:
        self._end = "final" if kind == "channel" else "closing"
        self._has_reasoning = True

    def _judge(self, mark: re.Match[str]) -> bool:
        """Whether a mark belongs to reasoning; if so, reasoning begins or ends here."""
        kind = mark.lastgroup or ""
        if self._end:
            if kind == self._end and not self._is_between_quotes(mark):
                self._end = self._doubtful = ""
                self._held = math.inf if self._spans is not None else MAX_HELD if self._is_nested else LOOKED_AT
                self._is_nested = False
                return True
            self._is_nested |= kind == "opening" and self._end == "closing" and not self._is_between_quotes(mark)
            return False
        if mark[0].lower() == "assistantfinal":
            return False
        if self._spans is not None and any(start < mark.start() < end for start, end in self._spans):
            return False
        self._judged += 1
        before = self._answer
        if kind in ("opening", "channel"):
            if not self._opens(before, mark):
                self._is_quoted = True
                return False
            self._open(kind)
            self._doubtful = mark[0] if self._spans is None and _WORD_MARK.match(mark.string, mark.start()) else ""
        elif kind == "empty":
            if before.strip() or not (self._has_reasoning or mark[0][1] == "|" or mark[0][-2] == "/"):
                return False
            self._has_reasoning = True
        elif _ANSWER_MARK.match(mark[0]) and (before.strip() or not self._has_reasoning):
            return False
        else:
            is_word = self._is_quoted or not self._closes(before, mark)
            self._is_quoted = False
            if is_word:
                return False
            if self._is_released:
                # Text that was shown cannot be taken back; the answer begins a new paragraph.
                self.has_shown_reasoning = True
                self._answer = before + "\n\n"
                return True
            self._answer, self._shown, self._has_reasoning = "", 0, True
            self._held = math.inf if self._spans is not None else LOOKED_AT
        return True

    def _opens(self, before: str, mark: re.Match[str]) -> bool:
        """Whether an opening mark begins reasoning."""
        if not before.strip():
            return True
        if self._is_between_quotes(mark) or before.count(_FENCE) % 2:
            return False
        if self._spans is not None or mark.lastgroup == "channel":
            return True
        if before.rpartition("\n")[2].strip():
            return False
        # A short text before it is no answer, "Let me see."; an answer cites, or says that it quotes.
        is_preamble = (
            len(before) <= _MAX_PREAMBLE and not before.rstrip().endswith((":", "：")) and not _CITATION.search(before)
        )
        return self._has_reasoning or is_preamble

    def _closes(self, before: str, mark: re.Match[str]) -> bool:
        """Whether a closing mark without an opening one ends reasoning."""
        line, end = before.rpartition("\n")[2], mark.end()
        if self._is_between_quotes(mark) or before.count(_FENCE) % 2 or line.count("`") % 2:
            return False
        if self._spans is not None or mark.lastgroup == "final" or not line.strip():
            return True
        is_word = line[-1] in " \t" and line.rstrip()[-1] not in _SENTENCE_END
        return not (is_word and _GOES_ON.match(mark.string[end : end + _AHEAD]))

    def _is_between_quotes(self, mark: re.Match[str]) -> bool:
        closing = _QUOTES.get(self._last)
        return closing is not None and mark.string.startswith(closing, mark.end())
