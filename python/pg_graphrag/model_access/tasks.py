"""What models may be asked about questions: each task builds its prompt itself, from arguments that are only data.

Who asks (`pg_graphrag.model_access.models`) chooses a task and gives its arguments, never a prompt.
"""

import hashlib
import json
from collections.abc import Callable
from functools import partial
from typing import Any

from pg_graphrag import bounds, prompts
from pg_graphrag.corpus.options import Options
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.llm.requests import ChatRequest
from pg_graphrag.llm.schemas import STRING, STRINGS, list_of, object_of, reply_of
from pg_graphrag.model_access import replies
from pg_graphrag.model_access.limits import MAX_GRADED, MAX_GRADED_CHARACTERS, MAX_SELECTED, MAX_UNDERSTOOD
from pg_graphrag.text.languages import detect

# Used where search found nothing: then no model is asked that would answer in the question's language.
NOT_FOUND = "The documents do not answer this question."
_NOT_FOUND = {"ja": "文書にはこの質問への答えがありません。", "zh": "文档中没有这个问题的答案。"}

_LISTS = ("low_level_keywords", "high_level_keywords", "entities", "answer_types")


def not_found(question: str) -> str:
    """Return the sentence that says that the documents have no answer, in the question's language where we have it."""
    return _NOT_FOUND.get(detect(question), NOT_FOUND)


def _fenced(tag: str, data: str) -> tuple[str, str]:
    """Return (boundary, data between marks with it): no text can contain a hash of itself."""
    boundary = hashlib.sha256(data.encode("utf-8", "replace")).hexdigest()[:16]
    return boundary, f"<{tag}-{boundary}>\n{data}\n</{tag}-{boundary}>"


