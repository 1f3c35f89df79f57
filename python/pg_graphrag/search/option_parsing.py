"""Parse the options of a search and check them against those of their mode."""

import json

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.json_reading import read_json
from pg_graphrag.search import modes
from pg_graphrag.search.query.mode import Mode
from pg_graphrag.search.query.mode_options import CHECKS, CONTEXT_OPTIONS, PAPER, TRANSFORMS, SearchOptions

# Transforms that fuse rankings, by RRF, in every mode.
_FUSING = ("decompose", "corrective")


def parse(options: str | None, mode: Mode, function: str = "search") -> SearchOptions:
    """Check the options of a search in `mode`; `function` is the one called: search, context or ask.

    Raises
    ------
    GraphRAGError
        22023 for an unknown option, one that the mode does not have, or a bad value, naming it.
    """
    values = read_json(options) if options else {}
    if not isinstance(values, dict):
        raise GraphRAGError(
            f"options must be a JSON object, not {str(options)[:100]}", hint='For example {"graph_top_k": 60}.'
        )
    for name, value in values.items():
        if name not in CHECKS and name not in mode.own_options and name not in (known_names := known_options()):
            raise GraphRAGError(f'unknown search option "{name[:100]}"', hint=f"Known: {', '.join(known_names)}.")
        if name in CONTEXT_OPTIONS and function == "search":
            raise GraphRAGError(f'option "{name}" is of graphrag.context, not of graphrag.search', hint="Leave it out.")
        if name == "offset" and value and function != "search":
            raise GraphRAGError(
                f'option "offset" is of graphrag.search, not of graphrag.{function}', hint="Leave it out."
            )
        if name == "sql" and value is True and function != "ask":
            raise GraphRAGError(
                f'option "sql" is of graphrag.ask, not of graphrag.{function}',
                hint="Leave it out: a model writes the statement, and graphrag." + function + " asks none.",
            )
        if name == "answer_timeout" and function != "ask":
            raise GraphRAGError(
                f'option "answer_timeout" is of graphrag.ask, not of graphrag.{function}', hint="Leave it out."
            )
        is_off = value is None or value in (False, "none")
        if name in (*TRANSFORMS, "min_relevance") and not is_off and function == "ask" and mode.answer is not None:
            raise GraphRAGError(
                f'graphrag.ask has no option "{name}" in mode "{mode.name}"',
                hint="Leave it out: that mode asks in its own way.",
            )
        if name == "profile_time" and value is True and function == "ask":
            raise GraphRAGError(
                'graphrag.ask has no option "profile_time"', hint="Ask for the context: graphrag.context(…) has it."
            )
        if not mode.has(name) and not (name == "rrf_k" and values.get("transform") in _FUSING):
            having = [other_mode.name for other_mode in modes.all_modes() if other_mode.has(name)]
            hint = f"Modes that do: {', '.join(having)}."
            hint += "".join(f" {note}" for other_mode, note in mode.mistaken_for.items() if other_mode in having)
            raise GraphRAGError(f'mode "{mode.name}" has no option "{name}"', hint=hint)
        own_check = mode.own_options.get(name)
        if own_check is not None and own_check.ask_only and function != "ask":
            raise GraphRAGError(
                f'option "{name}" is of graphrag.ask, not of graphrag.{function}',
                hint=f"Leave it out: it bounds what a model is asked in mode {mode.name}, and graphrag.{function} asks none.",
            )
        check = CHECKS[name] if own_check is None else own_check.check
        if not check.allows(value):
            raise GraphRAGError(
                f'search option "{name}" cannot be {json.dumps(value)[:200]}', hint=f"Give {check.expectation}."
            )
    lists = {name: tuple(values[name]) for name in ("query_entities", "answer_types") if values.get(name) is not None}
    paper = values.get("profile") == "paper"
    common_values = {name: value for name, value in values.items() if name in CHECKS}
    own_values = {name: value for name, value in values.items() if name not in CHECKS}
    return SearchOptions(
        **((PAPER if paper else {}) | dict(mode.defaults) | common_values | lists), own_values=own_values
    )


def known_options() -> list[str]:
    """Return the names of all options."""
    return sorted({*CHECKS, *(name for mode in modes.all_modes() for name in mode.own_options)})
