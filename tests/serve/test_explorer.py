"""The pages of ``pg-graphrag serve`` in Chromium: from a question to its sentence, documents, sign-in, phone, keys."""

import json
import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.beside.client import Document
from pg_graphrag.beside.readers import read

from tests.runtime.cluster import POSTGRES, PROJECT, Database, Runtime
from tests.serve.pages import IN_CHROMIUM, JAPANESE, QUESTION, READER, Open, Spent, drawn, picture, says, until, wait
from tests.serve.serving import TOKEN, Serving
from tests.sql.asking import ANSWER
from tests.sql.ingest import put

pytestmark = IN_CHROMIUM
FIRST_VIEW = 150_000
LARGEST_VIEW = 600_000
# Of ./quickstart's chapters, those that the rows name most. All its rows are loaded: they make the graph what it is.
CHAPTERS = ("backup", "textsearch", "wal")
# What a view may take of processors, however busy the machine is: of the sessions that it asks and of the page's thread. On the
# quickstart's whole corpus none takes more than .8 s.
VIEW_SECONDS = 1.0


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


@pytest.mark.slow
def test_the_first_view_is_small_and_soon_there(browser: Any, explored: Serving) -> None:
    context = browser.new_context()
    page = context.new_page()
    sizes = []
    page.on("response", lambda reply: sizes.append(len(reply.body())))
    page.goto(f"{explored.url}/#token={TOKEN}")
    page.wait_for_selector("#question")
    assert sum(sizes) < FIRST_VIEW
    # No token is left in the address.
    assert "token" not in page.url
    page.goto("about:blank")
    page.goto(explored.url)
    page.wait_for_selector("#question")
    context.close()


def test_the_whole_page_with_its_graph_is_small() -> None:
    from pg_graphrag.beside.serve.app import STATIC

    met_later = ("markdown-it", "katex", "mermaid")
    files = [path for path in STATIC.rglob("*.*s*") if path.suffix in (".js", ".css", ".html")]
    assert sum(path.stat().st_size for path in files if not path.name.startswith(met_later)) < LARGEST_VIEW
    for library in ("sigma", "graphology", "forceatlas2", *met_later):
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


