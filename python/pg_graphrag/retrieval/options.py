"""Options of a search: defaults, ranges, and which modes know them."""

import json
from dataclasses import dataclass
from typing import Any

from pg_graphrag.errors import GraphRAGError
from pg_graphrag.json_reading import read_json
from pg_graphrag.mode_names import REDUCED


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Names and defaults as in LightRAG and GraphRAG where they have them (docs/search.md, Options).

    `query_entities` and `answer_types` None: what understanding the query says; `compat` None: no peer's quirks.
    """

    profile: str = "best"
    transform: str = "none"
    rerank: bool = False
    bm25_idf: str = "lucene"
    rrf_k: int = 60
    graph_top_k: int = 40
    chunk_top_k: int = 20
    max_entity_tokens: int = 6000
    max_relation_tokens: int = 8000
    max_total_tokens: int = 30000
    include_chunks: bool = True
    damping: float = 0.85
    path_weighting: str = "bm25_edges"
    fuse: str = "rrf"
    query_entities: tuple[str, ...] | None = None
    answer_types: tuple[str, ...] | None = None
    compat: str | None = None
    level: int = 1
    dynamic: bool = False
    primer_folds: int = 5
    drift_k_followups: int = 5
    n_depth: int = 3
    relevance_test_budget: int = 100
    z: int = 5
    k: int = 10

    @property
    def reranks(self) -> bool:
        """Whether a cross-encoder has the last word: in every mode where asked for, in `path` as one of its fusers too."""
        return self.rerank or self.fuse == "rerank"


# What the papers set where ours is another: LightRAG (section 4), MiniRAG's QueryParam, HippoRAG 2.
_PAPER: dict[str, Any] = {"graph_top_k": 60, "max_entity_tokens": 4096, "max_relation_tokens": 4096, "damping": 0.5}

_CHOICES: dict[str, tuple[str | None, ...]] = {
    "profile": ("best", "paper"),
    "transform": ("none", "hyde", "decompose", "corrective"),
    "bm25_idf": ("lucene", "robertson", "robertson_clipped"),
    "path_weighting": ("vector", "bm25_edges", "bm25_chunks"),
    "fuse": ("none", "rrf", "rerank"),
    "compat": (None, "minirag"),
}
_RANGES = {
    "rrf_k": (1, 10_000),
    "graph_top_k": (1, 1000),
    "chunk_top_k": (1, 10_000),
    "max_entity_tokens": (0, 1_000_000),
    "max_relation_tokens": (0, 1_000_000),
    "max_total_tokens": (0, 10_000_000),
    "level": (0, 100),
    "primer_folds": (1, 20),
    "drift_k_followups": (0, 100),
    "n_depth": (0, 3),
    "relevance_test_budget": (1, 100_000),
    "z": (1, 1000),
    "k": (1, 1000),
}
# The most names that a list may have: query entities and answer types (MiniRAG, section 3.2: a question has few).
_LISTS = {"query_entities": 5, "answer_types": 3}
MAX_NAME = 200
_GRAPH_MODES = ("local", "global", "hybrid", "mix", "path", "ppr")
# Where an option is not of every mode.
_MODES = {
    "profile": _GRAPH_MODES,
    "bm25_idf": ("bm25", *_GRAPH_MODES, "graph_local", "graph_global", "drift", "lazy"),
    "rrf_k": ("mix", "path"),
    "graph_top_k": ("local", "global", "hybrid", "mix", "path", "graph_local", "drift"),
    "damping": ("hybrid", "ppr"),
    "path_weighting": ("path",),
    "fuse": ("path",),
    "query_entities": ("path",),
    "answer_types": ("path",),
    "compat": ("path",),
    "level": ("graph_global", "drift"),
    "dynamic": ("graph_global",),
    "primer_folds": ("drift",),
    "drift_k_followups": ("drift",),
    "n_depth": ("drift",),
    "relevance_test_budget": ("lazy",),
    "z": ("lazy",),
    "k": ("lazy",),
}
# Where a mode's own default is another: GraphRAG's context has 12,000 tokens.
_DEFAULTS = {
    "graph_local": {"max_total_tokens": 12_000},
    "graph_global": {"max_total_tokens": 12_000},
    "drift": {"max_total_tokens": 12_000},
    "lazy": {"max_total_tokens": 12_000},
}
# What only a model makes use of; and what has no meaning where a model makes its own questions.
_ASK_ONLY = ("primer_folds", "drift_k_followups", "n_depth")
_NOT_ASKED = ("transform", "rerank")
_CONTEXT_ONLY = ("chunk_top_k", "max_entity_tokens", "max_relation_tokens", "max_total_tokens", "include_chunks")
# Transforms that fuse rankings, by RRF, in every mode.
_FUSING = ("decompose", "corrective")


def parse(options: str | None, mode: str, of: str = "search") -> SearchOptions:
    """Check the options of a search in `mode`; `of`: the function that they are given to: search, context or ask.

    Raises
    ------
    GraphRAGError
        22023 for an unknown option, one that the mode does not have, or a bad value, naming it.
    """
    given = read_json(options) if options else {}
    if not isinstance(given, dict):
        raise GraphRAGError(
            f"options must be a JSON object, not {str(options)[:100]}", hint='For example {"graph_top_k": 60}.'
        )
    for name, value in given.items():
        if name not in SearchOptions.__dataclass_fields__:
            raise GraphRAGError(
                f'unknown search option "{name[:100]}"',
                hint=f"Known: {', '.join(sorted(SearchOptions.__dataclass_fields__))}.",
            )
        if name in _CONTEXT_ONLY and of == "search":
            raise GraphRAGError(f'option "{name}" is of graphrag.context, not of graphrag.search', hint="Leave it out.")
        if name in _NOT_ASKED and value not in (False, "none") and of == "ask" and mode in REDUCED:
            raise GraphRAGError(
                f'graphrag.ask has no option "{name}" in mode "{mode}"',
                hint="Leave it out: that mode asks in its own way.",
            )
        if not has(mode, name) and not (name == "rrf_k" and given.get("transform") in _FUSING):
            hint = f"Modes that do: {', '.join(_MODES[name])}."
            if mode == "global" and "graph_global" in _MODES[name]:
                hint += " GraphRAG's global search is graph_global; global is LightRAG's, another thing."
            raise GraphRAGError(f'mode "{mode}" has no option "{name}"', hint=hint)
        if name in _ASK_ONLY and of != "ask":
            raise GraphRAGError(
                f'option "{name}" is of graphrag.ask, not of graphrag.{of}',
                hint=f"Leave it out: it bounds what a model is asked in mode {mode}, and graphrag.{of} asks none.",
            )
        _check(name, value)
    for name in _LISTS:
        if given.get(name) is not None:
            given[name] = tuple(given[name])
    paper = given.get("profile") == "paper" or given.get("compat") is not None
    return SearchOptions(**((_PAPER if paper else {}) | _DEFAULTS.get(mode, {}) | given))


def has(mode: str, name: str) -> bool:
    """Whether a mode has an option."""
    return mode in _MODES.get(name, (mode,))


def _check(name: str, value: Any) -> None:
    if name in _CHOICES:
        allowed = _CHOICES[name]
        good = value in allowed
        wanted = "one of " + ", ".join("null" if one is None else one for one in allowed)
    elif name in _RANGES:
        low, high = _RANGES[name]
        good = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        wanted = f"a whole number from {low} to {high}"
    elif name in _LISTS:
        good = value is None or (isinstance(value, list) and len(value) <= _LISTS[name] and all(map(_is_name, value)))
        wanted = f"a list of at most {_LISTS[name]} names, each of 1 to {MAX_NAME} characters"
    elif name == "damping":
        good = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1
        wanted = "a number between 0 and 1"
    else:
        good, wanted = isinstance(value, bool), "true or false"
    if not good:
        raise GraphRAGError(f'search option "{name}" cannot be {json.dumps(value)[:200]}', hint=f"Give {wanted}.")


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value.strip()) > 0 and len(value) <= MAX_NAME
