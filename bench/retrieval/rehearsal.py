"""A rehearsal of a run that asks a model: the same code, an endpoint that answers by form; it tells calls and tokens.

The replies have the form that a request asks for: an instance of its JSON schema, of the JSON object at the end of its prompt, or
plain text, as long as answers usually are. What they say is nothing: figures made with them measure no system.
"""

import argparse
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.endpoint import Endpoint

MODEL = "rehearsal"
# Words of an answer and of a text within JSON.
_ANSWER, _TEXT = 250, 20
# Items of a list that has no least length of its own.
_ITEMS = 3
_COUNT = re.compile(r"\b(?:exactly|Write|Name) (\d+)\b")
_PASSAGE = re.compile(r"^\[(\d+)\]", re.M)
_CITED = re.compile(r"\[\d+\]")
_WORD = re.compile(r"[^\W\d_]{3,}")
Rules = Mapping[str, Callable[[str], str]]


def _halves(prompt: str) -> str:
    """Call every second passage of a prompt relevant: by the schema alone all would be both."""
    numbers = sorted({int(number) for number in _PASSAGE.findall(prompt)})
    return json.dumps({"relevant": numbers[::2], "irrelevant": numbers[1::2]})


_RULES: Rules = {"You judge which of several passages": _halves}


class Rehearsal:
    """Replies to chat requests by their form; counts calls and tokens (a token for every four bytes).

    Parameters
    ----------
    rules : mapping
        {phrase of a prompt: function of the prompt}, for what says its form by examples alone. The first that fits is used.
    """

    def __init__(self, rules: Rules | None = None) -> None:
        self._rules = {**_RULES, **(rules or {})}
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()

    def __call__(self, body: Mapping[str, Any]) -> str:
        prompt = "\n".join(str(message["content"]) for message in body["messages"])
        reply = self._reply(prompt, body.get("response_format") or {})
        with self._lock:
            self.counts["calls"] += 1
            self.counts["in"] += len(prompt.encode()) // 4 + 1
            self.counts["out"] += len(reply.encode()) // 4 + 1
            number = self.counts["calls"]
        return reply.replace("@", str(number))

    def take(self) -> Counter[str]:
        """Return calls and tokens (in, out) since the last time."""
        with self._lock:
            counts, self.counts = self.counts, Counter()
        return counts

    def _reply(self, prompt: str, form: Mapping[str, Any]) -> str:
        for phrase, answer in self._rules.items():
            if phrase in prompt:
                return answer(prompt)
        if "json_schema" in form:
            schema = form["json_schema"]["schema"]
            return json.dumps(_instance(schema, schema, prompt))
        if example := _last_object(prompt):
            return json.dumps(_like(example, prompt))
        return f"{_words(prompt, _ANSWER)} {_citation(prompt)}."


def _last_object(prompt: str) -> Any:
    """Return the JSON object that a prompt ends with or asks for, None where there is none."""
    for line in reversed(prompt.splitlines()):
        if line.startswith("{") and line.endswith("}"):
            try:
                return json.loads(line.replace("[...]", "[]").replace(", ...]", "]"))
            except ValueError:
                continue
    return None


def _like(example: Any, prompt: str) -> Any:
    """Return a value of the form of an example: lists are as long as the prompt says, texts have words, the rest stays."""
    if isinstance(example, dict):
        return {name: _like(value, prompt) for name, value in example.items()}
    if isinstance(example, list):
        said = _COUNT.search(prompt)
        count = int(said.group(1)) if said else _ITEMS
        item = example[0] if example else "…"
        return [_numbered(_like(item, prompt), number) for number in range(count)]
    return f"{_words(prompt, _TEXT)} {_citation(prompt)}" if isinstance(example, str) else example


