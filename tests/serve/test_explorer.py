"""The pages of ``pg-graphrag serve`` in Chromium: from a question to its sentence, graph, upload, curation, phone, keys.

Needs Debian's chromium (``apt-get install chromium``), or a browser that GRAPHRAG_CHROMIUM names; else these are skipped.
GRAPHRAG_SCREENSHOTS=FOLDER keeps pictures of each view.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.beside.client import Document
from pg_graphrag.beside.readers import read
from pg_graphrag.beside.serve.settings import Limits

from bench.load.search import processor_seconds
from tests.endpoint import Endpoint
from tests.runtime.cluster import POSTGRES, PROJECT, Database, Runtime
from tests.serve.serving import TOKEN, Serving, serving
from tests.sql import asking
from tests.sql.asking import ANSWER
from tests.sql.ingest import put

CHROMIUM = os.environ.get("GRAPHRAG_CHROMIUM") or shutil.which("chromium")
PICTURES = os.environ.get("GRAPHRAG_SCREENSHOTS")
pytestmark = [
    pytest.mark.chromium,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium"),
]
playwright = pytest.importorskip("playwright.sync_api")

# As root there is no sandbox; software draws WebGL; nothing is asked of other hosts.
ARGUMENTS = (
    "--no-sandbox --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync"
    " --use-gl=angle --use-angle=swiftshader --enable-unsafe-swiftshader --ignore-gpu-blocklist"
).split()
QUESTION = "What did Ada Lovelace write on the Analytical Engine?"
JAPANESE = "東京タワーは1958年に完成した。高さは333メートルである。設計者は内藤多仲である。"
LARGEST_VIEW = 600_000
# Of ./quickstart's chapters, those that the rows name most. All its rows are loaded: they make the graph what it is.
CHAPTERS = ("backup", "textsearch", "wal")
# What a view may take of processors, however busy the machine is: of the sessions that it asks and of the page's thread. On the
# quickstart's whole corpus none takes more than .8 s.
VIEW_SECONDS = 1.0
AUDIT = Path(__file__).with_name("audit.js").read_text()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def explored(module_db: Database, module_endpoint: Endpoint) -> Iterator[Serving]:
    corpus = asking.stories(module_db, module_endpoint, corpus={"communities": True})
    put(module_db, corpus, "tower", JAPANESE, "東京タワー")
    module_db.execute("CALL graphrag.process_jobs()")
    with serving(module_db.url, corpus=corpus, limits=Limits(seconds=120)) as server:
        yield server


@pytest.fixture(scope="module")
def manual(explored: Serving, module_db: Database, runtime: Runtime) -> str:
    """The quickstart's corpus, with the very rows that it attaches."""
    script = (PROJECT / "quickstart").read_text()
    blocks = re.findall(r'-c "(DO \\\$\\\$.*?\\\$\\\$)"', script, re.DOTALL)
    attaching = [block.replace("\\$", "$") for block in blocks if "attach_entities" in block]
    assert len(attaching) == 2
    module_db.execute("SELECT graphrag.create_corpus('manual')")
    folder = runtime.root / f"usr/share/doc/postgresql-doc-{POSTGRES}/html"
    with GraphRAG(module_db.url, "manual") as rag:
        pages = [page for chapter in CHAPTERS for page in sorted(folder.glob(f"{chapter}*.html"))]
        rag.insert(item for page in pages for item in read(page, page.name) if isinstance(item, Document))
    for block in attaching:
        module_db.execute(block.replace("$corpus", "manual").encode())
    module_db.execute("CALL graphrag.process_jobs()")
    return "manual"


Open = Callable[..., Any]


