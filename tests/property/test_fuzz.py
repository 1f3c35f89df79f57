"""Random calls of every public function, as a reader and as the owner: errors of our own, and no crash.

GRAPHRAG_FUZZ=20000 for a long run; GRAPHRAG_FUZZ_SEED for another one.
"""

import os
import random
from collections import Counter
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.runtime.cluster import Database
from tests.security.readers import session_of
from tests.sql.ingest import new_corpus, put, work

CALLS = int(os.environ.get("GRAPHRAG_FUZZ", "400"))
SEED = int(os.environ.get("GRAPHRAG_FUZZ_SEED", "1"))
# What ends the corpus, the session's extension or the test's time.
LEFT_OUT = {"uninstall", "uninstall_corpora", "drop_corpus", "schedule_worker", "unschedule_worker", "prune"}
FUNCTIONS = """
SELECT p.oid::regprocedure::text, p.proname, p.prokind = 'p',
       ARRAY(SELECT format_type(t.type, NULL)
               FROM unnest(coalesce(p.proallargtypes, p.proargtypes::oid[]), p.proargmodes) WITH ORDINALITY t (type, mode, n)
              WHERE coalesce(t.mode, 'i') IN ('i', 'b', 'v') ORDER BY t.n)
  FROM pg_proc p
 WHERE p.pronamespace = 'graphrag'::regnamespace AND p.proname NOT LIKE '\\_%'
   AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype) AND has_function_privilege(p.oid, 'EXECUTE')
 ORDER BY 1
"""
TEXTS = [
    *(
        "",
        " ",
        "default",
        "fuzz",
        "Ada Lovelace",
        "Who wrote to Alan Turing?",
        "hybrid",
        "bm25",
        "ppr",
        "nope",
        "\x01",
        "a" * 5000,
    ),
    *(
        "日本語 の 文",
        "🚀",
        "'; DROP TABLE x; --",
        "$1",
        "%s",
        "{}",
        "[]",
        "null",
        "MATCH (n) RETURN n",
        "RETURN range(1, 100000000)",
    ),
    *("RETURN 1 AS a", "cypher", "-1", "ann", "\\", '"', "\u202e", "É" * 300),
]
DOCUMENTS = [
    *(
        "{}",
        "[]",
        "null",
        "1",
        '"x"',
        '{"a": 1}',
        '{"lang": {"$in": ["en"]}}',
        '{"$not": {}}',
        '{"$and": []}',
        '{"$as_of": "2024-01-01"}',
    ),
    *(
        '{"as_of": "2024-02-30"}',
        '{"offset": 3}',
        '{"transform": "decompose"}',
        '{"$relation": "pg_catalog.pg_class"}',
        '{"$ids": [1, 2]}',
    ),
    *(
        '{"profile": "paper"}',
        '{"rerank": true}',
        '[{"question": "x", "evidence": ["ann"]}]',
        '{"llm": {"provider": "x"}}',
        '{"\\u0000": 1}',
    ),
    "[" * 200 + "]" * 200,
    '{"a":' * 40 + "1" + "}" * 40,
]
NUMBERS = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "10",
    "100",
    "10001",
    "2147483647",
    "-2147483648",
    "9223372036854775807",
    "1.5",
    "NaN",
    "1e300",
]
OTHERS = {
    "interval": ["0", "1 ms", "-1 day", "178000000 years"],
    "timestamp with time zone": ["2024-01-01", "infinity", "-infinity", "4713-01-01 BC", "294276-12-31"],
    "boolean": ["true", "false"],
    "regclass": ["graphrag.documents", "pg_class", "0", "4294967295"],
    "jsonb": DOCUMENTS,
    "json": DOCUMENTS,
}


def argument(draw: random.Random, type_name: str) -> str | None:
    if draw.random() < 0.1:
        return None
    if type_name.endswith("[]"):
        items = [argument(draw, type_name[:-2]) for _ in range(draw.choice([0, 1, 1, 2, 5]))]
        quoted = [
            "NULL" if item is None else '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"' for item in items
        ]
        return "{" + ",".join(quoted) + "}"
    if type_name in ("integer", "bigint", "smallint", "numeric", "double precision", "real"):
        return draw.choice(NUMBERS)
    return draw.choice(OTHERS.get(type_name, TEXTS))


@pytest.mark.sample(1)
@pytest.mark.parametrize("role", ["graphrag_reader", None])
def test_random_calls_end_with_rows_or_an_error_of_our_own(db: Database, role: str | None) -> None:
    corpus = new_corpus(db)
    for name in ("fuzz", "default"):
        db.execute("SELECT graphrag.create_corpus(%s)", [name])
        put(db, name, "ann", "Ada Lovelace wrote to Alan Turing about the Analytical Engine.", metadata={"lang": "en"})
    put(db, corpus, "bob", "Bob Stone leads Acme Rockets.")
    work(db)
    draw = random.Random(SEED)
    outcomes: Counter[str | None] = Counter()
    strange: list[str] = []

    def call_all(connection: Any) -> None:
        connection.execute("SET statement_timeout = '2s'; SET client_min_messages = error")
        functions = [row for row in connection.execute(FUNCTIONS).fetchall() if row[1] not in LEFT_OUT]
        assert len(functions) > 20
        for _ in range(CALLS):
            signature, name, is_procedure, types = draw.choice(functions)
            values = [argument(draw, type_name) for type_name in types]
            placed = sql.SQL(", ").join(
                sql.SQL("{}::{}").format(sql.Literal(value), sql.SQL(type_name))
                for value, type_name in zip(values, types, strict=True)
            )
            form = "CALL graphrag.{}({})" if is_procedure else "SELECT * FROM graphrag.{}({}) LIMIT 50"
            statement = sql.SQL(form).format(sql.Identifier(name), placed)
            try:
                connection.execute(statement)
                outcomes["rows"] += 1
            except psycopg.Error as error:
                outcomes[error.sqlstate] += 1
                # What PL/Python makes of an exception that nobody turned into an error of ours.
                if error.sqlstate is None or error.sqlstate[:2] in ("XX", "38", "39", "58"):
                    strange.append(f"{signature} {values}: {error.sqlstate} {error.diag.message_primary}"[:600])
            assert not connection.closed, f"{signature} {values}"

    if role is None:
        call_all(db)
    else:
        with session_of(db, role) as reader:
            call_all(reader)
    assert not strange, "\n".join([str(outcomes), *strange[:20]])
    assert outcomes["rows"] > CALLS / 50, outcomes