def _instance(schema: Mapping[str, Any], root: Mapping[str, Any], prompt: str) -> Any:
    """Return an instance of a JSON schema."""
    if "$ref" in schema:
        target: Any = root
        for name in schema["$ref"].removeprefix("#/").split("/"):
            target = target[name]
        return _instance(target, root, prompt)
    if "enum" in schema:
        return schema["enum"][0]
    for name in ("anyOf", "oneOf", "allOf"):
        if name in schema:
            return _instance(schema[name][0], root, prompt)
    kind = schema.get("type", "object")
    if kind == "object":
        return {name: _instance(value, root, prompt) for name, value in schema.get("properties", {}).items()}
    if kind == "array":
        count = max(schema.get("minItems", 1), min(_ITEMS, schema.get("maxItems", _ITEMS)))
        return [_numbered(_instance(schema.get("items", {}), root, prompt), number) for number in range(count)]
    if kind == "string":
        return f"{_words(prompt, _TEXT)} {_citation(prompt)}"
    return {"boolean": True, "null": None}.get(kind, schema.get("minimum", 1))


def _citation(prompt: str) -> str:
    """Return a citation of what a prompt shows: an answer without one would be asked for again."""
    return next(reversed(_CITED.findall(prompt)), "[1]")


def _numbered(item: Any, number: int) -> Any:
    """Return an item of a list that differs from the others."""
    if isinstance(item, str):
        return f"{item} {number + 1}"
    if isinstance(item, bool) or not isinstance(item, int):
        return item
    return item + number


def _words(prompt: str, count: int) -> str:
    """Return words of the end of a prompt, where the question stands, and the number of the call."""
    present = _WORD.findall(prompt[-4000:])[-count:] or ["words"]
    return " ".join([*(present * (count // len(present) + 1))[:count], "@"])


@contextmanager
def rehearsed(rules: Rules | None = None) -> Iterator[tuple[Rehearsal, str]]:
    """Yield (the rehearsal, its base URL)."""
    rehearsal = Rehearsal(rules)
    with Endpoint(keep=False) as endpoint:
        endpoint.reply_to_body(rehearsal)
        yield rehearsal, endpoint.url


def cost_table(counts: Mapping[str, Counter[str]], prices: Sequence[float] | None) -> Iterator[str]:
    """Yield the lines of a table of calls and tokens by step, and money where prices per million tokens (in, out) are given."""
    yield "| step | calls | tokens in | tokens out | cost |"
    yield "|---|---|---|---|---|"
    total: Counter[str] = sum(counts.values(), Counter())
    for step, count in [*counts.items(), ("all", total)]:
        cost = "–" if prices is None else f"{(count['in'] * prices[0] + count['out'] * prices[1]) / 1e6:.2f}"
        yield f"| {step} | {count['calls']:,} | {count['in']:,} | {count['out']:,} | {cost} |"


def add_model(arguments: argparse.ArgumentParser) -> None:
    """Add the options of a run that asks a model."""
    arguments.add_argument("--model", metavar="NAME", help="the model, as its endpoint calls it")
    arguments.add_argument("--base-url", metavar="URL", help="an OpenAI-compatible endpoint, with its /v1")
    arguments.add_argument("--api-key-env", default="", metavar="NAME", help="the environment variable of its key")
    arguments.add_argument("--judge", metavar="NAME", help="the model that judges (default: --model)")
    arguments.add_argument("--judge-url", metavar="URL", help="its endpoint (default: --base-url)")
    arguments.add_argument(
        "--judge-key-env", default="", metavar="NAME", help="the variable of its key (--api-key-env)"
    )
    arguments.add_argument("--estimate", action="store_true", help="rehearse, and say what it would cost")
    arguments.add_argument("--prices", type=float, nargs=2, metavar=("IN", "OUT"), help="of a million tokens")
    arguments.add_argument("--yes", action="store_true", help="ask the model")
    arguments.add_argument("--output", type=Path, default=Path("bench-output"), metavar="FOLDER", help="bench-output")


def check_model(arguments: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """End with a usage error where a model is named and neither an estimate nor the run is asked for, or no endpoint is."""
    if given.model and given.estimate == given.yes:
        arguments.error("a model costs money: say --estimate first, then --yes")
    if given.yes and not (given.model and given.base_url):
        arguments.error("--yes needs --model and --base-url")
    if given.estimate and not given.model:
        arguments.error("--estimate needs --model")
