"""The way to an endpoint, without a server of ours: back-off, Retry-After, and what becomes of a key."""

import asyncio
import gzip
import json
import time
import zlib
from collections.abc import AsyncIterator
from dataclasses import replace
from email.utils import formatdate
from typing import Any

import pytest
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.llm.endpoints import batch_api, embed_rerank, wire
from pg_graphrag.llm.endpoints.faults import ContextTooLong, ItemFault, PromptCut, ProviderFault, TimedOut
from pg_graphrag.llm.endpoints.provider_limits import back_off
from pg_graphrag.llm.endpoints.providers import Provider
from pg_graphrag.llm.endpoints.requests import count_tokens
from pg_graphrag.llm.endpoints.transport import refuse_error, retry_after_seconds
from pg_graphrag.text.letters import clean

from tests.endpoint import Endpoint
from tests.endpoint.server import Answer

KEY = "secret-of-the-test"
CALL = wire.Call("m", [{"role": "user", "content": "question"}])


def of(endpoint: Endpoint, **options: Any) -> Provider:
    return Provider(1, "p", "openai", endpoint.url, timeout=options.pop("timeout", 5.0), **options)


async def streamed(provider: Provider) -> list[Any]:
    return [item async for item in wire.chat_stream(provider, KEY, CALL)]


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({}, "/v1/chat/completions"),
        ({"auth": "api-key"}, "/chat/completions"),
        ({"auth": "api-key", "batch_endpoint": "/v1/chat/completions"}, "/v1/chat/completions"),
    ],
)
def test_a_batch_asks_for_what_its_endpoint_calls_chat(options: dict[str, Any], path: str) -> None:
    async def made(provider: Provider) -> dict[str, Any]:
        file = await batch_api.upload(provider, KEY, "mark", b"{}\n")
        return await batch_api.create(provider, KEY, "mark", file)

    with Endpoint() as endpoint:
        assert asyncio.run(made(of(endpoint, **options)))["endpoint"] == path


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("", None),
        ("soon", None),
        ("nan", None),
        ("-5", 0.0),
        ("2.5", 2.5),
        ("1e9", 3600.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 -0000", 0.0),
        ("Wed, 99 Oct 2015", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str, seconds: float | None) -> None:
    assert retry_after_seconds(header) == seconds


def test_retry_after_as_a_date_is_the_time_until_then() -> None:
    result = retry_after_seconds(formatdate(time.time() + 100, usegmt=True))
    assert result is not None
    assert 90 < result <= 100


def test_back_off_doubles_with_jitter_and_never_undercuts_the_endpoint() -> None:
    for tries in range(12):
        waits = [back_off(tries) for _ in range(50)]
        assert all(min(2**tries, 300) / 2 <= wait <= min(2**tries, 300) for wait in waits)
        assert len(set(waits)) > 1
    assert back_off(0, 30.0) == 30.0


def test_text_is_what_the_database_can_hold() -> None:
    assert clean("a\0b\ud800c😊") == "abc😊"


@pytest.mark.parametrize("stated", [None, -1, True, "7", 1.5])
def test_tokens_that_are_not_counted_are_estimated(stated: Any) -> None:
    assert count_tokens(stated, "x" * 40) == 11


def test_tokens_beyond_reason_still_fit_the_database() -> None:
    assert count_tokens(10**12, "") == 2**31 - 1


@pytest.mark.parametrize("kind", ["unauthorized", "bad_request", "reset", "html_502", "html", "truncated_json"])
def test_no_fault_repeats_the_key(kind: str) -> None:
    with Endpoint() as endpoint:
        endpoint.misbehave(kind, times=None, message=f"key {KEY} or sk-proj-abcdefgh is wrong")
        for work in (wire.chat(of(endpoint), KEY, CALL), streamed(of(endpoint))):
            with pytest.raises(GraphRAGError) as caught:
                asyncio.run(fresh(work))
            error = caught.value
            assert KEY not in f"{error.message}{error.detail}{error.hint}{getattr(error, 'raw', '')}"
            assert "abcdefgh" not in error.message
            assert error.__suppress_context__


async def fresh(work: Any) -> Any:
    """Run with a client of its own: kept connections belong to the loop they were made in."""
    from pg_graphrag.llm.endpoints import transport

    transport._client.cache_clear()
    return await work


def test_a_message_in_parts_is_put_together() -> None:
    with Endpoint() as endpoint:
        parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        endpoint.reply(parts)
        assert asyncio.run(fresh(wire.chat(of(endpoint), None, CALL))).text == "ab"


def test_a_stream_is_split_at_line_feeds_alone() -> None:
    text = "line\u2028separator next\x85line 日本"
    with Endpoint() as endpoint:
        endpoint.reply(text)
        *pieces, whole = asyncio.run(fresh(streamed(of(endpoint))))
    assert "".join(pieces) == whole.text == text
    assert whole.finish_reason == "stop"


def event(text: Any = None, reason: str | None = None, end: bytes = b"\n\n", **fields: Any) -> bytes:
    """One server-sent event of a stream."""
    delta = {"content": text, **fields} if text is not None or fields else {}
    return b"data: " + json.dumps({"choices": [{"delta": delta, "finish_reason": reason}]}).encode() + end


DONE = b"data: [DONE]\n\n"
PARTS = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "one"}]
BROKEN = b'data: {"error": {"message": "out of memory", "code": 500}}\n\n'
USAGE = b'data:{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}\r\n\r\n'
WHOLE = b'{"choices": [{"message": {"content": "one"}, "finish_reason": "stop"}]}'
STREAMS: dict[str, tuple[list[bytes], str]] = {
    "an error, and the end as if nothing was": ([event("one"), BROKEN, DONE], "answered with an error: out of memory"),
    "an error as the reason of the end": ([event("one"), event(reason="error"), DONE], "broke off its answer"),
    "a refusal": ([event(refusal="I can"), event(refusal="not"), event(reason="stop")], "refused to answer: I cannot"),
    "calls of tools": (
        [event(tool_calls=[{"index": 0}]), event(reason="tool_calls"), DONE],
        "(finish_reason tool_calls)",
    ),
    "parts": ([event(role="assistant"), event(PARTS), event("", "stop"), DONE], "one"),
    "comments and other line ends": ([b": hi\r\n\r\n", event("one", end=b"\r\n\r\n"), USAGE, DONE], "one"),
    "a last line without an end": ([event("one"), event(reason="stop", end=b"")], "one"),
    "a character in two halves": ([event("on\ud83d"), event("\ude00e\ud83d"), event(reason="stop")], "on\U0001f600e"),
    "an answer at once": ([WHOLE], "one"),
    "an error at once": ([b'{"error": "busy"}'], "answered with an error: busy"),
    "a page": ([b"<html>login</html>"], "did not answer with JSON but with"),
}


