"""Tolerant parsing of replies: JSON within prose and fences, other systems' field names, reasoning before the answer.

Each function takes a reply and whether it was cut off. It raises `ItemFault` if the reply has nothing of the expected
kind.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pg_graphrag.ground.lenient_json import objects
from pg_graphrag.ground.reasoning import without_reasoning
from pg_graphrag.llm.endpoints.faults import ItemFault, Repetition
from pg_graphrag.text.letters import clean
from pg_graphrag.text.sentences import sentences

T = TypeVar("T")

# Keywords are few short phrases; more come from a model in a loop.
MAX_KEYWORDS = 20
MAX_KEYWORD_CHARACTERS = 200
MAX_QUESTION_CHARACTERS = 2000
# Sub-questions and follow-ups are sent many times.
MAX_PART_CHARACTERS = 500
# Points of one batch of reports, and characters of each.
MAX_POINTS = 100
MAX_POINT_CHARACTERS = 4000
# Fields of a DRIFT step: ours, then those of GraphRAG's prompts; and how much of it is read.
_STEP_ANSWER = ("answer", "intermediate_answer", "response")
_STEP_RAISED = ("follow_ups", "follow_up_queries")
MAX_FOLLOW_UPS = 10
MAX_STEP_CHARACTERS = 12_000
# Characters of a sentence that is copied from the prompt, and the share of an answer that may be.
MIN_COPIED, MAX_COPIED = 40, 0.3
# How often such a sentence may stand in an answer.
MAX_COPIES = 2
# How often a block may occur in a row, for blocks with so few short sentences and characters: "The answer is: [1] Bob
# Stone".
_MAX_BLOCK, _MIN_BLOCK = 3, 20
# The marks around the data of a prompt.
_MARK = re.compile(r"</?[a-z]{1,20}-[0-9a-f]{16}>")
_CITATION = re.compile(r"\s*\[\d{1,6}\]")

# Ours; then what LightRAG's and MiniRAG's prompts ask for.
_NAMES = {
    "low_level_keywords": ("low_level_keywords", "low_level", "ll_keywords"),
    "high_level_keywords": ("high_level_keywords", "high_level", "hl_keywords"),
    "entities": ("entities", "entities_from_query", "query_entities"),
    "answer_types": ("answer_types", "answer_type_keywords", "answer_type"),
}
# Fields that quote the question; answer types may also be words of the prompt.
_QUOTING = ("low_level_keywords", "high_level_keywords", "entities")


def _first_of(text: str, cut_off: bool, cut: str, none: str, read: Callable[[dict[str, Any]], T | None]) -> T:
    """Return the first result of `read` over the objects of a reply; `cut` and `none` are for the fault's sentence."""
    for reply in objects(without_reasoning(text)):
        if (value := read(reply)) is not None:
            return value
    raise ItemFault(f"the model's {cut} cut off" if cut_off else f"the model {none}", raw=text)


def keywords(text: str, cut_off: bool, prompt: str = "", question: str = "") -> dict[str, Any]:
    """Return {low_level_keywords, high_level_keywords, entities, answer_types: lists of str, question: str or None}.

    Words of the `prompt` that are not in the `question` are no keywords: a model that repeats the template says nothing.
    """

    def read(reply: dict[str, Any]) -> dict[str, Any] | None:
        fields = {str(name).strip().replace("\\", "").lower(): value for name, value in reply.items()}
        lists = {name: _named(fields, names) for name, names in _NAMES.items()}
        quoting = [phrase for name in _QUOTING for phrase in lists[name]]
        if not quoting or _repeats(prompt, question, quoting):
            return None
        return {**lists, "question": _said(fields.get("question"), MAX_QUESTION_CHARACTERS) or None}

    return _first_of(text, cut_off, "keywords are", "gave no keywords", read)


def _repeats(prompt: str, question: str, phrases: list[str]) -> bool:
    """Whether all phrases stand in the prompt, and none in the question."""
    asked, told = question.casefold(), prompt.casefold()
    return all(phrase.casefold() in told and phrase.casefold() not in asked for phrase in phrases)


def _says(text: str) -> bool:
    """Whether a text has a letter or digit: the "…" of a template says nothing."""
    return any(character.isalnum() for character in text)


def _said(value: Any, most: int) -> str:
    """Return the beginning of a text that says something; else nothing."""
    return clean(value).strip()[:most] if isinstance(value, str) and _says(value) else ""


