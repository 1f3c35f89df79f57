"""sentence-transformers/all-MiniLM-L6-v2: tokenise, encode, mean-pool, normalise, as sentence-transformers does.

Questions are cut into word pieces over a vocabulary that sessions map: a library's own copy of 30,000 pieces takes 8 MB
and 15 ms. Each step takes the longest piece that the rest of a word begins with: Devlin et al., "BERT" (arXiv
1810.04805); Wu et al. (arXiv 1609.08144), section 4.1. The library finds the words. For documents, or without the
mapped vocabulary, it does everything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pg_graphrag.ground.asset_paths import MODELS
from pg_graphrag.llm.embedding.local_model import WEIGHTS, Encoder, LocalModel, check_files, numpy_encoder
from pg_graphrag.text.languages import LANGUAGES
from pg_graphrag.text.packed_words import PackedWords, packed

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from pg_graphrag.text.naming.unit_traits import Span

_WHITE_SPACE = re.compile(r"[ \t\n\r]+")
# Some of the characters that end no word, so that the rest of an endless one can be skipped: ASCII, Latin, Greek and
# Cyrillic letters, digits, kana, Hangul, emoji.
_UNBROKEN = (
    "[0-9A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u0391-\u03a1\u03a3-\u03ff\u0400-\u0481"
    "\u3041-\u3096\u30a1-\u30fa\uac00-\ud7a3\u200d\ufe0f\U0001f300-\U0001faff]+"
)
# For all-MiniLM-L6-v2; extension/install-package writes it beside this module.
WORD_PIECES = Path(__file__).with_name("word_pieces.packed")
_START, _END, _UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
_INNER = "##"
# Maximum characters of a piece, with the mark of pieces inside a word; and of a word that is cut into pieces.
_LONGEST, _LONGEST_WORD = 18, 100
# For ASCII, the library's work is simple, and most questions need not load it: words, and each sign by itself. A
# bracket may begin a special token.
_WORDS = re.compile(r"[a-z0-9]+|[!-/:-@\\-`{-~\]]")
_CONTROL = dict.fromkeys({*range(0x20), 0x7F} - set(map(ord, "\t\n\r")))
_SHORT = 1000
# In a longer text `TextHead` may change the characters.
_LONGEST_SPLIT = 8192


class WordPieces:
    """Text to the token ids of a BERT whose ``tokenizer.json`` is as all-MiniLM-L6-v2's.

    Parameters
    ----------
    pieces : PackedWords
        As `write_packed` writes them.
    max_tokens : int
        Tokens of a text, special ones included.
    """

    def __init__(self, pieces: PackedWords, max_tokens: int) -> None:
        self._pieces, self._max_tokens = pieces, max_tokens
        special = {name: self._id(name) for name in ("[PAD]", _UNKNOWN, _START, _END, "[MASK]")}
        self._special: dict[str, int] = {name: number for name, number in special.items() if number is not None}

    @cached_property
    def _head(self) -> TextHead:
        return TextHead(self._splitter, self._max_tokens)

    @cached_property
    def _splitter(self) -> Tokenizer:
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

        # Without pieces, what normalises and splits; special tokens are found in the raw text.
        tokenizer = Tokenizer(
            models.WordPiece(self._special, unk_token=_UNKNOWN, max_input_chars_per_word=_LONGEST_WORD)
        )
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.add_special_tokens(list(self._special))
        return tokenizer

    def _words(self, text: str) -> list[str]:
        if text.isascii() and "[" not in text and len(text) <= _SHORT:
            return _WORDS.findall(text.translate(_CONTROL).lower())
        return self._head.words(text)

    def _spans(self, text: str) -> list[Span]:
        """Return the places of the `_words` of a text; of a very long one of some of them."""
        if text.isascii() and "[" not in text and len(text) <= _SHORT and text.translate(_CONTROL) == text:
            return [match.span() for match in _WORDS.finditer(text.lower())]
        spans: list[Span] = self._splitter.encode(text[:_LONGEST_SPLIT]).offsets
        return spans

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text."""
        ids = [self._special[_START]]
        for word in self._words(text):
            ids += self._ids(word)
            if len(ids) >= self._max_tokens:
                break
        return [*ids[: self._max_tokens - 1], self._special[_END]]

    def encode_with_spans(self, text: str) -> tuple[list[int], list[Span]]:
        """Return the token ids of a text, and the places of their words; all empty for a very long text."""
        words, places = self._words(text), self._spans(text)
        spans = [(0, 0)]
        if len(words) == len(places):
            for word, place in zip(words, places, strict=True):
                spans += [place] * len(self._ids(word))
        ids = self.encode(text)
        return ids, _filled(spans, len(ids), len(text))

    def _ids(self, word: str) -> list[int]:
        """Return the ids of a word's pieces; the unknown word's id if a part of it is no piece."""
        if word in self._special:
            return [self._special[word]]
        unknown = [self._special[_UNKNOWN]]
        if len(word) > _LONGEST_WORD:
            return unknown
        ids: list[int] = []
        start = 0
        while start < len(word):
            mark = _INNER if start else ""
            for end in range(min(len(word), start + _LONGEST), start, -1):
                number = self._id(mark + word[start:end])
                if number is not None:
                    break
            else:
                return unknown
            ids.append(number)
            start = end
        return ids

    def _id(self, piece: str) -> int | None:
        pairs = self._pieces.pairs(piece)
        return None if pairs is None else pairs[0][0]


