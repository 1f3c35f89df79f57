"""Fixtures of the tests of ``pg-graphrag serve``."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pg_graphrag.beside.serve.callers import Caller
from pg_graphrag.beside.serve.settings import Limits

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.runtime.npm import node_modules
from tests.serve.pages import ARGUMENTS, CHROMIUM, JAPANESE, READER, Open, refuse
from tests.serve.serving import TOKEN, Serving, callers, serving
from tests.sql import asking
from tests.sql.ingest import put


@pytest.fixture(scope="module")
def module_endpoint() -> Iterator[Endpoint]:
    """An endpoint for models, shared by the tests of a module."""
    with Endpoint() as server:
        server.reply(asking.lines)
        yield server


@pytest.fixture(scope="module")
def corpus(module_db: Database, module_endpoint: Endpoint) -> str:
    """The stories, with communities and the endpoint's model."""
    return asking.stories(module_db, module_endpoint, corpus={"communities": True})


@pytest.fixture(scope="module")
def server(module_db: Database, corpus: str) -> Iterator[Serving]:
    """The server of the stories."""
    with serving(module_db.url, corpus=corpus, mcp_rights=frozenset(("insert", "curate", "cypher"))) as address:
        yield address


@pytest.fixture(scope="session")
def node() -> Path:
    """The folder of what programs in Node are made and checked with."""
    if shutil.which("node") is None:
        pytest.skip("no Node here")
    return node_modules(
        "@redocly/cli@2", "openapi-typescript@7", "openapi-fetch@0", "typescript@5", "openai@6", "ollama@0"
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def explored(module_db: Database, module_endpoint: Endpoint) -> Iterator[Serving]:
    corpus = asking.stories(module_db, module_endpoint, corpus={"communities": True})
    put(module_db, corpus, "tower", JAPANESE, "東京タワー")
    module_db.execute("CALL graphrag.process_jobs()")
    who = callers({READER: Caller("reader")})
    with serving(module_db.url, who, corpus=corpus, limits=Limits(seconds=120)) as server:
        yield server


@pytest.fixture
def opened(browser: Any, explored: Serving) -> Iterator[Open]:
    """Opens the pages, signed in.

    Afterwards nothing may have failed in them but requests for `failing`, which never come to the server, and for `refused`,
    which it refuses; and nothing been asked of other hosts. That there is no session yet is no failure, though the browser
    writes it down as one.
    """
    contexts, errors = [], []

    def open_page(path: str = "", *, failing: str | None = None, refused: str | None = None, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 820}, "locale": "en-US"} | options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on(
            "console",
            lambda message: (
                message.type == "error"
                and urlsplit(message.location["url"]).path not in (failing, refused, "/api/session")
                and errors.append(f"{message.text} {message.location['url']}")
            ),
        )
        if failing:
            page.route(lambda url: urlsplit(url).path == failing, refuse)
        page.on(
            "request", lambda asked: asked.url.startswith((explored.url, "data:", "blob:")) or errors.append(asked.url)
        )
        page.goto(f"{explored.url}/#token={TOKEN}")
        page.wait_for_selector("#question")
        if path:
            page.click(f"[data-view={path}]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []
