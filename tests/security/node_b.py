"""A database and a node b that it asks, for attacks between the two."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.runtime.cluster import Cluster, Database, Server
from tests.sql.ingest import ROCKETS, STORIES, put, put_all, work
from tests.sql.linked_nodes import link

# Corpora of the database and of the node, and a question to the second.
HERE, THERE = "computers", "rockets"
ENGINE = "Which engine burns methane?"


@contextmanager
def node_b(cluster: Cluster | Server, here: Database) -> Iterator[Database]:
    """A node b with the corpus THERE, of which readers see one document."""
    with Database.open(cluster.create_database("node_b", "template")) as node:
        # `stopped` asks "default", which is empty.
        for db, name in ((here, HERE), (here, "default"), (node, THERE)):
            db.execute("SELECT graphrag.create_corpus(%s, '{\"cypher\": false}')", [name])
        put_all(here, HERE, STORIES)
        for key, (title, content) in ROCKETS.items():
            put(node, THERE, key, content, title)
        work(here)
        work(node)
        node.execute("SELECT graphrag.protect(%s, $$source_key = 'kes'$$)", [THERE])
        node.url = cluster.url("node_b")
        link(here, "b", node.url)
        here.execute("SELECT graphrag.place_corpus(%s, 'b')", [THERE])
        yield node
    cluster.drop_database("node_b")