@pytest.mark.parametrize("name", STREAMS)
def test_streams_of_every_kind_are_an_answer_or_a_fault(name: str) -> None:
    pieces, expected = STREAMS[name]
    kind = "application/json" if pieces[0].startswith(b"{") else "text/event-stream"
    with Endpoint() as endpoint:
        endpoint.respond(Answer(content_type=kind, pieces=pieces))
        try:
            *_, whole = asyncio.run(fresh(streamed(of(endpoint))))
        except GraphRAGError as error:
            assert expected in error.message
        else:
            assert whole.text == expected


def test_a_kept_connection_that_turns_out_to_be_closed_is_replaced() -> None:
    async def talk() -> tuple[str, str, int]:
        provider = of(endpoint)
        await wire.chat(provider, KEY, CALL)
        endpoint.misbehave("reset")
        text = (await wire.chat(provider, KEY, CALL)).text
        endpoint.misbehave("reset")
        *_, whole = await streamed(provider)
        endpoint.misbehave("reset", when=lambda request: request.kind == "files")
        # What the endpoint may have read and must not do twice is no exception to the fault.
        with pytest.raises(ProviderFault):
            await batch_api.upload(provider, KEY, "mark", b"{}\n")
        return text, whole.text, endpoint.count("files")

    async def alone() -> None:
        with pytest.raises(ProviderFault):
            await wire.chat(of(endpoint), KEY, CALL)

    with Endpoint() as endpoint:
        assert asyncio.run(fresh(talk())) == ("ok", "ok", 1)
        endpoint.forget()
        endpoint.misbehave("reset")
        asyncio.run(fresh(alone()))
        assert endpoint.count() == 1


