"""The HTTP API of ``pg-graphrag serve`` on a real server."""

import json
import time
from itertools import pairwise
from typing import Any

import httpx2
import pytest
from pg_graphrag import GraphRAG

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.serve.serving import Serving
from tests.sql import asking
from tests.sql.asking import ANSWER
from tests.sql.ingest import STORIES, value, wait_for

QUESTION = "What did Ada Lovelace write on the Analytical Engine?"


def events(text: str) -> list[tuple[str, Any]]:
    """The events of a stream."""
    collected = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines())
        if lines:
            collected.append((lines["event"], json.loads(lines["data"])))
    return collected


def test_a_search_has_the_rows_of_the_client(server: Serving, module_db: Database, corpus: str) -> None:
    with server.client() as client, GraphRAG(module_db.url, corpus) as rag:
        for mode in ("bm25", "naive", "hybrid"):
            reply = client.post("/api/search", json={"query": QUESTION, "mode": mode, "top_k": 3})
            rows = [(row["rank"], row["chunk_id"], row["score"]) for row in reply.json()["results"]]
            assert rows == [(hit.rank, hit.chunk_id, hit.score) for hit in rag.search(QUESTION, mode=mode, top_k=3)]
        second = client.post("/api/search", json={"query": QUESTION, "top_k": 1, "offset": 1}).json()["results"]
        assert [row["chunk_id"] for row in second] == [rag.search(QUESTION, top_k=2)[1].chunk_id]


def test_several_corpora_are_searched_in_place_of_one(server: Serving, module_db: Database, corpus: str) -> None:
    module_db.execute("SELECT graphrag.create_corpus('beside it')")
    with server.client() as client, GraphRAG(module_db.url, corpus) as rag:
        for corpora in ([corpus, "beside it"], ["*"]):
            rows = client.post("/api/search", json={"query": QUESTION, "corpora": corpora, "corpus_timeout": 60})
            expected = [(hit.corpus, hit.chunk_id) for hit in rag.search(QUESTION, corpora=corpora)]
            assert [(row["corpus"], row["chunk_id"]) for row in rows.json()["results"]] == expected
            assert {name for name, _ in expected} == {corpus}
        unknown = client.post("/api/search", json={"query": QUESTION, "corpora": [corpus, "nowhere"]})
        assert (unknown.status_code, unknown.json()["code"]) == (404, "42704")
        # Where one is asked for, that is a name.
        star = client.get("/api/status", params={"corpus": "*"})
        assert (star.status_code, star.json()["code"]) == (404, "42704")
        option = client.post("/api/search", json={"query": QUESTION, "options": {"corpora": [corpus]}})
        assert (option.status_code, option.json()["code"]) == (400, "22023")


def test_a_context_is_that_of_the_client(server: Serving, module_db: Database, corpus: str) -> None:
    with server.client() as client, GraphRAG(module_db.url, corpus) as rag:
        context = client.post("/api/context", json={"query": QUESTION, "max_tokens": 500}).json()
        assert context["prompt"] == rag.context(QUESTION, max_tokens=500)["prompt"]


def test_an_answer_comes_in_pieces_and_then_with_what_it_cites(server: Serving) -> None:
    with server.client() as client:
        reply = client.post("/api/ask", json={"question": QUESTION})
    assert reply.headers["content-type"].startswith("text/event-stream")
    *pieces, (last, answer) = events(reply.text)
    assert {name for name, _ in pieces} == {"piece"}
    assert len(pieces) > 3
    assert "".join(piece["text"] for _, piece in pieces) == ANSWER
    assert last == "answer"
    assert answer["answer"] == ANSWER
    (citation,) = answer["citations"]
    assert citation["content"] == STORIES[citation["source_key"]]
    assert answer["context"]["entities"]


def test_who_leaves_a_stream_ends_the_request_to_the_model(server: Serving, module_endpoint: Endpoint) -> None:
    module_endpoint.misbehave("hanging_stream", when=lambda request: "<documents-" in str(request.messages))
    with server.client() as client:
        with client.stream("POST", "/api/ask", json={"question": f"{QUESTION} Really?"}) as reply:
            assert next(reply.iter_lines()) == "event: piece"
            assert module_endpoint.in_flight == 1
        wait_for(lambda: module_endpoint.in_flight == 0, "the end of the request")


