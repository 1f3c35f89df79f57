"""What the BM25 tests share: chunks made directly, the engine as a SQL function, a plain reference of the formula."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

Connection = psycopg.Connection[tuple[Any, ...]]

# STABLE, as graphrag.search is: every statement inside has the snapshot of the calling query.
FUNCTIONS = """
CREATE FUNCTION public.bm25_call(method text, corpus_id int, kind text, terms jsonb, options jsonb)
    RETURNS jsonb LANGUAGE plpython3u STABLE AS $$
import json
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.index.bm25 import BM25Index, scoring
from pg_graphrag.server import database
import numpy as np
given = json.loads(options)
scoring.FEW_ITEMS = given.pop("few_items", scoring.FEW_ITEMS)
given |= {key: np.array(given[key], np.int64) for key in ("documents", "item_ids") if given.get(key) is not None}
arguments = [] if method == "statistics" else [json.loads(terms)]
try:
    result = getattr(BM25Index(database(plpy), corpus_id, kind), method)(*arguments, **given)
except GraphRAGError as error:
    plpy.error(error.message, sqlstate=error.sqlstate, hint=error.hint)
# JSON numbers are the floats exactly; NaN, which JSON has not, becomes null.
return json.dumps(result, default=lambda array: [None if value != value else value for value in array.tolist()])
$$;
"""


class Engine:
    """The BM25Index of one corpus and kind, run in the server."""

    def __init__(self, connection: Connection, corpus_id: int = 1, kind: str = "chunk", function: str = "bm25_call"):
        self.connection = connection
        self.corpus_id = corpus_id
        self.kind = kind
        self.function = function

    def _call(self, method: str, terms: Any, **options: Any) -> Any:
        row = self.connection.execute(
            f"SELECT public.{self.function}(%s, %s, %s, %s, %s)",
            [method, self.corpus_id, self.kind, json.dumps(terms), json.dumps(options)],
        ).fetchone()
        assert row is not None
        return row[0]

    def search(self, terms: Sequence[str] | Mapping[str, float], limit: int, **options: Any) -> list[tuple[int, float]]:
        """Search, leaving out items that cannot be among the best; all at once gives the same, to the bit."""
        items, scores = self._call("search", terms, limit=limit, few_items=0, **options)
        if self.function == "bm25_call":  # else others may change the index from one statement to the next
            assert self._call("search", terms, limit=limit, few_items=1_000_000, **options) == [items, scores]
        return list(zip(items, scores, strict=True))

    def matching(self, terms: Sequence[str], **options: Any) -> list[tuple[int, float]]:
        items, scores = self._call("matching", terms, **options)
        return list(zip(items, scores, strict=True))

    def score_items(self, terms: Sequence[str], item_ids: Sequence[int], **options: Any) -> list[float | None]:
        return list(self._call("score_items", terms, item_ids=item_ids, **options))

    def statistics(self) -> tuple[int, float]:
        count, mean = self._call("statistics", None)
        return count, mean

    def document_frequencies(self, terms: Sequence[str]) -> dict[str, int]:
        return dict(self._call("document_frequencies", terms))


def install(connection: Connection) -> Connection:
    """Make the functions that `Engine` calls, and corpora 1 and 2."""
    connection.execute(FUNCTIONS)
    connection.execute(
        "INSERT INTO graphrag.corpora (id, name, tokenizer, tokenizer_fingerprint)"
        " VALUES (1, 'one', 'test', 'test'), (2, 'two', 'test', 'test')"
    )
    return connection


def add_chunks(
    connection: Connection, texts: Iterable[Mapping[str, int]], corpus_id: int = 1, per_document: int = 2
) -> list[int]:
    """Insert chunks of given {lexeme: frequency}, some to a document; return their ids. Runs in one transaction."""
    ids: list[int] = []
    with connection.transaction():
        for number, text in enumerate(texts):
            if number % per_document == 0:
                row = connection.execute("SELECT nextval('graphrag.documents_id_seq')").fetchone()
                assert row is not None
                document_id = row[0]
            words = " ".join(f"{quoted(lexeme)}:{positions(tf)}" for lexeme, tf in text.items())
            overflow = {lexeme: tf for lexeme, tf in text.items() if tf > 255}
            row = connection.execute(
                "INSERT INTO graphrag.chunks (corpus_id, document_id, ordinal, start_offset, own_offset, end_offset,"
                " language, content, token_count, tsv, tf_overflow)"
                " VALUES (%s, %s, %s, 0, 0, 0, 'en', '', 0, %s::tsvector, %s) RETURNING id",
                [corpus_id, document_id, number, words, json.dumps(overflow) if overflow else None],
            ).fetchone()
            assert row is not None
            ids.append(row[0])
            connection.execute("SELECT graphrag._bm25_add(%s, 'chunk', %s, %s)", [corpus_id, [row[0]], [document_id]])
    return ids


def remove_chunks(connection: Connection, ids: Sequence[int], corpus_id: int = 1) -> None:
    """Delete chunks, as the write step does."""
    with connection.transaction():
        connection.execute("SELECT graphrag._bm25_remove(%s, 'chunk', %s)", [corpus_id, list(ids)])
        connection.execute("DELETE FROM graphrag.chunks WHERE id = ANY (%s)", [list(ids)])


def quoted(lexeme: str) -> str:
    """A lexeme as the input syntax of tsvector has it."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def positions(tf: int) -> str:
    """As many positions as a tsvector holds."""
    return ",".join(str(position) for position in range(1, min(tf, 255) + 1))


