"""The SQLAlchemy models, made of the catalog of a database with the extension. After a change of tables or views:

WRITE_MODELS=1 ./test tests/sql/test_generated_models.py
"""

import os
import subprocess
import sys
import textwrap
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from tests.runtime.cluster import Database

MODELS = Path(__file__).parents[2] / "python/pg_graphrag/integrations/models/__init__.py"
COMMAND = "WRITE_MODELS=1 ./test tests/sql/test_generated_models.py"

# Relations that no application maps: counters of merges, revisions, the queue, and what feeds it;
_PRIVATE = {"entity_values", "relationship_values", "jobs", "attached_tables", "corpus_revisions", "curated"}
# states, what was given to whom, which granted_corpora tells each role of itself, where corpora are, and what monitoring reads;
_PRIVATE |= {"community_states", "corpus_grants", "metrics", "nodes", "placements", "workers"}
# the owner's own: models, what they said and cost, what was asked, and how good the answers were;
_PRIVATE |= {"providers", "provider_state", "llm_cache", "llm_calls", "llm_batches", "llm_batch_requests", "query_log"}
# and what is kept of an import.
_PRIVATE |= {"answer_feedback", "imported_extractions", "imported_communities"}
# Names of classes that are not the singular of the relation's.
_CLASSES = {
    "aliases": "Alias",
    "llm_usage": "ModelUsage",
    "llm_usage_by_role": "RoleUsage",
    "progress": "IndexingProgress",
    "query_stats": "QueryStats",
    "versions": "DocumentVersion",
}
# Of relations without a primary key. Of views the catalog does not know either what can be null.
_KEYS = {
    "budgets": "corpus",
    "community_entities": "community_id entity_id",
    "community_overview": "community_id",
    "document_coverage": "document_id",
    "entity_attributes": "entity_id attribute value",
    "entity_mention_vectors": "space_id mention_id",
    "entity_timeline": "entity_id day",
    "entity_vectors": "space_id entity_id",
    "failed_jobs": "job_id",
    "granted_corpora": "corpus_id level",
    "graph_claims": "claim_id",
    "graph_edges": "relationship_id",
    "graph_growth": "corpus day",
    "graph_mentions": "entity_id chunk_id",
    "graph_nodes": "entity_id",
    "llm_usage": "corpus purpose model day",
    "llm_usage_by_role": "corpus role month",
    "progress": "corpus",
    "query_stats": "corpus mode",
    "relationship_mention_vectors": "space_id mention_id",
    "unfit_extractions": "chunk_id kind item",
    "versions": "document_id",
    "window_vectors": "space_id window_id",
}
_NULLABLE = {
    "budgets": "budget metered",
    "community_overview": "parent_id title summary rating model written_at",
    "document_coverage": "title error indexed_at retracted_at retraction_reason",
    "failed_jobs": "document_id source_key last_error",
    "graph_claims": "subject_id object_id object start_date end_date source_text",
    "graph_edges": "pmi strength",
    "graph_mentions": "attributes title",
    "graph_nodes": "community_id community community_ids",
    "llm_usage_by_role": "role metered",
    "progress": "oldest_pending waiting_until waiting_for reembedded replication_lag embedding embedding_advice",
    "query_stats": "mean_entities mean_relationships",
    "versions": "valid_from valid_to title",
}
_TYPES = {
    "bigint": "BigInt",
    "bigint[]": "BigInts",
    "boolean": "bool",
    "bytea": "bytes",
    "date": "date",
    "double precision": "float",
    "integer": "int",
    "integer[]": "list[int]",
    "interval": "timedelta",
    "jsonb": "Json",
    "name": "PgName",
    "numeric": "Decimal",
    "text": "str",
    "text[]": "list[str]",
    "timestamp with time zone": "datetime",
    "tsvector": "Lexemes",
    "vector": "Embedding",
}
# What applications write, and which columns triggers fill there; those of _RENEWED at each UPDATE.
_WRITTEN = {"corpora": set[str](), "documents": {"corpus_id", "source_key", "content_hash"}}
_RENEWED = {"content_hash", "updated_at"}


