"""Tolerant parsing of replies: JSON among prose and fences, other systems' names, reasoning in front."""

import re
from collections.abc import Sequence
from typing import Any

from pg_graphrag.ground.lenient_json import objects
from pg_graphrag.ground.reasoning import without_reasoning
from pg_graphrag.llm.endpoints.faults import ItemFault, Repetition
from pg_graphrag.llm.endpoints.repetition import repetition
from pg_graphrag.text.letters import clean
from pg_graphrag.text.sentences import sentences

# Keywords are few short phrases; the rest is of a model in a loop.
MAX_KEYWORDS = 20
MAX_KEYWORD_CHARACTERS = 200
MAX_QUESTION_CHARACTERS = 2000
# Sub-questions and follow-ups are sent many times.
MAX_PART_CHARACTERS = 500
# Points of one batch of reports, and characters of each.
MAX_POINTS = 100
MAX_POINT_CHARACTERS = 4000
# A step of DRIFT: ours, then what GraphRAG's prompts ask for; and how much of it is read.
_STEP_ANSWER = ("answer", "intermediate_answer", "response")
_STEP_RAISED = ("follow_ups", "follow_up_queries")
MAX_FOLLOW_UPS = 10
MAX_STEP_CHARACTERS = 12_000
# Characters of a sentence that is copied from the prompt, and the share of an answer that may be.
MIN_COPIED, MAX_COPIED = 40, 0.3
# How often such a sentence may stand in an answer.
MAX_COPIES = 2
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
# Those that quote the question; its answer types may stand in the prompt.
_QUOTING = ("low_level_keywords", "high_level_keywords", "entities")


def keywords(text: str, cut_off: bool, prompt: str = "", question: str = "") -> dict[str, Any]:
    """Return {low_level_keywords, high_level_keywords, entities, answer_types: lists of str, question: str or None}.

    Words of the `prompt` that are none of the `question`'s are no keywords: what repeats its template says nothing.

    Raises
    ------
    ItemFault
        When there is no object with keywords in it: prose, markup, a truncated or an empty object, other types, the template.
    """
    for reply in objects(without_reasoning(text)):
        fields = {str(name).strip().replace("\\", "").lower(): value for name, value in reply.items()}
        lists = {name: _first(fields, names) for name, names in _NAMES.items()}
        if _repeats(prompt, question, [phrase for name in _QUOTING for phrase in lists[name] or ()]):
            continue
        if lists["low_level_keywords"] or lists["high_level_keywords"] or lists["entities"]:
            break
    else:
        raise ItemFault("the model's keywords are cut off" if cut_off else "the model gave no keywords", raw=text)
    asked = fields.get("question")
    restated = clean(asked).strip()[:MAX_QUESTION_CHARACTERS] if isinstance(asked, str) and _says(asked) else ""
    return {**{name: value or [] for name, value in lists.items()}, "question": restated or None}


def _repeats(prompt: str, question: str, phrases: list[str]) -> bool:
    """Whether all phrases stand in the prompt, and none in the question."""
    asked, told = question.casefold(), prompt.casefold()
    return bool(phrases) and all(phrase.casefold() in told and phrase.casefold() not in asked for phrase in phrases)


def _says(text: str) -> bool:
    """Whether a text has a letter or digit: the "…" of a template says nothing."""
    return any(character.isalnum() for character in text)


def _first(fields: dict[str, Any], names: tuple[str, ...]) -> list[str] | None:
    for name in names:
        if name in fields:
            return _phrases(fields[name])
    return None


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
    """Return [{description: str, score: int in 0 … 100}] of a map request, without invalid points.

    Raises
    ------
    ItemFault
        When there is no object with a list of points in it.
    """
    for reply in objects(without_reasoning(text)):
        if isinstance(reply.get("points"), list):
            return [point for item in reply["points"][:MAX_POINTS] if (point := _point(item)) is not None]
    raise ItemFault("the model's points are cut off" if cut_off else "the model gave no points", raw=text)


def statement(text: str, cut_off: bool) -> str:
    """Return the statement that a model wrote, "" where none helps.

    Raises
    ------
    ItemFault
        When there is no object with a statement in it.
    """
    for reply in objects(without_reasoning(text)):
        if isinstance(reply.get("statement"), str):
            return str(reply["statement"]).strip().rstrip(";").rstrip()
    raise ItemFault("the model's statement is cut off" if cut_off else "the model gave no statement", raw=text)


def _point(item: Any) -> dict[str, Any] | None:
    if not isinstance(item, dict):
        return None
    raw, score = item.get("description"), _score(item.get("score"), 100)
    if not isinstance(raw, str) or score is None:
        return None
    description = " ".join(clean(raw).split())[:MAX_POINT_CHARACTERS]
    return {"description": description, "score": score} if _says(description) else None


