"""The extraction of a chunk as a task of the gateway: ask, glean, split a text that is too long, retry warmer."""

from collections.abc import Generator
from functools import partial
from typing import Any

from pg_graphrag.corpus.options import Options
from pg_graphrag.extraction.records import Extraction
from pg_graphrag.extraction.replies import parse, salvage
from pg_graphrag.extraction.schema_fit import fit
from pg_graphrag.llm.faults import ContextTooLong, ItemFault
from pg_graphrag.llm.requests import ChatRequest, Reply, in_turn
from pg_graphrag.llm.schemas import STRING, STRINGS, list_of, object_of, reply_of
from pg_graphrag.prompts import render
from pg_graphrag.text.sentences import ends

# By the errors of an item so far: the same question gets another answer only at another temperature.
TEMPERATURES = (0.0, 0.3, 0.6)
# A chunk that is too long for the model is cut in two, down to parts of this many characters.
MIN_PART = 200

Messages = tuple[dict[str, str], ...]
Extracting = Generator[ChatRequest, Reply, Extraction]


def extraction(options: Options, title: str | None, text: str, errors: int, last: bool) -> Extracting:
    """Ask for the entities, relationships and claims of `text`, and hold them against the corpus' schema.

    Parameters and errors as `_extraction`.
    """
    result = yield from _extraction(options, title, text, errors, last)
    fit(result, options.entity_types)
    return result


def _extraction(options: Options, title: str | None, text: str, errors: int, last: bool) -> Extracting:
    """Ask for the entities, relationships and claims of `text`; each gleaning round asks for missed ones.

    Parameters
    ----------
    errors : int
        How often the item has failed: decides the temperature.
    last : bool
        This is the last attempt: the readable part of a broken answer is used, and marked as repaired.

    Raises
    ------
    ItemFault, ProviderFault, BudgetReached
        As the gateway has it. At most 1 + `options.max_gleaning` requests for a text that fits the model.
    """
    messages = _messages(options, title, text)
    ask = partial(_ask, options, temperature=TEMPERATURES[min(errors, len(TEMPERATURES) - 1)], last=last)
    try:
        result, answer = yield from ask(messages)
    except ContextTooLong:
        if len(text) < 2 * MIN_PART:
            raise
        cut = split_position(text, options.language)
        halves = yield from in_turn(
            _extraction(options, title, part, errors, last) for part in (text[:cut], text[cut:])
        )
        result = halves[0]
        result.add(halves[1])
        return result
    for _ in range(options.max_gleaning):
        if result.repaired:
            break
        messages += (
            {"role": "assistant", "content": answer},
            {"role": "user", "content": render(options.prompts, "glean")},
        )
        try:
            gleaned, answer = yield from ask(messages, gleaning=True)
        except ContextTooLong:
            break
        if not len(gleaned):
            break
        result.add(gleaned)
    return result


def _ask(
    options: Options, messages: Messages, *, temperature: float, last: bool, gleaning: bool = False
) -> Generator[ChatRequest, Reply, tuple[Extraction, str]]:
    request = ChatRequest("extract", messages, partial(parse, may_be_nothing=gleaning), schema(options), temperature)
    try:
        reply = yield request
    except ContextTooLong:
        raise
    except ItemFault as fault:
        if not last:
            raise
        part = salvage(fault.raw)
        if part is None and gleaning:
            part = Extraction(repaired=True)
        if part is None:
            raise
        return _requested_only(options, part), fault.raw
    return _requested_only(options, reply.value), reply.text


def _requested_only(options: Options, result: Extraction) -> Extraction:
    """Remove claims where the corpus does not ask for them."""
    if not options.claims:
        result.claims.clear()
    return result


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


_ENTITY = object_of(name=STRING, type=STRING, description=STRING)
_RELATIONSHIP = object_of(
    source=STRING,
    target=STRING,
    keywords=STRINGS,
    description=STRING,
    strength={"type": "integer"},
)
_CLAIM = object_of(
    subject=STRING,
    object=STRING,
    type=STRING,
    status={"type": "string", "enum": ["TRUE", "FALSE", "SUSPECTED"]},
    start=STRING,
    end=STRING,
    description=STRING,
    source_text=STRING,
)


def schema(options: Options) -> dict[str, Any]:
    """Return the JSON schema of an extraction, for endpoints that enforce one."""
    asked = options.entity_types
    entity = _ENTITY
    if asked.is_closed:
        entity = object_of(
            name=STRING,
            type={"type": "string", "enum": list(asked.types)},
            description=STRING,
            attributes=list_of(object_of(name=STRING, value=STRING)),
        )
    lists = {"entities": entity, "relationships": _RELATIONSHIP} | ({"claims": _CLAIM} if options.claims else {})
    return reply_of("extraction", **{name: list_of(item) for name, item in lists.items()})