def _line(value: Any, most: int) -> str:
    """Return `_said` as one line."""
    return " ".join(_said(value, len(value)).split())[:most] if isinstance(value, str) else ""


def _named(fields: dict[str, Any], names: tuple[str, ...]) -> list[str]:
    return next((_phrases(fields[name]) for name in names if name in fields), [])


def _phrases(value: Any) -> list[str]:
    """Return the phrases of a list, or of a string with commas, without items that are not text."""
    items = re.split(r"[,;、，\n]", value) if isinstance(value, str) else value if isinstance(value, list) else []
    phrases: dict[str, None] = {}
    for item in items:
        if isinstance(item, dict):  # {"name": …}, as extraction prompts have it
            item = item.get("name")
        if isinstance(item, (int, float)) and not isinstance(item, bool):
            item = str(item)
        if isinstance(item, str) and _says(phrase := " ".join(clean(item).split())):
            phrases[phrase[:MAX_KEYWORD_CHARACTERS]] = None
    return list(phrases)[:MAX_KEYWORDS]


def points(text: str, cut_off: bool) -> list[dict[str, Any]]:
    """Return [{description: str, score: int in 0 … 100}] of a map request, without invalid points."""

    def read(reply: dict[str, Any]) -> list[dict[str, Any]] | None:
        items = reply.get("points")
        if not isinstance(items, list):
            return None
        return [point for item in items[:MAX_POINTS] if (point := _point(item)) is not None]

    return _first_of(text, cut_off, "points are", "gave no points", read)


def statement(text: str, cut_off: bool) -> str:
    """Return the statement that a model wrote, "" where none helps."""

    def read(reply: dict[str, Any]) -> str | None:
        written = reply.get("statement")
        return written.strip().rstrip(";").rstrip() if isinstance(written, str) else None

    return _first_of(text, cut_off, "statement is", "gave no statement", read)


def _point(item: Any) -> dict[str, Any] | None:
    if not isinstance(item, dict):
        return None
    description, score = _line(item.get("description"), MAX_POINT_CHARACTERS), _score(item.get("score"), 100)
    return {"description": description, "score": score} if description and score is not None else None


def _score(value: Any, most: int) -> int | None:
    """Return a score in 0 … `most`; None where it is no number."""
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,9}\s*", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return None
    return round(min(most, max(0, value)))


def step(text: str, cut_off: bool) -> dict[str, Any]:
    """Return {answer: str, score: int in 0 … 100, follow_ups: [{question, score}]} of a DRIFT step; accepts GraphRAG's
    names too.

    A follow-up without a score gets the answer's.
    """

    def read(reply: dict[str, Any]) -> dict[str, Any] | None:
        step_answer = next((reply[name] for name in _STEP_ANSWER if isinstance(reply.get(name), str)), None)
        score = _score(reply.get("score"), 100)
        if step_answer is None or score is None:
            return None
        raised: list[Any] = next((reply[name] for name in _STEP_RAISED if isinstance(reply.get(name), list)), [])
        follow_ups = [follow_up for item in raised if (follow_up := _follow_up(item, score)) is not None]
        step_text = _said(step_answer, MAX_STEP_CHARACTERS)
        return {"answer": step_text, "score": score, "follow_ups": follow_ups[:MAX_FOLLOW_UPS]}

    return _first_of(text, cut_off, "answer is", "gave no answer with a score", read)


def _follow_up(item: Any, score: int) -> dict[str, Any] | None:
    raw_question, own_score = (
        (item.get("question"), _score(item.get("score"), 100)) if isinstance(item, dict) else (item, None)
    )
    question = _line(raw_question, MAX_PART_CHARACTERS)
    return {"question": question, "score": score if own_score is None else own_score} if question else None