def _score(value: Any, most: int) -> int | None:
    """Return a score in 0 … `most`; None where it is no number."""
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,9}\s*", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return None
    return round(min(most, max(0, value)))


def step(text: str, cut_off: bool) -> dict[str, Any]:
    """Return {answer: str, score: int in 0 … 100, follow_ups: [{question, score}]} of a step of DRIFT; GraphRAG's names too.

    A follow-up without a score of its own has that of the answer.

    Raises
    ------
    ItemFault
        When there is no object with an answer and its score in it.
    """
    for reply in objects(without_reasoning(text)):
        step_answer = next((reply[name] for name in _STEP_ANSWER if isinstance(reply.get(name), str)), None)
        score = _score(reply.get("score"), 100)
        if step_answer is not None and score is not None:
            raised: list[Any] = next((reply[name] for name in _STEP_RAISED if isinstance(reply.get(name), list)), [])
            follow_ups = [follow_up for item in raised if (follow_up := _follow_up(item, score)) is not None]
            return {
                "answer": clean(step_answer).strip()[:MAX_STEP_CHARACTERS] if _says(step_answer) else "",
                "score": score,
                "follow_ups": follow_ups[:MAX_FOLLOW_UPS],
            }
    raise ItemFault("the model's answer is cut off" if cut_off else "the model gave no answer with a score", raw=text)


def _follow_up(item: Any, score: int) -> dict[str, Any] | None:
    raw_question, own_score = (
        (item.get("question"), _score(item.get("score"), 100)) if isinstance(item, dict) else (item, None)
    )
    question = " ".join(clean(raw_question).split())[:MAX_PART_CHARACTERS] if isinstance(raw_question, str) else ""
    return {"question": question, "score": score if own_score is None else own_score} if _says(question) else None


def refined(text: str, cut_off: bool, concepts: Sequence[str]) -> dict[str, Any]:
    """Return {queries: [{question, concepts: list of str}], expanded: str} of a question taken apart.

    A query may also be a string. Only what stands in `concepts` is one, as it is spelled there.

    Raises
    ------
    ItemFault
        When there is no object with queries in it.
    """
    spelled = {concept.casefold(): concept for concept in concepts}
    for reply in objects(without_reasoning(text)):
        parts = reply.get("queries")
        if isinstance(parts, list):
            named: dict[str, list[str]] = {}
            for part in parts[:MAX_KEYWORDS]:
                raw = part.get("question") if isinstance(part, dict) else part
                question = " ".join(clean(raw).split())[:MAX_PART_CHARACTERS] if isinstance(raw, str) else ""
                names = _phrases(part.get("concepts")) if isinstance(part, dict) else []
                if _says(question):
                    own = [spelled[name.casefold()] for name in names if name.casefold() in spelled]
                    named.setdefault(question, list(dict.fromkeys(own)))
            expanded = reply.get("expanded")
            expansion = clean(expanded).strip()[:MAX_QUESTION_CHARACTERS] if isinstance(expanded, str) else ""
            expansion = expansion if _says(expansion) else ""
            queries = [{"question": question, "concepts": names} for question, names in named.items()]
            return {"queries": queries, "expanded": expansion}
    raise ItemFault("the model's queries are cut off" if cut_off else "the model gave no queries", raw=text)


def relevant_passages(text: str, cut_off: bool, count: int) -> dict[int, bool]:
    """Return {number: whether it helps} of `count` passages: those that {"relevant": […], "irrelevant": […]} names once.

    Raises
    ------
    ItemFault
        When it names none.
    """
    for reply in objects(without_reasoning(text)):
        numbers = {name: _numbers(reply.get(name), count) for name in ("relevant", "irrelevant")}
        both = numbers["relevant"].keys() & numbers["irrelevant"].keys()
        verdicts = {
            number: name == "relevant" for name, chosen in numbers.items() for number in chosen if number not in both
        }
        if verdicts:
            return verdicts
    raise ItemFault(
        "the model's verdicts are cut off" if cut_off else "the model said of no passage whether it is relevant",
        raw=text,
    )


def selected(text: str, cut_off: bool, count: int, most: int) -> list[int]:
    """Return the numbers of {"selected": […]} in 1 … `count`, in their order, each once, at most `most`; none is an answer, too.

    Raises
    ------
    ItemFault
        When there is no object with a list of numbers in it, or one that has none of the passages' alone.
    """
    for reply in objects(without_reasoning(text)):
        items = reply.get("selected")
        if isinstance(items, list):
            chosen = list(_numbers(items, count))
            if chosen or not items:
                return chosen[:most]
    raise ItemFault("the model's selection is cut off" if cut_off else "the model selected nothing readable", raw=text)