@pytest.mark.slow
def test_an_answer_cites_sentences_and_shows_why_it_holds(opened: Open) -> None:
    page = opened()
    page.fill("#question", QUESTION)
    page.click("#ask")
    page.wait_for_selector(".answer button.cite")
    assert page.inner_text(".answer") == ANSWER.replace("[1]", "1")
    page.click(".answer button.cite")
    assert "Ada Lovelace" in page.inner_text("#sentence")
    picture(page, "answer")
    page.keyboard.press("Escape")
    page.click(".why")
    until(page, "document.querySelector('#legend')?.textContent.startsWith('Why')")
    until(page, "document.documentElement.dataset.arranged")
    page.wait_for_timeout(300)
    picture(page, "why")
    assert page.inner_text("#side h3 >> nth=0") == QUESTION
    page.click("#side .link >> text=/^\\[1\\]/")
    page.wait_for_selector("#panel .chunk")
    page.reload()
    page.wait_for_selector(f"#side h3:text-is('{QUESTION}')")


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("view", "failing", "part", "rest"),
    [
        ("graph", "/api/graph/map", "#legend", "#side summary:text-is('Path between two')"),
        ("graph", "/api/graph", "#legend", "#side summary:text-is('Path between two')"),
        ("documents", "/api/documents", "#documents", "#progress progress"),
        ("documents", "/api/status/events", "#progress", "#documents table"),
        ("curation", "/api/curations", "#changes", "#suggest"),
        ("curation", "/api/curations/suggestions", "#suggestions", "#changes :is(p, td)"),
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


@pytest.mark.slow
def test_without_the_list_of_corpora_the_page_shows_its_own(opened: Open, explored: Serving) -> None:
    page = opened(failing="/api/corpora")
    page.fill("#question", "Who broke Enigma?")
    page.click("#search")
    page.wait_for_selector(".hits li")


@pytest.mark.slow
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
    says(page, "in groups that open")
    drawn(page)
    picture(page, "manual-graph")
    spent.on("graph")
    page.click("summary:text-is('View')")
    page.select_option("[name=show]", "entities")
    says(page, "The 300 most connected of")
    page.select_option("[name=limit]", "20000")
    until(page, "/^[12],/.test(document.querySelector('#legend').textContent)")
    drawn(page)
    picture(page, "manual-whole")
    spent.on("whole graph")
    page.click("[data-view=graph]")
    says(page, "in groups that open")
    page.click("#side .items a >> nth=0")
    until(page, "location.hash.includes('/graph/community/')")
    drawn(page, "/^[0-9]+ entities/.test(document.querySelector('#legend').textContent)")
    picture(page, "manual-community")
    spent.on("community")
    page.fill("[name=entity]", "checkpoint_timeou")
    page.click("[role=option]:has-text('checkpoint_timeout') >> nth=0")
    page.wait_for_selector("#chosen:has(h3:text-is('checkpoint_timeout')) .badge:text-is('setting')")
    drawn(page)
    picture(page, "manual-entity")
    spent.on("entity")
    page.click("summary:text-is('Path between two')")
    page.fill("#side [name=source]", "checkpoint_timeout")
    page.fill("form:has([name=source]) [name=target]", "fsync")
    page.press("form:has([name=source]) [name=target]", "Enter")
    says(page, "from checkpoint_timeout to fsync")
    drawn(page)
    picture(page, "manual-path")
    spent.on("path")
    page.click("[data-view=documents]")
    page.wait_for_selector("#progress:has-text('1,')")
    page.click("button:text-is('Next')")
    page.wait_for_selector(".pages:has-text('2 of ')")
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


@pytest.mark.slow
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
    page.wait_for_selector("#sent [role=status]:has-text('3 of 3 files: 2 new')")
    page.click("#sent summary")
    assert "塔.txt: 1 new" in page.inner_text("#sent")
    # The newest stand first.
    assert page.locator("#documents .link").all_inner_texts()[-2:] == ["塔", "Plan"]
    picture(page, "upload")
    module_db.execute("CALL graphrag.process_jobs()")
    page.wait_for_selector("#progress:has-text('2 indexed')")
    page.on("dialog", lambda dialog: dialog.accept())
    page.check("[aria-label='Choose 塔']")
    page.click("#delete")
    page.wait_for_selector(".toast:has-text('1 document deleted')")
    page.wait_for_selector("#documents tr:has-text('塔')", state="detached")


@pytest.mark.slow
def test_what_failed_is_tried_again_all_is_indexed_again_and_an_upload_cancelled(
    opened: Open, module_db: Database
) -> None:
    module_db.execute("SELECT graphrag.create_corpus('again', '{\"communities\": false}')")
    for key in ("one", "two"):
        put(module_db, "again", key, "The Kestrel engine burns methane.")
    module_db.execute("CALL graphrag.process_jobs()")
    put(module_db, "again", "two", "The Kestrel engine burns hydrogen.")
    module_db.execute("UPDATE graphrag.jobs SET state = 'failed', errors = 3, last_error = 'It was torn.'")
    module_db.execute(
        "UPDATE graphrag.documents SET status = 'failed', error = 'It was torn.' WHERE corpus = 'again' AND source_key = 'two'"
    )
    page = opened("documents")
    page.goto(f"{page.url.split('#')[0]}#/again/documents")
    page.wait_for_selector("#documents .badge.failed")
    page.wait_for_selector("#documents .error:has-text('It was torn.')")
    page.select_option("[aria-label=Status]", "failed")
    page.wait_for_selector("#documents tbody tr:only-child")
    page.select_option("[aria-label=Status]", "")
    page.click("#retry")
    page.wait_for_selector(".toast:has-text('1 tried again')")
    page.wait_for_selector("#progress:has-text('1 pending')")
    module_db.execute("CALL graphrag.process_jobs()")
    page.wait_for_selector("#progress:has-text('2 indexed')")
    page.wait_for_selector("#documents .badge.failed", state="detached")
    page.on("dialog", lambda dialog: dialog.accept())
    page.click("#reindex")
    page.wait_for_selector(".toast:has-text('2 queued')")
    page.wait_for_selector("#progress:has-text('2 pending')")
    module_db.execute("CALL graphrag.process_jobs()")
    page.wait_for_selector("#progress:has-text('2 indexed')")
    # A server that does not answer.
    page.route(lambda url: urlsplit(url).path == "/api/upload", lambda route: None)
    page.set_input_files("#files", [{"name": "late.txt", "mimeType": "text/plain", "buffer": b"Late."}])
    page.click("#sent button:text-is('Cancel')")
    page.wait_for_selector("#sent .error:has-text('Cancelled: 1 file may not be in.')")
    page.wait_for_selector("#sent button:text-is('Cancel')", state="detached")


@pytest.mark.slow
def test_text_without_spaces_is_marked_by_the_sentence(opened: Open) -> None:
    page = opened()
    page.fill("#question", "東京タワーの高さは何メートルか")
    page.press("#question", "Control+Enter")
    page.click(".hits .title:text-is('東京タワー')")
    assert page.inner_text("#sentence") == "高さは333メートルである。"
    picture(page, "japanese")


@pytest.mark.slow
def test_keys_do_what_the_mouse_does(opened: Open) -> None:
    page = opened()
    page.keyboard.type("Who broke Enigma?")
    page.keyboard.press("Control+Enter")
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


@pytest.mark.slow
def test_the_theme_is_the_systems_until_one_is_chosen(opened: Open) -> None:
    page = opened(color_scheme="dark")
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(int(part) for part in back.removeprefix("rgb(").removesuffix(")").split(",")) < 60
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


@pytest.mark.slow
def test_markdown_of_documents_is_shown_as_such_with_its_sentence_lit(opened: Open, module_db: Database) -> None:
    module_db.execute("SELECT graphrag.create_corpus('written', '{\"communities\": false}')")
    text = (
        "# Kestrel\n\nThe **Kestrel** engine burns methane, as `burn(a || b)` says.\n\n| who | what |\n| --- | --- |\n"
        "| Ann Lee | tested the Kestrel engine in May |\n\n```sql\nSELECT 2**3 | 4;\n```\n\n| no table |"
    )
    put(module_db, "written", "plan", text)
    module_db.execute("CALL graphrag.process_jobs()")
    page = opened()
    page.select_option("#corpus", "written")
    page.fill("#question", "Who tested the Kestrel engine in May?")
    page.click("#search")
    page.wait_for_selector(".hits li")
    assert "|" not in page.inner_text(".hits mark") and "```" not in page.inner_text(".hits")
    page.click(".hits .title >> nth=0")
    page.wait_for_selector("#panel .text")
    panel = page.locator("#panel .text")
    assert panel.locator("strong, code").all_inner_texts() == ["Kestrel", "burn(a || b)"]
    assert panel.locator("tr").all_inner_texts() == ["who\twhat", "Ann Lee\ttested the Kestrel engine in May"]
    assert panel.locator("td mark").all_inner_texts() == ["Ann Lee", "tested the Kestrel engine in May"]
    assert panel.locator("pre").inner_text() == "SELECT 2**3 | 4;"
    assert panel.locator(".heading").inner_text() == "Kestrel"
    assert "| no table |" in panel.inner_text() and "```" not in panel.inner_text()
    page.reload()
    page.wait_for_selector("#panel td mark")
    # What opens no code, and what closes none.
    elements = """async (text) => {
        const { written } = await import("/static/written.js"), box = document.createElement("div"), from = performance.now();
        box.append(...written(text, null, null));
        return [[...box.querySelectorAll("pre")].map((code) => code.textContent), box.textContent, performance.now() - from];
    }"""
    commands = "```psql``` is a client.\n\n```createdb``` makes databases.\n~~~\na\n```\nb\n~~~\nend"
    code, shown, _ = page.evaluate(elements, commands)
    assert code == ["a\n```\nb"]
    assert shown == "```psql``` is a client.\n\n```createdb``` makes databases.\na\n```\nbend"
    for hostile in (
        "a\n" * 30_000 + "```\nb\n```\n" * 10_000,
        "| a |\n|" + "-" * 100_000 + "x",
        "`" * 1000 + "\n" + "~~~\n" * 30_000,
    ):
        assert page.evaluate(elements, hostile)[2] < 5000


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


@pytest.mark.slow
def test_who_is_not_signed_in_gets_a_form_and_then_what_was_asked_for(browser: Any, explored: Serving) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{explored.url}/#/default/documents?status=failed")
    page.fill("[name=token]", "wrong-token-of-somebody")
    page.click("form button")
    page.wait_for_selector("[role=alert]:has-text('That is not right')")
    picture(page, "sign-in")
    page.fill("[name=token]", TOKEN)
    page.click("form button")
    page.wait_for_selector("#documents:has-text('No document fits')")
    page.click(".who summary")
    page.evaluate("sessionStorage.setItem('why one', '{}'); window.isOld = true")
    page.click(".who button:text-is('Sign out')")
    page.wait_for_selector("[name=token]")
    # Whoever comes next finds nothing of what was there.
    assert page.url == f"{explored.url}/"
    assert page.evaluate("[sessionStorage.length, window.isOld]") == [0, None]
    page.fill("[name=token]", TOKEN)
    page.click("form button")
    page.click("[data-view=documents]")
    page.wait_for_selector("#documents")
    for token, view, is_another in ((TOKEN, "curation", False), (READER, "documents", True)):
        page.evaluate("sessionStorage.setItem('why one', '{}'); window.isOld = true")
        context.clear_cookies()
        page.click(f"[data-view={view}]")
        page.wait_for_selector("[role=alert]:has-text('Your session has ended')")
        # What the session's end takes from the page, signing in gives back.
        page.fill("[name=token]", token)
        page.click("form button")
        page.wait_for_selector("#changes, #documents")
        if is_another:
            page.wait_for_selector(".who [aria-label='Signed in as reader']")
        assert page.evaluate("[sessionStorage.length, window.isOld]") == ([0, None] if is_another else [1, True])
    page.goto(f"{explored.url}/docs")
    page.wait_for_selector("summary:has-text('GET /api/corpora')")
    context.clear_cookies()
    page.click("summary:has-text('GET /api/corpora')")
    page.click("details[open] button:text-is('Send')")
    page.wait_for_selector("[name=token]")
    context.close()


def test_an_address_with_the_token_of_another_asks_first(opened: Open) -> None:
    page = opened("documents")
    base = page.url.split("#")[0]
    asked = []
    answers = ["dismiss", "accept"]
    page.on("dialog", lambda dialog: (asked.append(dialog.message), getattr(dialog, answers[len(asked) - 1])()))
    page.goto(f"{base}#token={TOKEN}&place=/default/curation")
    page.wait_for_selector("#changes")
    assert asked == []
    page.goto(f"{base}#token={READER}&place=/default/graph")
    page.wait_for_selector("#canvas")
    assert "You are signed in as owner." in asked[0]
    page.wait_for_selector(".who [aria-label='Signed in as owner']")
    page.goto(f"{base}#token={READER}&place=token=x")
    page.wait_for_selector(".who [aria-label='Signed in as reader']")
    assert len(asked) == 2 and READER not in page.url and "token" not in page.url


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("refused", "says"), [("unknown", "You are not on the list of this server."), ("constructor", ""), ("Call+555", "")]
)
def test_an_address_puts_no_words_of_its_own_into_the_form(
    browser: Any, explored: Serving, refused: str, says: str
) -> None:
    context = browser.new_context(locale="en-US")
    page = context.new_page()
    page.goto(f"{explored.url}/")
    page.evaluate("sessionStorage.setItem('place', '/default/documents')")
    page.goto(f"{explored.url}/static/icon.svg")
    page.goto(f"{explored.url}/#refused={refused}")
    page.wait_for_selector("[name=token]")
    assert page.inner_text("[role=alert]").startswith(says) and page.is_visible("[role=alert]") == bool(says)
    assert page.url == f"{explored.url}/#/default/documents"
    context.close()


