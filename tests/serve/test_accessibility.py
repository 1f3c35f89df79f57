"""Every state of the pages by axe-core: at both widths, light and dark. None is wider than its window."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.runtime.npm import node_modules
from tests.serve.pages import IN_CHROMIUM, QUESTION, Open, drawn, picture, says
from tests.serve.serving import TOKEN, Serving
from tests.serve.test_ask_page import MARKDOWN_QUESTION, ask, lines
from tests.sql.ingest import put

pytestmark = IN_CHROMIUM
# Of what axe finds: the rule, and where.
RUN = """axe.run(document, {resultTypes: ["violations"]}).then(({violations}) => violations.flatMap(({id, nodes}) =>
    nodes.map(({html, failureSummary}) => `${id}: ${html.slice(0, 200)} ${failureSummary}`)))"""
# Places depend on the width alone, colors on the theme alone.
LOOKS = ((1280, "light"), (375, "dark"))
WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
Audit = Callable[[Any, str], None]


@pytest.fixture(scope="session")
def axe() -> str:
    return (node_modules("axe-core@4") / "axe-core/axe.min.js").read_text()


@pytest.fixture
def audit(axe: str) -> Audit:
    """Looks at a state of a page by its name."""

    def look(page: Any, state: str) -> None:
        page.evaluate(f"globalThis.axe || (() => {{{axe}}})(); null")
        before = page.viewport_size
        for width, scheme in LOOKS:
            page.set_viewport_size({"width": width, "height": 800})
            page.emulate_media(color_scheme=scheme)
            picture(page, f"{state}-{width}-{scheme}")
            assert page.evaluate(WIDE) <= 0, (state, width)
            violations = page.evaluate(RUN)
            assert violations == [], (state, width, scheme)
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(before)

    return look


@pytest.mark.slow
def test_of_questions_and_answers(opened: Open, audit: Audit, module_endpoint: Endpoint) -> None:
    module_endpoint.reply(lines)
    page = opened(refused="/api/ask")
    page.wait_for_selector(".suggestions button")
    audit(page, "ask-start")
    page.click(".settings summary")
    audit(page, "ask-settings")
    ask(page, MARKDOWN_QUESTION)
    page.wait_for_selector(".diagram img")
    audit(page, "ask-markdown")
    ask(page, QUESTION, 2)
    audit(page, "ask-thread")
    page.click(".turn:nth-child(2) .answer button.cite")
    page.wait_for_selector("#sentence")
    audit(page, "document")
    page.keyboard.press("Escape")
    page.click(".turn:nth-child(2) .why")
    says(page, "Why?")
    drawn(page)
    audit(page, "why")
    page.go_back()
    page.fill("#question", "Who broke Enigma?")
    page.press("#question", "Control+Enter")
    page.wait_for_selector(".hits li")
    audit(page, "search")
    page.click(".settings summary")
    page.click("#context")
    page.wait_for_selector("pre.context")
    audit(page, "context")
    page.fill("#question", "xyzzy")
    page.press("#question", "Control+Enter")
    page.wait_for_timeout(500)
    audit(page, "search-nothing")
    page.click("#help")
    audit(page, "keys")
    page.keyboard.press("Escape")
    page.click(".who summary")
    audit(page, "who")
    module_endpoint.misbehave("unauthorized", times=None)
    page.goto(f"{page.url.split('#')[0]}#/{page.input_value('#corpus')}/ask")
    page.wait_for_selector(".suggestions button")
    page.fill("#question", "Who broke Enigma in May?")
    page.press("#question", "Enter")
    page.wait_for_selector(".turn [role=alert]")
    audit(page, "ask-failed")
    module_endpoint.behave()


@pytest.mark.slow
def test_of_the_graph(opened: Open, audit: Audit) -> None:
    page = opened("graph", failing="/api/graph/path")
    page.unroute_all()
    drawn(page)
    audit(page, "graph")
    page.click("summary:text-is('View')")
    audit(page, "graph-menu")
    page.select_option("[name=show]", "groups")
    says(page, "in groups that open")
    drawn(page)
    audit(page, "graph-groups")
    page.click("#side .items a >> nth=0")
    drawn(page, "location.hash.includes('/graph/community/')")
    page.focus("[name=entity]")
    page.keyboard.type("en")
    page.wait_for_selector("[role=option]")
    page.keyboard.press("ArrowDown")
    audit(page, "graph-completion")
    page.keyboard.press("Escape")
    page.press("[name=entity]", "Enter")
    page.wait_for_selector("#side .card:has(h3:text-is('Found'))")
    audit(page, "graph-found")
    page.goto(f"{page.url.split('#')[0]}#/{page.input_value('#corpus')}/graph/entity?name=Ada Lovelace")
    page.wait_for_selector("#chosen")
    drawn(page)
    audit(page, "entity")
    page.evaluate("document.querySelectorAll('#side details').forEach((one) => { one.open = true; })")
    audit(page, "entity-forms")
    base = f"{page.url.split('#')[0]}#/{page.input_value('#corpus')}/graph"
    page.goto(f"{base}/path?source=Ada Lovelace&target=Bombe")
    says(page, "from Ada Lovelace to Bombe")
    drawn(page)
    audit(page, "path")
    page.goto(f"{base}/path?source=Ada Lovelace&target=Bombx")
    page.wait_for_selector("#side [role=alert]")
    audit(page, "path-unknown")


def test_of_documents_and_curation(opened: Open, audit: Audit, module_db: Database) -> None:
    module_db.execute("SELECT graphrag.create_corpus('audited', '{\"communities\": false}')")
    page = opened("documents")
    base = f"{page.url.split('#')[0]}#/audited"
    page.goto(f"{base}/documents")
    page.wait_for_selector("text=There are no documents yet.")
    audit(page, "documents-none")
    files = [
        {"name": "plan.md", "mimeType": "text/markdown", "buffer": b"# Plan\n\nWe test the engine in May."},
        {"name": "evil.exe", "mimeType": "application/octet-stream", "buffer": b"MZ"},
    ]
    page.set_input_files("#files", files)
    page.wait_for_selector("#sent .error:has-text('no reader')")
    page.check("#documents tbody input")
    audit(page, "documents-sent")
    put(module_db, "audited", "one", "Annabelle Lindstrom met Kestrel Industries in Oslo.")
    put(module_db, "audited", "two", "Annabele Lindstrom left Kestrel Industries in May.")
    module_db.execute("CALL graphrag.process_jobs()")
    page.goto(f"{base}/curation")
    page.click("#suggest")
    page.click("#suggestions button:text-is('Merge')")
    page.wait_for_selector("#changes td")
    audit(page, "curation")
    page.click("#changes button:text-is('Undo')")
    page.wait_for_selector("#changes .badge")
    audit(page, "curation-undone")


@pytest.mark.slow
def test_of_the_ways_in_and_of_the_description(browser: Any, explored: Serving, audit: Audit) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-US")
    page = context.new_page()
    page.goto(explored.url)
    page.fill("[name=token]", "wrong-token-of-somebody")
    page.click("form button")
    page.wait_for_selector("[role=alert]")
    audit(page, "sign-in")
    page.route("**/api/sign-in", lambda route: route.fulfill(json={"password": True, "provider": "Acme"}))
    page.reload()
    page.wait_for_selector("[name=password]")
    page.click("details summary")
    audit(page, "sign-in-ways")
    page.fill("[name=token]", TOKEN)
    page.press("[name=token]", "Enter")
    page.wait_for_selector("#question")
    page.goto(f"{explored.url}/docs")
    page.wait_for_selector("details")
    page.click("summary:has-text('POST /api/search')")
    audit(page, "docs")
    context.close()
