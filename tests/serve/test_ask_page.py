"""Ask in Chromium: threads, answers as Markdown, settings, addresses, languages."""

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.serve.pages import IN_CHROMIUM, QUESTION, Open, picture, until
from tests.serve.serving import Serving
from tests.sql import asking
from tests.sql.ingest import put
from tests.sql.llm import provider

pytestmark = IN_CHROMIUM

MARKED = """## What she wrote

| who | what |
|---|---|
| **Ada Lovelace** | notes on the *Analytical Engine* [1] |
| `rows[1]` | code |

1. She wrote notes [1].
2. It costs $5 or $10, and $E = mc^2$ holds [1].

```python
rows[7] = "[1]"
```

```mermaid
graph LR
  Ada --> Engine
```

<img src=x onerror="document.title='taken'"> [x](javascript:document.title='taken') ![a picture](http://elsewhere.example/a.png)
[more](https://docs.example/) <script>document.title='taken'</script> [1]"""
MARKDOWN_QUESTION = "What did Ada Lovelace write in Markdown?"
SLOW_QUESTION = "What did Ada Lovelace write slowly?"
SLOW = "## Notes\n\nAda Lovelace wrote notes on the Analytical Engine [1]. " + " ".join(
    f"Note {count} is about the Analytical Engine [1]." for count in range(40)
)


def lines(messages: Sequence[dict[str, Any]]) -> str:
    """Keywords to who asks for keywords; else the answer to the last question."""
    if asking.is_keywords(messages):
        return json.dumps(asking.KEYWORDS)
    told = {MARKDOWN_QUESTION: MARKED, SLOW_QUESTION: SLOW}
    return next((text for question, text in told.items() if question in messages[-1]["content"]), asking.ANSWER)


@pytest.fixture(autouse=True)
def model(module_endpoint: Endpoint) -> None:
    module_endpoint.reply(lines)
    module_endpoint.behave()


def ask(page: Any, question: str, turn: int = 1) -> None:
    page.fill("#question", question)
    page.press("#question", "Enter")
    page.wait_for_selector(f".turn:nth-child({turn}) .sources")


def test_a_thread_goes_on_and_survives_reload_back_and_deletion(opened: Open, module_endpoint: Endpoint) -> None:
    page = opened()
    ask(page, QUESTION)
    first = page.url
    module_endpoint.forget()
    ask(page, "And who admired her?", 2)
    asked = [message["content"] for request in module_endpoint.requests for message in request.messages]
    assert any(QUESTION in text for text in asked)
    # Numbers of the answer before mean nothing to the next.
    assert "Ada Lovelace wrote notes on the Analytical Engine." in asked
    assert page.url == first
    page.reload()
    page.wait_for_selector(".turn:nth-child(2) .sources")
    assert page.inner_text(".asked >> nth=0") == QUESTION
    assert page.locator(".answer").all_inner_texts() == [asking.ANSWER.replace("[1]", "1")] * 2
    page.click(".answer button.cite >> nth=0")
    assert "Ada Lovelace" in page.inner_text("#sentence")
    assert "document=" in page.url
    page.reload()
    assert "Ada Lovelace" in page.inner_text("#sentence")
    page.go_back()
    page.wait_for_selector("#panel", state="hidden")
    assert page.locator(".turn").count() == 2
    page.click("[data-view=documents]")
    page.wait_for_selector("#documents table")
    page.click("[data-view=ask]")
    page.wait_for_selector(".turn:nth-child(2)")
    page.click(".threads .button")
    page.wait_for_selector(".suggestions button")
    page.go_back()
    page.wait_for_selector(".turn:nth-child(2)")
    page.click(f"[aria-label='Delete the thread {QUESTION}']")
    page.wait_for_selector(".suggestions")
    assert page.locator(".threads li").count() == 0
    page.click(".toast button")
    page.wait_for_selector(".threads li")


