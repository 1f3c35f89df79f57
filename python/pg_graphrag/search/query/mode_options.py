"""Options of a search: defaults and ranges. Each mode names the options it has (`pg_graphrag.search.modes`)."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from pg_graphrag.ground.bounds import MAX_ANSWER_TOKENS, MAX_INSTRUCTIONS
from pg_graphrag.server.access.moments import A_DATE, is_date
from pg_graphrag.server.corpus.options import MAX_ANSWER_SECONDS

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class Check:
    """The values that an option may have: a test, and in words."""

    allows: Callable[[Any], bool]
    expectation: str


def integer(low: int, high: int) -> Check:
    """Return the check of a whole number."""
    return Check(
        lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high,
        f"a whole number from {low} to {high}",
    )


SECONDS = Check(
    lambda value: value is None or (_is_number(value, 0, MAX_ANSWER_SECONDS) and value > 0),
    f"seconds, above 0 and at most {MAX_ANSWER_SECONDS}, or null",
)


def one_of(*values: str | None) -> Check:
    """Return the check of a choice."""
    return Check(lambda value: value in values, "one of " + ", ".join(value or "null" for value in values))


def names(limit: int) -> Check:
    """Return the check of a list of names, or null."""
    return Check(
        lambda value: value is None or (isinstance(value, list) and len(value) <= limit and all(map(_is_name, value))),
        f"a list of at most {limit} names, each of 1 to {MAX_NAME} characters",
    )


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value.strip()) > 0 and len(value) <= MAX_NAME


def _is_number(value: Any, low: float, high: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high


def _is_schema(value: dict[str, Any]) -> bool:
    return _is_shallow(value, MAX_DEPTH) and len(json.dumps(value)) <= MAX_INSTRUCTIONS


def _is_shallow(value: Any, levels: int) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_shallow(item, levels - 1) for item in items)


MAX_NAME = 200
# Levels of a JSON schema.
MAX_DEPTH = 50
# Reciprocal rank fusion, where nothing else is said.
RRF_K = 60
FLAG = Check(lambda value: isinstance(value, bool), "true or false")


@dataclass(frozen=True, eq=False, repr=False)
class Option(Generic[T]):
    """An option of one mode alone, kept in its file; `query.options[OPTION]` reads it.

    `ask_only`: it bounds what a model is asked.
    """

    name: str
    default: T
    check: Check
    ask_only: bool = False


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Names and defaults of LightRAG and GraphRAG where they have them (docs/search.md, Options).

    `rrf_k` None: the mode fuses by scores; `answer_timeout` None: the corpus'; `query_entities` and `answer_types` None:
    those of the understanding; `ASK_OPTIONS` None: the caller says nothing; `own_values`: values of options that only one
    mode has.
    """

    profile: str = "best"
    transform: str = "none"
    rerank: bool = False
    select: bool = False
    near_duplicates: str = "behind"
    bm25_idf: str = "lucene"
    rrf_k: int | None = RRF_K
    graph_top_k: int = 40
    chunk_top_k: int = 20
    max_entity_tokens: int = 6000
    max_relation_tokens: int = 8000
    max_row_tokens: int = 4000
    max_total_tokens: int = 30000
    include_chunks: bool = True
    excerpts: bool = True
    profile_time: bool = False
    offset: int = 0
    min_relevance: float | None = None
    nodes: str = "all"
    as_of: str | None = None
    sql: bool = False
    answer_timeout: float | None = None
    instructions: str | None = None
    max_answer_tokens: int | None = None
    answer_schema: Mapping[str, Any] | None = None
    bypass: bool = False
    pictures: bool = False
    damping: float = 0.85
    path_weighting: str = "bm25_edges"
    fuse: str = "rrf"
    query_entities: tuple[str, ...] | None = None
    answer_types: tuple[str, ...] | None = None
    level: int = 1
    min_community_rank: float = 0
    own_values: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, option: Option[T]) -> T:
        """Return the value of an option that one mode alone has."""
        return cast(T, self.own_values.get(option.name, option.default))