@pytest.mark.slow
def test_the_progress_goes_on_where_the_server_ends_its_stream(opened: Open) -> None:
    page = opened()
    counts = {"failed": 0, "leased": 1, "documents": 2, "entities": 0, "relationships": 0}
    asked = []

    def tell(route: Any) -> None:
        pending = 1 if not asked else 0
        asked.append(route.request.url)
        told = json.dumps(counts | {"pending": pending, "indexed": 2 - pending})
        route.fulfill(content_type="text/event-stream", body=f"event: status\ndata: {told}\n\n")

    page.route("**/api/status/events*", tell)
    page.click("[data-view=documents]")
    page.wait_for_selector("#progress:has-text('2 indexed')")
    page.wait_for_timeout(1500)
    assert len(asked) == 2


@pytest.mark.slow
def test_files_go_where_their_upload_began_and_undo_where_the_change_was(opened: Open, module_db: Database) -> None:
    for name in ("first", "second"):
        module_db.execute(f"SELECT graphrag.create_corpus('{name}', '{{\"communities\": false}}')")
    page = opened("documents")
    base = page.url.split("#")[0]
    held = []
    page.route("**/api/upload*", lambda route: held.append(route))
    page.goto(f"{base}#/first/documents")
    page.wait_for_selector("text=There are no documents yet.")
    page.set_input_files(
        "#files", [{"name": f"{n}.txt", "mimeType": "text/plain", "buffer": b"A plan."} for n in range(21)]
    )
    wait(page, lambda: len(held) == 1)
    page.select_option("#corpus", "second")
    page.wait_for_selector("#documents:has-text('There are no documents yet.')")
    held[0].continue_()
    wait(page, lambda: len(held) == 2)
    with page.expect_response("**/api/upload*"):
        held[1].continue_()
    assert all("corpus=first" in one.request.url for one in held)
    assert module_db.execute("SELECT FROM graphrag.documents WHERE corpus = 'second'").rowcount == 0
    page.unroute_all()
    page.goto(f"{base}#/first/graph")
    page.click("summary:text-is('New entity')")
    page.fill("form:has(button:text-is('Create')) [name=name]", "Kestrel")
    page.click("button:text-is('Create')")
    page.wait_for_selector(".toast button")
    page.select_option("#corpus", "second")
    with page.expect_response(lambda reply: reply.request.method == "DELETE") as undone:
        page.click(".toast button")
    assert "corpus=first" in undone.value.url and undone.value.ok


