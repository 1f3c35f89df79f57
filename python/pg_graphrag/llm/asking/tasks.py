"""The questions to models about questions: each task builds its prompt from arguments that are only data.

The caller (`pg_graphrag.llm.asking.models`) chooses a task and gives its arguments, never a prompt.
"""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from pg_graphrag.ground import bounds
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.llm.asking import replies
from pg_graphrag.llm.asking.length_limits import (
    MAX_CONCEPTS_EACH,
    MAX_GRADED,
    MAX_GRADED_CHARACTERS,
    MAX_PARTS,
    MAX_SELECTED,
    MAX_UNDERSTOOD,
)
from pg_graphrag.llm.endpoints.requests import (
    ASKERS_SCHEMA,
    BYTES_PER_TOKEN,
    STRING,
    ChatRequest,
    Picture,
    list_of,
    object_of,
    reply_of,
    text_of,
)
from pg_graphrag.server.corpus.options import Options
from pg_graphrag.text import prompts
from pg_graphrag.text.marks import neutral, neutral_line
from pg_graphrag.text.question_language import question_language

# What the prompt of keywords asks for, and somewhat more: items of each list.
_LISTS = {"low_level_keywords": 10, "high_level_keywords": 8, "entities": 8, "answer_types": 5}

# Limits of output tokens. For a list of numbers or grades: per item, and for the words around them.
KEYWORD_TOKENS, RESTATED_TOKENS = 200, 100
PASSAGE_TOKENS, QUERIES_TOKENS, QUERY_TOKENS = 300, 300, 150
VERDICT_TOKENS, NUMBER_TOKENS, GRADE_TOKENS, AROUND_TOKENS = 40, 6, 24, 40
REFINE_TOKENS, MAP_TOKENS, STEP_TOKENS, SQL_TOKENS = 700, 1500, 1000, 800
# By the form that an answer should have, judged by its words; a context of a few sentences gives no longer answer than
# its own length.
ANSWER_TOKENS, SENTENCE_TOKENS, PARAGRAPH_TOKENS, REPORT_TOKENS = 1200, 200, 500, 3000
_FORMS = (
    (re.compile(r"\b(?:report|essay|article|pages?|detailed|comprehensive|long|exhaustive)\b", re.I), REPORT_TOKENS),
    (
        re.compile(
            r"\b(?:(?:single|one|a|short|brief) (?:sentence|word|phrase|name|number|line)|yes or no|yes/no)\b", re.I
        ),
        SENTENCE_TOKENS,
    ),
    (re.compile(r"\b(?:single|one|a|short|brief) paragraph\b", re.I), PARAGRAPH_TOKENS),
)
_WORDS = re.compile(r"\b(\d{1,6}) (?:words|tokens)\b", re.I)

# What a model is told of its last answer.
_MISSING = {
    "repetition": "Your last answer repeated itself. Say each thing once, then stop.",
    "no citation": "Your last answer had no number of a document. Write after each statement the number of the document "
    "that says it, in brackets, as it stands before the text; or reply with this sentence alone, word for word: {not_found}",
    "form": "Your last answer could not be read. Write the answer alone.",
}
_MISSING_IN_JSON = _MISSING | {
    "no citation": 'Your last answer named no document. Give in "sources" the numbers of the documents that say it; '
    "where none does, the answer is null.",
    "form": "Your last answer could not be read. Reply with the JSON object alone.",
}
# What follows the question where the asker says more than the form of the answer, and where the answer is to be JSON.
_INSTRUCTIONS = "\n\nThe asker's own instructions, which hold as far as the rules allow them:\n{instructions}"
_PICTURES = "\n\nPictures of the documents follow, in this order of their numbers: {numbers}. Cite them by these."
_IN_JSON = """

Reply with one JSON object alone: {{"sources": [numbers of the documents that the answer is from], "answer": the answer}}. \
The answer itself has no numbers of documents, and is {form}. Where the documents do not hold it, it is null."""