def refined(text: str, cut_off: bool, concepts: Sequence[str]) -> dict[str, Any]:
    """Return {queries: [{question, concepts: list of str}], expanded: str} of a decomposed question.

    A query may also be a string. Only strings in `concepts` count as concepts, in their spelling.
    """
    spelled = {concept.casefold(): concept for concept in concepts}

    def read(reply: dict[str, Any]) -> dict[str, Any] | None:
        parts = reply.get("queries")
        if not isinstance(parts, list):
            return None
        named: dict[str, list[str]] = {}
        for part in parts[:MAX_KEYWORDS]:
            question = _line(part.get("question") if isinstance(part, dict) else part, MAX_PART_CHARACTERS)
            names = _phrases(part.get("concepts")) if isinstance(part, dict) else []
            if question:
                own = [spelled[name.casefold()] for name in names if name.casefold() in spelled]
                named.setdefault(question, list(dict.fromkeys(own)))
        queries = [{"question": question, "concepts": names} for question, names in named.items()]
        return {"queries": queries, "expanded": _said(reply.get("expanded"), MAX_QUESTION_CHARACTERS)}

    return _first_of(text, cut_off, "queries are", "gave no queries", read)


def relevant_passages(text: str, cut_off: bool, count: int) -> dict[int, bool]:
    """Return {number: whether it helps} of `count` passages: those that {"relevant": […], "irrelevant": […]} names once."""

    def read(reply: dict[str, Any]) -> dict[int, bool] | None:
        helping, others = (_numbers(reply.get(name), count) for name in ("relevant", "irrelevant"))
        verdicts = [(number, True) for number in helping] + [(number, False) for number in others]
        return {number: helps for number, helps in verdicts if not (number in helping and number in others)} or None

    return _first_of(text, cut_off, "verdicts are", "said of no passage whether it is relevant", read)


def selected(text: str, cut_off: bool, count: int, most: int) -> list[int]:
    """Return the numbers of {"selected": […]} in 1 … `count`, in their order, each once, at most `most`; none is an answer, too.

    What names other numbers alone is no answer.
    """

    def read(reply: dict[str, Any]) -> list[int] | None:
        items = reply.get("selected")
        chosen = list(_numbers(items, count))
        return chosen[:most] if isinstance(items, list) and (chosen or not items) else None

    return _first_of(text, cut_off, "selection is", "selected nothing readable", read)


def _numbers(value: Any, count: int) -> dict[int, None]:
    """Return the numbers in 1 … `count` of a list, in their order, each once."""
    items = value if isinstance(value, list) else []
    return {number: None for item in items if (number := _whole(item)) is not None and 1 <= number <= count}


def _whole(value: Any) -> int | None:
    """Return a whole number, also one in quotes or 1.0; None for anything else."""
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value % 1:
        return None
    return int(value) if abs(value) < 1e9 else None


def relevant(text: str, cut_off: bool) -> bool:
    """Return whether a model finds a text relevant: {"relevant": true}, or just a word."""
    body = without_reasoning(text)
    for reply in objects(body):
        value = reply.get("relevant")
        if isinstance(value, bool):
            return value
    word = body.strip().strip(".*`\"'").casefold()
    if word in ("true", "yes", "relevant"):
        return True
    if word in ("false", "no", "not relevant", "irrelevant"):
        return False
    raise ItemFault("the model did not say whether the text is relevant", raw=text)


def rating(text: str, cut_off: bool) -> int:
    """Return how relevant a model finds a report, 0 … 5: {"rating": 3}, or just a number."""
    body = without_reasoning(text)
    for reply in objects(body):
        if (value := _score(reply.get("rating"), 5)) is not None:
            return value
    value = _score(body.strip().strip(".*`\"'"), 5)
    if value is None:
        raise ItemFault("the model did not rate the report", raw=text)
    return value


def _repeated_block(uncited: list[str]) -> int:
    """Return how many sentences at the end, without citations, are a repetition; 0 if there is none."""
    copies = MAX_COPIES + 1
    for size in range(1, _MAX_BLOCK + 1):
        block = uncited[-size:]
        if sum(map(len, block)) >= _MIN_BLOCK and uncited[-size * copies :] == block * copies:
            return size
    return 0


