"""Whether a reply repeats itself: a small model in a loop writes until its context is full."""

import re
from collections import deque
from collections.abc import Iterator

# Words of alphabets; single characters of scripts without spaces. The number of a list item does not count.
_WORD = re.compile(r"^[ \t]*(?:\d{1,4}[.)]|[-*#>]+)[ \t]+|([\u2e80-\uffff]|[^\W\u2e80-\uffff]+)", re.M)
# Words in an n-gram. A reply repeats itself when so many of its last words end n-grams that occurred before.
_N = 4
_WINDOW, _REPEATED = 100, 90
# Or when so many words in a row, or characters, equal those at one of these distances before.
_PERIODS, _RUN = 8, 32
_CHARACTER_PERIODS, _CHARACTER_RUN = 16, 320
# Characters of a reply that are read at once, and all that are read of a complete one.
_PIECE, _MOST = 64, 200_000
# A longer run of characters is no word.
_LONGEST_WORD = 500


class _Ngrams:
    """Whether each word ends an n-gram that occurred before."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, ...]] = set()
        self._last: deque[str] = deque(maxlen=_N)
        self._flags: list[bool] = []
        self._in_window = 0

    def add(self, word: str) -> bool:
        """Take the next word; return whether the last ones are a repetition."""
        self._last.append(word)
        ngram = tuple(self._last)
        # An n-gram of numbers alone says nothing.
        repeated = len(ngram) == _N and ngram in self._seen and sum(part.isalpha() for part in ngram) > 1
        self._seen.add(ngram)
        self._flags.append(repeated)
        self._in_window += repeated - (len(self._flags) > _WINDOW and self._flags[-1 - _WINDOW])
        return self._in_window >= _REPEATED

    def first(self) -> int:
        """Return the number of the word with which the repetition begins."""
        first = number = len(self._flags) - 1
        misses = _WINDOW - _REPEATED
        while number >= 0 and (self._flags[number] or misses):
            if self._flags[number]:
                first = number
            else:
                misses -= 1
            number -= 1
        return max(0, first - _N + 1)


class RepetitionWatch:
    """Reads a reply piece by piece."""

    def __init__(self) -> None:
        self._text = self._unread = ""
        self._read = 0
        self._words: list[str] = []
        self._starts: list[int] = []
        self._runs = [0] * (_PERIODS + 1)
        self._ngrams = _Ngrams()

    def feed(self, piece: str) -> int | None:
        """Return the character of the text so far with which it begins to repeat itself; None where it does not."""
        # A whole text is checked like one that comes in pieces: always after so many characters.
        self._unread += piece
        for start in range(0, len(self._unread) - _PIECE + 1, _PIECE):
            self._text += self._unread[start : start + _PIECE]
            if (place := self._look()) is not None:
                return place
        if len(self._unread) >= _PIECE:
            self._unread = self._unread[len(self._unread) // _PIECE * _PIECE :]
        return None

    def _look(self) -> int | None:
        if (place := self._periodic_characters()) is not None:
            return place
        for word, start in self._new_words():
            self._words.append(word)
            self._starts.append(start)
            first = self._first_repeated(word)
            if first is not None:
                return self._starts[first]
        return None

    def _new_words(self) -> Iterator[tuple[str, int]]:
        text, start = self._text, self._read
        for match in _WORD.finditer(text, start):
            if match.end() == len(text):
                # It may go on.
                break
            self._read = match.end()
            if match[1]:
                yield match[1].casefold(), match.start()
        if len(text) - self._read > _LONGEST_WORD:
            self._read = len(text)

    def _first_repeated(self, word: str) -> int | None:
        """Take the next word; return the number of the first word of a repetition."""
        before = self._words[-2 : -2 - _PERIODS : -1]
        if word in before:
            for period, earlier in enumerate(before, 1):
                self._runs[period] = self._runs[period] + 1 if earlier == word else 0
                if self._runs[period] >= _RUN:
                    return len(self._words) - self._runs[period]
        else:
            self._runs = [0] * (_PERIODS + 1)
        return self._ngrams.first() if self._ngrams.add(word) else None

    def _periodic_characters(self) -> int | None:
        """Return where the end of the text begins to be one short string over and over."""
        text = self._text
        tail = text[-_CHARACTER_RUN:]
        if len(tail) < _CHARACTER_RUN:
            return None
        for period in range(1, _CHARACTER_PERIODS + 1):
            if tail[period:] == tail[:-period]:
                start = len(text) - 1
                while start >= period and text[start] == text[start - period]:
                    start -= 1
                return start + 1
        return None


def repetition(text: str) -> int | None:
    """Return the character with which a complete text begins to repeat itself; None where it does not."""
    return RepetitionWatch().feed(text[:_MOST])