@pytest.fixture
def opened(browser: Any, explored: Serving) -> Iterator[Open]:
    """Opens the pages, signed in; afterwards nothing may have failed in them but requests for `failing`, and nothing been
    asked of other hosts."""
    contexts, errors = [], []

    def open_page(path: str = "", *, failing: str | None = None, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 820}, "locale": "en-US"} | options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on(
            "console",
            lambda message: (
                message.type == "error"
                and urlsplit(message.location["url"]).path != failing
                and errors.append(message.text)
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


def refuse(route: Any) -> None:
    route.fulfill(status=504, json={"code": "57014", "detail": "the request took too long", "hint": ""})


def picture(page: Any, name: str) -> None:
    if PICTURES:
        Path(PICTURES).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{PICTURES}/{name}.png")


def until(page: Any, expression: str) -> None:
    """Wait until JavaScript says so. Playwright's own waiting evaluates strings in the page, whose policy forbids it."""
    deadline = time.monotonic() + 30
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(50)


class Spent:
    """What views take of processors; a server on another machine counts as nothing."""

    def __init__(self, page: Any, db: Database) -> None:
        self._client, self._db = page.context.new_cdp_session(page), db
        self._client.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._before = self._seconds()
        self.by_view: dict[str, float] = {}

    def on(self, view: str) -> None:
        """Have all that came since the last call be a view's."""
        now = self._seconds()
        self.by_view[view], self._before = now - self._before, now

    def _seconds(self) -> float:
        metrics = self._client.send("Performance.getMetrics")["metrics"]
        sessions = self._db.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()
        (page,) = (metric["value"] for metric in metrics if metric["name"] == "TaskDuration")
        return float(page) + sum(processor_seconds(pid) for (pid,) in sessions)


def test_the_first_view_is_small_and_soon_there(browser: Any, explored: Serving) -> None:
    context = browser.new_context()
    page = context.new_page()
    sizes = []
    page.on("response", lambda reply: sizes.append(len(reply.body())))
    page.goto(f"{explored.url}/#token={TOKEN}")
    page.wait_for_selector("#question")
    assert sum(sizes) < LARGEST_VIEW
    # No token is left in the address.
    assert "token" not in page.url
    page.goto("about:blank")
    page.goto(explored.url)
    page.wait_for_selector("#question")
    context.close()


def test_the_whole_page_with_its_graph_is_small() -> None:
    from pg_graphrag.beside.serve.app import STATIC

    assert (
        sum(path.stat().st_size for path in STATIC.rglob("*.*s*") if path.suffix in (".js", ".css", ".html"))
        < LARGEST_VIEW
    )
    for library in ("sigma", "graphology", "forceatlas2"):
        assert "Permission is hereby granted" in (STATIC / f"vendor/{library}.LICENSE.txt").read_text()


def test_three_clicks_lead_from_a_question_to_its_sentence(opened: Open) -> None:
    page = opened()
    page.fill("#question", "Who admired Ada Lovelace in London?")
    page.click("#search")
    page.click(".hits .title >> nth=0")
    assert page.inner_text("#sentence") == "Charles Babbage admired Ada Lovelace in London."
    picture(page, "search")
    page.keyboard.press("Escape")
    assert page.is_hidden("#panel")


def test_an_answer_cites_sentences_and_shows_why_it_holds(opened: Open) -> None:
    page = opened()
    page.fill("#question", QUESTION)
    page.click("#ask")
    page.wait_for_selector(".answer .cite")
    assert page.inner_text(".answer") == ANSWER.replace("[1]", "1")
    page.click(".answer .cite")
    assert "Ada Lovelace" in page.inner_text("#sentence")
    picture(page, "answer")
    page.keyboard.press("Escape")
    page.click("#why")
    until(page, "document.querySelector('#legend')?.textContent.startsWith('Why')")
    until(page, "document.documentElement.dataset.arranged")
    page.wait_for_timeout(300)
    picture(page, "why")
    assert page.inner_text("#side h3 >> nth=0") == QUESTION
    page.click("#side .link >> text=/^\\[1\\]/")
    page.wait_for_selector("#panel .chunk")


def test_verdicts_on_answers_and_passages_grow_into_the_golden_set(
    opened: Open, explored: Serving, module_db: Database
) -> None:
    page = opened()
    page.fill("#question", QUESTION)
    page.click("#ask")
    page.click("[data-verdict=good]")
    page.wait_for_selector("[role=status]:has-text('Noted as good, with 1 document as evidence.')")
    picture(page, "verdict")
    page.fill("#question", "Who admired Ada Lovelace in London?")
    page.click("#search")
    page.click(".hits .mark >> nth=0")
    page.click("[data-verdict=bad]")
    page.wait_for_selector("[role=status]:has-text('Noted as bad, with 1 document')")
    with explored.client() as client, GraphRAG(module_db.url, client.get("/api/session").json()["corpus"]) as rag:
        golden = rag.golden_questions()
    assert [(item["question"], item["evidence"], item["good"], item["bad"]) for item in golden] == [
        (QUESTION, ["ada"], 1, 0),
        ("Who admired Ada Lovelace in London?", ["ada"], 0, 1),
    ]


def test_without_a_model_the_passages_are_there_all_the_same(
    opened: Open, module_endpoint: Endpoint, module_db: Database
) -> None:
    module_db.execute("SELECT graphrag.create_corpus('without a model')")
    put(module_db, "without a model", "kestrel", "The Kestrel engine burns methane.")
    module_db.execute("CALL graphrag.process_jobs()")
    page = opened()
    page.select_option("#corpus", "without a model")
    page.fill("#question", "What does the Kestrel burn?")
    page.click("#ask")
    page.wait_for_selector(".hits li")
    assert "model" in page.inner_text("#results .error")


def test_the_graph_leads_from_the_overview_to_an_entity_and_along_a_path(opened: Open) -> None:
    page = opened("graph")
    until(page, "document.documentElement.dataset.arranged")
    assert "most connected" in page.inner_text("#legend")
    picture(page, "graph")
    page.click("#side .card:has-text('Communities') .link >> nth=0")
    until(page, "document.querySelector('#legend').textContent.includes('of a community')")
    page.fill("#side [name=entity]", "Ada Lovelace")
    page.click("#side button:text-is('Find')")
    page.click("#side .card:has-text('Found') .link:text-is('Ada Lovelace')")
    until(page, "document.querySelector('#legend').textContent.startsWith('Ada Lovelace')")
    picture(page, "entity")
    page.click("summary:text-is('Path between two')")
    page.fill("#side [name=target]", "Bombe")
    page.click("button:text-is('Show the path')")
    until(page, "document.querySelector('#legend').textContent.includes('from Ada Lovelace to Bombe')")
    picture(page, "path")


@pytest.mark.parametrize(
    ("view", "failing", "part", "rest"),
    [
        ("graph", "/api/graph/communities", "#side .card:has(h3:text-is('Communities'))", "#side h3:text-is('Most connected')"),
        ("graph", "/api/graph", "#legend", "#side .card:has(h3:text-is('Communities')) li"),
        ("documents", "/api/documents", "#documents", "#progress progress"),
        ("documents", "/api/status/events", "#progress", "#documents table"),
        ("curation", "/api/curations", "#changes", "#suggest"),
        ("curation", "/api/curations/suggestions", "#suggestions", "#changes p"),
    ],
)  # fmt: skip
def test_a_list_that_fails_says_so_in_its_place_and_leaves_the_rest(
    opened: Open, view: str, failing: str, part: str, rest: str
) -> None:
    page = opened(view, failing=failing)
    if part == "#suggestions":
        page.click("#suggest")
    page.wait_for_selector(f"{part} [role=alert]:has-text('the request took too long')")
    page.wait_for_selector(rest)
    picture(page, f"failed-{failing.rpartition('/')[2]}")
    page.unroute_all()
    page.click(f"{part} button:text-is('Try again')")
    page.wait_for_selector(f"{part} [role=alert]", state="detached")
    page.wait_for_selector(f"{part} >> text=/./")


def test_without_the_list_of_corpora_the_page_shows_its_own(opened: Open, explored: Serving) -> None:
    page = opened(failing="/api/corpora")
    page.fill("#question", "Who broke Enigma?")
    page.click("#search")
    page.wait_for_selector(".hits li")


def test_a_drawing_that_fails_leaves_its_list(opened: Open) -> None:
    page = opened("graph", failing="/static/vendor/sigma.min.js")
    page.wait_for_selector("#legend [role=alert]")
    page.click("#side .card:has(h3:text-is('Most connected')) .link >> nth=0")
    page.wait_for_selector("#side h3:text-is('Relationships')")


def test_every_view_of_the_quickstarts_corpus_is_drawn(opened: Open, manual: str, module_db: Database) -> None:
    page = opened()
    spent = Spent(page, module_db)
    page.select_option("#corpus", manual)
    page.fill("#question", "Which settings that need a restart matter for checkpoints?")
    page.click("#search")
    page.click(".hits .title >> nth=0")
    page.wait_for_selector("#panel .text")
    picture(page, "manual-search")
    spent.on("search")
    page.keyboard.press("Escape")
    page.click("[data-view=graph]")
    until(page, "document.documentElement.dataset.arranged")
    page.wait_for_selector("#side .card:has(h3:text-is('Communities')) li")
    page.wait_for_selector("#side .card:has(h3:text-is('Most connected')) li")
    picture(page, "manual-graph")
    spent.on("graph")
    page.select_option("[aria-label='Entities drawn']", "20000")
    until(page, "/^The [12],/.test(document.querySelector('#legend').textContent)")
    spent.on("whole graph")
    page.click("#side .card:has(h3:text-is('Communities')) .link >> nth=0")
    until(page, "document.querySelector('#legend').textContent.includes('of a community')")
    picture(page, "manual-community")
    spent.on("community")
    page.fill("#side [name=entity]", "checkpoint_timeout")
    page.click("#side button:text-is('Find')")
    page.click("#side .card:has(h3:text-is('Found')) .link:text-is('checkpoint_timeout')")
    until(page, "document.querySelector('#legend').textContent.startsWith('checkpoint_timeout')")
    assert page.inner_text("#side .card:has(h3:text-is('checkpoint_timeout')) .badge") == "setting"
    picture(page, "manual-entity")
    spent.on("entity")
    page.click("summary:text-is('Path between two')")
    page.fill("#side [name=target]", "fsync")
    page.click("button:text-is('Show the path')")
    until(page, "document.querySelector('#legend').textContent.includes('from checkpoint_timeout to fsync')")
    picture(page, "manual-path")
    spent.on("path")
    page.click("[data-view=documents]")
    page.wait_for_selector("#progress:has-text('1,')")
    page.click("button:text-is('More')")
    until(page, "document.querySelectorAll('#documents tbody tr').length === 100")
    page.fill("[aria-label='Key or title']", "checkpoint_timeout")
    page.wait_for_selector("#documents tbody tr:has-text('checkpoint_timeout'):only-child")
    picture(page, "manual-documents")
    spent.on("documents")
    page.click("[data-view=curation]")
    page.click("#suggest")
    page.wait_for_selector("#suggestions li")
    picture(page, "manual-curation")
    spent.on("curation")
    assert page.query_selector(".error") is None
    assert len(spent.by_view) == 8
    assert {view: seconds for view, seconds in spent.by_view.items() if seconds > VIEW_SECONDS} == {}


def test_a_change_of_an_entity_is_undone_where_it_was_made_and_in_the_list(opened: Open) -> None:
    page = opened("graph")
    page.fill("#side [name=entity]", "Grace Hopper")
    page.click("#side button:text-is('Find')")
    page.click("#side .link:text-is('Grace Hopper') >> nth=0")
    page.click("summary:text-is('Change this entity')")
    page.fill(".curation [aria-label=Type]", "ADMIRAL")
    page.click(".curation form:has([aria-label=Type]) button")
    page.wait_for_selector("#side .badge:text-is('ADMIRAL')")
    page.click(".toast button")
    until(page, "!document.querySelector('#side .card .badge').textContent.includes('ADMIRAL')")
    page.click("[data-view=curation]")
    page.wait_for_selector("#changes .badge:text-is('undone')")
    page.click("#suggest")
    page.wait_for_selector("#suggestions :not([role=status])")
    picture(page, "curation")


def test_files_are_uploaded_and_their_progress_shown(opened: Open, module_db: Database) -> None:
    module_db.execute("SELECT graphrag.create_corpus('uploaded', '{\"communities\": false}')")
    page = opened("documents")
    page.goto(f"{page.url.split('#')[0]}#/uploaded/documents")
    page.wait_for_selector("text=There are no documents yet.")
    files = [
        {"name": "plan.md", "mimeType": "text/markdown", "buffer": b"# Plan\n\nWe test the engine in May."},
        {"name": "塔.txt", "mimeType": "text/plain", "buffer": JAPANESE.encode()},
        {"name": "evil.exe", "mimeType": "application/octet-stream", "buffer": b"MZ"},
    ]
    page.set_input_files("#files", files)
    page.wait_for_selector("#sent .error:has-text('no reader')")
    page.wait_for_selector("#progress:has-text('2 pending')")
    assert "塔.txt: 1 new" in page.inner_text("#sent")
    picture(page, "upload")
    module_db.execute("CALL graphrag.process_jobs()")
    page.wait_for_selector("#progress:has-text('2 indexed')")
    page.on("dialog", lambda dialog: dialog.accept())
    page.click("[aria-label='Delete 塔']")
    page.wait_for_selector(".toast:has-text('Deleted')")


def test_text_without_spaces_is_marked_by_the_sentence(opened: Open) -> None:
    page = opened()
    page.fill("#question", "東京タワーの高さは何メートルか")
    page.press("#question", "Enter")
    page.click(".hits .title:text-is('東京タワー')")
    assert page.inner_text("#sentence") == "高さは333メートルである。"
    picture(page, "japanese")


def test_keys_do_what_the_mouse_does(opened: Open) -> None:
    page = opened()
    page.keyboard.type("Who broke Enigma?")
    page.keyboard.press("Enter")
    page.wait_for_selector(".hits li")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("#panel .text")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.className") == "link title"
    page.keyboard.press("3")
    page.wait_for_selector("#documents table")
    page.keyboard.press("/")
    until(page, "document.activeElement.id === 'question'")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("?")
    assert page.is_visible("#keys")


def test_dark_on_a_phone(opened: Open) -> None:
    page = opened(viewport={"width": 390, "height": 780}, color_scheme="dark", has_touch=True)
    page.fill("#question", "Who broke Enigma?")
    page.click("#search")
    page.wait_for_selector(".hits li")
    picture(page, "phone")
    for view in ("search", "graph", "documents", "curation"):
        page.click(f"[data-view={view}]")
        page.wait_for_timeout(400)
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, view
        picture(page, f"phone-{view}")
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(int(part) for part in back.removeprefix("rgb(").removesuffix(")").split(",")) < 60
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_controls_have_names_and_texts_stand_out(opened: Open, scheme: str) -> None:
    page = opened(color_scheme=scheme)
    page.fill("#question", "Who broke Enigma?")
    page.click("#search")
    page.wait_for_selector(".hits li")
    for view in ("search", "graph", "documents", "curation"):
        page.click(f"[data-view={view}]")
        page.wait_for_timeout(500)
        problems = page.evaluate(AUDIT)
        assert problems["nameless"] == [], view
        assert problems["faint"] == [], view


def test_texts_of_documents_are_never_markup(opened: Open, module_db: Database) -> None:
    module_db.execute("SELECT graphrag.create_corpus('hostile', '{\"communities\": false}')")
    evil = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script> Kestrel <b>bold</b>"
    put(module_db, "hostile", evil, f"{evil} The Kestrel engine burns methane.", evil)
    module_db.execute("CALL graphrag.process_jobs()")
    page = opened()
    page.select_option("#corpus", "hostile")
    page.fill("#question", "Kestrel")
    page.click("#search")
    page.click(".hits .title >> nth=0")
    page.wait_for_selector("#panel .text")
    for view in ("graph", "documents"):
        page.click(f"[data-view={view}]")
        page.wait_for_timeout(300)
    assert "taken" not in page.title()
    assert page.query_selector("main img, main script, main b, #panel img") is None


def test_who_has_no_token_gets_a_form_and_nothing_else(browser: Any, explored: Serving) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(explored.url)
    page.fill("[name=token]", "wrong-token-of-somebody")
    page.click("form button")
    page.wait_for_selector("[role=alert]:has-text('not known')")
    page.fill("[name=token]", TOKEN)
    page.click("form button")
    page.wait_for_selector("#question")
    context.close()
