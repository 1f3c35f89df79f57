"""Whether an index says what its documents say after a change: ids that lead nowhere, texts that are gone, calls.

    python -m bench update_truth [--documents 40]

Passages of MuSiQue with recorded extraction, as in `beside`. After a build of all but two, those two come, one is edited, and one
is deleted. The two that come share most entities with the others: where none is shared, nothing is merged. microsoft/graphrag
runs its update (its issue 2540: communities keep ids of entities and relationships that the merge gave up);
LightRAG inserts and deletes by document, and for an edit deletes and inserts; here the three are statements. Then is counted what
leads nowhere, whether the new and the edited text are there and the deleted and the former one gone, and what models were asked.
Here, `check()` must have nothing to say, and `fingerprint()` must be that of the same documents indexed at once.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from bench.peers import graphrag_pypi, lightrag
from bench.peers.graphrag_pypi import DIMENSIONS, Replies, recorded_options
from bench.peers.peers import database, passages, peer_python, peer_step, work
from tests.endpoint import Endpoint

ADDED = 2
# What an edit says; the rest of the passage stays.
EDIT = " It was painted green in 2031."
Passage = tuple[str, str, str]


class Change:
    """Documents before and after: two more, one edited, one gone."""

    def __init__(self, documents: Sequence[Passage]) -> None:
        self.first, self.added = list(documents[:-ADDED]), list(documents[-ADDED:])
        self.deleted, (key, title, text) = self.first[0], self.first[1]
        self.edited: Passage = (key, title, text + EDIT)
        self.after = [self.edited, *self.first[2:], *self.added]

    def verdicts(self, texts: Sequence[str]) -> list[str]:
        """Say what of the change stands in the texts of an index."""
        whole = "\n".join(" ".join(text.split()) for text in texts)

        def there(passage: Passage) -> bool:
            return " ".join(passage[2].split()) in whole

        return [
            "yes" if all(map(there, self.added)) else "no",
            "yes" if there(self.edited) else "no",
            "yes" if not there(self.deleted) else "no, it is still there",
        ]


def bridges_last(documents: Sequence[Passage], data: Path) -> list[Passage]:
    """Return passages so that those come last that share most entities with others."""
    with (data / "musique/openie.jsonl").open(encoding="utf-8") as file:
        records = {record["id"]: record for record in map(json.loads, file)}
    names = {key: {name.casefold() for name in records[key]["entities"]} for key, _, _ in documents}
    counts = Counter(name for entities in names.values() for name in entities)
    return sorted(documents, key=lambda document: sum(counts[name] > 1 for name in names[document[0]]))


class Calls:
    """Requests since the last look, in words."""

    def __init__(self, endpoint: Endpoint, replies: Replies) -> None:
        self._endpoint, self._replies = endpoint, replies

    def since(self) -> str:
        words = ", ".join(f"{count} {kind}" for kind, count in sorted(self._replies.calls.items())) or "0"
        words += f"; {self._endpoint.count('embeddings')} embeddings"
        self._endpoint.forget()
        self._replies.forget()
        return words


def ours(url: str, endpoint: Endpoint, change: Change, calls: Calls) -> list[str]:
    """Change by statements; compare with the same documents indexed at once."""
    with database(url, "bench_truth") as own, psycopg.connect(own, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
        connection.execute("SELECT graphrag.set_provider('bench', 'openai', %s)", [endpoint.url])
        for name in ("changed", "once"):
            connection.execute("SELECT graphrag.create_corpus(%s, %s)", [name, Jsonb(recorded_options())])
        insert(connection, "changed", change.first)
        refresh(own, connection, "changed")
        calls.since()
        insert(connection, "changed", change.added)
        connection.execute(
            "UPDATE graphrag.documents SET content = %s WHERE corpus = 'changed' AND source_key = %s",
            [change.edited[2], change.edited[0]],
        )
        connection.execute(
            "DELETE FROM graphrag.documents WHERE corpus = 'changed' AND source_key = %s", [change.deleted[0]]
        )
        refresh(own, connection, "changed")
        asked = calls.since()
        texts = [
            text
            for (text,) in connection.execute(
                "SELECT c.content FROM graphrag.chunks c JOIN graphrag.corpora k ON k.id = c.corpus_id WHERE k.name = 'changed'"
            )
        ]
        insert(connection, "once", change.after)
        refresh(own, connection, "once")
        prints = [
            connection.execute("SELECT graphrag.fingerprint(%s)", [name]).fetchone() for name in ("changed", "once")
        ]
        faults = connection.execute("SELECT * FROM graphrag.check('changed')").fetchall()
    return [
        "pg_graphrag",
        f"check(): {len(faults)}",
        *change.verdicts(texts),
        asked,
        "yes" if prints[0] == prints[1] else "no",
    ]


def insert(connection: psycopg.Connection[Any], corpus: str, documents: Sequence[Passage]) -> None:
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO graphrag.documents (corpus, source_key, title, content) VALUES (%s, %s, %s, %s)",
            [(corpus, *document) for document in documents],
        )


def refresh(url: str, connection: psycopg.Connection[Any], corpus: str) -> None:
    """Do all work, communities and reports included."""
    work(url)
    connection.execute("SELECT graphrag.refresh_communities(%s)", [corpus])
    work(url)


def graphrag(endpoint: Endpoint, change: Change, calls: Calls) -> list[str]:
    """Build; change the files; run its update."""
    python = peer_python("graphrag", graphrag_pypi.REQUIREMENTS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        task = {"folder": name, "endpoint": endpoint.url, "concurrency": 8, "dimensions": DIMENSIONS}
        graphrag_pypi.put(folder, change.first)
        peer_step(python, "graphrag_peer.py", task | {"step": "build"})
        calls.since()
        graphrag_pypi.put(folder, [*change.added, change.edited])
        (folder / "input" / f"{change.deleted[0].replace('/', '_')}.txt").unlink()
        report = peer_step(python, "graphrag_peer.py", task | {"step": "update"})
        asked = calls.since()
    if report["failed"]:
        raise SystemExit(f"graphrag failed: {report['failed']}")
    dangling = [f"{count:,} of {total:,} {column}" for column, (count, total) in report["dangling"].items() if count]
    system = f"graphrag {graphrag_pypi.GRAPHRAG}"
    return [system, "; ".join(dangling) or "none", *change.verdicts(report["texts"]), asked, "–"]


def light_rag(url: str, endpoint: Endpoint, change: Change, calls: Calls) -> list[str]:
    """Insert, and delete by document; its own graph and vectors say what is left of the deleted one."""
    with (
        database(url, "bench_truth") as own,
        tempfile.TemporaryDirectory() as folder,
        psycopg.connect(own, autocommit=True) as connection,
    ):
        connection.execute("CREATE EXTENSION vector")
        task = {"store": "tables", "folder": folder, "endpoint": endpoint.url, "dimensions": DIMENSIONS}
        task |= {"concurrency": 8, "gleaning": 0}
        lightrag.peer_half(own, task | {"step": "ingest", "documents": change.first})
        calls.since()
        keys = [change.deleted[0], change.edited[0]]
        statuses = Counter(lightrag.peer_half(own, task | {"step": "delete", "keys": keys}))
        lightrag.peer_half(own, task | {"step": "ingest", "documents": [*change.added, change.edited]})
        asked = calls.since()
        texts = [text for (text,) in connection.execute("SELECT content FROM lightrag_doc_chunks")]
        left = connection.execute(_LIGHTRAG_DANGLING).fetchone()
    verdict = f"{left[0] if left else '?'} of entities' chunk ids; deletions: {dict(statuses)}"
    return [f"LightRAG {lightrag.LIGHTRAG}", verdict, *change.verdicts(texts), asked, "–"]


_LIGHTRAG_DANGLING = """
SELECT count(*) FROM lightrag_vdb_entity e CROSS JOIN LATERAL unnest(e.chunk_ids) AS u (id)
 WHERE NOT EXISTS (SELECT FROM lightrag_doc_chunks c WHERE c.id = u.id)
"""


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield (
        "| system | ids that lead nowhere | new texts are there | the edited text is | the deleted one is gone |"
        " asked for the change | equals an index made at once |"
    )
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True, help="of any database of the server, as superuser")
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--documents", type=int, default=40)
    options = arguments.parse_args()
    change = Change(bridges_last(passages(options.data, options.documents), options.data))
    replies = Replies(options.data)
    with Endpoint(keep=False, dimensions=DIMENSIONS) as endpoint:
        endpoint.reply(replies)
        calls = Calls(endpoint, replies)
        rows = [ours(options.url, endpoint, change, calls), graphrag(endpoint, change, calls)]
        rows.append(light_rag(options.url, endpoint, change, calls))
    print(f"{options.documents} passages: {ADDED} new ones, one edited, one deleted\n")
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