def test_what_only_keeps_a_stream_open_is_no_answer() -> None:
    with Endpoint() as endpoint:
        waiting = Answer(content_type="text/event-stream", pieces=[b": wait\n\n"] * 100, pause=0.05)
        endpoint.respond(waiting)
        with pytest.raises(ProviderFault, match="sent nothing for"):
            asyncio.run(fresh(streamed(of(endpoint, timeout=0.3))))


def test_a_stream_goes_without_options_that_the_model_does_not_know() -> None:
    def answer(request: Any) -> Answer:
        if "stream_options" in request.body:
            detail = [{"loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]
            return Answer(422, json.dumps({"detail": detail}).encode())
        return Answer(content_type="text/event-stream", pieces=[event("one", "stop"), DONE])

    with Endpoint() as endpoint:
        endpoint.respond(answer)
        assert asyncio.run(fresh(streamed(of(endpoint))))[-1].text == "one"


@pytest.mark.parametrize(
    ("reason", "cut_off"), [("stop", False), ("length", True), ("MAX_TOKENS", True), ("content_filter", True)]
)
def test_an_answer_that_a_limit_or_a_filter_ended_is_cut_off(reason: str, cut_off: bool) -> None:
    body = {"choices": [{"message": {"content": "one"}, "finish_reason": reason}]}
    assert wire.completion(Provider(1, "p", "openai", ""), CALL.messages, body).cut_off is cut_off


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "no", "code": "x"}}', "500: no"),
        (b'{"error": "too busy", "error_type": "Overloaded"}', "500: too busy"),
        (b'{"detail": [{"loc": ["body", "n"], "msg": "is bad"}]}', "500: body.n: is bad"),
        (b"upstream  failed\n", "500: upstream failed"),
        (b"<html>failed</html>", "500: no reason given"),
        (b'{"error": {"code": 7}}', "500: no reason given"),
        (b'{"error_code": 17, "error_msg": "daily limit"}', "500: daily limit"),
        (b'{"errors": [{"message": "bad"}, "worse"]}', "500: bad; worse"),
        (b'{"errors": {"top_p": ["too much"]}, "title": "Invalid"}', "500: top_p: too much"),
        (b'{"base_resp": {"status_code": 1004, "status_msg": "no login"}}', "500: no login"),
        (b'{"error": true, "errorMessage": "full"}', "500: full"),
        (b'{"message": {"content": {"error": {"message": "no"}}}}', "500: no"),
        (b'{"message": "real", "content": {"x": 1}}', "500: real"),
        (b'{"messages": [{"content": "a text"}], "content": "a text"}', "500: no reason given"),
    ],
)
def test_a_fault_says_what_the_endpoint_says(body: bytes, words: str) -> None:
    with Endpoint() as endpoint:
        endpoint.respond(Answer(500, body))
        with pytest.raises(ProviderFault) as caught:
            asyncio.run(fresh(wire.chat(of(endpoint), KEY, CALL)))
    assert caught.value.message.endswith(words)


@pytest.mark.parametrize(
    "body",
    [
        {"error_code": 336007, "error_msg": "the max input characters is 516096", "id": "x"},
        {"choices": [{"message": {"content": {"error": {"message": "prompt is too long: 9 tokens > 4 maximum"}}}}]},
        {"success": False, "errors": [{"code": 5007, "message": "the context window is exceeded: prompt too long"}]},
        {"base_resp": {"status_code": 2013, "status_msg": "context window exceeds limit"}, "choices": None},
    ],
)
def test_an_error_of_any_form_that_comes_as_a_reply_is_read(body: dict[str, Any]) -> None:
    with Endpoint() as endpoint:
        endpoint.respond(Answer(200, json.dumps(body).encode()))
        with pytest.raises(ContextTooLong):
            asyncio.run(fresh(wire.chat(of(endpoint), KEY, CALL)))


@pytest.mark.parametrize(
    "said", [{"status_msg": "ok"}, {"statusCode": 200, "statusMsg": "OK"}, {"status_code": 0, "status_msg": "fine"}]
)
def test_a_status_that_is_fine_is_no_error(said: dict[str, Any]) -> None:
    refuse_error(Provider(1, "p", "openai", "http://localhost"), {"results": [1], **said}, None)


def test_a_reply_that_says_that_nothing_is_wrong_is_none() -> None:
    body = {"errcode": 0, "errmsg": "ok", "base_resp": {"status_code": 0, "status_msg": "success"}}
    body |= {"choices": [{"message": {"content": "one"}, "finish_reason": "stop"}]}
    with Endpoint() as endpoint:
        endpoint.respond(Answer(200, json.dumps(body).encode()))
        assert asyncio.run(fresh(wire.chat(of(endpoint), KEY, CALL))).text == "one"