@pytest.mark.slow
def test_an_answer_is_stopped_and_asked_for_again(opened: Open, module_endpoint: Endpoint) -> None:
    page = opened()
    module_endpoint.misbehave("slow_stream", times=None, pause=0.1, when=lambda request: SLOW_QUESTION in request.text)
    page.fill("#question", SLOW_QUESTION)
    page.click("#ask")
    # Until the answer is whole, its numbers open nothing.
    page.wait_for_selector(".answer .cite")
    assert page.inner_text("#ask") == "Stop"
    picture(page, "ask-streaming")
    page.evaluate("window.heading = document.querySelector('.answer h3')")
    before = page.inner_text(".answer")
    until(page, f"document.querySelector('.answer').innerText.length > {len(before)}")
    # What has come is not made anew.
    assert page.evaluate("heading.isConnected")
    page.click("#ask")
    page.wait_for_selector("text=Stopped")
    assert page.inner_text("#ask") == "Ask"
    before = page.inner_text(".answer")
    assert 0 < len(before) < len(SLOW) / 2
    page.reload()
    page.wait_for_selector("text=Stopped")
    module_endpoint.behave()
    page.click(".again")
    page.wait_for_selector(".sources")
    assert page.locator(".turn").count() == 1
    assert len(page.inner_text(".answer")) > len(SLOW) / 2


@pytest.mark.slow
def test_an_answer_that_fails_says_why_and_leads_to_passages(opened: Open, module_endpoint: Endpoint) -> None:
    page = opened(refused="/api/ask")
    module_endpoint.misbehave("unauthorized", times=None)
    page.fill("#question", "Who broke Enigma in May?")
    page.press("#question", "Enter")
    page.wait_for_selector(".turn [role=alert]")
    picture(page, "ask-failed")
    page.click("text=Search for passages")
    page.wait_for_selector(".hits li")
    page.go_back()
    module_endpoint.behave()
    page.click("text=Try again")
    page.wait_for_selector(".sources")


@pytest.mark.slow
def test_a_connection_lost_within_an_answer_says_so_in_words(opened: Open) -> None:
    page = opened()
    page.evaluate(
        "fetch = ((before) => (url, options) => String(url).includes('/api/ask') ? Promise.resolve("
        "new Response(new ReadableStream({pull: (stream) => stream.error(new TypeError('network error'))})))"
        " : before(url, options))(fetch); null"
    )
    page.fill("#question", QUESTION)
    page.press("#question", "Enter")
    page.wait_for_selector("[role=alert]:has-text('The server cannot be reached')")


@pytest.mark.slow
def test_return_that_confirms_a_conversion_asks_nothing(opened: Open) -> None:
    page = opened()
    page.fill("#question", "東京")
    page.evaluate(
        "document.activeElement.dispatchEvent(new KeyboardEvent('keydown',"
        " {key: 'Enter', keyCode: 229, bubbles: true, cancelable: true}))"
    )
    page.wait_for_timeout(200)
    assert page.input_value("#question") == "東京" and page.query_selector(".turn") is None


@pytest.mark.slow
def test_markdown_grows_without_its_marks(opened: Open) -> None:
    page = opened()
    text = (
        "# A\n\n**Ada** wrote *notes* [1] in `rows[7]`, of [more](https://docs.example/) and $$x^2$$.\n\n"
        "| a | b |\n|---|---|\n| **c** | d [12] |\n\n- one\n- two [3]"
    )
    shown = page.evaluate(
        """async (text) => {
            const { growing, ready } = await import("/static/markdown.js");
            await ready();
            const box = document.createElement("div");
            const grow = growing(box);
            return [...text].map((_, end) => { grow(text.slice(0, end + 1)); return box.textContent; });
        }""",
        text,
    )
    assert [one for one in shown if re.search(r"[#*|`$]|---|\[(?!7)|https", one)] == []
    assert shown[-1] == "AAda wrote notes 1 in rows[7], of more and x^2.abcd 12onetwo 3"


def test_markdown_is_shown_as_such_and_harms_nobody(opened: Open) -> None:
    page = opened()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    ask(page, MARKDOWN_QUESTION)
    answer = page.locator(".answer")
    assert answer.locator("h3").inner_text() == "What she wrote"
    assert answer.locator("table th").all_inner_texts() == ["who", "what"]
    assert answer.locator("td strong").inner_text() == "Ada Lovelace"
    assert answer.locator("td .cite").count() == 1
    assert answer.locator("ol li .cite").count() == 2
    assert answer.locator("td code").inner_text() == "rows[1]"
    assert answer.locator("pre >> nth=0").inner_text().strip() == 'rows[7] = "[1]"'
    assert answer.locator("pre .cite").count() == 0
    page.wait_for_selector(".formula .katex")
    assert "$5 or $10" in answer.inner_text()
    page.wait_for_selector(".diagram img")
    page.wait_for_timeout(300)
    assert page.evaluate("document.querySelector('.diagram img').naturalWidth") > 50
    assert answer.locator("a").evaluate_all("links => links.map(link => [link.href, link.rel])") == [
        ["http://elsewhere.example/a.png", "noopener noreferrer"],
        ["https://docs.example/", "noopener noreferrer"],
    ]
    assert answer.locator("script, img:not([src^='data:image/svg+xml,'])").count() == 0
    assert "<img src=x onerror=" in answer.inner_text()
    assert "taken" not in page.title()
    picture(page, "ask-markdown")
    answer.locator("td button.cite").click()
    assert page.inner_text("#sentence") == "Ada Lovelace wrote notes on the Analytical Engine."
    page.keyboard.press("Escape")
    page.click(".actions button:text-is('Copy')")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("## What she wrote\n\n| who | what |")
    assert copied.endswith("Sources:\n\n[1] ada")