def _numbers(value: Any, count: int) -> dict[int, None]:
    """Return the numbers in 1 … `count` of a list, in their order, each once."""
    items = value if isinstance(value, list) else []
    digits = (int(item) if isinstance(item, str) and re.fullmatch(r"\d{1,9}", item) else item for item in items)
    return {
        item: None for item in digits if isinstance(item, int) and not isinstance(item, bool) and 1 <= item <= count
    }


def relevant(text: str, cut_off: bool) -> bool:
    """Return whether a model finds a text relevant: {"relevant": true}, or just a word.

    Raises
    ------
    ItemFault
        When it says neither yes nor no.
    """
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
    """Return how relevant a model finds a report, 0 … 5: {"rating": 3}, or just a number.

    Raises
    ------
    ItemFault
        When it gives none.
    """
    body = without_reasoning(text)
    for reply in objects(body):
        if (value := _score(reply.get("rating"), 5)) is not None:
            return value
    value = _score(body.strip().strip(".*`\"'"), 5)
    if value is None:
        raise ItemFault("the model did not rate the report", raw=text)
    return value


def answer(text: str, cut_off: bool, prompt: str = "") -> dict[str, Any]:
    """Return {text, cut_off} of an answer in prose.

    Raises
    ------
    ItemFault
        When nothing but reasoning came; `Repetition` when it repeats itself; when more than a part of it is the `prompt`'s, or
        the marks of its data are in it.
    """
    body = without_reasoning(text, is_prose=True)
    if not body.strip():
        raise ItemFault("the model gave no answer, only its reasoning", raw=text)
    if (end := repetition(body)) is not None:
        raise Repetition(body[:end])
    if _MARK.search(body):
        raise ItemFault("the model repeated its prompt", raw=text)
    prompt_text, answer_sentences = " ".join(prompt.split()), []
    copies: dict[str, list[int]] = {}
    for start, end in sentences(body, "en"):
        sentence = " ".join(body[start:end].split())
        answer_sentences.append(sentence)
        starts = copies.setdefault(_CITATION.sub("", sentence), [])
        starts.append(start)
        if len(sentence) >= MIN_COPIED and len(starts) > MAX_COPIES:
            # Too short for `repetition`, which reads a hundred words.
            raise Repetition(body[: starts[1]])
    copied = sum(
        len(sentence)
        for sentence in answer_sentences
        if len(sentence) >= MIN_COPIED and sentence.strip("-* ") in prompt_text
    )
    if copied > MAX_COPIED * len(body):
        raise ItemFault("the model repeated its instructions", raw=text)
    return {"text": clean(body), "cut_off": cut_off}


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
    """Return the queries of {"queries": […]}, without repetitions, at most MAX_QUERIES; ItemFault when there are none."""
    for reply in objects(without_reasoning(text)):
        items = reply.get("queries")
        if isinstance(items, list) and (phrases := _phrases([item for item in items if isinstance(item, str)])):
            return phrases[:MAX_QUERIES]
    raise ItemFault("the model's queries are cut off" if cut_off else "the model gave no queries", raw=text)


def query(text: str, cut_off: bool) -> str:
    """Return the query of {"query": …}; ItemFault when there is none."""
    for reply in objects(without_reasoning(text)):
        if isinstance(reply.get("query"), str) and _says(query_text := " ".join(clean(reply["query"]).split())):
            return query_text[:MAX_QUESTION_CHARACTERS]
    raise ItemFault("the model's query is cut off" if cut_off else "the model gave no query", raw=text)


def grades(text: str, cut_off: bool, count: int) -> list[str]:
    """Return the grade of each of `count` texts, in their order; ambiguous where the model gave none.

    Raises
    ------
    ItemFault
        When no text has a grade.
    """
    for reply in objects(without_reasoning(text)):
        items = reply.get("grades")
        graded: dict[int, str] = {}
        for item in items if isinstance(items, list) else []:
            number, grade = (item.get("number"), item.get("grade")) if isinstance(item, dict) else (None, None)
            if isinstance(number, int) and isinstance(grade, str) and grade.strip().lower() in GRADES:
                graded[number] = grade.strip().lower()
        if any(1 <= number <= count for number in graded):
            return [graded.get(number, "ambiguous") for number in range(1, count + 1)]
    raise ItemFault("the model's grades are cut off" if cut_off else "the model gave no grades", raw=text)
