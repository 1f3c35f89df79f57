"""Tests of the server's SQL on the second host: statements as they are, their calls of Python functions served by this process.

With ``PG_GRAPHRAG_TEST_HOST=process`` the databases of tests have the plain schema, whose owner is no superuser. A statement
such as ``SELECT … FROM graphrag.search('x')`` has its arguments computed by the database and the function called by the
process, as the session's role; a temporary function of the same name then returns what that gave. `CANNOT` names the tests
that this cannot serve.
"""

import json
import os
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any, LiteralString, cast
from urllib.parse import urlsplit

import psycopg
import pytest
from pg_graphrag.beside.client import hosts
from pg_graphrag.beside.process import schema
from pg_graphrag.beside.process.routines import Routine, find, routines
from psycopg import sql

IS_BESIDE = os.environ.get("PG_GRAPHRAG_TEST_HOST") == "process"

# Owns the plain schema: no superuser, and nothing but what it needs.
OWNER = "plain_owner"
ROLES = (
    "CREATE ROLE graphrag_member NOLOGIN",
    "CREATE ROLE graphrag_reader NOLOGIN IN ROLE graphrag_member",
    "CREATE ROLE graphrag_writer NOLOGIN IN ROLE graphrag_member",
    f"CREATE ROLE {OWNER} LOGIN PASSWORD '{OWNER}'",
)

