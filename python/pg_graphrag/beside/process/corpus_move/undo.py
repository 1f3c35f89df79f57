"""Takes a move back. After its end this is possible only if the target has not changed since."""

from collections import Counter
from contextlib import suppress
from typing import Any

import psycopg

from pg_graphrag.beside.process.copying import prepare
from pg_graphrag.beside.process.corpus_copy.both_sides import transaction
from pg_graphrag.beside.process.corpus_move.marks import mark_of, place
from pg_graphrag.beside.process.corpus_move.switch import drop, freeze, thaw
from pg_graphrag.ground.errors import GraphRAGError

# Tables that people and applications write, without row numbers and columns that workers fill.
_WRITTEN = {
    "documents": """
        SELECT ROW (d.corpus, d.source_key, d.title, graphrag._content_hash(d.title, d.content), d.metadata, d.created_at,
                    d.updated_at, d.valid_from, d.valid_to, d.retracted_at, d.retraction_reason)
          FROM graphrag.documents d WHERE d.corpus_id = ANY (%(corpora)s)""",
    "pictures": """
        SELECT ROW (d.corpus, d.source_key, p.place, p.page, p.is_page, pg_catalog.sha256(p.content), p.alternative_text,
                    p.caption, p.recognised_text)
          FROM graphrag.pictures p JOIN graphrag.documents d ON d.id = p.document_id WHERE p.corpus_id = ANY (%(corpora)s)""",
    "curations": """
        SELECT ROW (x.kind, x.arguments, x.made_by, x.made_at, x.undone_by, x.undone_at)
          FROM graphrag.curations x WHERE x.corpus_id = ANY (%(corpora)s)""",
    "verdicts": """
        SELECT ROW (x.at, x.role, x.author, x.question, x.verdict, x.evidence, x.answer, x.mode, x.comment)
          FROM graphrag.answer_feedback x WHERE x.corpus_id = ANY (%(corpora)s)""",
    "questions of the log": """
        SELECT ROW (x.at, x.caller, x.question, x.kind, x.mode)
          FROM graphrag.query_log x WHERE x.corpus_id = ANY (%(corpora)s)""",
    "requests to models": """
        SELECT ROW (x.at, x.role, x.purpose, x.model, x.tokens_in, x.tokens_out)
          FROM graphrag.llm_calls x WHERE x.corpus_id = ANY (%(corpora)s)""",
    "grants": """
        SELECT ROW (c.name, g.role, g.level)
          FROM graphrag.corpus_grants g JOIN graphrag.corpora c ON c.id = g.corpus_id WHERE c.id = ANY (%(corpora)s)
           AND EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE (r.oid, r.rolname) = (g.role_oid, g.role))""",
    # Providers may have other names, and a plain schema has no graph.
    "options or conditions": """
        SELECT ROW (c.name, pg_catalog.regexp_replace((c.options - 'cypher')::text, '"provider": "[^"]*"', '', 'g'), c.protection)
          FROM graphrag.corpora c WHERE c.id = ANY (%(corpora)s)""",
}
_WITH_HISTORY = """
SELECT c.id FROM graphrag.corpora c WHERE c.name = %(name)s
 UNION ALL
SELECT h.history_id FROM graphrag._histories h JOIN graphrag.corpora c ON c.id = h.corpus_id WHERE c.name = %(name)s
"""
# Settings that decide how values are shown, the same in both.
_SETTINGS = {"TimeZone": "UTC", "DateStyle": "ISO, MDY", "extra_float_digits": "1", "bytea_output": "hex"}


def undo_move(
    source: psycopg.Connection[Any], target: psycopg.Connection[Any] | None, name: str, *, force: bool = False
) -> None:
    """Make the source readable and writable as before the move, and drop the corpus in the target.

    `target`: None, with `force`: it cannot be reached; its rows stay there.
    `force`: also if the target was changed since: those changes are lost.

    Raises GraphRAGError: 42704 for an unknown corpus, 55000 if it does not move to this target, or if changes in the target
      would be lost. The target accepts writes as before then.
    """
    with transaction(source) as cursor:
        prepare(cursor)
        here = mark_of(cursor, name)
    if here is None or here.state == "arriving":
        raise GraphRAGError(
            f'corpus "{name}" does not move from database "{source.info.dbname}"',
            sqlstate="42704",
            hint="Give the database where it was as --url, and where it moves as --to.",
        )
    if target is None:
        if not force:
            hint = "With --force it is taken back all the same: what was written there since is lost."
            raise GraphRAGError("the target cannot be asked", sqlstate="55000", hint=hint)
        thaw(source, None, name, here.number)
        return
    if here.move is not None and here.move["place"] != place(target):
        raise GraphRAGError(
            f'corpus "{name}" is {"moving to" if here.state == "moving" else "at"} {here.move["place"]}',
            sqlstate="55000",
            hint="Give that database.",
        )
    with transaction(target) as cursor:
        prepare(cursor)
        # A round that is under way is waited for.
        cursor.execute("LOCK TABLE graphrag.corpora IN SHARE UPDATE EXCLUSIVE MODE")
        there = mark_of(cursor, name)
    is_ours = (
        there is not None
        and there.move is not None
        and there.created_at == here.created_at
        and (
            (there.state == "arriving" and there.move["place"] == place(source))
            or (there.state == "moving" and there.goes_to(source, here.number))
        )
    )
    if here.move is None and not is_ours:
        hint = "The column move of graphrag.corpora says what moves."
        raise GraphRAGError(f'corpus "{name}" does not move', sqlstate="55000", hint=hint)
    if there is None or there.created_at != here.created_at:
        if not force:
            hint = "Where it was dropped there: with --force it is read and written here as it was."
            raise GraphRAGError(f'corpus "{name}" is no more at {place(target)}', sqlstate="55000", hint=hint)
        thaw(source, target, name, here.number)
        return
    if here.move is not None and there.state != "arriving":
        freeze(target, source, name, there.number, here.number)
        try:
            changes = _changes(source, target, name)
            if changes and not force:
                raise GraphRAGError(
                    f'corpus "{name}" was changed at {place(target)} since it is there: {", ".join(changes)}',
                    sqlstate="55000",
                    hint="drop_corpus() in the source, and move it there, keep that; --force takes the move back without it.",
                )
        except BaseException:
            with suppress(GraphRAGError, psycopg.Error):
                thaw(target, source, name, there.number)
            raise
    thaw(source, target, name, here.number)
    drop(target, name, source)


def _changes(source: psycopg.Connection[Any], target: psycopg.Connection[Any], name: str) -> list[str]:
    """Return the counted differences of both."""
    here, there = (_written(connection, name) for connection in (source, target))
    numbers = {kind: ((here[kind] - there[kind]) + (there[kind] - here[kind])).total() for kind in _WRITTEN}
    return [f"{number} {kind}" for kind, number in numbers.items() if number]


def _written(connection: psycopg.Connection[Any], name: str) -> dict[str, Counter[str]]:
    """Return the digests of the written rows, by kind."""
    with transaction(connection) as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        prepare(cursor)
        cursor.execute("SET LOCAL row_security = off")
        for setting, value in _SETTINGS.items():
            cursor.execute("SELECT pg_catalog.set_config(%s, %s, true)", [setting, value])
        corpora = [row[0] for row in cursor.execute(_WITH_HISTORY, {"name": name}).fetchall()]
        return {
            kind: Counter(
                row[0]
                for row in cursor.execute(
                    f"SELECT pg_catalog.md5(w.line::text) FROM ({rows}) AS w (line)".encode(), {"corpora": corpora}
                )
            )
            for kind, rows in _WRITTEN.items()
        }
