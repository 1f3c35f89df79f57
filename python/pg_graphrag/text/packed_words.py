"""Words with numbers, packed in one run of bytes that is mapped from a file: all sessions share the memory, and
nothing is parsed in advance.
"""

import mmap
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from struct import Struct
from zlib import crc32

# Bytes of the word and how many pairs it has, which follow it; a pair.
_HEAD, _PAIR = Struct("<HH"), Struct("<hd")
_SLOTS = Struct("=I")

Pairs = list[tuple[int, float]]


class PackedWords(Mapping[str, Pairs]):
    """Pairs of a number and a logarithm by word, as `packed` has them: a hash table, its slots, then its entries.

    A slot has the place of an entry, or 0.
    """

    def __init__(self, data: "bytes | mmap.mmap") -> None:
        (count,) = _SLOTS.unpack_from(data)
        self._data, self._last_slot = data, count - 1
        self._first = _SLOTS.size * (1 + count)
        self._slots = memoryview(data)[_SLOTS.size : self._first].cast("I")

    @classmethod
    def mapped(cls, path: Path) -> "PackedWords":
        """Map a file."""
        with path.open("rb") as file:
            return cls(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def __getitem__(self, word: str) -> Pairs:
        pairs = self.pairs(word)
        if pairs is None:
            raise KeyError(word)
        return pairs

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.pairs(word) is not None

    def __iter__(self) -> Iterator[str]:
        place = self._first
        while place < len(self._data):
            length, count = _HEAD.unpack_from(self._data, place)
            place += _HEAD.size
            yield self._data[place : place + length].decode()
            place += length + count * _PAIR.size

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def pairs(self, word: str) -> Pairs | None:
        """Return the pairs of a word, or None."""
        try:
            key = word.encode()
        except UnicodeEncodeError:  # half of a character, which JSON can bring
            return None
        slot = crc32(key) & self._last_slot
        while place := self._slots[slot]:
            data, start = self._data, place + _HEAD.size
            length, count = _HEAD.unpack_from(data, place)
            if data[start : start + length] == key:
                start += length
                return list(_PAIR.iter_unpack(data[start : start + count * _PAIR.size]))
            slot = slot + 1 & self._last_slot
        return None

    def begun(self, text: str, start: int) -> dict[int, Pairs]:
        """Return the pairs of the words with which a text goes on at a place, by their ends."""
        slots, last_slot, found = self._slots, self._last_slot, {}
        for end in range(start + 1, len(text) + 1):
            word = text[start:end]
            if slots[crc32(word.encode("utf-8", "replace")) & last_slot] and (pairs := self.pairs(word)) is not None:
                found[end] = pairs
        return found


def packed(words: Mapping[str, Pairs]) -> bytes:
    """Return words as `PackedWords` reads them."""
    # A fifth of the slots is taken, so that a word that is not there is mostly known not to be by one look.
    count = 1 << (4 * len(words)).bit_length()
    slots, entries = array("I", bytes(_SLOTS.size * count)), bytearray()
    for word, pairs in words.items():
        key = word.encode()
        slot = crc32(key) & count - 1
        while slots[slot]:
            slot = slot + 1 & count - 1
        slots[slot] = _SLOTS.size * (1 + count) + len(entries)
        entries += _HEAD.pack(len(key), len(pairs)) + key + b"".join(_PAIR.pack(*pair) for pair in pairs)
    return _SLOTS.pack(count) + slots.tobytes() + bytes(entries)
