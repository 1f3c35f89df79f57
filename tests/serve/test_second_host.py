"""``pg-graphrag serve`` on a database without the extension: the server is the engine."""

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import psycopg
import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.beside.serve.callers import Caller

from tests.endpoint import Endpoint
from tests.runtime.cluster import Cluster, Server
from tests.serve.serving import Serving, callers, serving
from tests.sql import asking
from tests.sql.ingest import STORIES, wait_for
from tests.sql.two_hosts import OWNER, plain_database

TENANTS = ("north", "south")
TOKENS = {name: f"token-of-the-tenant-{name}" for name in TENANTS}


@pytest.fixture(scope="module")
def beside(shared_cluster: Cluster | Server, module_endpoint: Endpoint) -> Iterator[Serving]:
    with plain_database(shared_cluster) as url:
        with GraphRAG(url, "stories") as rag:
            rag.create_corpus(communities=False)
            for name in TENANTS:
                rag.insert(
                    {
                        "source_key": f"{name}/{key}",
                        "content": f"{text} The {name} knows.",
                        "metadata": {"tenant": name},
                    }
                    for key, text in STORIES.items()
                )
            rag.process_jobs()
            rag.call("set_provider", name="stand-in", kind="openai", base_url=module_endpoint.url)
        with GraphRAG(url, "asked") as rag:
            rag.create_corpus(communities=False, llm={"provider": "stand-in", "model": "model-1"})
            rag.insert({"source_key": key, "content": text} for key, text in STORIES.items())
            rag.process_jobs()
        with psycopg.connect(url, autocommit=True) as connection:
            superuser = connection.info.dbname
            connection.execute(
                "SELECT graphrag.protect('stories', $$metadata ->> 'tenant' = current_setting('app.tenant', true)$$)"
            )
        with shared_cluster.connect(superuser) as admin:
            admin.execute("CREATE ROLE serve_beside IN ROLE graphrag_reader")
            admin.execute(f"GRANT serve_beside TO {OWNER}".encode())
        who = {TOKENS[name]: Caller(name, "serve_beside", (("app.tenant", name),)) for name in TENANTS}
        with serving(url, callers(who), corpus="stories", connections=1) as server:
            yield server
        with shared_cluster.connect(superuser) as admin:
            admin.execute("DROP OWNED BY serve_beside; DROP ROLE serve_beside")


def test_the_owner_searches_and_sees_the_graph(beside: Serving) -> None:
    with beside.client() as client:
        results = client.post("/api/search", json={"query": "Who broke Enigma?", "top_k": 4}).json()["results"]
        assert {row["source_key"].split("/")[0] for row in results} == set(TENANTS)
        assert client.get("/api/graph").json()["nodes"]
        curation = client.post("/api/curations", json={"kind": "create_entity", "arguments": {"name": "Mark I"}}).json()
        assert client.delete(f"/api/curations/{curation['id']}").status_code == 200


def test_tenants_at_once_see_their_own(beside: Serving) -> None:
    def ask(number: int) -> tuple[str, set[str]]:
        name = TENANTS[number % 2]
        with beside.client(TOKENS[name]) as client:
            reply = client.post(
                "/api/search", json={"query": "Ada Lovelace notes", "mode": ("bm25", "hybrid")[number % 3 % 2]}
            )
            assert reply.status_code == 200, reply.text
            return name, {row["source_key"].split("/")[0] for row in reply.json()["results"]}

    with ThreadPoolExecutor(6) as threads:
        assert all(seen == {name} for name, seen in threads.map(ask, range(60)))


def test_who_sees_a_part_is_drawn_the_graph_of_his_part(beside: Serving) -> None:
    with beside.client(TOKENS["north"]) as client:
        drawn = client.get("/api/graph")
        assert drawn.json()["nodes"] and drawn.json()["edges"]
        path = client.get("/api/graph/path", params={"source": "Ada Lovelace", "target": "Analytical Engine"})
        assert path.json()["path"]
        assert not any("south" in reply.text for reply in (drawn, path))
        assert client.get("/api/graph/entities", params={"query": "Ada Lovelace"}).json()[0]["name"] == "Ada Lovelace"


def test_others_are_served_while_callers_wait_for_a_model(beside: Serving, module_endpoint: Endpoint) -> None:
    question = {"question": "What did Ada Lovelace write?", "corpus": "asked"}

    def ask(name: str) -> str:
        with beside.client(TOKENS[name]) as client:
            return client.post("/api/ask", json=question).text

    with ThreadPoolExecutor(2) as threads, beside.client() as other:
        module_endpoint.pause()
        try:
            # The same question: who is answered first writes to the cache what the other writes too.
            asked = [threads.submit(ask, name) for name in TENANTS]
            wait_for(lambda: module_endpoint.in_flight == 2, "two requests of the model")
            assert other.post("/api/search", json={"query": "Ada"}).status_code == 200
            assert not any(future.done() for future in asked)
        finally:
            module_endpoint.resume()
        for future in asked:
            assert "Ada Lovelace wrote notes" in future.result(30)


def test_an_answer_reads_the_moment_of_its_question(
    shared_cluster: Cluster | Server, module_endpoint: Endpoint
) -> None:
    with (
        plain_database(shared_cluster) as url,
        GraphRAG(url, "asked") as asker,
        GraphRAG(url, "asked") as other,
        ThreadPoolExecutor(1) as threads,
    ):
        other.call("set_provider", name="stand-in", kind="openai", base_url=module_endpoint.url)
        other.create_corpus(communities=False, llm={"provider": "stand-in", "model": "model-1"})
        other.insert({"source_key": key, "content": text} for key, text in STORIES.items())
        other.process_jobs()
        ways: list[Callable[[str], str]] = [
            lambda question: asker.ask(question).answer,
            lambda question: "".join(asker.ask_stream(question)),
        ]
        for number, ask in enumerate(ways):
            module_endpoint.pause()
            try:
                # The first request asks for the question's keywords.
                asked = threads.submit(ask, f"What did Ada Lovelace write, {number}?")
                wait_for(lambda: module_endpoint.in_flight == 1, "the request for keywords")
                removed = other.delete(list(STORIES))
                other.process_jobs()
            finally:
                module_endpoint.resume()
            assert removed and "Ada Lovelace wrote notes" in asked.result(30)
            other.insert({"source_key": key, "content": text} for key, text in STORIES.items())
            other.process_jobs()


@pytest.mark.slow
def test_calls_of_all_kinds_that_wait_for_a_model_at_once_hold_nobody_up(
    shared_cluster: Cluster | Server, module_endpoint: Endpoint
) -> None:
    def answer(messages: list[dict[str, Any]]) -> str:
        time.sleep(random.random() / 5)
        return asking.lines(messages)

    def call(number: int) -> None:
        choice = random.Random(number)
        with GraphRAG(url, "asked") as rag:
            for _ in range(5):
                question = f"What did Ada Lovelace write {choice.randrange(3)}?"
                choice.choice(
                    [rag.ask, rag.search, lambda text: "".join(rag.ask_stream(text)), partial(rag.ask, mode="lazy")]
                )(question)
                rag.insert({"source_key": str(choice.randrange(3)), "content": f"Ada met Bob Stone, {number}."})
                rag.process_jobs()

    with plain_database(shared_cluster) as url, GraphRAG(url, "asked") as rag:
        rag.call("set_provider", name="stand-in", kind="openai", base_url=module_endpoint.url)
        rag.create_corpus(communities=False, llm={"provider": "stand-in", "model": "model-1"})
        rag.insert({"source_key": key, "content": text} for key, text in STORIES.items())
        rag.process_jobs()
        module_endpoint.reply(answer)
        try:
            with ThreadPoolExecutor(6) as threads:
                for done in [threads.submit(call, number) for number in range(6)]:
                    done.result(120)
        finally:
            module_endpoint.reply(asking.lines)
        rag.process_jobs()
        assert rag.call("check", corpus="asked") == []