def test_of_an_error_without_end_the_beginning_is_read() -> None:
    with Endpoint() as endpoint:
        endless = Answer(500, pieces=[b"x" * 40_000] * 100, pause=0.2)
        endpoint.respond(endless)
        with pytest.raises(ProviderFault, match="answered 500: xxx"):
            asyncio.run(fresh(wire.chat(of(endpoint, timeout=2), KEY, CALL)))


def test_an_answer_that_repeats_the_key_does_not_bring_it_in() -> None:
    with Endpoint() as endpoint:
        endpoint.reply(f"the key is {KEY}")
        assert asyncio.run(fresh(wire.chat(of(endpoint), KEY, CALL))).text == "the key is …"
        assert asyncio.run(fresh(streamed(of(endpoint))))[-1].text == "the key is …"
        endpoint.reply("ollama")  # a word where there is no secret
        assert asyncio.run(fresh(wire.chat(of(endpoint), "ollama", CALL))).text == "ollama"


def test_a_key_with_slashes_is_known_in_json_that_escapes_them() -> None:
    key = "secret/of/the/test"
    body = json.dumps({"choices": [{"message": {"content": f"the key is {key}"}}]}).replace("/", r"\/")
    with Endpoint() as endpoint:
        endpoint.respond(Answer(content=body.encode()))
        assert asyncio.run(fresh(wire.chat(of(endpoint), key, CALL))).text == "the key is …"