class Link(NamedTuple):
    """Rows of `table` point to one of `to` by `column`: `one` there is that row, `many` what points to it."""

    table: str
    column: str
    to: str
    one: str = ""
    many: str = ""
    is_optional: bool = False


_LINKS = (
    Link("chunk_windows", "chunk_id", "chunks", many="windows"),
    Link("chunks", "document_id", "documents", "document", "chunks", is_optional=True),
    Link("claims", "chunk_id", "chunks", "chunk"),
    Link("community_members", "community_id", "communities", many="members"),
    Link("community_members", "entity_id", "entities", "entity"),
    # At most one of a community.
    Link("community_reports", "community_id", "communities", many="report"),
    Link("entity_mentions", "entity_id", "entities", "entity", "mentions", is_optional=True),
    Link("entity_mentions", "chunk_id", "chunks", "chunk"),
    Link("relationships", "source_id", "entities", "source"),
    Link("relationships", "target_id", "entities", "target"),
    Link("relationship_mentions", "relationship_id", "relationships", "relationship", "mentions", is_optional=True),
    Link("relationship_mentions", "chunk_id", "chunks", "chunk"),
)

_CATALOG = """
SELECT c.relname::text, pg_catalog.obj_description(c.oid, 'pg_class'), c.relkind = 'v', a.attname::text,
       pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity <> '', a.atthasdef,
       CASE WHEN a.attgenerated <> '' THEN pg_catalog.pg_get_expr(d.adbin, d.adrelid) END,
       coalesce(o.collname = 'C' AND a.attcollation <> t.typcollation, false),
       EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND a.attnum = ANY (i.indkey)),
       EXISTS (SELECT FROM pg_catalog.pg_index i
                WHERE i.indrelid = c.oid AND i.indisunique AND NOT i.indisprimary AND i.indpred IS NULL
                  AND i.indkey::text = a.attnum::text)
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_catalog.pg_collation o ON o.oid = a.attcollation
  LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
 WHERE c.relnamespace = 'graphrag'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition
   AND c.relname !~ '^(_|bm25_)' AND c.relname <> ALL (%s)
 ORDER BY c.relname, a.attnum
"""


class Column(NamedTuple):
    """A column, as `_CATALOG` gives it."""

    table: str
    comment: str
    is_view: bool
    name: str
    type: str
    is_required: bool
    is_identity: bool
    has_default: bool
    expression: str | None
    is_c_collated: bool
    is_key: bool
    is_unique: bool


