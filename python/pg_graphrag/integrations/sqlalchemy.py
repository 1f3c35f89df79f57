"""SQLAlchemy (extra ``sqlalchemy``): searches as selectables, to be joined with an application's own tables.

They call the functions of the extension in the statement that they are part of. A database without the extension has no such
functions: there ask `GraphRAG`, and take the keys that it finds.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Integer,
    Numeric,
    Select,
    Text,
    cast,
    column,
    func,
    literal,
    null,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.sql.expression import ColumnElement, TableValuedAlias


def search(
    query: Any,
    corpus: str = "default",
    *,
    mode: str = "hybrid",
    top_k: int = 10,
    filter: Mapping[str, Any] | None = None,
    low_level_keywords: Sequence[str] | None = None,
    high_level_keywords: Sequence[str] | None = None,
    **options: Any,
) -> TableValuedAlias:
    """Return ``graphrag.search`` as a selectable of rank, chunk_id, document_id, source_key, title, content, score, explain.

    `query` (str or SQL expression): the question. The others are as in `GraphRAG.search`.
    """
    call = func.graphrag.search(
        cast(query, Text),
        corpus,
        mode,
        top_k,
        _jsonb(filter),
        _words(low_level_keywords),
        _words(high_level_keywords),
        _jsonb(options),
    )
    return call.table_valued(
        column("rank", Integer),
        column("chunk_id", BigInteger),
        column("document_id", BigInteger),
        column("source_key", Text),
        column("title", Text),
        column("content", Text),
        column("score", Double),
        column("explain", JSONB),
        name="found",
    )


def search_entities(
    query: Any,
    corpus: str = "default",
    *,
    top_k: int = 10,
    filter: Mapping[str, Any] | None = None,
    low_level_keywords: Sequence[str] | None = None,
) -> TableValuedAlias:
    """Return ``graphrag.search_entities`` as a selectable of rank, entity_id, name, type, description, degree, score, explain."""
    call = func.graphrag.search_entities(cast(query, Text), corpus, top_k, _jsonb(filter), _words(low_level_keywords))
    return call.table_valued(
        column("rank", Integer),
        column("entity_id", BigInteger),
        column("name", Text),
        column("type", Text),
        column("description", Text),
        column("degree", Integer),
        column("score", Double),
        column("explain", JSONB),
        name="found_entities",
    )


def neighbors(entity: Any, corpus: str = "default", hops: int = 1) -> TableValuedAlias:
    """Return ``graphrag.neighbors`` as a selectable of hop, entity_id, name, type, description, degree, relationship_id,
    relationship, keywords, weight, path."""
    return func.graphrag.neighbors(cast(entity, Text), corpus, hops).table_valued(
        column("hop", Integer),
        column("entity_id", BigInteger),
        column("name", Text),
        column("type", Text),
        column("description", Text),
        column("degree", Integer),
        column("relationship_id", BigInteger),
        column("relationship", Text),
        column("keywords", ARRAY(Text)),
        column("weight", Numeric),
        column("path", ARRAY(Text)),
        name="near",
    )


def select_found(
    key: InstrumentedAttribute[Any] | Column[Any], query: Any, *, key_prefix: str = "", **arguments: Any
) -> Select[Any]:
    """Return a SELECT of the model or table of `key` with rank, score and content of the best chunk of each row, best
    first.

    Conditions on the model (``where()``) leave out some of the rows that were found. Use `filter` to restrict the search
    itself, so that there are `top_k` chunks.

    `key` (mapped attribute, or column): the key column by which the table is attached: ``Article.id``, or
      ``articles.c.id``.
    `key_prefix`: the option key_prefix of its attachment.
    `arguments`: those of `search`; `top_k` counts chunks.
    """
    if key_prefix:
        # Documents that are no rows take no places.
        of_rows = {"$source_key": {"$prefix": key_prefix}}
        arguments["filter"] = {"$and": [arguments["filter"], of_rows]} if arguments.get("filter") else of_rows
    hits = search(query, **arguments)
    place = func.row_number().over(partition_by=hits.c.source_key, order_by=hits.c.rank)
    chunks = select(hits.c.source_key, hits.c.rank, hits.c.score, hits.c.content, place.label("place")).subquery(
        "chunks"
    )
    best = select(chunks).where(chunks.c.place == 1).subquery("best")
    own_key: ColumnElement[str] = literal(key_prefix, Text) + cast(key, Text)
    return (
        select(getattr(key, "class_", key.table), best.c.rank, best.c.score, best.c.content)
        .join(best, best.c.source_key == own_key)
        .order_by(best.c.rank)
    )


def _jsonb(value: Mapping[str, Any] | None) -> ColumnElement[Any]:
    # The server refuses a filter that is no object: [] restricts nothing, but was meant to.
    return cast(
        null() if value is None else literal(dict(value) if isinstance(value, Mapping) else value, JSONB), JSONB
    )


def _words(value: Sequence[str] | None) -> ColumnElement[Any]:
    words = [value] if isinstance(value, str) else value
    return cast(null() if words is None else literal(list(words), ARRAY(Text)), ARRAY(Text))
