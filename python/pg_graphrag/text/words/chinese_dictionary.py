"""jieba's dictionary of Chinese words, read only as far as words are looked up.

Its text is mapped into memory that all sessions share. The lines of one first character are parsed when that character
first occurs: parsing everything takes a second, and 80 MB in each session.
"""

from functools import lru_cache
from mmap import ACCESS_READ, mmap
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import np
from pg_graphrag.text.extras import load_library

_LONGEST_CHARACTER = 4
_SPACE, _NEWLINE, _ZERO = b" \n0"


class ChineseDictionary:
    """Words with their frequency and part of speech, for first characters that `read` has seen.

    `tokenizer`: jieba's, which looks words up in `frequencies`.
    `frequencies`: {word: its frequency; 0 for beginnings of words}.
    `speeches`: {word: its part of speech}. jieba.posseg would guess it for unknown words too, at 13 ms a character.
    `total`: the sum of all frequencies of the dictionary.
    """

    def __init__(self) -> None:
        self.tokenizer: Any = load_library("jieba", "zh").Tokenizer()
        self.frequencies: dict[str, int] = {}
        self.speeches: dict[str, str] = {}
        self._characters: set[str] = set()
        with self.tokenizer.get_dict_file() as file:
            self._lines = mmap(file.fileno(), 0, access=ACCESS_READ)
        self.total, self._first, self._starts, self._ends = _index(self._lines)
        # By itself jieba would unmarshal a cache it finds in the temporary directory, where anyone can put one.
        self.tokenizer.FREQ, self.tokenizer.total, self.tokenizer.initialized = self.frequencies, self.total, True

    def read(self, text: str) -> None:
        """Read the words that begin with a character of `text`: every word that can stand in it."""
        for character in set(text) - self._characters:
            self._read_character(character)

    def _read_character(self, character: str) -> None:
        code = int.from_bytes(character.encode("utf-8", "replace"))
        for run in range(np.searchsorted(self._first, code), np.searchsorted(self._first, code, "right")):
            for line in self._lines[self._starts[run] : self._ends[run]].decode().split("\n")[:-1]:
                word, frequency, speech = line.split(" ")
                self.frequencies[word] = int(frequency)
                self.speeches[word] = speech
                for end in range(1, len(word)):
                    self.frequencies.setdefault(word[:end], 0)
        self._characters.add(character)


@lru_cache(maxsize=1)
def chinese_dictionary() -> ChineseDictionary:
    """Return the dictionary of this session."""
    return ChineseDictionary()


def _index(lines: mmap) -> tuple[int, Any, Any, Any]:
    """Return the sum of all frequencies; and the code, start and end of each run of lines with one first character, by
    code.

    Lines are WORD FREQUENCY SPEECH. They are sorted by their characters, except for a few that begin with Latin letters.
    """
    text = np.frombuffer(lines, np.uint8)
    ends = np.flatnonzero(text == _NEWLINE) + 1
    spaces = np.flatnonzero(text == _SPACE)
    if not ends.size or ends[-1] != text.size or spaces.size != 2 * ends.size:
        raise GraphRAGError(
            f"a line of jieba's dictionary of {text.size:,} bytes is not WORD FREQUENCY SPEECH",
            sqlstate="58P01",
            hint="Install jieba anew for the Python that serves the database: pip install --force-reinstall jieba.",
        )
    widths = spaces[1::2] - spaces[::2] - 1
    total = 0
    for place in range(int(widths.max())):
        digits = text[spaces[1::2][widths > place] - 1 - place]
        total += int((digits - _ZERO).sum(dtype=np.int64)) * 10**place
    starts = np.concatenate(([0], ends[:-1]))
    lead = text[starts]
    sizes = 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)
    codes = np.zeros(starts.size, np.uint32)
    for place in range(_LONGEST_CHARACTER):
        codes = np.where(sizes > place, codes << 8 | text[starts + place], codes)
    begins = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    order = np.argsort(codes[begins], kind="stable")
    run_ends = np.concatenate((starts[begins[1:]], ends[-1:]))
    return total, codes[begins][order], starts[begins][order], run_ends[order]
