"""Several databases that have corpora between them, and know of each other by the catalogue."""

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

import psycopg
from pg_graphrag import GraphRAG
from psycopg.conninfo import conninfo_to_dict

from tests.runtime.cluster import Cluster, Server

Documents = Mapping[str, str]


@dataclass(frozen=True)
class Node:
    """A database and its name in the catalogue; `url` has the password of its owner, `place` says only where it is."""

    name: str
    url: str

    @property
    def place(self) -> str:
        """What the catalogue says."""
        return place_of(self.url)

    def execute(self, statement: str, *values: object) -> None:
        """Run a statement as the owner."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode(), values)


def place_of(url: str) -> str:
    """Return the URL of a database as the catalogue has it."""
    parts = conninfo_to_dict(url)
    return f"postgresql://{parts['host']}:{parts['port']}/{parts['dbname']}"


@contextmanager
def nodes_of(clusters: Mapping[str, Cluster | Server], template: str | None = "template") -> Iterator[dict[str, Node]]:
    """Yield a new database by each name, which all know of all, and each which one it is."""
    nodes: dict[str, Node] = {}
    try:
        for name, cluster in clusters.items():
            nodes[name] = Node(name, cluster.create_database(f"node_{name}_{id(nodes)}", template))
            if template is None:
                nodes[name].execute("CREATE EXTENSION pg_graphrag CASCADE")
        for node in nodes.values():
            node.execute(f"ALTER DATABASE \"{conninfo_to_dict(node.url)['dbname']}\" SET graphrag.node = '{node.name}'")
            for other in nodes.values():
                node.execute("SELECT graphrag.add_node(%s, %s)", other.name, other.place)
        yield nodes
    finally:
        for name, node in nodes.items():
            clusters[name].drop_database(str(conninfo_to_dict(node.url)["dbname"]))


def fill(node: Node, corpus: str, documents: Documents) -> None:
    """Make a corpus of documents at a node, indexed."""
    with GraphRAG(node.url, corpus) as rag:
        rag.create_corpus(communities=False, cypher=False)
        rag.insert({"source_key": key, "content": text} for key, text in documents.items())
        rag.process_jobs()


def place(nodes: Mapping[str, Node], corpus: str, at: str | None, among: str | None = None) -> None:
    """Note in the catalogues of some nodes, by the letters of their names, or of all, where a corpus is."""
    for name in among or nodes:
        nodes[name].execute("SELECT graphrag.place_corpus(%s, %s)", corpus, at)


@contextmanager
def silent_server(reply: bytes = b"") -> Iterator[tuple[int, list[bytes]]]:
    """A server that asks for a password in the clear, or, without a reply, says nothing: its port, and what it was sent."""
    received: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        with closing(connection), suppress(ConnectionError):
            while data := connection.recv(65536):
                received.append(data)
                if data[4:8] in (b"\x04\xd2\x16\x2f", b"\x04\xd2\x16\x30"):  # encryption is asked for
                    connection.sendall(b"N")
                elif reply and len(received) < 10 and data[:1] != b"p":
                    connection.sendall(reply)
                elif reply:
                    return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1], received


# AuthenticationCleartextPassword.
ASKS_FOR_A_PASSWORD = b"R\x00\x00\x00\x08\x00\x00\x00\x03"
