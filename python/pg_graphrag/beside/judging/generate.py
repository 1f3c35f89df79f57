"""Makes questions about a corpus by a model.

`activities`: users, their tasks, and questions that need the whole corpus (GraphRAG, arXiv 2404.16130, and LightRAG,
arXiv 2410.05779: 5 × 5 × 5). `local_questions` and `global_questions`: the two classes of BenchmarkQED's AutoQ. Local
questions come with their evidence, so that ``graphrag.evaluate`` can use them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pg_graphrag.beside.judging.client_model import Model, Unusable
from pg_graphrag.beside.judging.prompts import render
from pg_graphrag.ground.errors import GraphRAGError

# Characters of a document that a prompt shows, alone and among others.
_ALONE, _AMONG = 8000, 1500
# Documents that stand for the corpus in one prompt, and global questions asked for at a time.
SAMPLE = 12
_AT_A_TIME = 5


@dataclass(frozen=True, slots=True)
class Passage:
    """A document, or its beginning."""

    source_key: str
    title: str | None
    content: str

    def excerpt(self, length: int) -> str:
        """Title and beginning, as prompts show them."""
        title = f"{self.title}\n" if self.title else ""
        return f"{title}{self.content[:length]}"


def describe(model: Model, sample: Sequence[Passage]) -> str:
    """Return a description of the corpus that `sample` was drawn from."""
    prompt = render("describe", count=len(sample), passages=_together(sample))
    (description,) = _ask_all(model, "a description of the corpus", [prompt], lambda reply: _text(reply, "description"))
    return str(description)


def activities(model: Model, description: str, users: int, tasks: int, questions: int) -> list[dict[str, Any]]:
    """Return users × tasks × questions, each {id, question, class, user, task}."""
    (people,) = _ask_all(
        model, f"{users} users", [render("users", description=description, count=users)], _list("users", users, _user)
    )
    prompts = [render("tasks", description=description, user=user, count=tasks) for user in people]
    work = [
        (user, task)
        for user, texts in zip(people, _ask_all(model, f"{tasks} tasks", prompts, _list("tasks", tasks)), strict=True)
        for task in texts
    ]
    prompts = [render("questions", description=description, user=u, task=t, count=questions) for u, t in work]
    replies = _ask_all(model, f"{questions} questions", prompts, _list("questions", questions))
    return [
        {"class": "activity", "question": question, "user": user, "task": task}
        for (user, task), texts in zip(work, replies, strict=True)
        for question in texts
    ]


def local_questions(model: Model, description: str, passages: Sequence[Passage]) -> list[dict[str, Any]]:
    """Return a question on each passage, {id, question, class, answer, evidence}."""

    def parse(reply: Any) -> tuple[str, str]:
        return _text(reply, "question"), _text(reply, "answer")

    prompts = [render("local", description=description, passage=passage.excerpt(_ALONE)) for passage in passages]
    return [
        {"class": "local", "question": question, "answer": answer, "evidence": [passage.source_key]}
        for passage, (question, answer) in zip(passages, _ask_all(model, "a question", prompts, parse), strict=True)
    ]


def global_questions(
    model: Model, description: str, samples: Sequence[Sequence[Passage]], count: int
) -> list[dict[str, Any]]:
    """Return `count` questions on the whole, {id, question, class}; each sample of documents prompts some of them."""
    sizes = [min(_AT_A_TIME, count - start) for start in range(0, count, _AT_A_TIME)]
    texts = []
    for size in sorted(set(sizes), reverse=True):
        prompts = [
            render("global", description=description, passages=_together(samples[index % len(samples)]), count=size)
            for index, batch_size in enumerate(sizes)
            if batch_size == size
        ]
        texts += _ask_all(model, f"{size} questions", prompts, _list("questions", size))
    return [{"class": "global", "question": question} for questions in texts for question in questions]


def number_questions(questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the questions with ids such as local-007; equal questions are kept once."""
    first_by_text = {" ".join(question["question"].casefold().split()): question for question in reversed(questions)}
    counts: dict[str, int] = {}
    numbered_questions = []
    for question in questions:
        if first_by_text.get(" ".join(question["question"].casefold().split())) is question:
            counts[question["class"]] = counts.get(question["class"], 0) + 1
            numbered_questions.append({"id": f"{question['class']}-{counts[question['class']]:03}", **question})
    return numbered_questions


def _together(passages: Sequence[Passage]) -> str:
    return "\n\n".join(f"<<<\n{passage.excerpt(_AMONG)}\n>>>" for passage in passages)


def _ask_all(model: Model, subject: str, prompts: Sequence[str], parse: Callable[[Any], Any]) -> list[Any]:
    """Ask every prompt; an error when one has no usable reply."""
    replies = model.ask_all([(str(place), prompt) for place, prompt in enumerate(prompts)], parse)
    if missing_count := sum(reply is None for reply in replies):
        raise GraphRAGError(
            f"the model {model.name} did not give {subject} as asked, in {missing_count} of {len(prompts)} cases",
            sqlstate="22000",
            hint="Try again (with --memory what is there is kept), fewer at a time, or another model.",
        )
    return replies


def _text(reply: Any, name: str) -> str:
    value = reply.get(name)
    if not isinstance(value, str) or not value.strip():
        raise Unusable(f"{name} is {value!r}")
    return value.strip()


def _user(item: Any) -> str:
    if isinstance(item, dict):
        return f"{_text(item, 'name')}: {_text(item, 'description')}"
    return _stripped(item)


def _stripped(item: Any) -> str:
    if not isinstance(item, str) or not item.strip():
        raise Unusable(f"{item!r} is no text")
    return item.strip()


def _list(name: str, count: int, item: Callable[[Any], str] = _stripped) -> Callable[[Any], list[str]]:
    """Read `count` different texts of an object's list; more than asked for are cut."""

    def parse(reply: Any) -> list[str]:
        value = reply.get(name)
        if not isinstance(value, list):
            raise Unusable(f"{name} is {value!r}")
        texts = list(dict.fromkeys(map(item, value)))
        if len(texts) < count:
            raise Unusable(f"{len(texts)} {name}, not {count}")
        return texts[:count]

    return parse
