"""Whatever happens to the documents and to those who work on them, the graph is that of the documents that remain.

GRAPHRAG_HISTORIES=200 runs more and longer histories than ./test has time for.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.endpoint import Endpoint
from tests.property.graphs import (
    CURATIONS,
    NAMES,
    VERBS,
    anew,
    assert_true,
    broken,
    counted_otherwise,
    curate,
    extraction,
    sections,
    settle,
    undo_all,
)
from tests.runtime.cluster import Cluster, Database, Runtime
from tests.sql.ingest import delete, new_corpus, put, wait_for, worker
from tests.sql.llm import provider

HISTORIES = int(os.environ.get("GRAPHRAG_HISTORIES", "0"))

sentences = st.builds("{} {} {}.".format, st.sampled_from(NAMES), st.sampled_from(VERBS), st.sampled_from(NAMES))
texts = st.lists(sentences, min_size=1, max_size=4).map(" ".join)
some_keys = st.sampled_from("abcdefgh")
some_names = st.sampled_from([*NAMES, "Countess King", "Somerset"])


class World:
    """A cluster of its own, which may crash; every history in it has a corpus of its own."""

    def __init__(self, cluster: Cluster, endpoint: Endpoint) -> None:
        self.cluster = cluster
        self.endpoint = endpoint
        self.url = cluster.create_database("histories")
        self.connect()
        self.db.execute("CREATE EXTENSION pg_graphrag CASCADE")
        self.provider = provider(self.db, endpoint)

    def connect(self) -> None:
        """Connect anew; after a crash, as soon as the server answers."""

        def answers() -> Any:
            with suppress(psycopg.OperationalError):
                return Database.open(self.url)

        self.db = wait_for(answers, "the server")


@pytest.fixture(scope="module")
def world(runtime: Runtime) -> Iterator[World]:
    cluster = Cluster(runtime)
    try:
        with Endpoint() as endpoint:
            endpoint.reply(extraction)
            yield World(cluster, endpoint)
    finally:
        cluster.close()


class History(RuleBasedStateMachine):
    """Documents come, change and go, and people curate what they say; workers come, and die."""

    world: World

    @initialize(llm=st.booleans())
    def begin(self, llm: bool) -> None:
        name = self.world.provider
        self.options: dict[str, Any] = {"embedding": {"provider": name, "model": "hash", "dimensions": 64}}
        if llm:
            self.options |= {"extractor": "llm", "llm": {"roles": {"extract": {"provider": name, "model": "model-1"}}}}
        self.documents: dict[str, str] = {}
        self.curations: list[int] = []
        self.corpus = new_corpus(self.world.db, **self.options)

    @rule(changes=st.dictionaries(some_keys, texts, min_size=1, max_size=4), whole=st.booleans())
    def write(self, changes: dict[str, str], whole: bool) -> None:
        """Insert and update, in one transaction or in several."""
        with self.world.db.transaction() if whole else nullcontext():
            for key, content in changes.items():
                put(self.world.db, self.corpus, key, content)
        self.documents |= changes

    @rule(keys=st.sets(some_keys, min_size=1, max_size=4))
    def remove(self, keys: set[str]) -> None:
        for key in sorted(keys):
            delete(self.world.db, self.corpus, key)
            self.documents.pop(key, None)

    @rule(content=texts)
    def change_one_mind(self, content: str) -> None:
        """What is rolled back has not been."""
        with self.world.db.transaction(force_rollback=True):
            put(self.world.db, self.corpus, "a", content)
            delete(self.world.db, self.corpus, "b")

    @rule()
    def truncate(self) -> None:
        self.world.db.execute("TRUNCATE graphrag.documents")
        self.documents = {}

    @rule(workers=st.integers(1, 3))
    def work(self, workers: int) -> None:
        running = [worker(self.world.url) for _ in range(workers)]
        assert [session.finish() for session in running] == [None] * workers

    @rule(changes=st.dictionaries(some_keys, st.one_of(st.none(), texts), min_size=1, max_size=4))
    def write_while_others_work(self, changes: dict[str, str | None]) -> None:
        running = [worker(self.world.url) for _ in range(2)]
        for key, content in changes.items():
            if content is None:
                delete(self.world.db, self.corpus, key)
                self.documents.pop(key, None)
            else:
                put(self.world.db, self.corpus, key, content)
                self.documents[key] = content
        assert [session.finish() for session in running] == [None, None]

    @rule()
    def optimize(self) -> None:
        self.world.db.execute("SELECT graphrag.optimize(%s)", [self.corpus])

    @rule(what=st.sampled_from(CURATIONS), one=some_names, other=some_names, said=sentences)
    def curate(self, what: str, one: str, other: str, said: str) -> None:
        if (number := curate(self.world.db, self.corpus, what, one, other, said)) is not None:
            self.curations.append(number)

    @rule(place=st.integers(0, 20))
    def undo(self, place: int) -> None:
        if self.curations:
            number = self.curations.pop(place % len(self.curations))
            self.world.db.execute("SELECT graphrag.undo_curation(%s)", [number])

    @invariant()
    def every_snapshot_is_true(self) -> None:
        """Invariants hold after every committed transaction, also while work waits: the AGE graph is what the tables are."""
        if hasattr(self, "corpus"):
            assert broken(self.world.db, self.corpus) == []

    @invariant()
    def what_is_counted_is_what_is_merged_anew(self) -> None:
        """Counting a change comes to what the rules make of all mentions and curations."""
        if hasattr(self, "corpus"):
            assert counted_otherwise(self.world.db, self.corpus) == []

    @rule(delay=st.floats(0, 0.4), how=st.sampled_from(["terminate", "terminate", "kill"]))
    def kill_a_worker(self, delay: float, how: str) -> None:
        worker_session = worker(self.world.url)
        time.sleep(delay)
        if how == "terminate":
            self.world.db.execute("SELECT pg_terminate_backend(%s)", [worker_session.pid])
            worker_session.finish()
            return
        try:
            os.kill(worker_session.pid, signal.SIGKILL)  # the server ends all sessions and recovers
        except ProcessLookupError:
            worker_session.finish()
            return
        wait_for(self.ended, "the end of all sessions")
        worker_session.finish()
        self.world.db.close()
        self.world.connect()

    def ended(self) -> bool:
        try:
            self.world.db.execute("SELECT 1")
        except psycopg.OperationalError:
            return True
        return False

    def teardown(self) -> None:
        if hasattr(self, "corpus"):
            settle(self.world.db, self.corpus)
            if self.curations:
                # They mean the same to documents that come after them as to those that were there before.
                before = sections(self.world.db, self.corpus)
                anew(self.world.db, self.corpus, self.documents)
                assert sections(self.world.db, self.corpus) == before
                undo_all(self.world.db, self.corpus)
            assert_true(self.world.db, self.corpus, self.documents, **self.options)
            self.world.db.execute("SELECT graphrag.drop_corpus(%s)", [self.corpus])


def test_any_history_gives_the_graph_of_the_remaining_documents(world: World) -> None:
    machine = type("HistoryInWorld", (History,), {"world": world})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=HISTORIES or 4,
            stateful_step_count=30 if HISTORIES else 10,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
