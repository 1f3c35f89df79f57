"""Vectors in pgvector's text form."""

from collections.abc import Sequence
from functools import cache

from pg_graphrag.ground.numeric import NDArray, Vectors, np

# Values of one statement, half a megabyte of text: larger parameters are allocated page by page each time, which took
# as long as reading them.
STATEMENT_VALUES = 50_000
# Vectors formatted at once, so that intermediate arrays stay in the processor's caches.
_SLICE = 64
_PADDING = b"\0"
# Zero, frequent in vectors of few words, as one digit.
_ZERO = np.frombuffer(b"0,".ljust(8, _PADDING), np.uint64)[0]


def vectors_at_once(dimensions: int) -> int:
    """Return how many vectors a statement is to have as parameters."""
    return max(1, STATEMENT_VALUES // dimensions)


@cache
def _form(dimensions: int) -> str:
    return "[" + ",".join(["%.9g"] * dimensions) + "]"


def vector_text(vector: Vectors) -> str:
    """Return a (dimensions,) array in pgvector's text form, with the nine digits that a float32 needs at most."""
    # One formatting of all values takes half the time of one for each.
    return _form(len(vector)) % tuple(vector.tolist())


@cache
def _digits() -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint64]]:
    """Return the parts of ``-0xHHHHHHp-12,``: sign and first digit; four digits; the last one, exponent and comma."""
    digits = "0123456789ABCDEF"
    heads = [f"{sign}0x{digit}" for sign in ("", "-") for digit in digits]
    # To make a string of each takes 8 ms.
    middles = np.frombuffer(digits.encode(), np.uint8)[np.arange(1 << 16)[:, None] >> (12, 8, 4, 0) & 15]
    # 23 bits after the point and a bias of 127; the smallest exponent stands for numbers without the leading bit, too.
    tails = [f"{digit}p{max(exponent, 1) - 150}," for exponent in range(256) for digit in digits]
    return np.array(heads, "S4").view("u4"), middles.view("u4").ravel(), np.array(tails, "S8").view("u8")


def vector_texts(vectors: Sequence[Vectors]) -> list[str]:
    """Return (dimensions,) arrays as `vector_text` does, but with the very bits of each float32, in hexadecimal.

    This form is for parameters of statements, which nobody reads. It takes a fifth of the time: the digits are looked up.
    """
    texts = []
    for place in range(0, len(vectors), _SLICE):
        texts += _hexadecimal([np.asarray(vector, np.float32) for vector in vectors[place : place + _SLICE]])
    return texts


def _hexadecimal(vectors: list[Vectors]) -> list[str]:
    bits = np.stack(vectors).view(np.uint32)
    heads, middles, tails = _digits()
    is_nonzero = bits != 0
    exponents = bits >> 23 & 0xFF
    words = np.empty((*bits.shape, 2), np.uint64)
    halves = words.view(np.uint32)
    halves[:, :, 0] = heads[bits >> 31 << 4 | (exponents > 0).astype(np.uint32) << 3 | bits >> 20 & 7]
    halves[:, :, 1] = middles[bits >> 4 & 0xFFFF]
    words[:, :, 0] *= is_nonzero
    words[:, :, 1] = np.where(is_nonzero, tails[exponents << 4 | bits & 0xF], _ZERO)
    return [f"[{row.tobytes().translate(None, _PADDING)[:-1].decode('ascii')}]" for row in words]
