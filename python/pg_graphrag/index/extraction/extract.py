"""The extraction of one chunk as a task of the gateway: ask, glean, keep what is complete, ask for the rest in
another way.
"""

import json
import re
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.index.extraction.extraction_replies import (
    CUT_OFF,
    NO_EXTRACTION,
    REPEATS,
    TEMPLATE,
    UNGROUNDED,
    UnusableReply,
    parse_extraction,
    salvage,
)
from pg_graphrag.index.extraction.grounding import SourceText, ground
from pg_graphrag.index.extraction.records import MAX_ATTRIBUTES, UNKNOWN, Extraction, fit, keep_most
from pg_graphrag.llm.endpoints.faults import ContextTooLong, ItemFault, PromptCut, Repetition, TimedOut
from pg_graphrag.llm.endpoints.requests import (
    BYTES_PER_TOKEN,
    RETRIES,
    ChatRequest,
    Reply,
    in_turn,
    list_of,
    object_of,
    reply_of,
    text_of,
)
from pg_graphrag.server.corpus.options import Options
from pg_graphrag.text.prompts import render
from pg_graphrag.text.sentences import ends

# A chunk that is too long for the model is cut in two, down to parts of this many characters.
MIN_PART = 200
# A text of this many characters is cut in two where a reply about it does not end.
LONG_TEXT = 1000
# Output tokens of an extraction: a base, and so many for each token of the text; recorded extractions stay below.
REPLY_TOKENS, TOKENS_PER_TOKEN, MOST_TOKENS = 400, 3, 8000
# Words of the prompt in a row that no description has by chance.
TEMPLATE_WORDS = 4
# What the fields of a reply are called.
TEMPLATE_NAMES = {"name", "type", "description", "source", "target", "keywords", "entity", "entity name", "string"}

Messages = tuple[dict[str, str], ...]
Extracting = Generator[ChatRequest, Reply, Extraction]
Ask = Callable[..., Generator[ChatRequest, Reply, tuple[Extraction, str]]]


def extraction(
    options: Options, title: str | None, text: str, source: SourceText, *, waits_for_tokens: bool = True
) -> Extracting:
    """Ask for the entities, relationships and claims of `text`, and check them against the text and the corpus' schema.

    Complete parts of a reply are kept; the rest is asked for again, each time in another way: at most 1 +
    `options.max_gleaning` + `RETRIES` requests for a text that fits the model. If nothing usable came, the result has a
    `fault`.

    `waits_for_tokens`: whether a model that is silent for too long is asked later; else its silence is the text's fault.

    Raises ProviderFault, BudgetReached, Waiting: as in the gateway.
    """
    try:
        ask = partial(_ask, options, source, waits_for_tokens)
        result = yield from _extraction(ask, options, title, text, options.max_gleaning, RETRIES)
    except TimedOut as fault:
        if waits_for_tokens:
            raise
        return Extraction(fault=fault)
    ground(result, source, options.grounding)
    fit(result, options.entity_types)
    keep_most(result)
    return result