@pytest.mark.slow
def test_reload_shows_the_last_search_and_back_the_one_before(opened: Open) -> None:
    page = opened()
    for question in ("Who broke Enigma?", "Who admired Ada Lovelace in London?"):
        page.fill("#question", question)
        page.press("#question", "Control+Enter")
        page.wait_for_selector(f".hits mark:has-text('{question.split()[1]}')")
    page.reload()
    page.wait_for_selector(".hits mark:has-text('admired')")
    assert page.input_value("#question") == "Who admired Ada Lovelace in London?"
    page.click(".hits .title >> nth=0")
    page.wait_for_selector("#panel .text")
    page.reload()
    assert page.inner_text("#sentence") == "Charles Babbage admired Ada Lovelace in London."
    page.click("[aria-label='Close the document']")
    assert "document=" not in page.url
    page.go_back()
    page.go_back()
    page.wait_for_selector(".hits mark:has-text('broke')")


@pytest.mark.slow
def test_settings_hold_for_searches_answers_and_what_a_model_would_read(opened: Open) -> None:
    page = opened()
    page.click(".settings summary")
    page.select_option("#mode", "bm25")
    assert page.inner_text("#meaning") == "the words as they stand; for names, codes and error messages"
    page.fill("#prefix", "turing")
    page.fill("#question", "Ada Lovelace notes")
    page.click("#search")
    page.wait_for_selector(".hits li")
    assert page.locator(".hits .title").all_inner_texts() == ["turing"]
    assert "mode=bm25" in page.url
    assert page.inner_text("#set") == "bm25 · turing…"
    page.reload()
    page.wait_for_selector(".hits li")
    assert page.input_value("#prefix") == "turing"
    page.click(".settings summary")
    page.fill("#filter", "{no json")
    page.click("#search")
    page.wait_for_selector(".toast:has-text('not a JSON object')")
    page.fill("#filter", "")
    page.select_option("#tokens", "2000")
    page.click("#context")
    page.wait_for_selector("pre.context:has-text('Alan Turing read the notes')")
    assert "tokens" in page.inner_text("#results h2")
    page.click("[data-view=ask]")
    ask(page, "What did Alan Turing read?")
    assert page.locator(".source").all_inner_texts() == ["turing"]
    assert page.locator("#rerank").count() == 0


@pytest.mark.slow
def test_rerank_is_offered_where_the_corpus_has_it(
    opened: Open, module_endpoint: Endpoint, module_db: Database
) -> None:
    cross = {"rerank": {"provider": provider(module_db, module_endpoint, kind="rerank"), "model": "cross"}}
    module_db.execute("SELECT graphrag.create_corpus('reranked', %s)", [Jsonb(cross)])
    put(module_db, "reranked", "kestrel", "The Kestrel engine burns methane.")
    module_db.execute("CALL graphrag.process_jobs()")
    page = opened()
    page.select_option("#corpus", "reranked")
    page.click(".settings summary")
    page.check("#rerank")
    page.fill("#question", "What does the Kestrel burn?")
    module_endpoint.forget()
    page.click("#search")
    page.wait_for_selector(".hits li")
    assert [request.kind for request in module_endpoint.requests] == ["rerank"]
    assert page.inner_text("#set") == "reranked"


@pytest.mark.slow
def test_a_phone_has_its_threads_behind_a_button(opened: Open) -> None:
    page = opened(viewport={"width": 375, "height": 700})
    ask(page, QUESTION)
    page.click(".top a:text-is('New thread')")
    page.wait_for_selector(".suggestions button")
    assert page.is_hidden(".threads")
    page.click(".top button")
    page.click(f".threads a:text-is('{QUESTION}')")
    page.wait_for_selector(".turn .sources")