def test_who_leaves_before_the_first_word_ends_the_request_to_the_model(
    server: Serving, module_db: Database, module_endpoint: Endpoint
) -> None:
    corpus = asking.stories(module_db, module_endpoint, timeout=100)

    def tool(name: str, **arguments: str) -> dict[str, Any]:
        params = {"name": name, "arguments": arguments | {"corpus": corpus}}
        return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}

    asked: list[tuple[str, dict[str, Any]]] = [
        ("/api/ask", {"question": "Who leaves an answer?", "corpus": corpus}),
        ("/api/search", {"query": "Who leaves a search?", "corpus": corpus}),
        ("/v1/chat/completions", {"model": corpus, "messages": [{"role": "user", "content": "Who leaves a chat?"}]}),
        ("/api/generate", {"model": corpus, "prompt": "Who leaves a prompt?"}),
        ("/mcp", tool("ask", question="Who leaves an agent's answer?")),
        ("/mcp", tool("search", query="Who leaves an agent's search?")),
    ]
    module_endpoint.pause()
    try:
        with server.client(headers={"accept": "application/json, text/event-stream"}) as client:
            for path, body in asked:
                module_endpoint.forget()
                for patience in (3, 30):
                    # Where much else is at work, it has not come to the model in three seconds.
                    if module_endpoint.count() == 0:
                        with pytest.raises(httpx2.ReadTimeout):
                            client.post(path, json=body, timeout=patience)
                assert module_endpoint.count() == 1, path
                began = time.monotonic()
                wait_for(lambda: module_endpoint.in_flight == 0, f"the end of a request by {path}")
                assert time.monotonic() - began < 20, path
    finally:
        module_endpoint.resume()


def test_what_fails_before_the_first_word_has_a_status(server: Serving, module_endpoint: Endpoint) -> None:
    with server.client() as client:
        for body, status, code in (
            ({"question": QUESTION, "corpus": "none"}, 404, "42704"),
            ({"question": QUESTION, "mode": "best"}, 400, "22023"),
            ({"question": "a b " * 3000}, 400, "22023"),
        ):
            reply = client.post("/api/ask", json=body)
            assert (reply.status_code, reply.json()["code"]) == (status, code)
            assert reply.headers["content-type"] == "application/problem+json"
        long = {"question": "a b " * 3000, "options": {"bypass": True}}
        assert client.post("/api/ask", json=long).status_code == 200


def test_a_verdict_is_its_callers_and_the_later_one_counts(server: Serving, module_db: Database, corpus: str) -> None:
    verdict = {"question": QUESTION, "verdict": "bad", "evidence": ["ada"], "mode": "hybrid"}
    with server.client() as client, GraphRAG(module_db.url, corpus) as rag:
        for each in (verdict, verdict | {"verdict": "good"}):
            assert client.post("/api/feedback", json=each).json() == {"verdict": each["verdict"]}
        (golden,) = rag.golden_questions()
        assert (golden["question"], golden["evidence"], golden["good"], golden["bad"]) == (QUESTION, ["ada"], 1, 0)
        assert value(module_db, "SELECT author FROM graphrag.answer_feedback") == "owner"
        for wrong in ({"verdict": "fine"}, {"evidence": ["nothing"]}, {"author": "somebody"}, {"question": ""}):
            assert client.post("/api/feedback", json=verdict | wrong).status_code in (400, 422)
        (row,) = rag.evaluate(rag.golden_questions(), modes=["hybrid"], k=[1])
        assert row.recall == 1.0


def test_documents_are_listed_in_pages_and_read_in_parts(server: Serving) -> None:
    with server.client() as client:
        first = client.get("/api/documents", params={"limit": 2}).json()
        keys = [row["source_key"] for row in first["documents"]]
        while first["next"] is not None:
            first = client.get("/api/documents", params={"limit": 2, "after": first["next"]}).json()
            keys += [row["source_key"] for row in first["documents"]]
        assert sorted(keys) == sorted(STORIES)
        (ada,) = client.get("/api/documents", params={"text": "ADA"}).json()["documents"]
        text, offset = "", 0
        while offset is not None:
            part = client.get(f"/api/documents/{ada['document_id']}", params={"offset": offset, "limit": 40}).json()
            text, offset = text + part["content"], part["next_offset"]
        assert text == STORIES["ada"]
        assert client.get("/api/documents/999999").status_code == 404


