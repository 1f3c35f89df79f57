"""MCP of ``pg-graphrag serve``, by the official client."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import httpx2
import pytest
from pg_graphrag.ground.mode_names import MODES

from tests.runtime.cluster import PROJECT, Database
from tests.serve.serving import TOKEN, Serving, mcp_client, serving
from tests.sql.asking import ANSWER
from tests.sql.ingest import STORIES

if TYPE_CHECKING:
    from mcp.client.client import Client

READING = {"corpora", "status", "search", "ask", "context", "find_entity", "neighbors", "path", "list_documents"} | {
    "read_document"
}
WRITING = {"insert", "curate", "undo_curation", "cypher"}
Talk: TypeAlias = "Callable[[Client], Awaitable[None]]"


def over_http(url: str, talk: Talk, token: str | None = TOKEN) -> None:
    async def main() -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http, mcp_client(url, http) as client:
            await talk(client)

    asyncio.run(main())


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    """What a tool returns."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def error_of(client: Client, tool: str, **arguments: Any) -> str:
    """What a tool says when it refuses."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return str(getattr(result.content[0], "text", ""))


def test_tools_are_annotated(server: Serving) -> None:
    async def talk(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == READING | WRITING
        for name, tool in tools.items():
            assert tool.description
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is (name in READING | {"cypher"})
            assert "ctx" not in tool.input_schema["properties"]
            assert tool.output_schema is not None
            assert tool.output_schema["properties"], name

    over_http(server.url, talk)


def test_the_modes_are_named_with_their_meaning_and_keys_with_how_to_filter(server: Serving) -> None:
    async def talk(client: Client) -> None:
        tools = {tool.name: tool.input_schema["properties"] for tool in (await client.list_tools()).tools}
        assert all(tools[name]["mode"]["enum"] == list(MODES) for name in ("search", "context", "ask"))
        assert all(f"{mode}: " in tools["search"]["mode"]["description"] for mode in MODES)
        for name in ("search", "context", "ask", "find_entity", "neighbors"):
            assert '{"$source_key": {"$prefix": "a/"}}' in str(tools[name]["filter"])
            assert "filter" in tools[name]

    over_http(server.url, talk)


def test_a_filter_by_key_holds_in_every_tool_that_has_one(server: Serving) -> None:
    async def talk(client: Client) -> None:
        for key in ({"$source_key": "enigma"}, {"$source_key": {"$prefix": "enig"}}):
            hits = await call(client, "search", query="Who wrote notes?", mode="naive", filter=key)
            assert {hit["source_key"] for hit in hits["results"]} == {"enigma"}
            packed = await call(client, "context", query="Who wrote notes?", mode="naive", filter=key)
            assert {row["source_key"] for row in packed["references"]} == {"enigma"}
            found = await call(client, "find_entity", name="Ada Lovelace", filter=key)
            assert "Ada Lovelace" not in {entity["name"] for entity in found["entities"]}

    over_http(server.url, talk)


def test_a_hit_says_where_it_stands(server: Serving, module_db: Database) -> None:
    module_db.execute("SELECT graphrag.create_corpus('pages')")
    content = "The Kestrel engine burns methane.\f" + "Filler of the second page. " * 200 + "\fThe Heron flew in 2011."
    module_db.execute(
        "INSERT INTO graphrag.documents (corpus, source_key, content) VALUES ('pages', 'k', %s)", [content]
    )
    module_db.execute("CALL graphrag.process_jobs()")

    async def talk(client: Client) -> None:
        hits = await call(client, "search", corpus="pages", query="When did the Heron fly?", mode="bm25", limit=1)
        (hit,) = hits["results"]
        passage = content[hit["offset"] : hit["offset"] + hit["length"]]
        assert passage.endswith("The Heron flew in 2011.")
        assert passage.startswith(hit["excerpt"].removesuffix(" …"))
        assert hit["pages"].endswith("3")
        place = {"document_id": hit["document_id"], "offset": hit["offset"], "limit": hit["length"]}
        assert (await call(client, "read_document", corpus="pages", **place))["content"] == passage
        several = await call(client, "search", corpora=["*"], query="When did the Heron fly?", mode="bm25", limit=1)
        assert several["results"] == [hit]
        assert hit["corpus"] == "pages"

    over_http(server.url, talk)


def test_corpora_that_did_not_answer_are_named(server: Serving, module_db: Database, corpus: str) -> None:
    module_db.execute("SELECT graphrag.create_corpus('lost', '{\"cypher\": false}')")
    module_db.execute("UPDATE graphrag.corpora SET options = '{\"embedding\": 3}' WHERE name = 'lost'")

    async def talk(client: Client) -> None:
        hits = await call(client, "search", corpora=[corpus, "lost"], query="Ada Lovelace", mode="bm25")
        assert hits["results"]
        assert hits["unanswered"] == {"lost": 'option "embedding" cannot be 3'}
        hits = await call(client, "search", corpora=[corpus], query="Ada Lovelace", mode="bm25")
        assert not hits.get("unanswered")

    try:
        over_http(server.url, talk)
    finally:
        module_db.execute("UPDATE graphrag.corpora SET options = '{\"cypher\": false}' WHERE name = 'lost'")
        module_db.execute("SELECT graphrag.drop_corpus('lost')")


def test_a_citation_says_where_it_stands(server: Serving) -> None:
    async def talk(client: Client) -> None:
        answer = await call(client, "ask", question="What did Ada Lovelace write on the Analytical Engine?")
        (cited,) = answer["citations"]
        place = {"document_id": cited["document_id"], "offset": cited["offset"], "limit": cited["length"]}
        part = await call(client, "read_document", **place)
        assert part["content"] in STORIES[cited["source_key"]]
        assert cited["length"] == len(part["content"])

    over_http(server.url, talk)


@pytest.mark.parametrize("name", ["ada lovelace", "Ada Lovelase", "ADA  LOVELACE", "Ада Лавлейс", "エイダ・ラブレース"])
def test_an_entity_is_found_by_a_rough_name(server: Serving, name: str) -> None:
    async def talk(client: Client) -> None:
        found = await call(client, "find_entity", name=name)
        best = found["entities"][0]
        assert (best["name"], best["entity_id"] > 0) == ("Ada Lovelace", True)

    over_http(server.url, talk)


def test_an_alias_leads_to_its_entity_in_every_tool_of_names(server: Serving) -> None:
    async def talk(client: Client) -> None:
        curation = await call(
            client, "curate", kind="rename_entity", arguments={"entity": "Charles Babbage", "new_name": "C. B."}
        )
        assert (await call(client, "find_entity", name="Charles Babbage"))["entities"][0]["name"] == "C. B."
        way = await call(client, "path", source="Charles Babbage", target="Ada Lovelace")
        assert way["entities"][0]["name"] == "C. B."
        await call(client, "undo_curation", curation=curation["curation"])

    over_http(server.url, talk)


def test_a_path_has_its_sentences_and_what_has_none_says_so(server: Serving, module_db: Database, corpus: str) -> None:
    curation = module_db.execute("SELECT graphrag.create_entity('Antipodes', %s)", [corpus]).fetchone()

    async def talk(client: Client) -> None:
        way = await call(client, "path", source="Ada Lovelace", target="Charles Babbage")
        names = [entity["name"] for entity in way["entities"]]
        assert (names[0], names[-1]) == ("Ada Lovelace", "Charles Babbage")
        assert [(step["source"], step["target"]) for step in way["steps"]] == list(pairwise(names))
        assert all(step["relationship"] for step in way["steps"])
        assert (await call(client, "path", source="Ada Lovelace", target="Antipodes")) == {"entities": [], "steps": []}
        for tool, names_ in (
            ("path", {"source": "Ada Lovelase", "target": "Enigma"}),
            ("neighbors", {"entity": "Ada Lovelase"}),
        ):
            assert "There are Ada Lovelace" in await error_of(client, tool, **names_)

    over_http(server.url, talk)
    module_db.execute("SELECT graphrag.undo_curation(%s)", curation)


def test_documents_are_listed_by_key_and_metadata_in_pages(server: Serving, module_db: Database) -> None:
    module_db.execute("SELECT graphrag.create_corpus('listed')")
    module_db.execute(
        "INSERT INTO graphrag.documents (corpus, source_key, content, metadata)"
        " SELECT 'listed', f || '/' || n, 'Text.', jsonb_build_object('n', n)"
        "   FROM unnest('{notes,100%,100x}'::text[]) f, generate_series(1, 3) n"
    )

    async def talk(client: Client) -> None:
        async def keys(**arguments: Any) -> list[str]:
            listed = await call(client, "list_documents", corpus="listed", **arguments)
            return [row["source_key"] for row in listed["documents"]]

        assert await keys(prefix="notes/") == ["notes/1", "notes/2", "notes/3"]
        assert await keys(prefix="100%/") == ["100%/1", "100%/2", "100%/3"]
        assert await keys(metadata={"n": 2}) == ["notes/2", "100%/2", "100x/2"]
        first = await call(client, "list_documents", corpus="listed", limit=5)
        rest = await call(client, "list_documents", corpus="listed", after=first["next"])
        assert (len(first["documents"]), len(rest["documents"]), rest["next"]) == (5, 4, None)
        assert "prefix" in await error_of(
            client, "list_documents", corpus="listed", metadata={"$source_key": "notes/1"}
        )

    over_http(server.url, talk)


def test_an_agent_goes_from_a_search_to_the_document_and_on_in_the_graph(server: Serving, corpus: str) -> None:
    async def talk(client: Client) -> None:
        names = await call(client, "corpora")
        assert corpus in names["corpora"]
        first = await call(client, "search", query="Ada Lovelace notes", limit=2)
        second = await call(client, "search", query="Ada Lovelace notes", limit=2, offset=first["next_offset"])
        ids = [hit["chunk_id"] for hit in first["results"] + second["results"]]
        assert len(ids) == len(set(ids)) == 4
        hit = first["results"][0]
        text, offset = "", 0
        while offset is not None:
            part = await call(client, "read_document", document_id=hit["document_id"], offset=offset, limit=50)
            text, offset = text + part["content"], part["next_offset"]
        assert text == STORIES[hit["source_key"]]
        near = await call(client, "neighbors", entity="Ada Lovelace", limit=1)
        assert len(near["neighbors"]) == near["next_offset"] == 1
        assert near["neighbors"][0]["relationship"]
        context = await call(client, "context", query="Ada Lovelace notes", max_tokens=300)
        assert context["tokens"] <= 300
        assert context["references"]
        assert (await call(client, "status"))["indexed"] == len(STORIES)
        answer = await call(client, "ask", question="What did Ada Lovelace write on the Analytical Engine?")
        assert answer["answer"] == ANSWER
        assert [citation["number"] for citation in answer["citations"]] == [1]

    over_http(server.url, talk)


def test_documents_are_resources_and_common_uses_prompts(server: Serving, corpus: str) -> None:
    async def talk(client: Client) -> None:
        templates = [template.uri_template for template in (await client.list_resource_templates()).resource_templates]
        assert "graphrag://{corpus}/documents/{document_id}" in templates
        name = corpus.replace(" ", "%20")
        listed = await client.read_resource(f"graphrag://{name}/documents")
        documents = json.loads(listed.contents[0].text)["documents"]
        assert sorted(row["source_key"] for row in documents) == sorted(STORIES)
        read = await client.read_resource(f"graphrag://{name}/documents/{documents[0]['document_id']}")
        assert read.contents[0].text == STORIES[documents[0]["source_key"]]
        prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
        assert prompts == {"answer_from_documents", "explore_entity", "overview_of_corpus"}
        prompt = await client.get_prompt("answer_from_documents", {"question": "Who was Ada?"})
        assert "Who was Ada?" in str(prompt.messages[0].content)

    over_http(server.url, talk)


def test_what_a_flag_allows_changes_and_is_undone(server: Serving, module_db: Database) -> None:
    module_db.execute("SELECT graphrag.create_corpus('agents')")

    async def talk(client: Client) -> None:
        await call(client, "insert", corpus="agents", source_key="kestrel", content="The Kestrel engine burns methane.")
        module_db.execute("CALL graphrag.process_jobs()")
        curation = await call(
            client, "curate", corpus="agents", kind="create_entity", arguments={"name": "Falcon", "type": "engine"}
        )
        query = "MATCH (e:Entity) RETURN e.name AS name ORDER BY e.name"
        names = [row["name"] for row in (await call(client, "cypher", corpus="agents", query=query))["rows"]]
        assert "Falcon" in names
        page = await call(client, "cypher", corpus="agents", query=query, limit=1)
        assert (page["rows"], page["next_offset"]) == ([{"name": names[0]}], 1)
        assert "read" in (await error_of(client, "cypher", corpus="agents", query="CREATE (n:Entity)")).lower()
        await call(client, "undo_curation", corpus="agents", curation=curation["curation"])
        names = [row["name"] for row in (await call(client, "cypher", corpus="agents", query=query))["rows"]]
        assert "Falcon" not in names

    over_http(server.url, talk)


def test_an_agent_says_from_when_to_when_a_document_is_valid(server: Serving, module_db: Database) -> None:
    module_db.execute("SELECT graphrag.create_corpus('agent memory')")
    homes = {"Lyon": {"valid_to": "2024-06-03T00:00:00Z"}, "Oslo": {"valid_from": "2024-06-03T00:00:00Z"}}

    async def talk(client: Client) -> None:
        for home, valid in homes.items():
            document = {"source_key": home, "content": f"Ann lives in {home}.", **valid}
            await call(client, "insert", corpus="agent memory", **document)
        module_db.execute("CALL graphrag.process_jobs()")
        for day, home in (("2024-05-01", "Lyon"), ("2024-07-01", "Oslo")):
            asked = {"query": "Where does Ann live?", "filter": {"$as_of": day}}
            hits = await call(client, "search", corpus="agent memory", **asked)
            assert [hit["source_key"] for hit in hits["results"]] == [home]

    over_http(server.url, talk)


def test_what_is_wrong_is_told_to_the_model(server: Serving) -> None:
    async def talk(client: Client) -> None:
        assert "none" in await error_of(client, "search", query="x", corpus="none")
        assert "mode" in await error_of(client, "search", query="x", mode="best")
        assert "there is no document" in await error_of(client, "read_document", document_id=999_999)
        assert await error_of(client, "search", query="x", limit=1000)

    over_http(server.url, talk)


def test_without_the_flag_nothing_changes_and_without_a_token_nobody_enters(module_db: Database, corpus: str) -> None:
    with serving(module_db.url, corpus=corpus) as server:

        async def talk(client: Client) -> None:
            assert {tool.name for tool in (await client.list_tools()).tools} == READING

        over_http(server.url, talk)


@pytest.mark.parametrize(
    ("token", "said", "named"),
    [
        ("wrong", "the token is not known", ', error="invalid_token", error_description="the token is not known"'),
        (None, "this request has no token", ""),
    ],
)
def test_a_wrong_token_reads_as_such(server: Serving, token: str | None, said: str, named: str) -> None:
    async def talk(_: Client) -> None:
        raise AssertionError("it was let in")

    with pytest.raises(BaseExceptionGroup) as caught:
        over_http(server.url, talk, token)
    error: BaseException = caught.value
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert str(error) == f"{said}. Send the header Authorization: Bearer TOKEN."
    with server.client(token) as client:
        reply = client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert (reply.status_code, reply.headers["www-authenticate"]) == (401, f'Bearer realm="pg_graphrag"{named}')


def test_standard_input_and_output(module_db: Database, corpus: str) -> None:
    command = ["-m", "pg_graphrag.beside.cli", "serve", "--stdio", "--corpus", corpus, "--mcp-tools", "cypher"]
    environment = os.environ | {"PG_GRAPHRAG_URL": module_db.url, "PYTHONPATH": str(PROJECT / "python")}

    from mcp import StdioServerParameters
    from mcp.client.client import Client
    from mcp.client.stdio import stdio_client

    async def main() -> None:
        parameters = StdioServerParameters(command=sys.executable, args=command, env=environment)
        async with Client(stdio_client(parameters)) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            assert tools == READING | {"cypher"}
            results = await call(client, "search", query="Who broke Enigma?", mode="bm25", limit=1)
            assert results["results"][0]["source_key"] == "enigma"

    asyncio.run(main())