def optimize(connection: Connection, corpus: str = "one") -> dict[str, int]:
    """graphrag.optimize(), what it says of BM25."""
    row = connection.execute("SELECT graphrag.optimize(%s)", [corpus]).fetchone()
    assert row is not None
    return {name: value for name, value in row[0].items() if name not in ("vector_indexes", "pruned")}


@dataclass
class Reference:
    """BM25 as the textbook has it, over {id: Counter}."""

    items: dict[int, Counter[str]] = field(default_factory=dict)
    documents: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, connection: Connection, corpus_id: int = 1) -> Reference:
        """Read the chunks as they are."""
        reference = cls()
        for chunk_id, document_id, words, overflow in connection.execute(
            "SELECT c.id, c.document_id, (SELECT coalesce(jsonb_object_agg(lexeme, cardinality(positions)), '{}')"
            " FROM unnest(c.tsv)), c.tf_overflow FROM graphrag.chunks c WHERE c.corpus_id = %s",
            [corpus_id],
        ):
            reference.items[chunk_id] = Counter({**words, **(overflow or {})})
            reference.documents[chunk_id] = document_id
        return reference

    @property
    def mean(self) -> float:
        return sum(item.total() for item in self.items.values()) / len(self.items) if self.items else 0.0

    def df(self, term: str) -> int:
        return sum(term in item for item in self.items.values())

    def scores(
        self, weights: Mapping[str, float], idf: str = "lucene", k1: float = 1.5, b: float = 0.75
    ) -> dict[int, float]:
        """Scores of the items that have one of the terms."""
        count, mean = len(self.items), self.mean
        totals: dict[int, float] = {}
        for term in weights:
            df = self.df(term)
            ratio = (count - df + 0.5) / (df + 0.5)
            idfs = {
                "lucene": lambda r=ratio: math.log(1 + r),
                "robertson": lambda r=ratio: math.log(r),
                "robertson_clipped": lambda r=ratio: max(math.log(r), 0.0),
            }
            for item_id, item in self.items.items():
                if tf := item[term]:
                    norm = k1 * (1 - b + b * item.total() / mean)
                    share = weights[term] * idfs[idf]() * tf * (k1 + 1) / (tf + norm)
                    totals[item_id] = totals.get(item_id, 0.0) + share
        return totals

    def assert_same(
        self, engine: Engine, terms: Sequence[str], limit: int, documents: list[int] | None = None, **options: Any
    ) -> None:
        """Compare a search with the reference: the same items, ties with the last one included, and the same scores."""
        expected = self.scores(Counter(terms), **options)
        if documents is not None:
            expected = {item: score for item, score in expected.items() if self.documents[item] in documents}
        got = engine.search(terms, limit, documents=documents, **options)
        ranked = sorted(expected.values(), reverse=True)
        scores = dict(got)
        assert len(scores) == len(got)
        for item, score in got:
            assert math.isclose(score, expected[item], rel_tol=1e-11, abs_tol=1e-11), (item, score, expected[item])
        assert [score for _, score in got] == sorted(scores.values(), reverse=True)
        if limit < len(ranked):
            last = ranked[limit - 1] if limit else math.inf
            # Nothing clearly above the last place may be missing, nothing clearly below may be there.
            assert {i for i, s in expected.items() if s > last + 1e-9} <= set(scores)
            assert set(scores) <= {i for i, s in expected.items() if s > last - 1e-9}
            ties = {i for i in expected if limit and same_terms(self, i, got[limit - 1][0], terms)}
            assert ties <= set(scores), "an item with the very same counts and length as the last one is missing"
        else:
            assert set(scores) == set(expected)


def same_terms(reference: Reference, item: int, other: int, terms: Sequence[str]) -> bool:
    """Whether two items cannot but score the same."""
    a, b = reference.items[item], reference.items[other]
    return a.total() == b.total() and all(a[term] == b[term] for term in terms)