def packed_in_vain() -> bytes:
    """18 kB that are unpacked to 10 GB and then, at the third step, to nothing."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    begin = packer.compress(gzip.compress(b"")) + packer.flush(zlib.Z_FULL_FLUSH)
    # From here on equal zeros are equal bytes.
    packer.compress(bytes(100_000_000)) + packer.flush(zlib.Z_FULL_FLUSH)
    zeros = packer.compress(bytes(100_000_000)) + packer.flush(zlib.Z_FULL_FLUSH)
    return gzip.compress(begin + zeros * 100, 9)


def test_a_body_that_is_packed_more_than_once_is_a_fault_at_once() -> None:
    with Endpoint() as endpoint:
        endpoint.respond(Answer(content=packed_in_vain(), headers={"content-encoding": "gzip, gzip, gzip"}))
        for work in (wire.chat(of(endpoint, timeout=1), KEY, CALL), streamed(of(endpoint, timeout=1))):
            began = time.process_time()
            with pytest.raises(ProviderFault, match="packed more than once"):
                asyncio.run(fresh(work))
            assert time.process_time() - began < 1


def test_packed_answers_are_read() -> None:
    body = gzip.compress(json.dumps({"choices": [{"message": {"content": "answer"}}]}).encode())
    with Endpoint() as endpoint:
        endpoint.respond(Answer(content=body, headers={"content-encoding": "gzip"}))
        assert asyncio.run(fresh(wire.chat(of(endpoint), KEY, CALL))).text == "answer"


def test_errors_within_errors_without_end_are_a_fault() -> None:
    body = '{"error": ' * 900 + '"broken"' + "}" * 900
    with Endpoint() as endpoint:
        for status in (200, 500):
            endpoint.respond(Answer(status, body.encode()))
            with pytest.raises(ProviderFault, match="no reason given"):
                asyncio.run(fresh(wire.chat(of(endpoint), KEY, CALL)))


@pytest.mark.parametrize("reason", ["x" * 1_000_000, ["x"] * 100_000, {"a": 1}, 7])
def test_of_a_finish_reason_a_few_words_are_kept(reason: Any) -> None:
    with Endpoint() as endpoint:
        endpoint.respond(Answer(content=json.dumps({"choices": [{"message": {}, "finish_reason": reason}]}).encode()))
        with pytest.raises(ItemFault, match=r"^the model gave an empty answer \(finish_reason \w{4,40}\)$"):
            asyncio.run(fresh(wire.chat(of(endpoint), KEY, CALL)))


def test_a_refusal_without_end_is_ended() -> None:
    event = b"data: " + json.dumps({"choices": [{"delta": {"refusal": "no " * 100_000}}]}).encode() + b"\n\n"
    with Endpoint() as endpoint:
        endpoint.respond(Answer(content_type="text/event-stream", pieces=[event] * 100))
        with pytest.raises(ItemFault, match="refused to answer"):
            asyncio.run(fresh(streamed(of(endpoint))))


def test_more_than_vectors_of_the_texts_is_not_read() -> None:
    vectors = [{"embedding": [0.1] * 8}, {"embedding": [0.1] * 8}]
    with Endpoint() as endpoint:
        for padding in (0, 5_000_000):
            endpoint.respond(Answer(content=json.dumps({"more": "x" * padding, "data": vectors}).encode()))
            if padding:
                with pytest.raises(ItemFault, match="the answer is longer than"):
                    asyncio.run(fresh(embed_rerank.embed(of(endpoint), KEY, "m", ["a", "b"], 8)))
            else:
                assert asyncio.run(fresh(embed_rerank.embed(of(endpoint), KEY, "m", ["a", "b"], 8)))[0].shape == (2, 8)


def test_more_values_than_vectors_of_the_texts_have_are_not_read() -> None:
    with Endpoint() as endpoint:
        endpoint.respond(Answer(content=b'{"data": [' + b"[]," * 1000 + b"[]]}"))
        with pytest.raises(ItemFault, match="the answer has 1,000 values, more than"):
            asyncio.run(fresh(embed_rerank.embed(of(endpoint), KEY, "m", ["a", "b"], 8)))


def test_results_of_a_batch_without_end_are_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_api, "_BYTES_PER_REQUEST", 1000)
    monkeypatch.setattr(batch_api, "_WORDS_PER_REQUEST", 100)
    monkeypatch.setattr(batch_api, "_MAX_LINE", 2000)
    asked = {name: {"messages": CALL.messages} for name in "123"}
    files = {
        "nobodys": [line("9", "x" * 100)] * 100,
        "nothing": [b" " * 100] * 100,
        "words": [line(name, " ".join(map(str, range(300)))) for name in "123"],
    }
    with Endpoint() as endpoint:
        for name, lines in files.items():
            endpoint.batches.files[name] = b"\n".join(lines)
            with pytest.raises(ProviderFault, match="more than answers"):
                asyncio.run(fresh(batch_api.results(of(endpoint), KEY, name, asked, strict=False)))


def test_a_stream_that_stops_without_an_end_is_a_fault_after_its_pieces() -> None:
    async def taken() -> tuple[list[str], BaseException | None]:
        pieces: list[str] = []
        try:
            async for item in wire.chat_stream(of(endpoint), None, CALL):
                pieces.append(str(item))
        except GraphRAGError as error:
            return pieces, error
        return pieces, None

    with Endpoint() as endpoint:
        endpoint.reply("one two three four")
        endpoint.misbehave("broken_stream")
        pieces, error = asyncio.run(fresh(taken()))
    assert pieces[0] == "one"
    assert isinstance(error, ProviderFault)


def test_what_of_a_body_came_together_is_taken_together() -> None:
    async def parts() -> AsyncIterator[bytes]:
        for number in range(100):
            yield b"%d " % number
        await asyncio.sleep(0.01)
        yield b""
        yield b"end"
        raise OSError("reset")

    async def taken() -> list[bytes | str]:
        inflow = wire._Inflow(parts())
        got: list[bytes | str] = [await inflow.take(1), await inflow.take(1)]
        with pytest.raises(OSError, match="reset"):
            await inflow.take(1)
        await inflow.aclose()
        return got

    assert asyncio.run(taken()) == [b"".join(b"%d " % number for number in range(100)), b"end"]


def test_embeddings_come_normalised_whatever_their_form() -> None:
    with Endpoint() as endpoint:
        packed = of(endpoint, embedding_request={"dimensions": 8})
        plain = of(endpoint, embedding_request={"dimensions": 8, "encoding_format": "float"})
        item, _ = asyncio.run(fresh(embed_rerank.embed(plain, None, "m", ["a b", "c"], 8)))
        two, _ = asyncio.run(fresh(embed_rerank.embed(packed, None, "m", ["a b", "c"], 8)))
        asked = [request.body["encoding_format"] for request in endpoint.requests]
    assert asked == ["float", "base64"]
    assert item.shape == (2, 8)
    assert (item == two).all()
    assert abs((item**2).sum(axis=1) - 1).max() < 1e-6


def line(name: Any, text: str) -> bytes:
    """One line of a batch's results."""
    body = {"choices": [{"message": {"content": text}}]}
    return json.dumps({"custom_id": name, "response": {"status_code": 200, "body": body}}).encode()