def _filled(spans: list[Span], tokens: int, end: int) -> list[Span]:
    """Return as many spans as a text has tokens, that of its end behind it."""
    inner = [*spans, *[spans[-1]] * tokens][: tokens - 1]
    return [*inner, (end, end)]


def write_packed(tokenizer: Path, path: Path) -> None:
    """Write the pieces of a ``tokenizer.json``, whole or not at all."""
    vocabulary: dict[str, Any] = json.loads(tokenizer.read_bytes())["model"]["vocab"]
    assert max(map(len, vocabulary)) <= _LONGEST
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(packed({piece: [(number, 0.0)] for piece, number in vocabulary.items()}))
    unfinished.rename(path)


class LibraryPieces:
    """What `WordPieces` does, by the library."""

    def __init__(self, path: Path, max_tokens: int) -> None:
        from tokenizers import Tokenizer  # questions do without

        self._tokenizer = Tokenizer.from_file(str(path))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)
        self._head = TextHead(self._tokenizer, max_tokens)

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text."""
        ids: list[int] = self._tokenizer.encode(self._head(text)).ids
        return ids

    def encode_with_spans(self, text: str) -> tuple[list[int], list[Span]]:
        """Return the token ids of a text, and the places of their words; all empty for a very long text."""
        head = self._head(text)
        encoding = self._tokenizer.encode(head)
        words = encoding.word_ids[1:-1] if head == text else []
        places: dict[int | None, Span] = {None: (0, 0)}
        for word, (start, end) in zip(words, encoding.offsets[1:-1], strict=head == text):
            places[word] = places.get(word, (start, end))[0], end
        spans = [(0, 0), *map(places.__getitem__, words)]
        return encoding.ids, _filled(spans, len(encoding.ids), len(text))


class MiniLM(LocalModel):
    """The local `pg_graphrag.llm.embedding.Embedder` of English."""

    model = "all-MiniLM-L6-v2"
    dimensions = 384
    max_tokens = 256  # sentence_bert_config.json: max_seq_length
    languages = LANGUAGES[model]
    digests: ClassVar = {
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    }
    weights_bytes = 90_868_376
    header_digest = "a1621c79b67c1aa27f5784108b97e010fa884e26b187ba5c351328d9125e10a7"

    def __init__(self, directory: Path, encoder: Callable[[Path, dict[str, Any]], Encoder] = numpy_encoder) -> None:
        super().__init__(directory, encoder)
        # Who embeds much has time and memory for the library's tokenizer, which is faster with long texts.
        is_for_questions = encoder is numpy_encoder and WORD_PIECES.exists()
        self._pieces = (
            WordPieces(PackedWords.mapped(WORD_PIECES), self.max_tokens)
            if is_for_questions
            else LibraryPieces(directory / "tokenizer.json", self.max_tokens)
        )

    def tokens(self, text: str) -> list[int]:
        return self._pieces.encode(text)

    def tokens_with_spans(self, text: str) -> tuple[list[int], list[Span]]:
        return self._pieces.encode_with_spans(text)


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


if __name__ == "__main__":
    if (folder := MODELS / MiniLM.model).exists():
        check_files(folder, MiniLM)
        write_packed(folder / "tokenizer.json", WORD_PIECES)