# Values of the papers that differ from our defaults: LightRAG's and MiniRAG's QueryParam (1.0), HippoRAG 2.
PAPER: dict[str, Any] = {
    "graph_top_k": 60,
    "max_entity_tokens": 4000,
    "max_relation_tokens": 4000,
    "max_total_tokens": 12000,
    "damping": 0.5,
    "near_duplicates": "in_place",
    "excerpts": False,
}

# Options that several modes share; question entities and answer types: MiniRAG, section 3.2.
CHECKS: dict[str, Check] = {
    "profile": one_of("best", "paper"),
    "transform": one_of("none", "hyde", "decompose", "corrective"),
    "rerank": FLAG,
    "select": FLAG,
    "near_duplicates": one_of("behind", "in_place"),
    "bm25_idf": one_of("lucene", "robertson", "robertson_clipped"),
    "rrf_k": integer(1, 10_000),
    "graph_top_k": integer(1, 1000),
    "chunk_top_k": integer(1, 10_000),
    "max_entity_tokens": integer(0, 1_000_000),
    "max_relation_tokens": integer(0, 1_000_000),
    "max_row_tokens": integer(0, 1_000_000),
    "max_total_tokens": integer(0, 10_000_000),
    "include_chunks": FLAG,
    "excerpts": FLAG,
    "profile_time": FLAG,
    "offset": integer(0, 10_000),
    "min_relevance": Check(lambda value: value is None or _is_number(value, 0, 1), "a number from 0 to 1, or null"),
    # "here": a node that is asked by another asks no third one, and neither does one whose client asks the others itself.
    "nodes": one_of("all", "here"),
    # Read with the filter (server/access/filters.py): it decides which documents there are.
    "as_of": Check(lambda value: value is None or is_date(value), A_DATE),
    "sql": FLAG,
    "answer_timeout": SECONDS,
    "instructions": Check(
        lambda value: value is None or (isinstance(value, str) and len(value) <= MAX_INSTRUCTIONS),
        f"a text of at most {MAX_INSTRUCTIONS:,} characters, or null",
    ),
    "max_answer_tokens": Check(
        lambda value: value is None or integer(1, MAX_ANSWER_TOKENS).allows(value),
        f"a whole number from 1 to {MAX_ANSWER_TOKENS}, or null",
    ),
    "answer_schema": Check(
        lambda value: value is None or (isinstance(value, dict) and _is_schema(value)),
        f"a JSON schema of at most {MAX_INSTRUCTIONS:,} characters and {MAX_DEPTH} levels, or null",
    ),
    "bypass": FLAG,
    "pictures": FLAG,
    "damping": Check(lambda value: _is_number(value, 0, 1) and value not in (0, 1), "a number between 0 and 1"),
    "path_weighting": one_of("vector", "bm25_edges", "bm25_chunks"),
    "fuse": one_of("none", "rrf", "rerank"),
    "query_entities": names(5),
    "answer_types": names(3),
    "level": integer(0, 100),
    "min_community_rank": Check(lambda value: _is_number(value, 0, 10), "a number from 0 to 10"),
}
CONTEXT_OPTIONS = (
    "chunk_top_k",
    "max_entity_tokens",
    "max_relation_tokens",
    "max_row_tokens",
    "max_total_tokens",
    "include_chunks",
    "excerpts",
)
# Options of answers alone: further instructions to the model, length and form of the answer, whether it goes without
# documents, and whether pictures are shown.
ASK_OPTIONS = ("instructions", "max_answer_tokens", "answer_schema", "bypass", "pictures")
# Options of every mode; those before the context's have no meaning where a model makes its own questions.
TRANSFORMS = ("transform", "rerank", "select")
OF_EVERY_MODE = (
    *TRANSFORMS,
    "near_duplicates",
    "profile_time",
    "offset",
    "min_relevance",
    "nodes",
    "as_of",
    "sql",
    "answer_timeout",
    *ASK_OPTIONS,
    *CONTEXT_OPTIONS,
)