def test_documents_are_sorted_filtered_and_deleted_together(server: Serving, module_db: Database) -> None:
    module_db.execute("SELECT graphrag.create_corpus('shelf', '{\"communities\": false}')")
    texts = {"b": "Short.", "a": "The Kestrel engine burns methane.", "c": "The harbour has a crane."}
    with server.client() as client:
        new = [{"source_key": key, "content": text} for key, text in texts.items()]
        client.post("/api/documents", json={"corpus": "shelf", "documents": new})

        def listed(**query: Any) -> tuple[list[str], int]:
            page = client.get("/api/documents", params={"corpus": "shelf", **query}).json()
            return [row["source_key"] for row in page["documents"]], page["total"]

        assert listed(sort="key") == (["a", "b", "c"], 3)
        assert listed(sort="key", descending=True, limit=2) == (["c", "b"], 3)
        assert listed(sort="size", offset=2, limit=2) == (["a"], 3)
        assert listed(status="pending", text="A")[1] == 1
        assert listed(status="failed") == ([], 0)
        assert client.get("/api/documents", params={"sort": "d.content"}).status_code == 400
        numbers = {
            row["source_key"]: row["document_id"]
            for row in client.get("/api/documents", params={"corpus": "shelf"}).json()["documents"]
        }
        gone = {"corpus": "shelf", "documents": [numbers["a"], numbers["b"], 2**62]}
        assert client.post("/api/documents/delete", json=gone).json() == {"deleted": 2}
        assert listed() == (["c"], 1)
        # Of another corpus' numbers none is deleted.
        assert client.post("/api/documents/delete", json={"documents": [numbers["c"]]}).json() == {"deleted": 0}
        assert client.post("/api/documents/reindex", json={"corpus": "shelf"}).json() == {"queued": 1}
        assert client.post("/api/documents/retry", json={"corpus": "shelf"}).json() == {"queued": 0}


def test_status_says_how_far_it_is(server: Serving) -> None:
    with server.client() as client:
        assert client.get("/api/status").json()["indexed"] == len(STORIES)
        ((name, last),) = events(client.get("/api/status/events").text)
        assert (name, last["pending"]) == ("status", 0)
        assert [row["name"] for row in client.get("/api/corpora").json()] == sorted(
            row["name"] for row in client.get("/api/corpora").json()
        )
        assert client.get("/api/status", params={"corpus": "none"}).status_code == 404


def test_a_map_counts_each_entity_and_what_connects_its_groups(server: Serving) -> None:
    with server.client() as client:
        whole = client.get("/api/graph/map").json()
        nodes = {node["id"]: node for node in whole["nodes"]}
        graph = client.get("/api/graph", params={"limit": 20_000}).json()
        assert whole["entities"] == len(graph["nodes"]) == sum(node["size"] for node in whole["nodes"])
        assert whole["relationships"] == len(graph["edges"])
        assert whole["smaller"] == {"groups": 0, "entities": 0}
        home = {
            node["id"]: f"type {node['type']}" if node["community"] is None else f"community {node['community']}"
            for node in graph["nodes"]
        }
        between = [{home[edge["source"]], home[edge["target"]]} for edge in graph["edges"]]
        assert whole["edges"]
        for edge in whole["edges"]:
            assert edge["count"] == between.count({edge["source"], edge["target"]})
        assert sum(edge["count"] for edge in whole["edges"]) == sum(len(ends) == 2 for ends in between)
        rest = next(node for node in nodes.values() if "type" in node)
        outside = client.get("/api/graph", params={"type": rest["type"]}).json()["nodes"]
        assert [node["name"] for node in outside][:3] == rest["names"]
        community = next(node for node in nodes.values() if "community" in node)
        assert client.get(f"/api/graph/communities/{community['community']}").json()["size"] == community["size"]
        assert client.get("/api/graph/communities/999999").status_code == 404


