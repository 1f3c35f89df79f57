"""How much the word pieces of a name are like those of junk: multilingual-e5-small's input embeddings along one direction.

The embeddings lie so that words of a kind lie together, in a hundred languages, so what labels say of "Reihenfolge" counts for
手順 and "procedure". The model itself is not run. Everything is whole numbers, so that every processor gets the same.
"""

from __future__ import annotations

import json
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from pg_graphrag.ground.numeric import np

if TYPE_CHECKING:
    from pg_graphrag.ground.numeric import NDArray
    from pg_graphrag.llm.embedding.e5 import PieceTable

# Pieces of a name that count.
_MOST_PIECES = 64
# Embeddings are below 1 and have eleven bits.
_STEPS = 1 << 12
# Of the direction's numbers to hundredths of the logarithm of the odds.
_PARTS = 100
_REMEMBERED = 50_000


@lru_cache(maxsize=_REMEMBERED)
def score(name: str) -> int:
    """Return what the pieces of a name add to the logarithm of the odds that it is an entity, in hundredths: their mean.

    Raises
    ------
    GraphRAGError
        58P01 when a file of the model is missing or unreadable.
    """
    pieces = _table().tokenizer.encode(name, _MOST_PIECES)
    return sum(map(_piece_score, pieces)) // (_STEPS * _PARTS * len(pieces)) if pieces else 0


def mean_embedding(name: str) -> NDArray[np.float64]:
    """Return the mean of the embeddings of the pieces of a name, (384,), of which `score` takes one direction."""
    pieces = _table().tokenizer.encode(name, _MOST_PIECES)
    return np.mean([_embedding(piece) for piece in pieces], axis=0) / _STEPS if pieces else np.zeros(len(_direction()))


@lru_cache(maxsize=_REMEMBERED)
def _piece_score(piece: int) -> int:
    return int(_embedding(piece) @ _direction())


def _embedding(piece: int) -> NDArray[np.int64]:
    row: NDArray[np.int64] = np.rint(_table().embeddings[piece].astype(np.float64) * _STEPS).astype(np.int64)
    return row


@cache
def _table() -> PieceTable:
    from pg_graphrag.llm.embedding.e5 import piece_table

    return piece_table()


@cache
def _direction() -> NDArray[np.int64]:
    """Return the direction in ten-thousandths of the logarithm of the odds, (384,), as bench/naming/gate.py fitted it."""
    return np.array(json.loads(Path(__file__).with_name("name_direction.json").read_text(encoding="ascii")), np.int64)
