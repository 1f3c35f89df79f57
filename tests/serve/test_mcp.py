"""MCP of ``pg-graphrag serve``, by the official client."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import httpx2
import pytest

from tests.runtime.cluster import PROJECT, Database
from tests.serve.serving import TOKEN, Serving, mcp_client, serving
from tests.sql.asking import ANSWER
from tests.sql.ingest import STORIES

if TYPE_CHECKING:
    from mcp.client.client import Client

READING = {"corpora", "status", "search", "ask", "context", "neighbors", "read_document"}
WRITING = {"insert", "curate", "undo_curation", "cypher"}
Talk: TypeAlias = "Callable[[Client], Awaitable[None]]"


def over_http(url: str, talk: Talk, token: str = TOKEN) -> None:
    async def main() -> None:
        headers = {"authorization": f"Bearer {token}"}
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
        with pytest.raises(BaseException, match=r"401|Unauthorized|unhandled") as caught:
            over_http(server.url, talk, token="wrong")
        assert "AssertionError" not in repr(caught.value)


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