def test_names_are_completed(server: Serving) -> None:
    with server.client() as client:

        def names(text: str) -> list[str]:
            return [row["name"] for row in client.get("/api/graph/names", params={"text": text}).json()]

        assert names("enigma")[:2] == ["Enigma", "Enigma machine"]
        assert names("LOVE") == ["Ada Lovelace"]
        assert names("machine")[0] == "Enigma machine"
        assert names("100%_") == names("q") == []
        assert len(client.get("/api/graph/names", params={"text": "a", "limit": 3}).json()) == 3


def test_a_neighbourhood_has_a_depth(server: Serving) -> None:
    with server.client() as client:
        (hopper,) = client.get("/api/graph/names", params={"text": "Grace Hopper"}).json()
        sizes = []
        for depth in (1, 2, 3):
            part = client.get(f"/api/graph/entities/{hopper['id']}", params={"depth": depth}).json()
            assert max(node["hop"] for node in part["nodes"]) <= depth
            sizes.append(len(part["nodes"]))
        assert sizes == sorted(set(sizes))
        assert client.get(f"/api/graph/entities/{hopper['id']}", params={"depth": 4}).status_code == 400


def test_the_graph_is_walked_from_communities_to_an_entity(server: Serving) -> None:
    with server.client() as client:
        communities = client.get("/api/graph/communities").json()
        assert communities
        inside = client.get("/api/graph", params={"community": communities[0]["id"]}).json()
        assert len(inside["nodes"]) == communities[0]["size"]
        large = client.get("/api/graph", params={"limit": 20_000}).json()
        assert large["edges"]
        assert not any("description" in part for part in (*large["nodes"], *large["edges"]))
        overview = client.get("/api/graph", params={"limit": 5}).json()
        degrees = [node["degree"] for node in overview["nodes"]]
        assert degrees == sorted(degrees, reverse=True)
        ids = {node["id"] for node in overview["nodes"]}
        assert all({edge["source"], edge["target"]} <= ids for edge in overview["edges"])
        (ada, *_) = client.get("/api/graph/entities", params={"query": "Ada Lovelace"}).json()
        entity = client.get(f"/api/graph/entities/{ada['entity_id']}").json()
        assert entity["entity"]["name"] == "Ada Lovelace"
        assert len(entity["nodes"]) == entity["entity"]["degree"] + 1


def test_communities_are_named_by_their_members_until_a_report_gives_a_title(
    server: Serving, module_db: Database
) -> None:
    module_db.execute("SELECT graphrag.create_corpus('untitled')")
    with GraphRAG(module_db.url, "untitled") as rag:
        rag.insert({"source_key": key, "content": content} for key, content in STORIES.items())
        rag.process_jobs()
    with server.client() as client:
        titled = client.get("/api/graph/communities", params={"corpus": "untitled"}).json()
        assert titled and all(one["title"] and one["names"] == [] for one in titled)
        module_db.execute(
            "DELETE FROM graphrag.community_reports r USING graphrag.communities c"
            " WHERE c.id = r.community_id AND c.id = %s",
            [titled[0]["id"]],
        )
        first, *others = client.get("/api/graph/communities", params={"corpus": "untitled"}).json()
        inside = client.get("/api/graph", params={"corpus": "untitled", "community": first["id"]}).json()
    assert first["title"] is None
    assert first["names"] == [node["name"] for node in inside["nodes"][:3]]
    assert others == titled[1:]


def test_a_path_leads_from_entity_to_entity(server: Serving) -> None:
    with server.client() as client:
        path = client.get("/api/graph/path", params={"source": "Grace Hopper", "target": "Bombe"}).json()
        names = {node["id"]: node["name"] for node in path["nodes"]}
        steps = [names[step] for step in path["path"]]
        assert (steps[0], steps[-1]) == ("Grace Hopper", "Bombe")
        pairs = {frozenset((names[edge["source"]], names[edge["target"]])) for edge in path["edges"]}
        assert all(frozenset(pair) in pairs for pair in pairwise(steps))
        assert client.get("/api/graph/path", params={"source": "Ada Lovelace", "target": "Nobody"}).status_code == 404


