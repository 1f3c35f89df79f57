"""intfloat/multilingual-e5-small, with weights of four bits: tokenise, encode, mean-pool, centre, normalise.

Wang et al., "Multilingual E5 Text Embeddings" (arXiv 2402.05672). All its vectors lie close together (cosines of .7 and
more), so code that compares cosines with 0 or with BM25 could not use them as they are. Therefore their mean is
subtracted. It was taken over texts and titles in English, Japanese and both kinds of Chinese in equal parts
(e5_mean.json; `python -m bench e5_mean` makes it). The order of paragraphs for a question hardly changes.

Its tokenizer is SentencePiece's, over a trie that sessions map: a library's own copy of 250,000 pieces takes 280 MB and
.7 s. It takes the most likely of all ways to cut a text into pieces: Kudo, "Subword Regularization" (arXiv 1804.10959),
section 3.2.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import marisa_trie

from pg_graphrag.ground.numeric import Ids, NDArray, Vectors, np
from pg_graphrag.llm.embedding.local_model import WEIGHTS, Encoder, LocalModel, numpy_encoder
from pg_graphrag.llm.embedding.tensors import map_tensors
from pg_graphrag.text.languages import LANGUAGES

if TYPE_CHECKING:
    from pg_graphrag.text.naming.unit_traits import Span

# The model expects this before both texts if they are of one kind; a corpus compares names, questions and passages alike.
_PREFIX = "query: "


_SPACE = "\u2581"
# What SentencePiece takes off the least likely piece for a character that is in none.
_UNKNOWN_PENALTY = 10.0


class UnigramTokenizer:
    """Text to token ids, as SentencePiece gives them.

    Parameters
    ----------
    directory : Path
        Where characters.json ({character: what it is replaced by}) and pieces.marisa (piece to number) lie.
    ids, scores : arrays, (pieces,)
        The token and the log probability of each numbered piece.
    unknown : int
        The token of characters that are in no piece.
    """

    def __init__(self, directory: Path, ids: Ids, scores: NDArray[np.float32], unknown: int) -> None:
        characters = json.loads((directory / "characters.json").read_text(encoding="utf-8"))
        self._characters = str.maketrans(characters)
        self._trie = marisa_trie.Trie()
        self._trie.mmap(str(directory / "pieces.marisa"))
        self._ids, self._scores, self._unknown = ids, scores, unknown
        self._unknown_score = float(scores.min()) - _UNKNOWN_PENALTY
        self._longest = 16  # characters of a piece

    def encode(self, text: str, max_tokens: int) -> list[int]:
        """Return the first `max_tokens` token ids of a text."""
        return self._tokens("".join(_SPACE + word for word in self.normalized(text).split()), max_tokens)[0]

    def encode_with_spans(self, text: str, max_tokens: int) -> tuple[list[int], list[Span]]:
        """Return the first `max_tokens` token ids of a text, and the characters that each stands for."""
        characters, spans = self._characters_with_spans(text)
        ids, ends = self._tokens("".join(characters), max_tokens)
        places = [0, *ends]
        return ids, [
            (spans[start + (characters[start] == _SPACE and end > start + 1)][0], spans[end - 1][1])
            for start, end in pairwise(places)
        ]

    def normalized(self, text: str) -> str:
        """Return a text with its characters replaced and composed, and single spaces between words."""
        return " ".join(unicodedata.normalize("NFC", text.translate(self._characters)).split())

    def _characters_with_spans(self, text: str) -> tuple[list[str], list[Span]]:
        """Return the characters that are cut into pieces, and where in `text` each came from; a blank is empty."""
        replaced: list[str] = []
        spans: list[Span] = []
        for place, character in enumerate(text):
            for other in self._characters.get(ord(character), character):
                replaced.append(other)
                spans.append((place, place + 1))
        whole = "".join(replaced)
        if not unicodedata.is_normalized("NFC", whole):
            replaced, spans = _composed(whole, spans)
        characters: list[str] = []
        places: list[Span] = []
        is_within = False
        for character, span in zip(replaced, spans, strict=True):
            if character.isspace():
                is_within = False
                continue
            if not is_within:
                characters.append(_SPACE)
                places.append((span[0], span[0]))
            characters.append(character)
            places.append(span)
            is_within = True
        return characters, places

    def _tokens(self, text: str, most: int) -> tuple[list[int], list[int]]:
        """Return the ids of the first tokens of a normalised text, and where each ends."""
        tokens: list[int] = []
        ends: list[int] = []
        for piece, end in self._pieces(text, most):
            token = self._unknown if piece is None else int(self._ids[piece])
            # Several unknown characters in a row are one token.
            if token == self._unknown and tokens[-1:] == [token]:
                ends[-1] = end
            else:
                tokens.append(token)
                ends.append(end)
        return tokens[:most], ends[:most]

    def _pieces(self, text: str, most: int) -> list[tuple[int | None, int]]:
        """Return numbers and ends of the most likely pieces, None for an unknown character; of a long text of its beginning."""
        text = text[: (most + 1) * self._longest]
        best = [0.0] + [-np.inf] * len(text)
        ends: list[tuple[int, int | None]] = [(0, None)] * (len(text) + 1)
        for start in range(len(text)):
            score = best[start]
            candidates: list[tuple[int, int | None, float]] = [(start + 1, None, score + self._unknown_score)]
            for piece in self._trie.prefixes(text[start : start + self._longest]):
                number = self._trie[piece]
                candidates.append((start + len(piece), number, score + float(self._scores[number])))
            for end, number, total in candidates:
                if total > best[end]:
                    best[end], ends[end] = total, (start, number)
        pieces: list[tuple[int | None, int]] = []
        place = len(text)
        while place:
            start, number = ends[place]
            pieces.append((number, place))
            place = start
        return pieces[::-1]


def _composed(text: str, spans: Sequence[Span]) -> tuple[list[str], list[Span]]:
    """Return the characters of a text in NFC, and what each came from: a letter and its marks, or the parts of a syllable."""
    characters: list[str] = []
    places: list[Span] = []
    starts = [place for place, character in enumerate(text) if not _is_part(character)]
    for start, end in pairwise(sorted({0, *starts, len(text)})):
        composed = unicodedata.normalize("NFC", text[start:end])
        characters += composed
        if composed == text[start:end]:
            places += spans[start:end]
        else:
            places += [(spans[start][0], spans[end - 1][1])] * len(composed)
    return characters, places


def _is_part(character: str) -> bool:
    """Whether a character may be composed with the one before: a mark, or a vowel or a final consonant of Hangul."""
    return character >= "\u0300" and (unicodedata.category(character)[0] == "M" or "\u1160" <= character <= "\u11ff")


class E5(LocalModel):
    """The local `pg_graphrag.llm.embedding.Embedder` of many languages."""

    model = "multilingual-e5-small"
    dimensions = 384
    max_tokens = 512
    languages = LANGUAGES[model]
    # As docker/fetch-models makes them.
    digests: ClassVar = {
        "config.json": "fac70205cace89745c985123c4ac70a0117b274bee75c701b0965d517cd48468",
        "characters.json": "41349278f866e87012aabc530192916d0cf85860b59e6389c7252db203ed3c74",
        "pieces.marisa": "6435dac904fbd609b3c21d747954f6856b0f79e289900973a4fa53c32e0a141b",
        WEIGHTS: "54ae8c77d78423a10a14f175ea12aaceb42650ab2a29855177dfebaea4ccadc8",
    }
    weights_bytes = 141_996_880
    header_digest = "68457a927b2e4d00bd14ef8274423345435036bf2622b70ced73560ade61b607"

    def __init__(self, directory: Path, encoder: Callable[[Path, dict[str, Any]], Encoder] = numpy_encoder) -> None:
        super().__init__(directory, encoder)
        tensors = map_tensors(directory / WEIGHTS)
        self._tokenizer = UnigramTokenizer(
            directory, tensors["pieces.ids"], tensors["pieces.scores"], self.config["unk_token_id"]
        )
        self._start, self._end = self.config["bos_token_id"], self.config["eos_token_id"]
        mean = json.loads(Path(__file__).with_name("e5_mean.json").read_text(encoding="ascii"))
        self._mean = np.array(mean, np.float32)

    def tokens(self, text: str) -> list[int]:
        return [self._start, *self._tokenizer.encode(_PREFIX + text, self.max_tokens - 2), self._end]

    def tokens_with_spans(self, text: str) -> tuple[list[int], list[Span]]:
        ids, spans = self._tokenizer.encode_with_spans(_PREFIX + text, self.max_tokens - 2)
        shift = len(_PREFIX)
        in_text = [(max(start - shift, 0), max(end - shift, 0)) for start, end in spans]
        return [self._start, *ids, self._end], [(0, 0), *in_text, (len(text), len(text))]

    def finish(self, vectors: Vectors) -> Vectors:
        centred: Vectors = vectors - self._mean
        centred /= np.linalg.norm(centred, axis=1, keepdims=True)
        return centred
