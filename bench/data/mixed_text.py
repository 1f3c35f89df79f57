"""Any number of documents of sentences of public text, and vectors of them that cost no encoder.

Sentences of bench/data/public_text.py, in the order of their sources, so that neighbours are of one RFC or one letter of a
dictionary; all-MiniLM-L6-v2 embeds each once. A document takes its sentences from around one place, a paragraph of it from
closer together. The vector of a text is the mean of those of the sentences in it, weighted by their lengths:
`python -m bench mixed_text` says how near that is to what the encoder makes of the whole.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from pg_graphrag.llm.embedding import local_embedder
from pg_graphrag.server.corpus.options import ENGLISH_MODEL

from bench.data.public_text import CACHE, Text, texts

SENTENCES = 20_000
# Words of a sentence that is taken, and of a paragraph, which is a chunk with one window.
SHORTEST, LONGEST = 8, 40
PARAGRAPH = 65
PARAGRAPHS = 8
# Tokens of a chunk that holds a paragraph, and no two.
CHUNK_TOKENS = 150
# How far the paragraphs of a document, and the sentences of one, are from their places, in sentences (standard deviation).
APART, TOGETHER = 40, 12
# Words at which a piece of a sentence is known.
_BEGINNING = 5
_END = re.compile(r"(?<=[.!?]) ")


def sentences() -> tuple[list[str], Any]:
    """Return the sentences, and their vectors, (n, 384) float32; they are made once."""
    archive = CACHE / f"sentences-{SENTENCES}.npz"
    if not archive.exists():
        chosen = _chosen()
        embedder = local_embedder(ENGLISH_MODEL)
        vectors = np.empty((len(chosen), embedder.dimensions), np.float16)
        for places, part in embedder.embed_batches(chosen):
            vectors[places] = part
        partial = archive.with_suffix(".part.npz")
        np.savez(partial, sentences=np.array("\n".join(chosen)), vectors=vectors)
        partial.replace(archive)
    with np.load(archive) as stored:
        return str(stored["sentences"]).split("\n"), stored["vectors"].astype(np.float32)


def _chosen() -> list[str]:
    """Return the sentences of whole documents, of as many as it takes, evenly spread over the sources."""
    distinct: dict[str, None] = {}
    for text in sorted(texts()[: 2 * SENTENCES // 5], key=lambda text: text.key):
        for sentence in _END.split(" ".join(text.content.split())):
            if SHORTEST <= len(sentence.split()) <= LONGEST and sentence[0].isalpha() and sentence[-1] in ".!?":
                distinct[sentence] = None
    every = list(distinct)
    # Neighbours stay together.
    start = max(0, len(every) - SENTENCES)
    return every[start // 2 : start // 2 + SENTENCES]


class MixedText:
    """Documents by number, and the vector of any text."""

    def __init__(self) -> None:
        self._sentences, self._vectors = sentences()
        self._words = np.array([len(sentence.split()) for sentence in self._sentences], np.float32)
        self._places = {sentence: place for place, sentence in enumerate(self._sentences)}
        self._beginnings = {_beginning(sentence): place for place, sentence in enumerate(self._sentences)}

    def document(self, number: int) -> Text:
        """Return the document of a number, the same every time: some paragraphs, each a chunk."""
        chance = random.Random(number)
        place = chance.randrange(len(self._sentences))
        paragraphs = [self._paragraph(chance, place + int(chance.gauss(0, APART))) for _ in range(PARAGRAPHS)]
        return Text(f"{number:07}", f"Report {number}", "\n\n".join(paragraphs))

    def _paragraph(self, chance: random.Random, place: int) -> str:
        chosen: dict[int, None] = {}
        words = 0.0
        while words < PARAGRAPH:
            sentence = (place + int(chance.gauss(0, TOGETHER))) % len(self._sentences)
            if sentence not in chosen:
                chosen[sentence] = None
                words += self._words[sentence]
        return " ".join(self._sentences[sentence] for sentence in chosen)

    def vector(self, text: str) -> Any:
        """Return the vector of a text, (384,) float32 of length 1: that of its sentences, or of beginnings of some."""
        pieces = [piece for line in text.splitlines() for piece in _END.split(line)]
        places = [self._places.get(piece, self._beginnings.get(_beginning(piece), -1)) for piece in pieces]
        # Of no sentence here: of any.
        places = [place for place in places if place >= 0] or [len(text) % len(self._sentences)]
        vector = self._words[places] @ self._vectors[places]
        return vector / np.linalg.norm(vector)


def _beginning(sentence: str) -> str:
    return " ".join(sentence.split(" ", _BEGINNING)[:_BEGINNING])


def main() -> None:
    text = MixedText()
    paragraphs: Iterator[str] = (p for number in range(100) for p in text.document(number).content.split("\n\n")[:2])
    chosen = list(paragraphs)
    encoded = local_embedder(ENGLISH_MODEL).embed(chosen)
    cosines = np.array([vector @ text.vector(paragraph) for vector, paragraph in zip(encoded, chosen, strict=True)])
    mixed = np.stack([text.vector(paragraph) for paragraph in chosen])
    print(f"{len(chosen)} paragraphs: cosine of the mean of the sentences to the encoder's vector {cosines.mean():.3f}")
    for name, vectors in (("encoder", encoded), ("means", mixed)):
        others = (vectors @ vectors.T)[np.triu_indices(len(chosen), 1)]
        print(
            f"cosines of two paragraphs, {name}: {', '.join(f'{q:.2f}' for q in np.quantile(others, [0.05, 0.5, 0.95]))}"
        )


if __name__ == "__main__":
    main()
