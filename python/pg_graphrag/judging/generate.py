"""Questions about a corpus, made by a model.

`activities`: users, their tasks, and questions that need the whole corpus (GraphRAG, arXiv 2404.16130, and LightRAG, arXiv
2410.05779: 5 × 5 × 5). `local_questions` and `global_questions`: the two classes of BenchmarkQED's AutoQ, of which the
local ones come with their evidence, so that ``graphrag.evaluate`` can use them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pg_graphrag.errors import GraphRAGError
from pg_graphrag.judging.model import Model, Unusable
from pg_graphrag.judging.prompts import render

# Characters of a document that a prompt shows, alone and among others.
_ALONE, _AMONG = 8000, 1500
# Documents that stand for the corpus in one prompt, and global questions asked for at a time.
SAMPLE = 12
_AT_A_TIME = 5


@dataclass(frozen=True, slots=True)
class Passage:
    """A document, or the beginning of it."""

    source_key: str
    title: str | None
    content: str

    def shown(self, length: int) -> str:
        """Title and beginning, as prompts show them."""
        title = f"{self.title}\n" if self.title else ""
        return f"{title}{self.content[:length]}"


def describe(model: Model, sample: Sequence[Passage]) -> str:
    """Return a description of the corpus that `sample` was drawn from."""
    prompt = render("describe", count=len(sample), passages=_together(sample))
    (description,) = _all(model, "a description of the corpus", [prompt], lambda reply: _text(reply, "description"))
    return str(description)


def activities(model: Model, description: str, users: int, tasks: int, questions: int) -> list[dict[str, Any]]:
    """Return users × tasks × questions, each {id, question, class, user, task}."""
    (people,) = _all(
        model, f"{users} users", [render("users", description=description, count=users)], _list("users", users, _user)
    )
    asked = [render("tasks", description=description, user=user, count=tasks) for user in people]
    work = [
        (user, task)
        for user, own in zip(people, _all(model, f"{tasks} tasks", asked, _list("tasks", tasks)), strict=True)
        for task in own
    ]
    asked = [render("questions", description=description, user=u, task=t, count=questions) for u, t in work]
    made = _all(model, f"{questions} questions", asked, _list("questions", questions))
    return [
        {"class": "activity", "question": question, "user": user, "task": task}
        for (user, task), own in zip(work, made, strict=True)
        for question in own
    ]


def local_questions(model: Model, description: str, passages: Sequence[Passage]) -> list[dict[str, Any]]:
    """Return a question on each passage, {id, question, class, answer, evidence}."""

    def parse(reply: Any) -> tuple[str, str]:
        return _text(reply, "question"), _text(reply, "answer")

    asked = [render("local", description=description, passage=passage.shown(_ALONE)) for passage in passages]
    return [
        {"class": "local", "question": question, "answer": answer, "evidence": [passage.source_key]}
        for passage, (question, answer) in zip(passages, _all(model, "a question", asked, parse), strict=True)
    ]


def global_questions(
    model: Model, description: str, samples: Sequence[Sequence[Passage]], count: int
) -> list[dict[str, Any]]:
    """Return `count` questions on the whole, {id, question, class}; each sample of documents prompts some of them."""
    sizes = [min(_AT_A_TIME, count - start) for start in range(0, count, _AT_A_TIME)]
    made = []
    for size in sorted(set(sizes), reverse=True):
        asked = [
            render("global", description=description, passages=_together(samples[at % len(samples)]), count=size)
            for at, own in enumerate(sizes)
            if own == size
        ]
        made += _all(model, f"{size} questions", asked, _list("questions", size))
    return [{"class": "global", "question": question} for own in made for question in own]


def numbered(questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the questions with ids such as local-007; of those that say the same, the first."""
    distinct = {" ".join(one["question"].casefold().split()): one for one in reversed(questions)}
    counts: dict[str, int] = {}
    made = []
    for one in questions:
        if distinct.get(" ".join(one["question"].casefold().split())) is one:
            counts[one["class"]] = counts.get(one["class"], 0) + 1
            made.append({"id": f"{one['class']}-{counts[one['class']]:03}", **one})
    return made


def _together(passages: Sequence[Passage]) -> str:
    return "\n\n".join(f"<<<\n{passage.shown(_AMONG)}\n>>>" for passage in passages)


def _all(model: Model, what: str, prompts: Sequence[str], parse: Callable[[Any], Any]) -> list[Any]:
    """Ask every prompt; an error when one has no usable reply."""
    found = model.ask_all([(str(place), prompt) for place, prompt in enumerate(prompts)], parse)
    if lost := sum(one is None for one in found):
        raise GraphRAGError(
            f"the model {model.name} did not give {what} as asked, in {lost} of {len(prompts)} cases",
            sqlstate="22000",
            hint="Try again (with --memory what is there is kept), fewer at a time, or another model.",
        )
    return found


def _text(reply: Any, name: str) -> str:
    value = reply.get(name)
    if not isinstance(value, str) or not value.strip():
        raise Unusable(f"{name} is {value!r}")
    return value.strip()


def _user(item: Any) -> str:
    if isinstance(item, dict):
        return f"{_text(item, 'name')}: {_text(item, 'description')}"
    return _plain(item)


def _plain(item: Any) -> str:
    if not isinstance(item, str) or not item.strip():
        raise Unusable(f"{item!r} is no text")
    return item.strip()


def _list(name: str, count: int, item: Callable[[Any], str] = _plain) -> Callable[[Any], list[str]]:
    """Read `count` different texts of an object's list; more than asked for are cut."""

    def parse(reply: Any) -> list[str]:
        value = reply.get(name)
        if not isinstance(value, list):
            raise Unusable(f"{name} is {value!r}")
        found = list(dict.fromkeys(map(item, value)))
        if len(found) < count:
            raise Unusable(f"{len(found)} {name}, not {count}")
        return found[:count]

    return parse