def _extraction(ask: Ask, options: Options, title: str | None, text: str, rounds: int, tries: int) -> Extracting:
    """Ask about `text`: the first request, then gleaning `rounds`, and `tries` more if replies are faulty."""
    messages = _messages(options, title, text)
    retry = 0
    while True:
        try:
            result, answer = yield from ask(text, messages, retry)
            break
        except ItemFault as fault:
            is_too_long = isinstance(fault, ContextTooLong)
            is_endless = isinstance(fault, Repetition) or getattr(fault, "is_endless", False)
            if is_too_long and len(text) >= 2 * MIN_PART:
                return (yield from _halves(ask, options, title, text, rounds, tries))
            if is_endless and tries >= 2 and len(text) >= LONG_TEXT:
                return (yield from _halves(ask, options, title, text, 0, tries // 2 - 1))
            if is_too_long or not tries:
                return Extraction(fault=fault)
            tries -= 1
            retry += 1
    retry, is_cut, is_open, glean = 0, result.repaired, result.repaired, render(options.prompts, "glean")
    while rounds or (is_open and tries):
        if rounds:
            rounds -= 1
        else:
            tries -= 1
        asked = (*messages, {"role": "assistant", "content": answer}, {"role": "user", "content": glean})
        try:
            gleaned, gleaned_answer = yield from ask(text, asked, retry, is_gleaning=True)
        except ContextTooLong:
            break
        except ItemFault:
            result.repaired = is_open = True
            retry += 1
            continue
        is_open = gleaned.repaired
        if not len(gleaned):
            break
        result.add(gleaned)
        messages, answer, retry = asked, gleaned_answer, 0
    result.is_partial = is_cut and is_open
    return result


def _halves(ask: Ask, options: Options, title: str | None, text: str, rounds: int, tries: int) -> Extracting:
    """Ask about each half of a text; where one fails, there is the other."""
    cut = split_position(text, options.language)
    parts = (text[:cut], text[cut:])
    halves = yield from in_turn(_extraction(ask, options, title, part, rounds, tries) for part in parts)
    usable = [half for half in halves if half.fault is None]
    if not usable:
        return halves[0]
    result = usable[0]
    for half in usable[1:]:
        result.add(half)
    if len(usable) < len(halves):
        result.repaired = result.is_partial = True
    return result


def _ask(
    options: Options,
    source: SourceText,
    blames_endpoint: bool,
    text: str,
    messages: Messages,
    retry: int,
    *,
    is_gleaning: bool = False,
) -> Generator[ChatRequest, Reply, tuple[Extraction, str]]:
    """Ask once; return the complete part of the reply, marked as repaired if a part is missing, and the reply so far.

    Raises ItemFault: no part is usable.
    """
    request = ChatRequest(
        "extract",
        messages,
        partial(_usable, options, source, messages[0]["content"], is_gleaning=is_gleaning),
        schema(options),
        max_tokens=min(REPLY_TOKENS + TOKENS_PER_TOKEN * len(text.encode()) // BYTES_PER_TOKEN, MOST_TOKENS),
        retry=retry,
        blames_endpoint=blames_endpoint,
    )
    try:
        reply = yield request
        result, answer = reply.value, reply.text
    except ContextTooLong:
        raise
    except ItemFault as fault:
        part = (
            salvage(fault.raw)
            if not isinstance(fault, UnusableReply) or fault.why in (CUT_OFF, REPEATS, NO_EXTRACTION)
            else None
        )
        if part is None:
            raise
        result = _checked(part, options, source, messages[0]["content"], fault.raw, is_gleaning=is_gleaning)
        answer = as_reply(result)
    return result, answer


def _usable(
    options: Options, source: SourceText, prompt: str, text: str, cut_off: bool, *, is_gleaning: bool
) -> Extraction:
    """Return the extraction of a complete reply; a reply that is refused here is not cached."""
    result = parse_extraction(text, cut_off, may_be_nothing=is_gleaning)
    return _checked(result, options, source, prompt, text, is_gleaning=is_gleaning)


def _checked(
    result: Extraction, options: Options, source: SourceText, prompt: str, raw: str, *, is_gleaning: bool
) -> Extraction:
    """Return an extraction without items that nobody asked for and without the prompt's own words.

    Raises UnusableReply: nothing else is left, or nothing of it is in the text.
    """
    if not options.claims:
        result.claims.clear()
    count = len(result)
    _remove_template(result, prompt, source)
    for key, entity in result.entities.items():
        if _stammers(entity.type) or entity.type == " ".join(entity.name.split()).lower():
            result.entities[key] = replace(entity, type=UNKNOWN)
    if is_gleaning:
        return result
    if count and not len(result):
        raise UnusableReply("the model repeated the prompt", raw=raw, why=TEMPLATE)
    names = [entity.name for entity in result.entities.values()]
    if options.grounding == "strict" and names and not any(map(source.has, names)):
        raise UnusableReply("the model names nothing that stands in the text", raw=raw, why=UNGROUNDED)
    return result


def why_unusable(fault: GraphRAGError) -> str:
    """Return in a few words why nothing came of a chunk; they quote neither the text nor the model."""
    if isinstance(fault, UnusableReply):
        return fault.why
    if isinstance(fault, Repetition):
        return REPEATS
    if isinstance(fault, TimedOut):
        return "the model was silent for too long"
    if isinstance(fault, PromptCut):
        return "the endpoint reads a part of the prompt alone (num_ctx)"
    if isinstance(fault, ContextTooLong):
        return "the prompt is too long for the model"
    return NO_EXTRACTION


def _stammers(type_: str) -> bool:
    """Whether a type says a word twice: person-person."""
    words = re.findall(r"\w+", type_)
    return len(set(words)) < len(words)


def _remove_template(result: Extraction, prompt: str, source: SourceText) -> None:
    """Remove items whose description is the prompt's own words; the prompt's example names nothing."""
    words = " ".join(prompt.split())

    def is_template(description: str) -> bool:
        stated = " ".join(description.split())
        return len(stated.split()) >= TEMPLATE_WORDS and stated in words

    removed = {
        key
        for key, entity in result.entities.items()
        if is_template(entity.description)
        or (
            key in TEMPLATE_NAMES
            and entity.description.strip(".…").casefold() in TEMPLATE_NAMES | {""}
            and not source.has(key)
        )
    }
    result.remove(removed)
    statements = [stated for stated in result.statements if not is_template(stated.description)]
    if removed or len(statements) < len(result.statements):
        result.state_anew(statements)
        named = {end for pair in result.relationships for end in pair}
        result.remove({key for key, entity in result.entities.items() if not entity.is_listed and key not in named})


def as_reply(found: Extraction) -> str:
    """Return the extraction in the form of a model's reply."""
    lists = {
        "entities": [
            {"name": entity.name, "type": entity.type, "description": entity.description}
            for entity in found.entities.values()
            if entity.is_listed
        ],
        "relationships": [
            {
                "source": found.entities[stated.source].name,
                "target": found.entities[stated.target].name,
                "keywords": list(stated.keywords),
                "description": stated.description,
                "strength": float(stated.strength),
            }
            for stated in found.relationships.values()
        ],
    }
    return json.dumps(lists, ensure_ascii=False)


def _messages(options: Options, title: str | None, text: str) -> Messages:
    claims = "\n" + render(options.prompts, "extract_claims") + "\n" if options.claims else ""
    types = ", ".join(options.entity_types.types)
    additions = claims
    if options.entity_types.is_closed:
        additions = f"\n{_schema_prompt(options)}\n{claims}"
    return (
        {"role": "system", "content": render(options.prompts, "extract", entity_types=types, claims=additions)},
        {
            "role": "user",
            "content": render(options.prompts, "extract_text", title=" ".join((title or "").split()), text=text),
        },
    )


def split_position(text: str, language: str) -> int:
    """Return where to cut a text in two: at the strongest break of its middle half, the nearest to the middle."""
    half, quarter = len(text) // 2, len(text) // 4
    cuts = ends(text, 0, len(text), "en" if language == "auto" else language)
    candidates = [
        (-strength, abs(position - half), position)
        for position, strength in cuts
        if quarter <= position <= len(text) - quarter
    ]
    if candidates:
        return min(candidates)[2]
    space = text.rfind(" ", quarter, half)
    return space + 1 if space > 0 else half


def _schema_prompt(options: Options) -> str:
    asked = options.entity_types
    entities = [
        f"- {name}"
        + "".join(
            f"{': ' if not place else ', '}{attribute} ({kind})"
            for place, (attribute, kind) in enumerate(attributes.items())
        )
        for name, attributes in asked.entities.items()
    ]
    relations = [f"- {source} {relation} {target}" for source, relation, target in asked.relations or ()]
    every = "- any" if asked.relations is None else "- none"
    return render(
        options.prompts, "extract_schema", entities="\n".join(entities), relations="\n".join(relations) or every
    )


# No chunk has more of them, and none of them is longer.
MOST_ENTITIES, MOST_RELATIONSHIPS, MOST_CLAIMS, MOST_KEYWORDS = 100, 150, 50, 10
_NAME, _WORDS, _SAID = text_of(200), text_of(60), text_of(1000)
_ENTITY = object_of(name=_NAME, type=_WORDS, description=_SAID)
_RELATIONSHIP = object_of(
    source=_NAME, target=_NAME, keywords=list_of(_WORDS, MOST_KEYWORDS), description=_SAID, strength={"type": "integer"}
)
_CLAIM = object_of(
    subject=_NAME,
    object=_NAME,
    type=_WORDS,
    status={"type": "string", "enum": ["TRUE", "FALSE", "SUSPECTED"]},
    start=_WORDS,
    end=_WORDS,
    description=_SAID,
    source_text=_SAID,
)


def schema(options: Options) -> dict[str, Any]:
    """Return the JSON schema of an extraction, for endpoints that enforce one."""
    asked = options.entity_types
    entity = _ENTITY
    if asked.is_closed:
        entity = object_of(
            name=_NAME,
            type={"type": "string", "enum": list(asked.types)},
            description=_SAID,
            attributes=list_of(object_of(name=_WORDS, value=_NAME), MAX_ATTRIBUTES),
        )
    lists = {"entities": list_of(entity, MOST_ENTITIES), "relationships": list_of(_RELATIONSHIP, MOST_RELATIONSHIPS)}
    return reply_of("extraction", **lists, **({"claims": list_of(_CLAIM, MOST_CLAIMS)} if options.claims else {}))