def answer(text: str, cut_off: bool, prompt: str = "") -> dict[str, Any]:
    """Return {text, cut_off} of an answer in prose; raise `Repetition` if it repeats a sentence again and again.

    It is no answer if it is reasoning alone, contains the prompt's data marks, or mostly repeats the `prompt`. Longer
    repetitions were detected while it came.
    """
    body = without_reasoning(text, is_prose=True)
    if not body.strip():
        raise ItemFault("the model gave no answer, only its reasoning", raw=text)
    if _MARK.search(body):
        raise ItemFault("the model repeated its prompt", raw=text)
    prompt_text, answer_sentences = " ".join(prompt.split()), []
    copies: dict[str, list[int]] = {}
    # Of all sentences: their text without citations, and where they begin.
    uncited: list[str] = []
    places: list[int] = []
    for start, end in sentences(body, "en"):
        sentence = " ".join(body[start:end].split())
        answer_sentences.append(sentence)
        uncited.append(_CITATION.sub("", sentence))
        places.append(start)
        starts = copies.setdefault(uncited[-1], [])
        starts.append(start)
        if len(sentence) >= MIN_COPIED and len(starts) > MAX_COPIES:
            # Too short for `RepetitionWatch`, which reads a hundred words.
            raise Repetition(body[: starts[1]])
        if size := _repeated_block(uncited):
            raise Repetition(body[: places[-size * MAX_COPIES]])
    copied = sum(
        len(sentence)
        for sentence in answer_sentences
        if len(sentence) >= MIN_COPIED and sentence.strip("-* ") in prompt_text
    )
    if copied > MAX_COPIED * len(body):
        raise ItemFault("the model repeated its instructions", raw=text)
    return {"text": clean(body), "cut_off": cut_off}


def structured(text: str, cut_off: bool, not_found: str) -> dict[str, Any]:
    """Return {text, cut_off, sources: numbers} of an answer in JSON; the fixed sentence for an answer that there is none."""

    def read(reply: dict[str, Any]) -> dict[str, Any] | None:
        sources, value = reply.get("sources"), reply.get("answer")
        if "answer" not in reply or not isinstance(sources, list):
            return None
        if value is None:
            return {"text": not_found, "cut_off": False, "sources": []}
        try:
            answer = json.dumps(_storable(value), ensure_ascii=False, allow_nan=False)
        except ValueError:
            # NaN or a number beyond all bounds, which no jsonb has.
            return None
        numbers = [number for source in sources if (number := _whole(source)) is not None]
        return {"text": answer, "cut_off": False, "sources": numbers}

    return _first_of(text, cut_off, "answer is", "gave no answer in the form that was asked for", read)


def _storable(value: Any) -> Any:
    """Return JSON whose names and texts a jsonb can hold."""
    if isinstance(value, dict):
        return {clean(name): _storable(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_storable(part) for part in value]
    return clean(value) if isinstance(value, str) else value


# What a transform may make of a query: passages of one window or two, a few queries.
MAX_PASSAGE_CHARACTERS = 2000
MAX_QUERIES = 4

# How a text helps to answer a question (CRAG, arXiv 2401.15884, section 4.3).
GRADES = ("correct", "ambiguous", "incorrect")


def passage(text: str, cut_off: bool) -> str:
    """Return the passage that a model wrote, also a cut-off one."""
    body = clean(without_reasoning(text, is_prose=True)).strip()
    if not body:
        raise ItemFault("the model wrote no passage", raw=text)
    return " ".join(body.split())[:MAX_PASSAGE_CHARACTERS]


def queries(text: str, cut_off: bool) -> list[str]:
    """Return the queries of {"queries": […]}, without repetitions, at most MAX_QUERIES."""

    def read(reply: dict[str, Any]) -> list[str] | None:
        items = reply.get("queries")
        texts = [item for item in items if isinstance(item, str)] if isinstance(items, list) else []
        return _phrases(texts)[:MAX_QUERIES] or None

    return _first_of(text, cut_off, "queries are", "gave no queries", read)


def query(text: str, cut_off: bool) -> str:
    """Return the query of {"query": …}."""

    def read(reply: dict[str, Any]) -> str | None:
        return _line(reply.get("query"), MAX_QUESTION_CHARACTERS) or None

    return _first_of(text, cut_off, "query is", "gave no query", read)


def grades(text: str, cut_off: bool, count: int) -> list[str]:
    """Return the grade of each of `count` texts, in their order; ambiguous where the model gave none."""
    numbers = range(1, count + 1)

    def read(reply: dict[str, Any]) -> list[str] | None:
        items = reply.get("grades")
        graded: dict[int, str] = {}
        for item in items if isinstance(items, list) else []:
            number, grade = (item.get("number"), item.get("grade")) if isinstance(item, dict) else (None, None)
            if isinstance(number, int) and isinstance(grade, str) and grade.strip().lower() in GRADES:
                graded[number] = grade.strip().lower()
        return [graded.get(number, "ambiguous") for number in numbers] if graded.keys() & numbers else None

    return _first_of(text, cut_off, "grades are", "gave no grades", read)