@pytest.mark.slow
def test_the_filter_of_documents_and_the_open_one_have_an_address_each(opened: Open) -> None:
    page = opened("documents")
    page.fill("input[type=search]", "tower")
    until(page, "location.hash.includes('find=tower')")
    page.wait_for_selector("#documents tbody tr:only-child")
    page.click("#documents tbody .link")
    page.wait_for_selector("#panel .text")
    page.reload()
    page.wait_for_selector("#panel .text")
    assert page.input_value("input[type=search]") == "tower"
    page.click("[aria-label='Close the document']")
    page.goto(f"{page.url.split('#')[0]}#/{page.input_value('#corpus')}/documents?page=99")
    page.wait_for_selector("#documents tbody tr")
    until(page, "!location.hash.includes('page=')")
    page.go_back()
    until(page, "location.hash.includes('find=tower')")
    page.wait_for_selector("#documents tbody tr:only-child")
    # Whoever leaves is not brought back by what he typed.
    page.fill("input[type=search]", "x")
    page.keyboard.press("Tab")
    page.click("[data-view=curation]")
    page.wait_for_timeout(400)
    assert "/curation" in page.url


@pytest.mark.slow
def test_of_two_documents_the_one_asked_for_last_is_shown(opened: Open) -> None:
    page = opened("documents")
    page.wait_for_selector("#documents tbody tr")
    held = []
    page.route(
        lambda url: re.fullmatch(r"/api/documents/\d+", urlsplit(url).path) is not None,
        lambda route: route.continue_() if held else held.append(route),
    )
    page.click("#documents tbody .link >> nth=0")
    wait(page, lambda: bool(held))
    page.click("#documents tbody .link >> nth=1")
    page.wait_for_selector("#panel .text")
    title = page.inner_text("#panel h2")
    with page.expect_response(lambda reply: reply.url == held[0].request.url):
        held[0].continue_()
    page.wait_for_timeout(300)
    assert page.inner_text("#panel h2") == title


def test_an_address_names_views_and_no_other_paths(opened: Open) -> None:
    page = opened("graph", failing="/api/graph/entities/..%2F..%2Fsession")
    page.unroute_all()
    drawn(page)
    base = f"{page.url.split('#')[0]}#/{page.input_value('#corpus')}"
    page.goto(f"{base}/graph/constructor")
    drawn(page)
    says(page, "entities, ")
    asked = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    page.goto(f"{base}/graph/entity/..%2F..%2Fsession")
    page.wait_for_selector("#legend [role=alert]")
    assert "/api/session" not in asked
    page.goto(f"{base}/constructor")
    page.wait_for_selector("#question")
