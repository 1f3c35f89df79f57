"""Files of the package that a warm call goes through: a search by bm25, one by hybrid, a document with its job, and an answer.

A file counts where one of its functions is called, by sys.setprofile in the backend, after calls that have loaded and cached
what they need. A database of its own is made and dropped again; tests/endpoint stands for the model.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import conninfo, sql

from tests.endpoint import Endpoint

DATABASE = "bench_walks"
MOST = {"bm25": 25, "hybrid": 50, "document": 50, "ask": 65}
START = """
DO LANGUAGE plpython3u $$
import sys, threading
walked = GD["walked"] = set()
def note(frame, event, argument):
    if event == "call":
        walked.add(frame.f_code.co_filename)
threading.setprofile(note)
sys.setprofile(note)
$$"""
STOP = """
CREATE FUNCTION pg_temp.walked() RETURNS text LANGUAGE plpython3u AS $$
import json, sys, threading
sys.setprofile(None)
threading.setprofile(None)
folder = "/pg_graphrag/"
walked = {name.rpartition(folder)[2] for name in GD.pop("walked", ()) if name.rpartition(folder)[0].find("site-packages") > 0}
return json.dumps(sorted(walked))
$$"""
TEXTS = {
    f"{name} {number}": f"{name} wrote letter {number} to Charles Babbage. The Analytical Engine computes numbers {number}."
    for number in range(20)
    for name in ("Ada Lovelace", "Mary Somerville")
}
SEARCH = "SELECT * FROM graphrag.search('Who wrote to Charles Babbage of the Analytical Engine?', mode => {})"
ASK = "SELECT graphrag.ask('What did Ada Lovelace write of in letter {}?')"
DOCUMENT = """
INSERT INTO graphrag.documents (source_key, content) VALUES
    ('new {0}', 'Ada Lovelace met Mary Somerville in London. Ada Lovelace spoke of paper {0}.')"""
KEYWORDS = {
    "low_level_keywords": ["Ada Lovelace"],
    "high_level_keywords": ["letters"],
    "entities": ["Ada Lovelace"],
    "answer_types": ["work"],
}
ANSWER = "Ada Lovelace wrote to Charles Babbage [1]."
PROCESS = "CALL graphrag.process_jobs()"


@contextmanager
def database(url: str, endpoint: Endpoint) -> Iterator[psycopg.Connection[Any]]:
    """Yield a connection to a new database with indexed documents, whose corpus has a model for answers."""
    name = sql.Identifier(DATABASE)
    with psycopg.connect(url, autocommit=True) as outer:
        outer.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
        outer.execute(sql.SQL("CREATE DATABASE {}").format(name))
        try:
            with psycopg.connect(conninfo.make_conninfo(url, dbname=DATABASE), autocommit=True) as connection:
                connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
                connection.execute("SELECT graphrag.set_provider('walks', 'openai', %s)", [endpoint.url])
                options = {"llm": {"provider": "walks", "model": "m"}}
                connection.execute("SELECT graphrag.create_corpus('default', %s)", [json.dumps(options)])
                for key, text in TEXTS.items():
                    connection.execute(
                        "INSERT INTO graphrag.documents (source_key, content) VALUES (%s, %s)", [key, text]
                    )
                connection.execute(PROCESS.encode())
                connection.execute(STOP.encode())
                yield connection
        finally:
            outer.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


def walk(connection: psycopg.Connection[Any], *statements: str) -> list[str]:
    """Return the package's files that statements go through."""
    connection.execute(START.encode())
    for statement in statements:
        connection.execute(statement.encode())
    row = connection.execute("SELECT pg_temp.walked()").fetchone()
    assert row is not None
    files: list[str] = json.loads(row[0])
    return files


def walks(connection: psycopg.Connection[Any]) -> dict[str, list[str]]:
    """Return the files of the four walks, each after calls of its kind."""
    walked: dict[str, list[str]] = {}
    for number in range(8):
        walked["bm25"] = walk(connection, SEARCH.format("'bm25'"))
        walked["hybrid"] = walk(connection, SEARCH.format("'hybrid'"))
        walked["ask"] = walk(connection, ASK.format(number))
    for number in range(4):
        walked["document"] = walk(connection, DOCUMENT.format(number), PROCESS)
    return walked


def reply(messages: list[dict[str, Any]]) -> str:
    """Keywords to who asks for keywords, else the answer."""
    return json.dumps(KEYWORDS) if "low_level_keywords" in messages[0]["content"] else ANSWER


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True, help="a superuser's connection to a server")
    parser.add_argument("--files", action="store_true", help="print the files, too")
    options = parser.parse_args()
    endpoint = Endpoint(keep=False)
    endpoint.reply(reply)
    with endpoint, database(options.url, endpoint) as connection:
        walked = walks(connection)
    for name, most in MOST.items():
        print(f"{name:9} {len(walked[name]):4} files, at most {most}")
        if options.files:
            print(*(f"    {file}" for file in walked[name]), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
