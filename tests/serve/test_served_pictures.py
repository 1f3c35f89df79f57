"""Pictures over HTTP and MCP, and on the page: for who may read their documents, as what their bytes are."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from pg_graphrag.beside.serve.callers import Caller
from pg_graphrag.beside.serve.settings import RIGHTS

from tests.runtime.cluster import Database
from tests.serve.pages import CHROMIUM, picture, until
from tests.serve.serving import TOKEN, Serving, callers, serving
from tests.serve.test_mcp import call, over_http
from tests.sql.ingest import put, searched_corpus, work
from tests.sql.picture_rows import add_picture, png
from tests.unit.files import picture_deck
from tests.unit.scans import page
from tests.unit.scans import png as as_png

if TYPE_CHECKING:
    from mcp.client.client import Client

QUESTION = "What does the drawing of the Heron launcher show?"
EVE = "token-of-eve-who-sees-a-part"


@pytest.fixture(scope="module")
def pictures(module_db: Database) -> dict[str, int]:
    """A corpus with an open and a closed document, each with a picture: their numbers."""
    corpus = searched_corpus(module_db)
    numbers = {}
    for number, key in enumerate(("open", "closed")):
        put(module_db, corpus, key, f"An {key} manual.\f\nMore.", metadata={"open": key == "open"})
        caption = f"The {key} drawing of the Heron launcher."
        numbers[key] = add_picture(module_db, corpus, key, content=png(number), caption=caption, page=2)
    work(module_db)
    module_db.execute("CREATE ROLE serve_eve")
    module_db.execute("SELECT graphrag.grant_corpus(%s, 'serve_eve')", [corpus])
    module_db.execute("SELECT graphrag.protect(%s, $$metadata @> '{\"open\": true}'$$)", [corpus])
    module_db.execute("COMMENT ON ROLE serve_eve IS 'of the tests'")
    return numbers


@pytest.fixture(scope="module")
def scans(module_db: Database, pictures: dict[str, int]) -> dict[str, int]:
    """Two contracts in that corpus, of which one is closed; on page 2 each has a scan: their numbers."""
    ((corpus,),) = module_db.execute("SELECT min(name) FROM graphrag.corpora").fetchall()
    numbers = {}
    for number, key in enumerate(("lease", "secret lease")):
        text = (
            "The term is nine years.\n\f# Rent\n\n"
            + "The rent is four hundred ducats. " * 9
            + "\fBoats moor at the quay.\f"
        )
        put(module_db, corpus, key, text, metadata={"open": key == "lease"})
        scan = as_png(page([key]))
        numbers[key] = add_picture(module_db, corpus, key, content=scan, caption=None, page=2, is_page=True)
        add_picture(module_db, corpus, key, content=png(7 + number), caption=None, page=3)
    work(module_db)
    return numbers


def number_of(server: Serving, key: str) -> int:
    with server.client() as client:
        documents = client.get("/api/documents", params={"text": key}).json()["documents"]
    return next(int(document["document_id"]) for document in documents if document["source_key"] == key)


@pytest.fixture(scope="module")
def server(module_db: Database, pictures: dict[str, int]) -> Iterator[Serving]:
    ((corpus,),) = module_db.execute("SELECT min(name) FROM graphrag.corpora").fetchall()
    who = callers({EVE: Caller("eve", role="serve_eve")})
    with serving(module_db.url, who, corpus=corpus, mcp_rights=frozenset(RIGHTS)) as address:
        yield address


def test_a_picture_is_served_as_what_it_is(server: Serving, pictures: dict[str, int]) -> None:
    with server.client() as client:
        reply = client.get(f"/api/pictures/{pictures['open']}")
        assert reply.content == png(0)
        assert reply.headers["content-type"] == "image/png"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in reply.headers["content-security-policy"]
        assert reply.headers["cross-origin-resource-policy"] == "same-origin"
        assert reply.headers["cache-control"] == "no-store"
        assert client.get("/api/pictures/999999").status_code == 404
        assert client.get(f"/api/pictures/{pictures['open']}", params={"corpus": "other"}).status_code == 404


def test_who_does_not_see_a_document_has_no_picture_of_it(server: Serving, pictures: dict[str, int]) -> None:
    with server.client(EVE) as client:
        assert client.get(f"/api/pictures/{pictures['open']}").status_code == 200
        hidden = client.get(f"/api/pictures/{pictures['closed']}")
        unknown = client.get("/api/pictures/999999")
        assert hidden.status_code == unknown.status_code == 404
        assert hidden.text.replace(f"picture {pictures['closed']}", "") == unknown.text.replace("picture 999999", "")
        found = client.post("/api/search", json={"query": QUESTION}).json()["results"]
        assert [hit["explain"].get("picture") for hit in found if "drawing" in hit["content"]] == [pictures["open"]]
    with server.client(None) as client:
        assert client.get(f"/api/pictures/{pictures['open']}").status_code == 401


def test_a_part_of_a_document_names_the_pictures_of_its_pages(server: Serving, scans: dict[str, int]) -> None:
    path, second = f"/api/documents/{number_of(server, 'lease')}", {"2": scans["lease"]}
    with server.client(EVE) as client:
        for query, first, named in (
            ({}, 1, second),
            ({"limit": 24}, 1, {}),
            ({"limit": 25}, 1, second),
            ({"offset": 25, "limit": 9}, 2, second),
            ({"offset": 25 + 8 + 33 * 9 + 1}, 3, {}),
        ):
            part = client.get(path, params=query).json()
            assert (part["page"], part["page_pictures"]) == (first, named), query
        assert client.get(f"/api/pictures/{scans['lease']}").status_code == 200
        assert client.get(f"/api/pictures/{scans['secret lease']}").status_code == 404
        assert client.get(f"/api/documents/{number_of(server, 'secret lease')}").status_code == 404


def test_mcp_has_the_pictures_of_pages_as_resources(server: Serving, scans: dict[str, int]) -> None:
    number = number_of(server, "lease")

    async def talk(client: Client) -> None:
        part = await call(client, "read_document", document_id=number)
        (uri,) = part["page_pictures"].values()
        assert (part["page"], list(part["page_pictures"])) == (1, ["2"])
        (content,) = (await client.read_resource(uri)).contents
        assert base64.b64decode(content.blob) == as_png(page(["lease"]))
        cited = (await call(client, "ask", question="How many ducats is the rent?"))["citations"]
        assert uri in {citation["picture"] for citation in cited}

    over_http(server.url, talk, EVE)


@pytest.mark.parametrize("token", [TOKEN, EVE])
def test_mcp_has_pictures_as_resources(server: Serving, pictures: dict[str, int], token: str) -> None:
    async def talk(client: Client) -> None:
        hits = (await call(client, "search", query=QUESTION))["results"]
        uris = {hit["picture"] for hit in hits if hit["picture"]}
        assert len(uris) == (2 if token == TOKEN else 1)
        (uri,) = (uri for uri in uris if f"/{pictures['open']}." in uri)
        (content,) = (await client.read_resource(uri)).contents
        assert content.mime_type == "image/png" and base64.b64decode(content.blob) == png(0)
        for other in (uri.replace(".png", ".jpeg"), uri.replace(f"/{pictures['open']}.", f"/{pictures['closed']}.")):
            if token == EVE or other.endswith("jpeg"):
                with pytest.raises(Exception, match=r"there is no picture|not found"):
                    await client.read_resource(other)

    over_http(server.url, talk, token)


def test_uploads_keep_pictures_where_they_are_asked_for(server: Serving, module_db: Database) -> None:
    module_db.execute("SELECT graphrag.create_corpus('decks', '{\"communities\": false}')")
    sql = "SELECT count(*) FROM graphrag.pictures p JOIN graphrag.documents d ON d.id = p.document_id WHERE d.corpus = 'decks'"
    with server.client() as client:
        for keeps, count in ((None, 0), (True, 1), (True, 1)):
            query: dict[str, Any] = {"corpus": "decks"} | ({} if keeps is None else {"pictures": keeps})
            (result,) = client.post(
                "/api/upload", files=[("files", ("deck.pptx", picture_deck()))], params=query
            ).json()
            assert result["errors"] == []
            assert module_db.execute(sql.encode()).fetchall() == [(count,)]


@pytest.mark.slow
@pytest.mark.chromium
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
def test_the_page_shows_the_picture_beside_its_words(browser: Any, server: Serving, pictures: dict[str, int]) -> None:
    errors: list[str] = []
    page = browser.new_context(viewport={"width": 1280, "height": 820}, locale="en-US").new_page()
    page.set_default_timeout(30_000)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{server.url}/#token={TOKEN}")
    page.fill("#question", QUESTION)
    page.keyboard.press("Control+Enter")
    page.click(".hits .title >> nth=0")
    for _ in range(2):
        page.wait_for_selector("#panel .picture img")
        until(page, "document.querySelector('#panel .picture img').naturalWidth === 1")
        assert "drawing of the Heron launcher" in page.inner_text("#panel figcaption")
        assert "picture=" in page.url
        picture(page, "picture of a document")
        # The address leads there again.
        page.reload()
    page.context.close()
    assert errors == []


@pytest.mark.slow
@pytest.mark.chromium
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
def test_a_scanned_page_stands_beside_the_sentence_that_is_cited(
    browser: Any, server: Serving, scans: dict[str, int]
) -> None:
    view = browser.new_context(viewport={"width": 1280, "height": 820}, locale="en-US").new_page()
    view.set_default_timeout(30_000)
    view.goto(f"{server.url}/#token={EVE}")
    view.fill("#question", "How many ducats is the rent?")
    view.keyboard.press("Enter")
    view.click(".sources .source >> nth=0")
    for _ in range(2):
        view.wait_for_selector("#panel .picture img")
        until(view, "document.querySelector('#panel .picture img').naturalWidth === 1240")
        assert "ducats" in view.inner_text("#sentence")
        assert view.inner_text("#panel .heading") == "Rent"
        # Both are to be seen.
        boxes = [view.locator(f"#panel {what}").bounding_box() for what in (".picture img", "#sentence")]
        assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"] < 820 - boxes[1]["height"]
        picture(view, "scanned page of a citation")
        view.reload()
    # Of a passage that a search finds, too; a page that is no scan has none.
    for question, count in (("The rent is four hundred ducats", 1), ("Boats moor at the quay", 0)):
        view.goto(f"{server.url}/#/?")
        view.fill("#question", question)
        view.keyboard.press("Control+Enter")
        assert "p. 1–3" in view.inner_text(".hits .card >> nth=0")
        view.click(".hits .title >> nth=0")
        view.wait_for_selector("#sentence")
        assert view.locator("#panel .picture").count() == count, question
    view.context.close()


def test_scans_that_come_at_once_are_all_recognised(db: Database) -> None:
    pytest.importorskip("rapidocr")
    scans = {f"{number}.png": as_png(page([f"Valve {number}2 of the pump."])) for number in range(3)}
    with serving(db.url, ocr="auto") as server, ThreadPoolExecutor(3) as pool:

        def upload(name: str) -> Any:
            with server.client() as client:
                return client.post("/api/upload", files={"files": (name, scans[name])}, timeout=120).json()

        results = list(pool.map(upload, scans))
    assert [(result["inserted"], result["errors"]) for (result,) in results] == [(1, [])] * 3
    texts = {content.strip("\n\f") for (content,) in db.execute("SELECT content FROM graphrag.documents")}
    assert texts == {f"Valve {number}2 of the pump." for number in range(3)}