def test_a_curation_is_made_and_undone(server: Serving) -> None:
    with server.client() as client:
        curation = client.post("/api/curations", json={"kind": "create_entity", "arguments": {"name": "Mark I"}})
        number = curation.json()["id"]
        assert client.get("/api/graph/entities", params={"query": "Mark I"}).json()[0]["name"] == "Mark I"
        assert client.get("/api/curations").json()[0]["id"] == number
        assert client.delete(f"/api/curations/{number}").status_code == 200
        assert client.get("/api/curations").json()[0]["undone_at"] is not None
        assert client.delete(f"/api/curations/{number}").status_code == 409
        assert client.delete("/api/curations/999999").status_code == 404
        bad = client.post("/api/curations", json={"kind": "drop_corpus", "arguments": {}})
        assert (bad.status_code, bad.json()["code"]) == (400, "22023")


def test_files_become_documents(server: Serving, module_db: Database) -> None:
    module_db.execute("SELECT graphrag.create_corpus('uploads')")
    files = [
        ("files", ("notes/plan.md", b"# Plan\n\nWe test the engine in May.")),
        ("files", ("../../etc/passwd.txt", b"Not a path.")),
        ("files", ("program.exe", b"MZ")),
        ("files", ("broken.pdf", b"%PDF-1.7 nothing")),
    ]
    with server.client() as client:
        plan, path, program, broken = client.post("/api/upload", files=files, params={"corpus": "uploads"}).json()
        assert (plan["inserted"], plan["errors"]) == (1, [])
        assert (path["inserted"], path["errors"]) == (1, [])
        assert program["inserted"] == broken["inserted"] == 0
        assert "no reader" in program["errors"][0]
        assert broken["errors"]
        listed = client.get("/api/documents", params={"corpus": "uploads"}).json()["documents"]
        assert [row["source_key"] for row in listed] == ["notes/plan.md", "etc/passwd.txt"]
        lines = b'{"id": "x", "text": "first"}\n{"id": "x", "text": "second"}\n'
        (twice,) = client.post(
            "/api/upload", files=[("files", ("a.jsonl", lines))], params={"corpus": "uploads"}
        ).json()
        assert (twice["inserted"], twice["errors"]) == (
            1,
            ['a.jsonl: more than one of its lines has the key "x"; the first is taken'],
        )
        again = client.post("/api/upload", files=files[:1], params={"corpus": "uploads"}).json()
        assert again[0]["unchanged"] == 1
        new = {"documents": [{"content": "One more.", "source_key": "more"}], "corpus": "uploads"}
        assert client.post("/api/documents", json=new).json() == {"inserted": 1, "updated": 0, "unchanged": 0}
        gone = client.delete(f"/api/documents/{listed[1]['document_id']}", params={"corpus": "uploads"})
        assert gone.json() == {"deleted": 1}
        assert client.get("/api/status", params={"corpus": "uploads"}).json()["pending"] == 3


def test_the_description_names_every_route(server: Serving) -> None:
    with server.client() as client:
        described = client.get("/api/openapi.json").json()
    paths = set(described["paths"])
    assert {"/api/search", "/api/context", "/api/ask", "/api/documents", "/api/status", "/api/graph"} <= paths
    assert {"/v1/models", "/v1/chat/completions"} <= paths
    for path, methods in described["paths"].items():
        for method, route in methods.items():
            assert route.get("description"), f"{method} {path} has no description"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"query": ""}, 400, "22023"),
        ({"query": "x", "top_k": 101}, 400, "22023"),
        ({"query": "x", "mode": "best"}, 400, "22023"),
        ({"query": "x", "corpus": "none"}, 404, "42704"),
        ({"query": "x", "other": 1}, 400, "22023"),
        ({"query": "x", "options": {"corpus": "other"}}, 400, "22023"),
        ({"query": "x", "options": {"nothing": 1}}, 400, "22023"),
        ({"query": "\0"}, 400, None),
    ],
)
def test_a_bad_search_is_refused_with_its_reason(
    server: Serving, body: dict[str, Any], status: int, code: str | None
) -> None:
    with server.client() as client:
        reply = client.post("/api/search", json=body)
        problem = reply.json()
        assert reply.headers["content-type"] == "application/problem+json"
        assert reply.status_code == problem["status"] == status, problem
        assert code is None or problem["code"] == code
        assert problem["detail"] and problem["title"] and problem["type"] == "about:blank"