@pytest.mark.slow
def test_the_first_screen_asks_what_the_corpus_can_answer(opened: Open) -> None:
    page = opened()
    questions = page.locator(".suggestions button")
    questions.first.wait_for()
    asked = questions.first.inner_text()
    assert "Ada Lovelace" in " ".join(questions.all_inner_texts())
    questions.first.click()
    page.wait_for_selector(".turn .sources, .turn .answer p")
    assert page.inner_text(".asked") == asked


@pytest.mark.slow
def test_without_a_model_the_answer_says_in_a_line_what_it_is(opened: Open, module_db: Database) -> None:
    module_db.execute("SELECT graphrag.create_corpus('extracts')")
    put(module_db, "extracts", "kestrel", "The Kestrel engine burns methane.")
    module_db.execute("CALL graphrag.process_jobs()")
    page = opened()
    page.select_option("#corpus", "extracts")
    ask(page, "What does the Kestrel burn?")
    assert page.inner_text(".answer .note").startswith("No model wrote this.")
    assert page.locator(".error").count() == 0
    page.click(".answer button.cite")
    assert page.inner_text("#sentence") == "The Kestrel engine burns methane."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "title"), [("de", "Was möchten Sie wissen?"), ("ja", "何を知りたいですか？"), ("zh", "想了解什么？")]
)
def test_the_page_speaks_the_readers_language(opened: Open, language: str, title: str) -> None:
    page = opened(locale=language)
    page.wait_for_selector(f"h2:text-is('{title}')")
    assert page.evaluate("document.documentElement.lang") == language
    picture(page, f"ask-{language}")
    page.select_option("#language", "en")
    page.wait_for_selector("h2:text-is('What would you like to know?')")


@pytest.mark.slow
def test_a_question_that_is_too_long_or_empty_is_not_sent_and_says_why(opened: Open) -> None:
    page = opened()
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/api/ask" in request.url else None)
    page.wait_for_selector(".suggestions button")
    page.click("#ask")
    assert page.evaluate("document.activeElement.id") == "question"
    page.fill("#question", "word " * 1640)
    page.wait_for_selector(".composer [role=alert]:has-text('too long: at most 8,192 characters')")
    page.press("#question", "Enter")
    page.click("#search")
    page.wait_for_timeout(200)
    assert asked == [] and "/search" not in page.url
    # Signs beyond the first 65,536 are one character here and there.
    page.fill("#question", "𝒳" * 8192)
    page.wait_for_selector(".composer [role=alert]", state="hidden")


@pytest.mark.slow
def test_the_keyboard_does_it_all(opened: Open) -> None:
    page = opened()
    page.keyboard.type("Who broke")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("Enigma?")
    page.keyboard.press("Enter")
    page.wait_for_selector(".sources")
    assert page.inner_text(".asked") == "Who broke\nEnigma?"
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.className") == "link source"
    page.keyboard.press("Enter")
    page.wait_for_selector("#panel .text")
    page.keyboard.press("Escape")
    until(page, "document.activeElement.className === 'link source'")
    page.keyboard.press("?")
    page.uncheck("#single")
    page.keyboard.press("Escape")
    page.reload()
    page.wait_for_selector(".sources")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("3")
    page.wait_for_timeout(200)
    assert "/documents" not in page.url


def test_inline_styles_are_allowed_in_the_frame_of_diagrams_alone(explored: Serving) -> None:
    with explored.client() as client:
        policies = {
            path: client.get(path).headers.get_list("content-security-policy")
            for path in ("/", "/static/diagram.html", "/static/app.js", "/api/session")
        }
    assert {path: len(policy) for path, policy in policies.items()} == dict.fromkeys(policies, 1)
    assert [path for path, (policy,) in policies.items() if "unsafe-inline" in policy] == ["/static/diagram.html"]
    assert all("script-src 'self';" in policy for (policy,) in policies.values())


def test_start_names_what_one_can_ask_about(explored: Serving) -> None:
    with explored.client() as client:
        start = client.get("/api/start").json()
        assert {"name": "Ada Lovelace", "type": "PERSON"} in start["entities"]
        assert start["pairs"]
        assert start["rerank"] is False
        assert client.get("/api/start", params={"corpus": "of somebody else"}).status_code == 404