_AGE = "Apache AGE is not there"
_PLPYTHON = "the test itself runs PL/Python in the server"
_TRANSACTION = "a call is no part of a transaction of its caller"
_PLAN = "a call is no part of a plan of the server"
_CURSOR = "a cursor of the server, or a statement's timeout, is no part of a call"
_TURNS = "calls of one process take turns, also while one waits for a model or a lock"
_CALLER = "who calls is the schema's owner, and not the superuser of the test"
_LIBRARY = "another library sends the functions in its own SQL"
_MONITOR = "acts as pg_monitor, which the owner is no member of"
_REPLICA = "only superusers set session_replication_role"
_ISOLATION = "a call of a process says itself which isolation it has"
_CONDITION = "a call that a condition of its statement leaves out"
_COLUMNS = "a call whose arguments are columns of its statement"
_WORKER = "looks in the server for the worker's CALL; test_worker_beside.py has the process'"
_OVERLOAD = "of two functions of one name, the types of unnamed arguments choose"
_WRAPPER = "a function in SQL that calls graphrag.search()"
_SUPERUSER = "a superuser's table is written by a trigger, or attached"
_SESSION = "what a session of the server remembers, or how it is cancelled; test_process_calls.py has the process'"
_EXTENSION = "of the extension as such, or of commands that manage a server"
_REFUSAL = "what PostgreSQL refuses a caller is its own error, without a hint of ours"
_EVENTS = "only superusers make event triggers: what DDL did shows at the next write"
# Test files, or tests of them, or these with their first parameter, that say nothing of a database without the extension; why.
CANNOT = {
    "test_real_model.py": _SESSION,
    "test_two_hosts.py": "compares both hosts itself",
    "test_old_statistics.py": _PLAN,
    "test_surface_plans.py": _PLAN,
    "test_process_calls.py": "is of this host in either case",
    "test_process_database.py": "is of this host in either case",
    "test_copy_between_hosts.py": "compares both hosts itself",
    "test_copy_corpus.py": "compares both hosts itself",
    "test_client_nodes.py": "has nodes of both hosts",
    "test_nodes_command.py": "makes databases; commands are those of either host",
    "test_serve_nodes.py": "makes databases; test_client_nodes.py has nodes of both hosts",
    "test_nodes.py::test_whoever_asks_for_a_corpus_of_another_node_is_told_which[rebuild_graph]": _AGE,
    "test_move_corpus.py": "compares both hosts itself",
    "test_move_interrupted.py": "compares both hosts itself",
    "test_worker_beside.py": "is of this host in either case",
    "test_corpora.py::test_a_drop_does_not_wait_for_a_readers_transaction_that_stays_open": "its tables are a superuser's",
    "test_forget.py::test_a_document_of_an_attached_table_is_refused": "its table is a superuser's",
    "test_forget.py::test_names_that_rows_bring_are_no_trace_of_their_namesake": "its table is a superuser's",
    "test_attach_changes.py::test_column_that_takes_the_place_of_another_is_read": _EVENTS,
    "test_attach_changes.py::test_values_that_are_written_anew_are_followed": _EVENTS,
    "test_attach_changes.py::test_what_cannot_be_followed_is_said_once_and_made_good[True-": _EVENTS,
    "test_attach_partitions.py::test_partitions_that_come_and_go_are_followed_after_a_pass[True-": _EVENTS,
    "test_attach_partitions.py::test_a_partition_that_left_is_the_applications_own[True]": _EVENTS,
    "test_attach_partitions.py::test_what_makes_writes_pass_by_is_said_and_made_good[True-": _EVENTS,
    "test_attach_partitions.py::test_an_empty_partition_is_attached_without_a_pass": _EVENTS,
    "test_attach_partitions.py::test_the_owner_is_told_to_bring_in_the_rows_of_a_new_partition": _EVENTS,
    "test_detach_table.py::test_dropped_column_is_said_with_the_way_out": _EVENTS,
    "test_attach_refusals.py::test_foreign_and_system_tables_are_refused": "a catalog is refused as a superuser's",
    "test_attach_existing_rows.py::test_backfill_by_an_old_snapshot_is_refused_with_a_way_out": _ISOLATION,
    "test_concurrency.py": _TURNS,
    "test_cli.py::test_an_idle_worker_ends_at_once": _WORKER,
    "test_cli.py::test_a_second_signal_ends_a_worker_whose_server_does_not_answer": _WORKER,
    "test_cli.py::test_a_worker_gives_up_when_the_extension_is_dropped": _WORKER,
    "test_cli.py::test_a_notification_wakes_an_idle_worker": _WORKER,
    "test_curation_calls.py::test_a_curation_is_recorded_with_who_and_when": _CALLER,
    "test_curation_calls.py::test_a_curation_waits_for_documents_that_are_being_written_without_deadlock": _TURNS,
    "test_extraction_interrupts.py::test_a_worker_that_waits_for_a_model_can_be_stopped": _CURSOR,
    "test_embedding_engine.py::test_a_session_with_the_engine_ends_cleanly": _SESSION,
    "test_filter_operators.py::test_dates_do_not_depend_on_the_settings_of_the_session": _CALLER,
    "test_filter_operators.py::test_a_temporary_relation_serves": "logs in as a reader, who has no process",
    "test_filter_operators.py::test_a_relation_is_read_under_the_row_level_security_of_the_caller": _CALLER,
    "test_waiting.py::test_health_names_what_needs_somebody": _MONITOR,
    "test_waiting.py::test_health_names_attached_tables_that_are_gone_or_lack_a_column": _SUPERUSER,
    "test_waiting.py::test_health_names_an_attached_table_as_soon_as_a_pass_failed": _MONITOR,
    "test_waiting.py::test_documents_of_a_dropped_table_go_though_a_pass_failed_for_good": _SUPERUSER,
    "test_worker_faults.py::test_a_worker_interrupted_in_the_slow_part_ends_there_and_its_leases_are_void": _CURSOR,
    "test_worker_faults.py::test_statement_timeout_ends_the_slow_part_and_releases_the_leases": _CURSOR,
    "test_worker_faults.py::test_an_interruption_burns_no_attempt": _CURSOR,
    "test_client_ask.py::test_a_connection_of_the_callers_stays_in_its_transaction": _TRANSACTION,
    "test_attach_refusals.py::test_only_the_owner_may_attach_and_detach": _SUPERUSER,
    "test_attach_refusals.py::test_a_superusers_session_lends_no_rights_to_functions_of_others": _SUPERUSER,
    "test_usage.py::test_the_query_log_holds_questions_and_query_stats_sums_them_up": _CALLER,
    "test_import_documents.py::test_a_bad_document_is_refused_with_its_place": _CONDITION,
    "test_crossvalidation.py": "a benchmark that makes databases",
    "test_benchmarks_with_models.py": "benchmarks that make databases",
    "test_frameworks_page.py": _LIBRARY,
    "test_frameworks.py::test_the_suite_of_a_framework_passes[django]": _LIBRARY,
    "test_sqlalchemy.py": _LIBRARY,
    "test_dump_restore.py::test_every_identity_sequence_and_table_with_rows_is_dumped": _EXTENSION,
    "test_many_corpora.py::test_a_small_corpus_has_the_relations_of_age_alone_and_none_without_its_graph": _AGE,
    "test_metrics.py::test_a_monitor_reads_the_numbers_of_a_corpus_and_of_the_queue": _MONITOR,
    "test_metrics.py::test_a_worker_is_a_row_with_what_it_does": _MONITOR,
    "test_several_corpora.py::test_a_list_in_the_place_of_the_corpus_means_several": _OVERLOAD,
    "test_drawings.py::test_a_community_has_its_members_and_what_relates_them": _OVERLOAD,
    "test_drawings.py::test_what_cannot_be_drawn_is_refused_with_a_hint": _OVERLOAD,
    "test_reindex.py::test_a_reindex_that_is_cancelled_changes_nothing": _TURNS,
    "test_reindex.py::test_a_reindex_takes_the_work_of_a_worker_over": _TURNS,
    "test_reindex.py::test_a_transaction_that_sees_only_the_past_is_refused": _ISOLATION,
    "test_replication.py::test_repair_finds_content_that_was_changed_without_its_hash": _REPLICA,
    "test_replication.py::test_repair_finds_rows_that_came_to_or_left_an_attached_table_past_its_triggers": _REPLICA,
    "test_summaries.py::test_what_changes_while_it_is_summarised_is_summarised_anew": _TURNS,
    "test_warm.py::test_a_session_without_memory_keeps_nothing": _SESSION,
    "test_quiet.py": "of PL/Python",
    "test_docker_image.py": _EXTENSION,
    "test_cypher.py": _AGE,
    "test_cypher_option.py": _AGE,
    "test_projection.py": _AGE,
    "test_uninstall.py": _EXTENSION,
    "test_schedule_worker.py": "pg_cron is not there",
    "test_server_cli.py": _EXTENSION,
    "test_server_cli_docker.py": _EXTENSION,
    "test_quickstart.py": _EXTENSION,
    "test_bundle.py": _EXTENSION,
    "test_debian_packages.py": _EXTENSION,
    "test_migrations.py": _EXTENSION,
    "test_session_cache.py": _SESSION,
    "test_search.py::test_the_wrapper_of_a_mode_gives_what_search_gives": _WRAPPER,
    "test_bad_input.py::test_any_title_and_source_key_are_kept_and_projected": _AGE,
    "test_bad_input.py::test_the_projection_has_every_entity_exactly": _AGE,
    "test_ask_faults.py::test_pieces_arrive_before_the_answer_is_complete": _CURSOR,
    "test_ask_faults.py::test_closing_the_cursor_closes_the_connection_and_gives_the_place_back": _CURSOR,
    "test_ask_faults.py::test_statement_timeout_ends_a_question": _CURSOR,
    "test_ask_faults.py::test_a_stream_that_breaks_off_is_an_error_and_nothing_is_kept": _CURSOR,
    "test_ask_faults.py::test_the_end_of_the_transaction_ends_a_stream": _CURSOR,
    "test_understand.py::test_a_cancel_gets_through": _CURSOR,
    "test_check_provider.py::test_cancel_ends_a_check": _SESSION,
    "test_client.py::test_cypher_rows_are_dictionaries": _AGE,
    "test_client.py::test_results_have_the_columns_of_the_sql_functions": _AGE,
    "test_client.py::test_the_async_client_does_the_same": _AGE,
    "test_client.py::test_process_jobs_inside_a_transaction_is_the_servers_error": _TRANSACTION,
    "test_protect.py::test_without_row_level_security_a_reader_is_told_to_set_it_on": _REFUSAL,
    "test_process_jobs.py::test_inside_a_transaction_block_it_is_an_error_with_a_hint_and_nothing_stays_leased": _TRANSACTION,
    "test_communities.py::test_the_graph_has_vertices_and_edges_of_communities": _AGE,
    "test_extraction.py::test_hostile_names_are_data": _AGE,
    "test_extraction.py::test_the_graph_and_the_views_show_what_the_model_said": _AGE,
    "test_reports.py::test_the_graph_and_the_overview_have_the_titles": _AGE,
    "test_endpoint_embeddings.py::test_an_entity_that_goes_and_comes_back_while_a_worker_embeds_has_its_vector": _TURNS,
    "test_merge.py::test_drop_corpus_leaves_no_row_graph_or_partition_and_other_corpora_alone": _AGE,
    "test_process_jobs.py::test_drop_corpus_and_a_worker_that_writes_do_not_deadlock": _TURNS,
    "test_process_jobs.py::test_documents_that_an_open_transaction_holds_are_not_worked_on_before_it_ends": _SUPERUSER,
    "test_as_of.py::test_the_sessions_time_zone_changes_nothing": "psycopg reads no time of a session with another date style",
    "test_evaluate.py::test_questions_come_from_json_text_or_a_table": _OVERLOAD,
    "test_evaluate.py::test_an_unknown_corpus_and_an_unknown_table_are_named": _OVERLOAD,
}