def models(db: Database) -> str:
    """Return what `MODELS` has to be.

    Raises
    ------
    KeyError
        For a type that is not in `_TYPES`.
    """
    columns_by_table: dict[str, list[Column]] = defaultdict(list)
    for row in db.execute(_CATALOG, [sorted(_PRIVATE)]).fetchall():
        columns_by_table[row[0]].append(Column(*row))
    classes = sorted((_class_of(table), columns) for table, columns in columns_by_table.items())
    text = "\n\n".join([_HEADER, *(_model(name, columns) for name, columns in classes), _NAMES])
    for command in (["check", "--quiet", "--select", "I,F401", "--fix"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(MODELS.with_name("models.py")), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, encoding="utf-8", check=True).stdout
    return text


_HEADER = f'''# Generated from the catalog by `{COMMAND}`; do not edit.
"""SQLAlchemy models of the public tables and views of schema ``graphrag``, for applications that map their database.

Applications write `Document` only; everything else is derived from documents and read. The extension owns the tables:
keep alembic away from them with `pg_graphrag.integrations.alembic`.
"""

from datetime import date, datetime, timedelta
from decimal import Decimal
from sqlalchemy import Computed, FetchedValue, Identity
from sqlalchemy.orm import Mapped, foreign, mapped_column, remote
from pg_graphrag.integrations.models.mapped_base import (
    Base as Base, BigInt, BigIntKey, BigInts, Embedding, Json, Key, Lexemes, PgName, linked
)
'''


_NAMES = '__all__ = sorted(["Base", *(mapper.class_.__name__ for mapper in Base.registry.mappers)])'


def _class_of(table: str) -> str:
    if table in _CLASSES:
        return _CLASSES[table]
    for plural, singular in (("ies", "y"), ("corpora", "corpus"), ("s", "")):
        if table.endswith(plural):
            table = table.removesuffix(plural) + singular
            break
    return "".join(part.capitalize() for part in table.split("_"))


def _model(name: str, columns: list[Column]) -> str:
    table = columns[0].table
    comment = f"View. {columns[0].comment}" if columns[0].is_view else columns[0].comment
    lines = [f"class {name}(Base):", *_docstring(comment.rstrip(".") + "."), f'    __tablename__ = "{table}"\n']
    lines += [f"    {_column(column)}" for column in columns]
    links = [_link(link, table) for link in _LINKS]
    return "\n".join([*lines, "", *(f"    {link}" for link in links if link)])


def _docstring(text: str) -> list[str]:
    first, *more = textwrap.wrap(text, 112)
    if not more:
        return [f'    """{first}"""\n']
    return [f'    """{first}', *(f"    {line}" for line in more), '    """\n']


def _column(column: Column) -> str:
    is_key = column.is_key or column.name in _KEYS.get(column.table, "").split()
    nullable = _NULLABLE.get(column.table, "").split()
    is_optional = column.name in nullable if column.is_view else not column.is_required
    type_ = "Key" if column.is_c_collated else _TYPES[column.type]
    arguments = []
    if is_key and column.is_identity and type_ == "BigInt":
        type_ = "BigIntKey"
    else:
        arguments += ["Identity(always=False)"] * column.is_identity + ["primary_key=True"] * is_key
    if column.expression is not None:
        arguments.append(f"Computed({column.expression!r}, persisted=True)")
    elif column.table in _WRITTEN and (column.has_default or column.name in _WRITTEN[column.table]):
        arguments.append("server_default=FetchedValue()")
        arguments += ["server_onupdate=FetchedValue()"] * (column.name in _RENEWED)
    arguments += ["unique=True"] * column.is_unique
    attribute = column.name
    if attribute == "metadata":  # SQLAlchemy has an attribute of that name
        attribute = "metadata_"
        arguments.insert(0, '"metadata"')
    annotation = f"{attribute}: Mapped[{type_}{' | None' * is_optional}]"
    return f"{annotation} = mapped_column({', '.join(arguments)})" if arguments else annotation


def _link(link: Link, table: str) -> str:
    """Return the attribute that a link makes in the class of a table, if it makes one."""
    pointing, target = _class_of(link.table), _class_of(link.to)
    order = ""
    if table == link.table and link.one:
        attribute, other = link.one, link.many
        annotation = f'"{target}{" | None" * link.is_optional}"'
        join = f"foreign({pointing}.{link.column}) == remote({target}.id)"
    elif table == link.to and link.many:
        attribute, other = link.many, link.one
        annotation = f'list["{pointing}"]' if attribute.endswith("s") else f'"{pointing} | None"'
        join = f"{target}.id == foreign(remote({pointing}.{link.column}))"
        if attribute in ("chunks", "windows"):
            order = f", order_by=lambda: {pointing}.ordinal"
    else:
        return ""
    back = f', back_populates="{other}"' if other else ""
    return f"{attribute}: Mapped[{annotation}] = linked(lambda: {join}{order}{back})"


def test_the_models_are_made_of_the_catalog(module_db: Database) -> None:
    made = models(module_db)
    if os.environ.get("WRITE_MODELS"):
        MODELS.write_text(made, encoding="utf-8")
    assert MODELS.read_text(encoding="utf-8") == made, f"run {COMMAND}"