def _keywords(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    question = _text(arguments, "question")[:MAX_UNDERSTOOD]
    turns = history(arguments.get("history"))
    fields: dict[str, Any] = dict.fromkeys(_LISTS, STRINGS)
    message = question
    if turns:
        # The end of the conversation: a question refers to the last turns.
        conversation = "\n".join(f"{turn['role']}: {turn['content']}" for turn in turns)[-MAX_UNDERSTOOD:]
        message = f"Conversation:\n{conversation}\n\nQuestion:\n{question}"
        fields["question"] = STRING
    return ChatRequest(
        "keywords",
        (
            {"role": "system", "content": prompts.render(options.prompts, "keywords")},
            {"role": "user", "content": message},
        ),
        replies.keywords,
        reply_of("keywords", **fields),
    )


def _answer(options: Options, arguments: dict[str, Any], prompt: str = "answer") -> ChatRequest:
    question, context = _text(arguments, "question"), _text(arguments, "context")
    form = _text(arguments, "response_type")
    boundary, documents = _fenced("documents", context)
    last = f"{documents}\n\nQuestion: {question}\n\nForm of the answer: {form}"
    system = prompts.render(options.prompts, prompt, boundary=boundary, not_found=NOT_FOUND)
    messages = (
        {"role": "system", "content": system},
        *history(arguments.get("history")),
        {"role": "user", "content": last},
    )
    return ChatRequest("answer", messages, replies.answer)


def _hyde(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    return _about_question(options, arguments, "hyde", replies.passage, None)


def _decompose(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    return _about_question(options, arguments, "decompose", replies.queries, reply_of("queries", queries=STRINGS))


def _rewrite(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    return _about_question(options, arguments, "rewrite", replies.query, reply_of("query", query=STRING))


def _about_question(
    options: Options, arguments: dict[str, Any], prompt: str, parse: Callable[[str, bool], Any], schema: Any
) -> ChatRequest:
    question = _text(arguments, "question")[:MAX_UNDERSTOOD]
    messages = (
        {"role": "system", "content": prompts.render(options.prompts, prompt)},
        {"role": "user", "content": question},
    )
    return ChatRequest("keywords", messages, parse, schema)


_GRADES = reply_of(
    "grades",
    grades=list_of(object_of(number={"type": "integer"}, grade={"type": "string", "enum": list(replies.GRADES)})),
)


_INTEGERS = list_of({"type": "integer"})

# Characters of the report that shows what an expansion looks like.
MAX_EXAMPLE = 8000

_STEP = reply_of(
    "step",
    answer=STRING,
    score={"type": "number"},
    follow_ups=list_of(object_of(question=STRING, score={"type": "number"})),
)


def _grades(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    question, texts = _text(arguments, "question")[:MAX_UNDERSTOOD], arguments.get("texts")
    if not isinstance(texts, list) or not 0 < len(texts) <= MAX_GRADED or not all(isinstance(t, str) for t in texts):
        raise GraphRAGError(f"1 to {MAX_GRADED} texts are graded at once", hint="Use the search option transform.")
    numbered_texts = "\n\n".join(f"[{number}] {text[:MAX_GRADED_CHARACTERS]}" for number, text in enumerate(texts, 1))
    boundary, fenced = _fenced("texts", numbered_texts)
    content = f"Question: {question}\n\n{fenced}"
    system = prompts.render(options.prompts, "grades", boundary=boundary)
    messages = ({"role": "system", "content": system}, {"role": "user", "content": content})
    return ChatRequest("relevance", messages, partial(replies.grades, count=len(texts)), _GRADES)


def _messages_about(options: Options, prompt: str, tag: str, data: str, question: str) -> tuple[dict[str, str], ...]:
    """Return the messages of a prompt with data and a question about it."""
    boundary, fenced = _fenced(tag, data)
    return (
        {"role": "system", "content": prompts.render(options.prompts, prompt, boundary=boundary)},
        {"role": "user", "content": f"{fenced}\n\nQuestion: {question}"},
    )


def _map(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    messages = _messages_about(options, "map", "reports", _text(arguments, "reports"), _text(arguments, "question"))
    schema = reply_of("points", points=list_of(object_of(description=STRING, score={"type": "number"})))
    return ChatRequest("answer", messages, replies.points, schema)


def _rate(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    messages = _messages_about(options, "rate", "report", _text(arguments, "report"), _text(arguments, "question"))
    return ChatRequest("relevance", messages, replies.rating, reply_of("rating", rating={"type": "integer"}))


def _refine(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    question, concepts = _text(arguments, "question")[:MAX_UNDERSTOOD], _texts(arguments, "concepts")
    messages = _messages_about(options, "refine", "concepts", "\n".join(concepts), question)
    parts = list_of(object_of(question=STRING, concepts=STRINGS))
    schema = reply_of("refine", queries=parts, expanded=STRING)
    return ChatRequest("answer", messages, partial(replies.refined, concepts=concepts), schema)


def _relevant_passages(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    texts = _texts(arguments, "texts")
    numbered = "\n\n".join(f"[{number}] {text}" for number, text in enumerate(texts, 1))
    messages = _messages_about(options, "relevant_passages", "passages", numbered, _text(arguments, "question"))
    schema = reply_of("relevant_passages", relevant=_INTEGERS, irrelevant=_INTEGERS)
    return ChatRequest("relevance", messages, partial(replies.relevant_passages, count=len(texts)), schema)


def _relevant(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    messages = _messages_about(options, "relevant", "text", _text(arguments, "text"), _text(arguments, "question"))
    return ChatRequest("relevance", messages, replies.relevant, reply_of("relevant", relevant={"type": "boolean"}))


def _select(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    texts = _texts(arguments, "texts")
    numbered = "\n\n".join(f"[{number}] {text}" for number, text in enumerate(texts, 1))
    question = _text(arguments, "question")[:MAX_UNDERSTOOD]
    messages = _messages_about(options, "select", "passages", numbered, question)
    parse = partial(replies.selected, count=len(texts), most=MAX_SELECTED)
    return ChatRequest("relevance", messages, parse, reply_of("select", selected=_INTEGERS))


def _expand(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    report = _text(arguments, "report")[:MAX_EXAMPLE]
    question = _text(arguments, "question")[:MAX_UNDERSTOOD]
    return ChatRequest("answer", _messages_about(options, "expand", "report", report, question), replies.passage)


def _primer(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    messages = _messages_about(options, "primer", "reports", _text(arguments, "reports"), _text(arguments, "question"))
    return ChatRequest("answer", messages, replies.step, _STEP)


def _follow_up(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    question = f"{_text(arguments, 'question')}\n\nThe question that it is asked for: {_text(arguments, 'whole')}"
    messages = _messages_about(options, "follow_up", "documents", _text(arguments, "context"), question)
    return ChatRequest("answer", messages, replies.step, _STEP)


def _sql(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    boundary, fenced = _fenced("tables", _text(arguments, "tables"))
    system = prompts.render(
        options.prompts, "sql", boundary=boundary, corpus=_text(arguments, "corpus").replace("'", "''")
    )
    messages = [
        {"role": "system", "content": system},
        {"role": "user", "content": f"{fenced}\n\nQuestion: {_text(arguments, 'question')[:MAX_UNDERSTOOD]}"},
    ]
    if former := arguments.get("former"):
        messages += (
            {"role": "assistant", "content": json.dumps({"statement": former["statement"]}, ensure_ascii=False)},
            {"role": "user", "content": f"That statement was not run: {former['error']}\nWrite it otherwise."},
        )
    return ChatRequest("answer", tuple(messages), replies.statement, reply_of("sql", statement=STRING))


TASKS: dict[str, Callable[[Options, dict[str, Any]], ChatRequest]] = {
    "keywords": _keywords,
    "hyde": _hyde,
    "decompose": _decompose,
    "rewrite": _rewrite,
    "grades": _grades,
    "answer": _answer,
    "reduce": partial(_answer, prompt="reduce"),
    "map": _map,
    "rate": _rate,
    "refine": _refine,
    "relevant": _relevant,
    "relevant_passages": _relevant_passages,
    "select": _select,
    "expand": _expand,
    "primer": _primer,
    "follow_up": _follow_up,
    "sql": _sql,
}


def request(options: Options, task: str | None, arguments: dict[str, Any]) -> ChatRequest:
    """Return the request of a task; 22023 for an unknown task or bad arguments."""
    if task not in TASKS:
        raise GraphRAGError(f'unknown task "{task}"', hint=f"Known: {', '.join(TASKS)}.")
    return TASKS[task](options, arguments)


def _text(arguments: dict[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise GraphRAGError(f'argument "{name}" must be text', hint="Use graphrag.ask(…) or graphrag.understand(…).")
    return value


def _texts(arguments: dict[str, Any], name: str) -> list[str]:
    values = arguments.get(name)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise GraphRAGError(f'argument "{name}" must be a list of texts', hint="Use graphrag.ask(…).")
    return values


def history(turns: Any) -> tuple[dict[str, str], ...]:
    """Check a conversation so far: [{role: user or assistant, content}]; None is none.

    Raises
    ------
    GraphRAGError
        22023 naming the turn, or for more of them than `bounds` lets through. Other roles are refused: a caller has no say in
        the instructions.
    """
    hint = 'Give [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}].'
    if turns is None:
        return ()
    if not isinstance(turns, list):
        raise GraphRAGError("history must be a JSON array", hint=hint)
    for number, turn in enumerate(turns, 1):
        if not isinstance(turn, dict) or set(turn) != {"role", "content"} or not isinstance(turn["content"], str):
            raise GraphRAGError(f"turn {number} of history is not an object with role and content", hint=hint)
        if turn["role"] not in ("user", "assistant"):
            raise GraphRAGError(f"turn {number} of history has the role {turn['role']!r:.60}", hint=hint)
    bounds.history([turn["content"] for turn in turns])
    return tuple({"role": turn["role"], "content": turn["content"]} for turn in turns)