def language_of(options: Options, arguments: dict[str, Any]) -> str:
    """Return the language of the question in the arguments of an answer; of a short one the conversation and the corpus tell."""
    turns = [turn["content"] for turn in reversed(history(arguments.get("history"))) if turn["role"] == "user"]
    known = None if options.language == "auto" else options.language
    return question_language([_text(arguments, "question"), *turns], known, _text(arguments, "context"))


def _fenced(tag: str, data: str) -> tuple[str, str]:
    """Return (boundary, data between marks with it): no text can contain a hash of itself."""
    boundary = hashlib.sha256(data.encode("utf-8", "replace")).hexdigest()[:16]
    return boundary, f"<{tag}-{boundary}>\n{data}\n</{tag}-{boundary}>"


def _numbered(texts: list[str]) -> str:
    """Return texts each behind its number."""
    return "\n\n".join(f"[{number}] {neutral(text)}" for number, text in enumerate(texts, 1))


def _keywords(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    question = _text(arguments, "question")[:MAX_UNDERSTOOD]
    turns = history(arguments.get("history"))
    phrase = text_of(replies.MAX_KEYWORD_CHARACTERS)
    fields: dict[str, Any] = {name: list_of(phrase, most=most) for name, most in _LISTS.items()}
    message = question
    if turns:
        # The end of the conversation: a question refers to the last turns.
        conversation = "\n".join(f"{turn['role']}: {' '.join(turn['content'].split())}" for turn in turns)[
            -MAX_UNDERSTOOD:
        ]
        message = f"Conversation:\n{conversation}\n\nQuestion:\n{question}"
        fields["question"] = text_of(replies.MAX_QUESTION_CHARACTERS)
    prompt = prompts.render(options.prompts, "keywords")
    return ChatRequest(
        "keywords",
        ({"role": "system", "content": prompt}, {"role": "user", "content": message}),
        partial(replies.keywords, prompt=prompt, question=message),
        reply_of("keywords", **fields),
        max_tokens=KEYWORD_TOKENS + (RESTATED_TOKENS if turns else 0),
    )


def _answer(options: Options, arguments: dict[str, Any], prompt: str = "answer") -> ChatRequest:
    question, context = _text(arguments, "question"), _text(arguments, "context")
    form = _text(arguments, "response_type")
    boundary, documents = _fenced("documents", context)
    not_found = prompts.sentence("not_found", language_of(options, arguments))
    last = f"{documents}\n\nQuestion: {question}\n\nForm of the answer: {form}"
    if instructions := arguments.get("instructions"):
        last += _INSTRUCTIONS.format(instructions=instructions)
    schema = arguments.get("schema")
    if schema is not None:
        last += _IN_JSON.format(form=_described(schema))
    reminders = _MISSING if schema is None else _MISSING_IN_JSON
    pictures = arguments.get("pictures") or ()
    if pictures:
        last += _PICTURES.format(numbers=", ".join(f"[{picture['number']}]" for picture in pictures))
    if missing := reminders.get(str(arguments.get("missing"))):
        last += f"\n\n{missing.format(not_found=not_found)}"
    system = prompts.render(options.prompts, prompt, boundary=boundary, not_found=not_found)
    messages = (
        {"role": "system", "content": system},
        *history(arguments.get("history")),
        {"role": "user", "content": last},
    )
    # The sentence that nothing is found is no copy.
    parse: Callable[[str, bool], Any] = partial(replies.answer, prompt=system.replace(not_found, ""))
    if schema is not None:
        parse = partial(replies.structured, not_found=not_found)
    return _limited(
        ChatRequest(
            "answer",
            messages,
            parse,
            _with_sources(schema) if schema else None,
            max_tokens=_answer_tokens(form, context, arguments.get("max_tokens")),
            pictures=tuple(Picture(picture["media_type"], picture["base64"]) for picture in pictures),
        ),
        prompt,
        arguments,
    )


def _chat(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    """Return the request of a conversation by itself, without documents."""
    conversation = (*history(arguments.get("history")), {"role": "user", "content": _text(arguments, "question")})
    if instructions := arguments.get("instructions"):
        conversation = ({"role": "system", "content": instructions}, *conversation)
    messages: list[dict[str, str]] = []
    for turn in conversation:
        # Some models refuse two turns of one role in a row.
        if messages and messages[-1]["role"] == turn["role"]:
            messages[-1] = turn | {"content": f"{messages[-1]['content']}\n\n{turn['content']}"}
        else:
            messages.append(turn)
    schema = arguments.get("schema")
    if schema is not None:
        messages[-1] = messages[-1] | {
            "content": f"{messages[-1]['content']}\n\nReply with JSON alone: {_described(schema)}."
        }
    max_tokens = arguments.get("max_tokens") or ANSWER_TOKENS
    form = {"name": ASKERS_SCHEMA, "schema": schema} if schema else None
    request = ChatRequest("answer", tuple(messages), replies.answer, form, max_tokens=max_tokens)
    return _limited(request, "chat", arguments)


def _limited(request: ChatRequest, task: str, arguments: dict[str, Any]) -> ChatRequest:
    """Return a request whose reply is cached for the same task, asker (of a chat), limit and schema alone.

    The task is part of the key because askers choose messages, and must neither learn nor write replies to other tasks.
    """
    names = ("asker", "max_tokens", "schema")
    own = {"task": task} | {name: arguments[name] for name in names if arguments.get(name) is not None}
    return replace(request, variant=json.dumps(own, sort_keys=True), asked_tokens=arguments.get("max_tokens"))


def _described(schema: dict[str, Any]) -> str:
    return f"of this JSON schema: {json.dumps(schema, ensure_ascii=False)}" if schema else "a JSON object"


# Parts of a schema that stay at its root, and references to them.
_SHARED_NAMES = ("$defs", "definitions")
_SHARED = re.compile(r"#/(?:\$defs|definitions)(?:/|\Z)")


def _with_sources(schema: dict[str, Any]) -> dict[str, Any]:
    """Return what a request takes as its schema: {sources, answer}, where the answer has a schema of the asker, or is null."""
    shared = {name: schema[name] for name in _SHARED_NAMES if name in schema}
    own = {name: value for name, value in schema.items() if name not in shared}
    answer = {"anyOf": [_moved(own), {"type": "null"}]}
    reply = object_of(sources=list_of(_INTEGER), answer=answer) | {name: _moved(part) for name, part in shared.items()}
    return {"name": ASKERS_SCHEMA, "schema": reply}


def _moved(part: Any) -> Any:
    """Return a part of a schema that refers to its whole, and to paths in it, where they stand now."""
    if isinstance(part, dict):
        return {
            name: f"#/properties/answer/anyOf/0{value[1:]}" if name == "$ref" and _moves(value) else _moved(value)
            for name, value in part.items()
        }
    return [_moved(item) for item in part] if isinstance(part, list) else part


def _moves(reference: Any) -> bool:
    """Whether what a reference names does not stand where it stood."""
    return (
        isinstance(reference, str) and (reference == "#" or reference.startswith("#/")) and not _SHARED.match(reference)
    )


def _answer_tokens(form: str, context: str, asked: int | None) -> int:
    """Return the limit of an answer's tokens: the one asked for, else by its form; at most the context's and a sentence's."""
    if asked is not None:
        limit = asked
    elif counted := _WORDS.search(form):
        # A word is a token or two.
        limit = min(bounds.MAX_ANSWER_TOKENS, SENTENCE_TOKENS + 2 * int(counted[1]))
    else:
        limit = next((tokens for pattern, tokens in _FORMS if pattern.search(form)), ANSWER_TOKENS)
    return min(limit, SENTENCE_TOKENS + len(context.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def _hyde(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    return _about_question(options, arguments, "hyde", replies.passage, None, PASSAGE_TOKENS)


def _decompose(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    schema = reply_of("queries", queries=list_of(text_of(replies.MAX_PART_CHARACTERS), most=replies.MAX_QUERIES))
    return _about_question(options, arguments, "decompose", replies.queries, schema, QUERIES_TOKENS)


def _rewrite(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    schema = reply_of("query", query=text_of(replies.MAX_PART_CHARACTERS))
    return _about_question(options, arguments, "rewrite", replies.query, schema, QUERY_TOKENS)


def _about_question(
    options: Options,
    arguments: dict[str, Any],
    prompt: str,
    parse: Callable[[str, bool], Any],
    schema: Any,
    max_tokens: int,
) -> ChatRequest:
    question = _text(arguments, "question")[:MAX_UNDERSTOOD]
    messages = (
        {"role": "system", "content": prompts.render(options.prompts, prompt)},
        {"role": "user", "content": question},
    )
    return ChatRequest("keywords", messages, parse, schema, max_tokens=max_tokens)


_INTEGER = {"type": "integer"}
_GRADE = object_of(number=_INTEGER, grade={"type": "string", "enum": list(replies.GRADES)})

# Characters of the report that shows what an expansion looks like.
MAX_EXAMPLE = 8000

_STEP = reply_of(
    "step",
    answer=text_of(replies.MAX_STEP_CHARACTERS),
    score={"type": "number"},
    follow_ups=list_of(
        object_of(question=text_of(replies.MAX_PART_CHARACTERS), score={"type": "number"}), most=replies.MAX_FOLLOW_UPS
    ),
)
_POINT = object_of(description=text_of(replies.MAX_POINT_CHARACTERS), score={"type": "number"})


def _grades(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    question, texts = _text(arguments, "question")[:MAX_UNDERSTOOD], arguments.get("texts")
    if not isinstance(texts, list) or not 0 < len(texts) <= MAX_GRADED or not all(isinstance(t, str) for t in texts):
        raise GraphRAGError(f"1 to {MAX_GRADED} texts are graded at once", hint="Use the search option transform.")
    boundary, fenced = _fenced("texts", _numbered([text[:MAX_GRADED_CHARACTERS] for text in texts]))
    content = f"Question: {question}\n\n{fenced}"
    system = prompts.render(options.prompts, "grades", boundary=boundary)
    messages = ({"role": "system", "content": system}, {"role": "user", "content": content})
    schema = reply_of("grades", grades=list_of(_GRADE, most=len(texts)))
    tokens = AROUND_TOKENS + GRADE_TOKENS * len(texts)
    return ChatRequest("relevance", messages, partial(replies.grades, count=len(texts)), schema, max_tokens=tokens)


def _messages_about(options: Options, prompt: str, tag: str, data: str, question: str) -> tuple[dict[str, str], ...]:
    """Return the messages of a prompt with data and a question about it."""
    boundary, fenced = _fenced(tag, data)
    return (
        {"role": "system", "content": prompts.render(options.prompts, prompt, boundary=boundary)},
        {"role": "user", "content": f"{fenced}\n\nQuestion: {question}"},
    )


def _map(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    messages = _messages_about(options, "map", "reports", _text(arguments, "reports"), _text(arguments, "question"))
    schema = reply_of("points", points=list_of(_POINT, most=replies.MAX_POINTS))
    return ChatRequest("answer", messages, replies.points, schema, max_tokens=MAP_TOKENS)


def _rate(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    messages = _messages_about(options, "rate", "report", _text(arguments, "report"), _text(arguments, "question"))
    schema = reply_of("rating", rating=_INTEGER)
    return ChatRequest("relevance", messages, replies.rating, schema, max_tokens=VERDICT_TOKENS)


def _refine(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    question, concepts = _text(arguments, "question")[:MAX_UNDERSTOOD], _texts(arguments, "concepts")
    messages = _messages_about(options, "refine", "concepts", "\n".join(map(neutral_line, concepts)), question)
    names = list_of(text_of(replies.MAX_KEYWORD_CHARACTERS), most=MAX_CONCEPTS_EACH)
    part = object_of(question=text_of(replies.MAX_PART_CHARACTERS), concepts=names)
    schema = reply_of(
        "refine", queries=list_of(part, most=MAX_PARTS), expanded=text_of(replies.MAX_QUESTION_CHARACTERS)
    )
    return ChatRequest(
        "answer", messages, partial(replies.refined, concepts=concepts), schema, max_tokens=REFINE_TOKENS
    )


def _relevant_passages(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    texts = _texts(arguments, "texts")
    messages = _messages_about(options, "relevant_passages", "passages", _numbered(texts), _text(arguments, "question"))
    numbers = list_of(_INTEGER, most=len(texts))
    schema = reply_of("relevant_passages", relevant=numbers, irrelevant=numbers)
    parse, tokens = partial(replies.relevant_passages, count=len(texts)), AROUND_TOKENS + NUMBER_TOKENS * len(texts)
    return ChatRequest("relevance", messages, parse, schema, max_tokens=tokens)


def _relevant(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    messages = _messages_about(options, "relevant", "text", _text(arguments, "text"), _text(arguments, "question"))
    schema = reply_of("relevant", relevant={"type": "boolean"})
    return ChatRequest("relevance", messages, replies.relevant, schema, max_tokens=VERDICT_TOKENS)


def _select(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    texts = _texts(arguments, "texts")
    question = _text(arguments, "question")[:MAX_UNDERSTOOD]
    messages = _messages_about(options, "select", "passages", _numbered(texts), question)
    parse = partial(replies.selected, count=len(texts), most=MAX_SELECTED)
    schema = reply_of("select", selected=list_of(_INTEGER, most=MAX_SELECTED))
    tokens = AROUND_TOKENS + NUMBER_TOKENS * MAX_SELECTED
    return ChatRequest("relevance", messages, parse, schema, max_tokens=tokens)


def _expand(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    report = _text(arguments, "report")[:MAX_EXAMPLE]
    question = _text(arguments, "question")[:MAX_UNDERSTOOD]
    messages = _messages_about(options, "expand", "report", report, question)
    return ChatRequest("answer", messages, replies.passage, max_tokens=PASSAGE_TOKENS)


def _primer(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    messages = _messages_about(options, "primer", "reports", _text(arguments, "reports"), _text(arguments, "question"))
    return ChatRequest("answer", messages, replies.step, _STEP, max_tokens=STEP_TOKENS)


def _follow_up(options: Options, arguments: dict[str, Any]) -> ChatRequest:
    question = f"{_text(arguments, 'question')}\n\nThe question that it is asked for: {_text(arguments, 'whole')}"
    messages = _messages_about(options, "follow_up", "documents", _text(arguments, "context"), question)
    return ChatRequest("answer", messages, replies.step, _STEP, max_tokens=STEP_TOKENS)


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
    schema = reply_of("sql", statement=STRING)
    return ChatRequest("answer", tuple(messages), replies.statement, schema, max_tokens=SQL_TOKENS)


TASKS: dict[str, Callable[[Options, dict[str, Any]], ChatRequest]] = {
    "keywords": _keywords,
    "hyde": _hyde,
    "decompose": _decompose,
    "rewrite": _rewrite,
    "grades": _grades,
    "answer": _answer,
    "reduce": partial(_answer, prompt="reduce"),
    "chat": _chat,
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

    Raises GraphRAGError: 22023 naming the turn, or if there are more than `bounds` allows. Other roles are refused: callers
      cannot change the instructions.
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
    if turns:
        bounds.history([turn["content"] for turn in turns])
    return tuple({"role": turn["role"], "content": turn["content"]} for turn in turns)
