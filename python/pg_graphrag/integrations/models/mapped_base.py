"""The base of the models, and types of columns."""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, ClassVar

from pgvector.sqlalchemy import Vector
from sqlalchemy import BigInteger, Date, DateTime, Double, Identity, Integer, Interval, MetaData, Numeric, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TSVECTOR
from sqlalchemy.orm import DeclarativeBase, mapped_column, relationship
from sqlalchemy.types import UserDefinedType

BigInt = Annotated[int, mapped_column(BigInteger)]
BigIntKey = Annotated[int, mapped_column(BigInteger, Identity(always=False), primary_key=True)]
BigInts = Annotated[list[int], mapped_column(ARRAY(BigInteger))]
Embedding = Annotated[Any, mapped_column(Vector(), nullable=False)]
Json = dict[str, Any]
Key = Annotated[str, mapped_column(Text(collation="C"))]
Lexemes = Annotated[str, mapped_column(TSVECTOR)]


class Name(UserDefinedType[str]):
    """PostgreSQL's ``name``: an identifier of at most 63 bytes."""

    cache_ok = True

    def get_col_spec(self, **kw: Any) -> str:
        """Return the type's name in SQL."""
        return "name"


PgName = Annotated[str, mapped_column(Name())]


def linked(condition: Callable[[], Any], **options: Any) -> Any:
    """Return a relationship to read from; `condition` returns the join condition."""
    return relationship(primaryjoin=condition, viewonly=True, **options)


class Base(DeclarativeBase):
    """Base of the models; its metadata holds schema ``graphrag`` and nothing else."""

    metadata = MetaData(schema="graphrag")
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        str: Text(),
        int: Integer(),
        float: Double(),
        Decimal: Numeric(),
        date: Date(),
        datetime: DateTime(timezone=True),
        timedelta: Interval(),
        Json: JSONB(),
        list[str]: ARRAY(Text()),
        list[int]: ARRAY(Integer()),
    }
