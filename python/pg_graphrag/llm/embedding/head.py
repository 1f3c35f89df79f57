"""The part of a long text that a BERT tokenizer with truncation can see, found without tokenising the rest."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_WHITE_SPACE = re.compile(r"[ \t\n\r]+")
# Some of the characters that end no word, so that the rest of an endless one can be skipped: ASCII, Latin, Greek and
# Cyrillic letters, digits, kana, Hangul, emoji.
_UNBROKEN = (
    "[0-9A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u0391-\u03a1\u03a3-\u03ff\u0400-\u0481"
    "\u3041-\u3096\u30a1-\u30fa\uac00-\ud7a3\u200d\ufe0f\U0001f300-\U0001faff]+"
)


@cache
def _unbroken() -> re.Pattern[str]:
    """Compiled on first use: few texts are so long."""
    return re.compile(_UNBROKEN)


class TextHead:
    """Cut texts so that tokenising with truncation to `max_tokens` gives the same ids.

    A BERT tokenizer normalises character by character, splits into words, and gives each word at least one token that
    depends on the word alone; so the first `max_tokens` words decide. Words over the model's limit become one [UNK]
    whatever they are.
    """

    _SLICE = 8192  # characters looked at together; shorter texts are not cut

    def __init__(self, tokenizer: Tokenizer, max_tokens: int) -> None:
        self._normalize = tokenizer.normalizer.normalize_str
        self._split_words = tokenizer.pre_tokenizer.pre_tokenize_str
        self._word_limit: int = tokenizer.model.max_input_chars_per_word
        self._max_words = max_tokens
        special = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        # Special tokens are found in the raw text, before normalising.
        self._special = re.compile("(" + "|".join(map(re.escape, special)) + ")")
        self._longest_special = max(map(len, special))

    def __call__(self, text: str) -> str:
        """Return `text`, or for a long one its deciding words, normalised and joined by spaces."""
        return text if len(text) <= self._SLICE else " ".join(self.words(text))

    def words(self, text: str) -> list[str]:
        """Return the deciding words of a text, normalised, with the special tokens among them; perhaps a few more."""
        words: list[str] = []
        open_word = ""  # the last word so far, which the next slice may go on with
        position = 0
        while position < len(text) and len(words) < self._max_words:
            if white := _WHITE_SPACE.match(text, position):
                position = white.end()
                words += filter(None, [open_word])
                open_word = ""
            elif len(open_word) > self._word_limit and (rest := _unbroken().match(text, position)):
                position = rest.end()
            end = self._slice_end(text, position)
            for piece in self._special.split(text[position:end]):
                if self._special.fullmatch(piece):
                    words += filter(None, [open_word, piece])
                    open_word = ""
                    continue
                normalized = open_word + self._normalize(piece)
                new_words = [word[: self._word_limit + 1] for word, _ in self._split_words(normalized)]
                open_word = new_words.pop() if new_words and not normalized[-1].isspace() else ""
                words += new_words
            position = end
        return [*words, *filter(None, [open_word])]

    def _slice_end(self, text: str, start: int) -> int:
        """Return an end that cuts no special token in two; all of them begin with a bracket."""
        end = start + self._SLICE
        bracket = text.rfind("[", end - self._longest_special + 1, end)
        return bracket if bracket > start else end