# What ./test runs of them every day, beside test_two_hosts.py: documents in and out, permissions.
QUICK = ("test_merge.py", "test_protect.py", "test_neighbors.py")
# What ./test --all adds: every mode, workers, curation, filters, errors.
LONGER = (
    *("test_search.py", "test_search_filter.py", "test_process_jobs.py", "test_curation.py"),
    *("test_every_restriction.py", "test_several_corpora.py"),
)

_execute = psycopg.Connection.execute
# Texts, quoted names and comments, in which no call is one; and calls.
_CALL = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\$(\w*)\$.*?\$\1\$|--[^\n]*|\bgraphrag\.(\w+)\s*\(", re.DOTALL)
# Functions in SQL by which a test makes tables and indexes.
_MAKES = re.compile(r"\bgraphrag\._(index_vectors|make_space)\s*\(")
# A role that a superuser of a test makes, for whom the schema's owner is to act; and his tables that become attached ones: an
# application's are no superuser's.
_MAKES_ROLE = re.compile(r"\bCREATE (ROLE|USER)\b", re.IGNORECASE)
_ATTACHES = re.compile(r"\bgraphrag\.attach_\w+\s*\(")
# What a test reads or changes of Apache AGE's, and of the extension as such.
_OF_AGE = re.compile(r"\bag_catalog\.|\bgraphrag_\d+\.\"|\bgraphrag\.cypher\s*\(")
_OF_EXTENSION = re.compile(r"\b(CREATE|ALTER|DROP) EXTENSION (IF (NOT )?EXISTS )?pg_graphrag\b")
# Only superusers make event triggers: there are none to be disabled.
_EVENT_TRIGGER = re.compile(r"ALTER EVENT TRIGGER \w+ DISABLE;?")


def reason_to_skip(file: str, name: str, fixtures: Collection[str]) -> str | None:
    """Return why a test, whose name has its parameters, cannot be run on this host, or None."""
    if {"runtime", "cluster"} & set(fixtures):
        return "has clusters of its own, with the extension"
    test = f"{file}::{name}"
    keys = (file, test, test.partition("[")[0], *(key for key in CANNOT if key.endswith("-") and test.startswith(key)))
    return next((CANNOT[key] for key in keys if key in CANNOT), None)


def owner_url(url: str) -> str:
    """Return the URL of a database for the schema's owner: that of an application, and no superuser's."""
    parts = urlsplit(url)
    return parts._replace(netloc=f"{OWNER}:{OWNER}@{parts.netloc.rpartition('@')[2]}").geturl()


def prepare(superuser: psycopg.Connection[Any]) -> None:
    """Have a role that may make the plain schema in the database of a superuser's connection, where pgvector then is."""
    for role in ROLES:
        with suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
            superuser.execute(role.encode())
    superuser.execute(f"GRANT graphrag_reader, graphrag_writer TO {OWNER}".encode())
    superuser.execute("CREATE EXTENSION vector")
    let_owner_create(superuser)


def let_owner_create(superuser: psycopg.Connection[Any]) -> None:
    """Let the schema's owner make schemas in the database. A copy of a database does not have this right."""
    superuser.execute(f"GRANT CREATE ON DATABASE {superuser.info.dbname} TO {OWNER}".encode())


def install(url: str) -> None:
    """Make the plain schema."""
    with psycopg.connect(url, autocommit=True) as connection:
        assert schema.install(connection)


def serve_calls() -> None:
    """Have the calls of every connection to a plain database served by this process from now on."""
    psycopg.Connection.execute = execute


def execute(
    connection: psycopg.Connection[Any],
    query: Any,
    params: Any = None,
    *,
    prepare: bool | None = None,
    binary: bool = False,
) -> Any:
    """Run a statement as `psycopg.Connection.execute` does, its calls served."""
    text = _text(connection, query)
    if _MAKES_ROLE.search(text) and _is_beside(connection):
        cursor = _execute(connection, query, params, prepare=prepare, binary=binary)
        _hand_over(connection, _GRANTED)
        return cursor
    if _ATTACHES.search(text) and _is_beside(connection):
        _hand_over(connection, _OWNED)
    if _EVENT_TRIGGER.search(text) and _is_beside(connection):
        text = query = _EVENT_TRIGGER.sub("", text)
    for is_meant, reason in (
        ("plpython3u" in text, _PLPYTHON),
        (_OF_AGE.search(text), _AGE),
        (_OF_EXTENSION.search(text), _EXTENSION),
    ):
        if is_meant and _is_beside(connection):
            pytest.skip(f"beside a database: {reason}")
    if _MAKES.search(text) and _is_beside(connection):
        # What it makes must be the owner's.
        with _session_of_owner(connection):
            return _execute(connection, query, params, prepare=prepare, binary=binary)
    if "graphrag." not in text or not _has_calls(text) or not _is_beside(connection):
        return _execute(connection, query, params, prepare=prepare, binary=binary)
    if connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS or not connection.autocommit:
        pytest.skip(f"beside a database: {_TRANSACTION}")
    if re.match(r"\s*EXPLAIN\b", text):
        pytest.skip(f"beside a database: {_PLAN}")
    if params is not None:
        text = psycopg.ClientCursor(connection).mogrify(cast(LiteralString, text), params)
    if (call := re.fullmatch(r"\s*CALL\s+graphrag\.(\w+)\s*\((.*)\)\s*;?\s*", text, re.DOTALL)) and call[
        1
    ] in routines():
        _serve(connection, *_resolved(connection, call[1], call[2]))
        return _execute(connection, "SELECT WHERE false")
    return _execute(connection, _served(connection, text).encode(), prepare=prepare, binary=binary)


def _text(connection: psycopg.Connection[Any], query: Any) -> str:
    if isinstance(query, sql.Composable):
        return query.as_string(connection)
    return query.decode() if isinstance(query, bytes) else str(query)


def _has_calls(text: str) -> bool:
    return any(match[2] in routines() for match in _CALL.finditer(text) if match[2])


def _is_beside(connection: psycopg.Connection[Any]) -> bool:
    if connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR:
        return False
    return hosts.is_beside(connection)


def _served(connection: psycopg.Connection[Any], text: str) -> str:
    """Return a statement with its calls of Python functions replaced by calls of functions that return the same."""
    parts: list[str] = []
    place = 0
    for match in _CALL.finditer(text):
        if match.start() < place or not match[2] or match[2] not in routines():
            continue
        if re.search(r"\b(FUNCTION|ROUTINE|PROCEDURE)\s+$", text[: match.start()]):
            continue  # DDL
        end = _end(text, match.end())
        routine, arguments = _resolved(connection, match[2], text[match.end() : end])
        rows = _serve(connection, routine, arguments)
        parts += [text[place : match.start()], _returning(connection, routine, rows, len(parts)), "()"]
        place = end + 1
    return "".join([*parts, text[place:]])


def _end(text: str, start: int) -> int:
    """Return the place of the bracket that closes the one before `start`."""
    depth = 1
    for match in re.finditer(r"'(?:[^']|'')*'|\"[^\"]*\"|[()\[\]]", text[start:]):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(match[0], 0)
        if depth == 0:
            return start + match.start()
    raise AssertionError(f"no closing bracket: {text}")


def _resolved(connection: psycopg.Connection[Any], name: str, text: str) -> tuple[Routine, dict[str, Any]]:
    """Return the routine that a call means, and its arguments by name, computed by the database."""
    positional, named = [], {}
    for part in _parts(_served(connection, text)):
        match = re.fullmatch(r"\s*(\w+)\s*=>(.*)", part, re.DOTALL)
        if match:
            named[match[1]] = match[2]
        elif part.strip():
            positional.append(part)
    for routine in routines()[name]:
        names = [argument.name for argument in routine.arguments]
        expressions = dict(zip(names, positional, strict=False)) | named
        if len(positional) <= len(names) and set(expressions) <= set(names):
            break
    routine = find(name, expressions)
    types = {argument.name: argument.type for argument in routine.arguments}
    casts = {"jsonb": "jsonb::text"}
    selected = ", ".join(
        f"({value})::{casts.get(types[key], types[key])} AS {key}" for key, value in expressions.items()
    )
    with connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        try:
            row = cursor.execute(f"SELECT {selected}".encode()).fetchone() if selected else {}
        except (psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedTable):
            pytest.skip(f"beside a database: {_COLUMNS}")
    assert row is not None
    return routine, row


def _parts(text: str) -> Iterator[str]:
    depth = start = 0
    for match in re.finditer(r"'(?:[^']|'')*'|\"[^\"]*\"|[()\[\],]", text):
        if match[0] == "," and depth == 0:
            yield text[start : match.start()]
            start = match.end()
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(match[0], 0)
    yield text[start:]


def _serve(connection: psycopg.Connection[Any], routine: Routine, arguments: dict[str, Any]) -> list[tuple[Any, ...]]:
    with _session_of_owner(connection):
        return hosts.process(connection).call(routine.name, arguments)


@contextmanager
def _session_of_owner(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Have a superuser's session be one of the schema's owner, acting as the role that it has: a process serves nobody else."""
    with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
        row = cursor.execute(
            "SELECT current_user, session_user, (SELECT rolsuper FROM pg_roles WHERE rolname = session_user)"
        ).fetchone()
    assert row is not None
    role, user, is_superuser = row
    if not is_superuser:
        yield
        return
    if role != user:
        # Roles of tests are made by superusers; the owner must be able to act as them.
        _execute(connection, "RESET ROLE")
        let_owner_act_for(connection, role)
    _execute(connection, sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(OWNER)).as_string())
    try:
        if role != user:
            _execute(connection, sql.SQL("SET ROLE {}").format(sql.Identifier(role)).as_string())
        yield
    finally:
        _execute(connection, "RESET SESSION AUTHORIZATION")
        if role != user:
            _execute(connection, sql.SQL("SET ROLE {}").format(sql.Identifier(role)).as_string())


def let_owner_act_for(superuser: psycopg.Connection[Any], role: str) -> None:
    """Let the schema's owner act as a role of a test. Without a NOTICE where he may already."""
    with superuser.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
        row = cursor.execute("SELECT pg_has_role(%s, %s, 'MEMBER')", [OWNER, role]).fetchone()
    if row != (True,):
        _execute(superuser, sql.SQL("GRANT {} TO {}").format(sql.Identifier(role), sql.Identifier(OWNER)).as_string())


def _hand_over(superuser: psycopg.Connection[Any], statement: LiteralString) -> None:
    """Let the schema's owner act for the roles that a superuser has made, or own his tables: run what a statement returns."""
    if superuser.info.transaction_status == psycopg.pq.TransactionStatus.INERROR:
        return
    with superuser.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
        if cursor.execute("SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user").fetchone() != (True,):
            return
        rows = cursor.execute(statement, {"owner": OWNER}).fetchall()
    for (text,) in rows:
        _execute(superuser, text)


_GRANTED = """
SELECT format('GRANT %%I TO %%I', r.rolname, %(owner)s::text)
  FROM pg_roles r
 WHERE r.oid >= 16384 AND NOT r.rolsuper AND r.rolname <> %(owner)s AND r.rolname !~ '^graphrag_'
   AND NOT pg_has_role(%(owner)s, r.oid, 'MEMBER') AND NOT pg_has_role(r.oid, %(owner)s, 'MEMBER')
"""
_OWNED = """
SELECT DISTINCT format('GRANT USAGE ON SCHEMA %%I TO %%I', n.nspname, %(owner)s::text)
  FROM pg_namespace n
 WHERE n.nspowner = current_user::regrole AND n.nspname !~ '^(pg_|information_schema|graphrag)'
 UNION ALL
SELECT format('ALTER TABLE %%s OWNER TO %%I', c.oid::regclass, %(owner)s::text)
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') AND c.relowner = current_user::regrole
   AND n.nspname !~ '^(pg_|information_schema|graphrag)'
"""


def _returning(connection: psycopg.Connection[Any], routine: Routine, rows: list[tuple[Any, ...]], number: int) -> str:
    """Make a temporary function that returns these rows; return its name."""
    name = sql.Identifier("pg_temp", routine.name if number == 0 else f"{routine.name}_{number}")
    names = [column or "value" for column, _ in routine.columns]
    types = [type_.replace("@extschema:vector@", "public") for _, type_ in routine.columns]
    definitions = ", ".join(f"{column} {type_}" for column, type_ in zip(names, types, strict=True))
    if not routine.columns:
        returns, body = "void", "BEGIN END"
    else:
        records = json.dumps([dict(zip(names, row, strict=True)) for row in rows], default=str)
        select = ", ".join(names)
        body = f"SELECT {select} FROM pg_catalog.json_to_recordset({_literal(records)}) AS t ({definitions})"
        returns = ("SETOF " if routine.is_set else "") + types[0] if names == ["value"] else f"TABLE ({definitions})"
    # Whoever calls next has another role, and could not replace it.
    with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
        row = cursor.execute("SELECT current_user, session_user").fetchone()
    assert row is not None
    statement = sql.SQL(
        "BEGIN READ WRITE; SET LOCAL client_min_messages = warning; SET ROLE {3}; DROP FUNCTION IF EXISTS {0}();"
        " CREATE FUNCTION {0}() RETURNS {1} LANGUAGE {5} AS {2}; SET ROLE {4}; COMMIT"
    )
    parts = sql.SQL(cast(LiteralString, returns)), sql.Literal(body), sql.Identifier(row[1]), sql.Identifier(row[0])
    parts = *parts, sql.SQL("sql" if routine.columns else "plpgsql")
    _execute(connection, statement.format(name, *parts).as_string(connection).encode())
    if row[0] == row[1]:
        _execute(connection, "RESET ROLE")
    return name.as_string(connection)


def _literal(text: str) -> str:
    return sql.Literal(text).as_string(None)


if __name__ == "__main__":
    # For ./test, which says `all` where everything is run.
    print(*(f"tests/sql/{file}" for file in (QUICK + LONGER if "all" in sys.argv else QUICK)), sep="\n")