def test_lines_of_a_batch_are_read_whatever_else_is_in_its_files() -> None:
    failed = json.dumps({"custom_id": "2", "response": None, "error": {"code": "batch_expired"}}).encode()
    lines = [
        line("2", "two"),
        line("9", "unknown"),
        b"",
        line(["1"], "list"),
        line(None, "null"),
        line("1", KEY),
        failed,
    ]
    asked = {name: {"messages": CALL.messages} for name in ("1", "2", "3")}
    with Endpoint() as endpoint:
        endpoint.batches.files["out"] = b"\r\n".join([*lines, line("1", "again")])
        result = asyncio.run(fresh(batch_api.results(of(endpoint), KEY, "out", asked, strict=True)))
    assert {name: item.reply for name, item in result.items()} == {"1": "…", "2": "two"}


UNUSABLE = {
    "a number": '[{"index": 0, "embedding": 5}, {"index": 1, "embedding": 6}]',
    "null": '[{"index": 0, "embedding": null}, {"index": 1, "embedding": null}]',
    "a list of vectors": '[{"index": 0, "embedding": [[1, 2]]}, {"index": 1, "embedding": [[1, 2]]}]',
    "no base64": '[{"index": 0, "embedding": "!!!!"}, {"index": 1, "embedding": "!!!!"}]',
    "places from the end": '[{"index": -1, "embedding": [1, 2]}, {"index": -2, "embedding": [3, 4]}]',
    "no place": '[{"index": 1e999, "embedding": [1, 2]}, {"index": 0, "embedding": [3, 4]}]',
    "a number too large": f'[{{"embedding": [1{"0" * 400}, 2]}}, {{"embedding": [3, 4]}}]',
    "one place twice": '[{"index": 0, "embedding": [1, 2]}, {"index": 0, "embedding": [3, 4]}]',
    "more than asked for": '[{"embedding": [1, 2]}, {"embedding": [1, 2]}, {"embedding": [1, 2]}]',
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_what_are_no_vectors_of_these_texts_is_a_fault(name: str) -> None:
    with Endpoint() as endpoint:
        endpoint.respond(Answer(content=f'{{"data": {UNUSABLE[name]}}}'.encode()))
        with pytest.raises((ItemFault, ProviderFault), match=r"other than embeddings|gave . vectors for 2 texts"):
            asyncio.run(fresh(embed_rerank.embed(of(endpoint), None, "m", ["a", "b"], None)))


def test_a_prompt_is_cut_where_a_server_reads_the_same_few_tokens_of_it_each_time() -> None:
    call = wire.Call("cut", [{"role": "user", "content": "word " * 8000}])

    def answered(tokens: int) -> str:
        usage = {"prompt_tokens": tokens, "completion_tokens": 1}
        event_data = {"choices": [{"delta": {"content": "one"}, "finish_reason": "stop"}], "usage": usage}
        with Endpoint() as endpoint:
            pieces = [b"data: " + json.dumps(event_data).encode() + b"\n\n"]
            endpoint.respond(Answer(content_type="text/event-stream", pieces=pieces))
            provider = Provider(1, "p", "openai", endpoint.url)
            wire._most_read.clear()
            wire._most_read.update({(endpoint.url, "cut"): most})
            return asyncio.run(fresh(wire.chat(provider, None, call))).text

    most = 0
    for tokens in (2048, 4096):
        with pytest.raises(PromptCut, match=f"only {tokens:,} tokens"):
            answered(tokens)
    # The rest is in the server's cache, and not counted.
    assert answered(60) == "one"
    most = 8009
    assert answered(2048) == "one"


def test_a_model_that_reasons_until_the_end_is_late() -> None:
    event_data = {"choices": [{"delta": {"reasoning_content": "I wonder whether"}}]}
    pieces = [b"data: " + json.dumps(event_data).encode() + b"\n\n", b""]
    with Endpoint() as endpoint:
        endpoint.respond(Answer(content_type="text/event-stream", pieces=pieces, pause=3))
        call = replace(CALL, seconds=0.5)
        with pytest.raises(TimedOut):
            asyncio.run(fresh(wire.chat(of(endpoint), None, call)))
