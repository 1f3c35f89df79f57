"""OpenTelemetry spans of searches, contexts and answers, after the GenAI conventions, from the profile of the database.

A program that has set no provider of spans imports and asks for nothing more. Spans are made after a call. Its steps
stand end to end, because the profile has only their sums; requests to models stand at the times when they ran. Spans
hold texts only if OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT is true.
"""

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from pg_graphrag import __version__
from pg_graphrag.beside.client.results import Answer
from pg_graphrag.ground.mode_names import MODES

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

T = TypeVar("T")
CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_OPERATIONS = {"embedding": "embeddings", "rerank": "rerank"}
# In the order in which most modes take them.
_STEPS = (
    *("caller", "keywords", "embed", "bm25", "vectors", "mentions", "graph", "concepts", "seed_sentences", "pagerank"),
    *("bridges", "turns", "dates", "paths", "communities", "reports", "fuse", "rows", "relevance", "rerank", "select"),
    *("near_duplicates", "texts", "passages", "sql", "answer"),
)
# Shorter steps are not shown: most modes do a dozen things for some hundredths of a millisecond.
_LEAST_MILLISECONDS = 0.1


def tracer() -> "Tracer | None":
    """Return what makes spans; None where the program has set no provider of them."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    own: Tracer = trace.get_tracer("pg_graphrag", __version__)
    return own


def captures_content() -> bool:
    """Whether questions, answers and keys of documents go into spans."""
    return os.environ.get(CONTENT_VARIABLE, "").lower() == "true"


class Call:
    """A call that becomes a span. `profile`: options that the database gets besides."""

    def __init__(self, own: "Tracer | None", function: str, corpus: str, mode: str, text: str) -> None:
        self._tracer, self._text = own, text
        self.profile: dict[str, Any] = {} if own is None else {"profile_time": True}
        self._start = time.time_ns()
        is_answer = function == "ask"
        operation = "invoke_workflow" if is_answer else "retrieval"
        self._name = "invoke_workflow ask" if is_answer else operation
        self._attributes: dict[str, Any] = {
            "gen_ai.operation.name": operation,
            "gen_ai.data_source.id": corpus,
            "pg_graphrag.function": function,
            # An invalid mode may be any text.
            "pg_graphrag.mode": mode if mode in MODES else "unknown",
        } | ({"gen_ai.workflow.name": "ask"} if is_answer else {})
        self._parts: Mapping[str, Any] = {}
        self._output: dict[str, Any] = {}

    def returns(self, result: T) -> T:
        """Return a result of the database without the profile that was asked for, and keep that."""
        if self._tracer is None:
            return result
        documents: list[tuple[str, Any]] = []
        if isinstance(result, Answer):
            self._take(result.context)
            names = {"input": "tokens_in", "output": "tokens_out"}
            self._attributes |= {f"gen_ai.usage.{name}_tokens": result.usage.get(names[name], 0) for name in names}
            self._attributes |= {"gen_ai.usage.cost": result.usage.get("cost", 0)}
            self._output["gen_ai.output.messages"] = json.dumps([_message("assistant", result.answer)])
            documents = [(reference["source_key"], None) for reference in result.context["references"]]
        elif isinstance(result, dict):
            self._take(result)
            documents = [(reference["source_key"], None) for reference in result["references"]]
        elif isinstance(result, list):
            for row in result:
                self._take(row.explain)
            documents = [(row.source_key, row.score) for row in result]
        self._attributes["pg_graphrag.results"] = len(documents)
        self._output["gen_ai.retrieval.documents"] = json.dumps(
            [{"id": key} | ({} if score is None else {"score": score}) for key, score in documents]
        )
        return result

    def _take(self, notes: dict[str, Any]) -> None:
        # Rows of one search have the same.
        self._parts = {name: notes.pop(name) for name in ("profile_time", "requests") if name in notes} or self._parts

    def end(self, error: BaseException | None) -> None:
        """Make the spans. An error is recorded by SQLSTATE alone, because its message may quote the question."""
        if self._tracer is None:
            return
        from opentelemetry.trace import SpanKind, Status, StatusCode

        end = time.time_ns()
        requests = self._parts.get("requests", ())
        # What a stream asked for began before the call that has its answer.
        start = min([self._start, *(self._start + _nanoseconds(request["started"] or 0) for request in requests)])
        if captures_content():
            self._attributes |= self._output | _input(self._name, self._text)
        span = self._tracer.start_span(
            self._name, kind=SpanKind.INTERNAL, attributes=self._attributes, start_time=start
        )
        if error is not None:
            kind = getattr(error, "sqlstate", None) or type(error).__name__
            span.set_attribute("error.type", kind)
            span.set_status(Status(StatusCode.ERROR, kind))
        if span.is_recording():
            self._make_parts(span, requests)
        span.end(end)

    def _make_parts(self, span: "Span", requests: Any) -> None:
        from opentelemetry.trace import SpanKind, set_span_in_context

        assert self._tracer is not None
        context, begin = set_span_in_context(span), self._start
        # jsonb keeps no order; steps of other versions come last.
        profile = dict.fromkeys(_STEPS, 0.0) | self._parts.get("profile_time", {})
        for step, milliseconds in profile.items():
            if step == "total" or milliseconds < _LEAST_MILLISECONDS:
                continue
            part = self._tracer.start_span(step, context, attributes={"pg_graphrag.step": step}, start_time=begin)
            begin += _nanoseconds(milliseconds)
            part.end(begin)
        for request in requests:
            operation = _OPERATIONS.get(request["purpose"], "chat")
            # Readers are not told when: such a span has no length.
            begin = self._start + _nanoseconds(request["started"] or 0)
            attributes = {
                "gen_ai.operation.name": operation,
                "gen_ai.provider.name": request["provider"],
                "gen_ai.request.model": request["model"],
                "gen_ai.usage.input_tokens": request["tokens_in"],
                "gen_ai.usage.output_tokens": request["tokens_out"],
                "gen_ai.usage.cost": request["cost"],
                "pg_graphrag.purpose": request["purpose"],
            }
            name = f"{operation} {request['model']}"
            part = self._tracer.start_span(name, context, SpanKind.CLIENT, attributes, start_time=begin)
            part.end(begin + _nanoseconds(request["milliseconds"] or 0))


@contextmanager
def call(function: str, corpus: str, mode: str, text: str, options: Mapping[str, Any]) -> Iterator[Call]:
    """Enclose a call of search, context or ask; no span is made if the caller asked for a profile himself."""
    traced = Call(None if "profile_time" in options else tracer(), function, corpus, mode, text)
    try:
        yield traced
    except BaseException as error:
        # Closing a stream early is no error.
        traced.end(None if isinstance(error, GeneratorExit) else error)
        raise
    else:
        traced.end(None)


def _input(name: str, text: str) -> dict[str, str]:
    if name == "retrieval":
        return {"gen_ai.retrieval.query.text": text}
    return {"gen_ai.input.messages": json.dumps([_message("user", text)])}


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _nanoseconds(milliseconds: float) -> int:
    return round(milliseconds * 1e6)
