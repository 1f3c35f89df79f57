"""Token boundaries of a text in the embedding model's own tokenizer or a tiktoken encoding, by name.

A corpus pins its tokenizer by name and fingerprint (docs/decisions/ground.md): chunks, and so the graph, must not depend on the
machine. Missing or different ranks are an error, never a fallback.
"""

from __future__ import annotations

import base64
import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

from pg_graphrag.ground.asset_paths import MODELS
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import NDArray, np

Positions: TypeAlias = NDArray[np.int64]

# WordPiece gives up on words of more than 100 characters and calls each one unknown token. Counted like that, 1 MB
# of base64 would be one token; four characters a token is what English comes to.
_CHARACTERS_PER_UNKNOWN = 4
_LONGEST_WORD = 100
# Words cached with their pieces; cleared when full, so that a session cannot grow without bound.
_KNOWN_WORDS = 200_000
# Characters of texts cached with their numbers of tokens; cleared when full.
_KNOWN_CHARACTERS = 2_000_000
# Long texts are tokenised in stretches of this many characters, ended at the next gap.
_STRETCH, _LONGEST_STRETCH = 50_000, 100_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Tokenizer(ABC):
    """Where the tokens of a text begin and end.

    `name`: as a corpus names it.
    `fingerprint`: SHA-256 (hex) of the file of ranks or vocabulary.
    """

    name: str
    fingerprint: str

    # Where a text may be cut so that its tokens stay the same.
    _GAP: re.Pattern[str]

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._known_characters = 0

    @abstractmethod
    def _spans(self, text: str) -> tuple[Positions, Positions]:
        """Return the spans of the tokens of one stretch."""

    def stretches(self, text: str) -> Iterator[tuple[int, Positions, Positions]]:
        """Yield (end of a stretch, `spans` of its tokens) so that a long text costs neither much memory nor a long wait.

        Each takes a few ten milliseconds. A text without a gap where one is looked for is cut all the same, and the
        token there in two.
        """
        start = 0
        while len(text) - start > _LONGEST_STRETCH:
            gap = self._GAP.search(text, start + _STRETCH, start + _LONGEST_STRETCH)
            end = gap.start() if gap else start + _LONGEST_STRETCH
            starts, ends = self._spans(text[start:end])
            yield end, starts + start, ends + start
            start = end
        starts, ends = self._spans(text[start:])
        yield len(text), starts + start, ends + start

    def spans(self, text: str) -> tuple[Positions, Positions]:
        """Return first and past-the-last character of every token, two arrays of one length, both ascending.

        Tokens may leave white space uncovered (WordPiece) and may share one character (bytes of an emoji).
        """
        _, starts, ends = zip(*self.stretches(text), strict=True)
        return np.concatenate(starts), np.concatenate(ends)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return the character span of every token of `text`, in order."""
        starts, ends = self.spans(text)
        return list(zip(starts.tolist(), ends.tolist(), strict=True))

    def count(self, text: str) -> int:
        """Return the number of tokens of `text`, special tokens not counted."""
        return sum(len(starts) for _, starts, _ in self.stretches(text))

    def count_known(self, text: str) -> int:
        """Return `count`, cached: for texts that are likely counted again, such as a line of a context."""
        count = self._counts.get(text)
        if count is None:
            if self._known_characters > _KNOWN_CHARACTERS:
                self._counts.clear()
                self._known_characters = 0
            count = self._counts[text] = self.count(text)
            self._known_characters += len(text)
        return count


class WordPiece(Tokenizer):
    """A BERT-like tokenizer.json. Its words never cross white space, so each distinct word is cut only once."""

    def __init__(self, name: str, path: Path, data: bytes):
        from tokenizers import Tokenizer as Reference

        super().__init__()
        self.name = name
        self.fingerprint = hashlib.sha256(data).hexdigest()
        self._reference: Any = Reference.from_str(data.decode())
        if type(self._reference.model).__name__ != "WordPiece":
            raise GraphRAGError(
                f'the tokenizer "{name}" is not a WordPiece tokenizer',
                detail=f"{path} holds a model of type {type(self._reference.model).__name__}.",
                hint="Choose the embedding model's own tokenizer or a tiktoken encoding.",
            )
        # The file carries the limits of sentence-transformers; documents are longer.
        self._reference.no_truncation()
        self._reference.no_padding()
        self._pieces: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._sizes = _Sizes(self._pieces, self._cut)

    _GAP = re.compile(r"[ \t\n\r]")
    # Only white space that every BERT normalizer treats as such: the rest (NEL, separators) stays inside the "word" and
    # is cut by the reference.
    _WORD = re.compile(r"[^ \t\n\r]+")

    def _spans(self, text: str) -> tuple[Positions, Positions]:
        starts: list[int] = []
        ends: list[int] = []
        pieces = self._pieces
        for match in self._WORD.finditer(text):
            word = match.group()
            cut = pieces.get(word)
            if cut is None:
                cut = self._cut(word)
            offset = match.start()
            if len(cut[0]) == 1:
                starts.append(offset + cut[0][0])
                ends.append(offset + cut[1][0])
            else:
                starts.extend([offset + start for start in cut[0]])
                ends.extend([offset + end for end in cut[1]])
        return np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)

    # White space to str.split() that stays inside the "word".
    _ODD_SPACE = re.compile("[\x0b\x0c\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")

    def count(self, text: str) -> int:
        words = self._WORD.findall(text) if self._ODD_SPACE.search(text) else text.split()
        if len(self._sizes) > _KNOWN_WORDS:
            self._sizes.clear()
        return sum(map(self._sizes.__getitem__, words))

    def _cut(self, word: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        starts: list[int] = []
        ends: list[int] = []
        for start, end in self._reference.encode(word, add_special_tokens=False).offsets:
            if end - start <= _LONGEST_WORD:
                starts.append(start)
                ends.append(end)
            else:
                cuts = [*range(start, end, _CHARACTERS_PER_UNKNOWN), end]
                starts.extend(cuts[:-1])
                ends.extend(cuts[1:])
        cut = tuple(starts), tuple(ends)
        if len(word) <= _LONGEST_WORD:
            if len(self._pieces) >= _KNOWN_WORDS:
                self._pieces.clear()
            self._pieces[word] = cut
        return cut


class _Sizes(dict[str, int]):
    """Number of pieces of each word, cut when first asked for: a look-up costs no Python call."""

    def __init__(
        self,
        pieces: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]],
        cut: Callable[[str], tuple[tuple[int, ...], tuple[int, ...]]],
    ):
        super().__init__()
        self._pieces = pieces
        self._cut = cut

    def __missing__(self, word: str) -> int:
        size = len((self._pieces.get(word) or self._cut(word))[0])
        if len(word) <= _LONGEST_WORD:
            self[word] = size
        return size


class BytePairs(Tokenizer):
    """A tiktoken encoding from a local file of ranks. Its tokens are bytes: several may share one character."""

    def __init__(self, name: str, path: Path, data: bytes, pattern: str):
        import tiktoken

        super().__init__()
        self.name = name
        self.fingerprint = hashlib.sha256(data).hexdigest()
        try:
            ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, data.splitlines())}
        except ValueError as error:
            raise _unusable(name, path, f"it cannot be read: {error}") from error
        self._encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        self._ranks = ranks

    @cached_property
    def _lengths(self) -> NDArray[np.int64]:
        lengths = np.zeros(max(self._ranks.values()) + 1, dtype=np.int64)
        for token, rank in self._ranks.items():
            lengths[rank] = len(token)
        return lengths

    # Before one blank between two words: the patterns put it at the beginning of a token.
    _GAP = re.compile(r"(?<=[^\W\d_]) (?=[^\W\d_])")

    def _spans(self, text: str) -> tuple[Positions, Positions]:
        ids = self._ids(text)
        byte_ends = np.cumsum(self._lengths[ids])
        byte_starts = byte_ends - self._lengths[ids]
        if text.isascii():
            return byte_starts, byte_ends
        data = np.frombuffer(text.encode(), dtype=np.uint8)
        character = np.cumsum((data & 0xC0) != 0x80) - 1
        return character[byte_starts], character[byte_ends - 1] + 1

    # The patterns backtrack over a run of letters or blanks: a megabyte of them overflows the matcher's stack.
    # They are looked for where a run begins: shorter ones are passed over once.
    _RUN = re.compile(r"(?<!\S)(?:\S{20000})+|(?<!\s)(?:\s{2000})+")

    def _ids(self, text: str) -> NDArray[np.uint32]:
        cuts = [0]
        for run in self._RUN.finditer(text):
            step = 2000 if text[run.start()].isspace() else 20_000
            cuts.extend(range(run.start() + step, run.end() + 1, step))
        cuts.append(len(text))
        parts = [self._encoding.encode_to_numpy(text[a:b]) for a, b in pairwise(cuts)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


# The patterns that cut text before bytes are paired: part of an encoding's definition (OpenAI's tiktoken).
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PATTERNS = {
    "cl100k_base": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$"
    r"|\s*[\r\n]|\s+(?!\S)|\s",
    "o200k_base": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    + _CONTRACTIONS
    + r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    + _CONTRACTIONS
    + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}


def tokenizer(name: str, fingerprint: str | None = None) -> Tokenizer:
    """Return the tokenizer called `name`, loaded once per process.

    `name`: a tiktoken encoding (``cl100k_base``, ``o200k_base``) or a model directory with a tokenizer.json.
    `fingerprint`: what the corpus pinned when it was created.

    Raises GraphRAGError: 58P01 when the file is missing; 55000 when it is not the one that was pinned; 22023 when the name
      cannot be one.
    """
    loaded = _load(name)
    if fingerprint is not None and fingerprint != loaded.fingerprint:
        raise GraphRAGError(
            f'the tokenizer "{name}" is not the one this corpus was made with',
            sqlstate="55000",
            detail=f"Pinned: {fingerprint}. Installed: {loaded.fingerprint}.",
            hint=f"Restore the pinned file at {_path(name)}, or create a new corpus and load the documents into it.",
        )
    return loaded


def names() -> list[str]:
    """Return the names of the tokenizers whose files are installed."""
    encodings = [name for name in PATTERNS if _path(name).is_file()]
    return sorted([*encodings, *(path.parent.name for path in MODELS.glob("*/tokenizer.json"))])


def _path(name: str) -> Path:
    return MODELS / "tiktoken" / f"{name}.tiktoken" if name in PATTERNS else MODELS / name / "tokenizer.json"


@lru_cache(maxsize=8)
def _load(name: str) -> Tokenizer:
    # The name becomes a path: it must not leave the models' directory.
    if not _NAME.fullmatch(name):
        raise GraphRAGError(f'"{name[:100]}" cannot be the name of a tokenizer', hint=_installed())
    path = _path(name)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise GraphRAGError(
            f'the tokenizer "{name}" is not installed',
            sqlstate="58P01",
            detail=f"{path}: {error.strerror}.",
            hint=_installed(),
        ) from error
    return BytePairs(name, path, data, PATTERNS[name]) if name in PATTERNS else WordPiece(name, path, data)


def _installed() -> str:
    installed = ", ".join(names()) or "none"
    return f"Installed: {installed}. docker/fetch-models brings what is missing into {MODELS} (docs/hosts.md)."


def _unusable(name: str, path: Path, reason: str) -> GraphRAGError:
    return GraphRAGError(
        f'the tokenizer "{name}" is unusable',
        sqlstate="58P01",
        detail=f"{path}: {reason}",
        hint="Install the file again with the runtime build.",
    )
