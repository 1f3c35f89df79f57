"""Options of a corpus, their defaults and checks."""

import re
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError, known_hint
from pg_graphrag.server.corpus import extraction_schema
from pg_graphrag.server.corpus.extraction_schema import ExtractionSchema
from pg_graphrag.text.languages import REGCONFIG, knows
from pg_graphrag.text.words.concepts import latin_language

ENGLISH_MODEL, MULTILINGUAL_MODEL = "all-MiniLM-L6-v2", "multilingual-e5-small"
# Full-width letters and digits of Latin script, which the English model has no pieces for.
_WIDE_LETTER = re.compile("[０-９Ａ-Ｚａ-ｚ]")
# Models inside the server, with their dimensions.
LOCAL_MODELS = {ENGLISH_MODEL: 384, MULTILINGUAL_MODEL: 384}
# Limit of an HNSW index over pgvector's type. Models with more dimensions shorten their vectors on request.
MAX_DIMENSIONS = 2000
# A day.
MAX_ANSWER_SECONDS = 86_400
ROLES = ("extract", "keywords", "relevance", "summary", "report", "vision", "answer")
DEFAULT_ENTITY_TYPES = (
    "person",
    "organization",
    "location",
    "event",
    "product",
    "technology",
    "concept",
    "work",
    "time",
)


@dataclass(frozen=True, slots=True)
class Embedding:
    """Where vectors come from: ``local`` is a model inside the server; others need model and dimensions."""

    provider: str = "local"
    model: str = ENGLISH_MODEL
    dimensions: int = LOCAL_MODELS[ENGLISH_MODEL]

    @property
    def local(self) -> bool:
        """Whether the model is inside the server."""
        return self.provider == "local"

    def embeds(self, text: str) -> bool:
        """Return whether a text gets a vector: none in a language that the local model was not made for.

        What is at an endpoint is for its owner to judge.
        """
        return not self.local or knows(self.model, text)

    def reads(self, text: str) -> bool:
        """Return whether this model reads the names of a text: only a model in the server that was made for its language.

        Function words decide too: the English model's vector of a German text still finds something, but the names that it
        reads are wrong.
        """
        if not self.local or not self.embeds(text):
            return False
        return self.model != ENGLISH_MODEL or (latin_language(text) == "en" and not _WIDE_LETTER.search(text))


@dataclass(frozen=True, slots=True)
class RoleLimits:
    """Limits of a database role's use of a corpus' models; None: no limit."""

    monthly_budget: float | None = None
    requests_per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class LLM:
    """Which model does what: `roles` gives provider, model and limits of a role if they differ from the corpus' own.

    `max_output_tokens` and `timeout` (seconds for a whole answer) replace a role's defaults. `monthly_budget`: maximum cost
    of calls in a calendar month (UTC), in the currency of the providers' prices. `role_limits`: limits of database roles,
    "*" for each role that is not named; the owner of the extension has none. `bypass`: whether callers other than the owner
    may ask the model without documents. Pictures are described only if `roles` has ``vision``: not every model sees.
    """

    provider: str | None = None
    model: str | None = None
    max_output_tokens: int | None = None
    timeout: float | None = None
    roles: dict[str, dict[str, Any]] = field(default_factory=dict)
    monthly_budget: float | None = None
    role_limits: dict[str, dict[str, Any]] = field(default_factory=dict)
    bypass: bool = True

    def limits_of(self, role: str) -> RoleLimits:
        """Return the limits of a database role."""
        return RoleLimits(**self.role_limits.get(role, self.role_limits.get("*", {})))

    def max_output_tokens_of(self, role: str) -> int | None:
        """Return the limit of an answer in `role`; None if the task decides."""
        return self.roles.get(role, {}).get("max_output_tokens") or self.max_output_tokens

    def timeout_of(self, role: str) -> float | None:
        """Return the seconds for an answer in `role`; None where they are left to the role."""
        return self.roles.get(role, {}).get("timeout") or self.timeout

    def has(self, role: str) -> bool:
        """Whether a model is set for `role`."""
        choice = self.roles.get(role, {})
        if role == "vision" and role not in self.roles:
            return False
        return bool((choice.get("provider") or self.provider) and (choice.get("model") or self.model))

    def unused(self) -> tuple[str, str] | None:
        """Return (option, value) of a provider or a model that is named alone, so that no role asks it; None without."""
        places: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
            ("llm", {"provider": self.provider, "model": self.model}, ROLES),
            *((f"llm.roles.{role}", choice, (role,)) for role, choice in self.roles.items()),
        ]
        for option, choice, roles in places:
            for name in ("provider", "model"):
                if choice.get(name) and not any(map(self.has, roles)):
                    return f"{option}.{name}", choice[name]
        return None

    def of(self, role: str) -> tuple[str, str]:
        """Return (provider, model) of `role`; 55000 when the corpus has none."""
        choice = self.roles.get(role, {})
        provider, model = choice.get("provider") or self.provider, choice.get("model") or self.model
        if not provider or not model:
            raise GraphRAGError(
                f'the corpus has no model for the role "{role}"',
                sqlstate="55000",
                hint="SELECT graphrag.set_provider(…), then graphrag.alter_corpus(…, "
                '\'{"llm": {"provider": …, "model": …}}\').',
            )
        return provider, model


@dataclass(frozen=True, slots=True)
class Rerank:
    """The cross-encoder of ``rerank``."""

    provider: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """For how many days, and how many, rows are kept; None: no limit."""

    days: int | None
    rows: int | None


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept of tables that grow with use."""

    llm_cache: Limit = Limit(365, 1_000_000)
    llm_calls: Limit = Limit(400, 1_000_000)
    query_log: Limit = Limit(90, 100_000)


@dataclass(frozen=True, slots=True)
class Communities:
    """How communities are found, and whether workers find them (`automatic`); parameters as in Leiden's `Settings`."""

    automatic: bool = True
    max_cluster_size: int = 10
    resolution: float = 1.0
    seed: int = 0xDEADBEEF
    largest_component: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a corpus (docs/ingest.md); sizes in tokens of the corpus' tokenizer, times in seconds."""

    extractor: str = "nlp"
    language: str = "auto"
    chunk_token_size: int = 1200
    chunk_overlap: int = 100
    tokenizer: str = ENGLISH_MODEL
    embedding: Embedding = field(default_factory=Embedding)
    entity_types: ExtractionSchema = field(default_factory=lambda: extraction_schema.of_types(*DEFAULT_ENTITY_TYPES))
    max_gleaning: int = 1
    claims: bool = False
    grounding: str = "strict"
    prompts: dict[str, str] = field(default_factory=dict)
    llm: LLM = field(default_factory=LLM)
    rerank: Rerank = field(default_factory=Rerank)
    communities: Communities = field(default_factory=Communities)
    answer_timeout: float = 60
    cypher: bool = True
    query_log: bool = False
    notify: bool = False
    conversation: str | None = None
    full_names: bool = True
    retention: Retention = field(default_factory=Retention)

    def reranker(self) -> tuple[str, str]:
        """Return (provider, model) of the cross-encoder; 55000 when the corpus has none. TEI serves one model: "" is enough."""
        if not self.rerank.provider:
            raise GraphRAGError(
                "the corpus has no cross-encoder to rerank with",
                sqlstate="55000",
                hint="SELECT graphrag.set_provider(…, 'rerank', …), then graphrag.alter_corpus(…, "
                '\'{"rerank": {"provider": …, "model": …}}\'); or leave out rerank.',
            )
        return self.rerank.provider, self.rerank.model or ""

    @property
    def describes(self) -> bool:
        """Whether a model describes mentions, so that they have texts of their own to score."""
        return self.extractor != "nlp"

    def providers(self) -> dict[str, str]:
        """Return the options that refer to providers, each with the name."""
        names = {
            "embedding.provider": None if self.embedding.provider == "local" else self.embedding.provider,
            "llm.provider": self.llm.provider,
            "rerank.provider": self.rerank.provider,
        } | {f"llm.roles.{role}.provider": choice.get("provider") for role, choice in self.llm.roles.items()}
        return {option: name for option, name in names.items() if name}


# NLP concepts; a model; no extractor, for documents that are imported with their mentions.
EXTRACTORS = ("nlp", "llm", "given")
# What a model names that does not stand in the text: left out, kept and marked, or kept.
GROUNDINGS = ("strict", "marked", "off")
# Options that decide chunks, terms or mentions: a change of one re-indexes the corpus.
INDEXING = ("extractor", "language", "chunk_token_size", "chunk_overlap")
# Where concepts are extracted, these too.
CONCEPTS = ("full_names",)
# Where a model extracts, these too.
EXTRACTION = ("entity_types", "max_gleaning", "claims", "grounding")
EXTRACTION_PROMPTS = ("extract", "extract_claims", "extract_schema", "extract_text", "glean")
# Fixed once there are documents; another embedding is a matter of graphrag.reembed().
PINNED = ("tokenizer", "embedding")

# Options of a role's calls.
_CALL_LIMITS = ("max_output_tokens", "timeout")

_KNOWN = set(Options.__dataclass_fields__)


def parse_options(options: dict[str, Any]) -> Options:
    """Check `options` and fill in defaults.

    Raises GraphRAGError: 22023, naming the option and the value, when a key is unknown or a value is not usable.
    """
    _refuse_unknown(options, _KNOWN, "corpus option")
    values = dict(options)
    embedding = parse_embedding(values.pop("embedding")) if "embedding" in values else _default_embedding(options)
    llm = _part(values, "llm", LLM, '{"provider": "openai", "model": "gpt-5-mini"}')
    rerank = _part(values, "rerank", Rerank, '{"provider": "reranker", "model": "…"}')
    retention = _retention(values.pop("retention", {}))
    communities = _communities(values.pop("communities", {}))
    if "entity_types" in values:
        values["entity_types"] = extraction_schema.parse(values["entity_types"])
    parsed = Options(
        **values, embedding=embedding, llm=llm, rerank=rerank, retention=retention, communities=communities
    )
    _choice("extractor", parsed.extractor, set(EXTRACTORS))
    _choice("language", parsed.language, {"auto", *REGCONFIG})
    _check_integer("chunk_token_size", parsed.chunk_token_size, 50, 8192)
    _check_integer("chunk_overlap", parsed.chunk_overlap, 0, parsed.chunk_token_size // 2)
    if not isinstance(parsed.tokenizer, str):
        raise _bad_option("tokenizer", parsed.tokenizer, "the name of a tokenizer")
    _check_integer("max_gleaning", parsed.max_gleaning, 0, 3)
    _choice("grounding", parsed.grounding, set(GROUNDINGS))
    for name in ("claims", "cypher", "full_names", "notify", "query_log"):
        if not isinstance(getattr(parsed, name), bool):
            raise _bad_option(name, getattr(parsed, name), "true or false")
    field_name = parsed.conversation
    if field_name is not None and not (isinstance(field_name, str) and 0 < len(field_name) <= 200):
        raise _bad_option("conversation", field_name, "the name of a field of the metadata, or null")
    seconds = parsed.answer_timeout
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= MAX_ANSWER_SECONDS:
        raise _bad_option("answer_timeout", seconds, f"seconds, above 0 and at most {MAX_ANSWER_SECONDS}")
    _check_prompts(parsed.prompts)
    _check_llm(llm)
    _check_model("rerank", asdict(rerank))
    if parsed.extractor == "llm" and not llm.has("extract"):
        raise GraphRAGError(
            'option "extractor" is "llm", but no model is set', hint='Add {"llm": {"provider": …, "model": …}}.'
        )
    return parsed


def _part(options: dict[str, Any], name: str, kind: Any, example: str) -> Any:
    value = options.pop(name, {})
    if not isinstance(value, dict):
        raise _bad_option(name, value, f"an object, for example {example}")
    _refuse_unknown(value, set(kind.__dataclass_fields__), f"{name} option")
    return kind(**value)


def _retention(value: Any) -> Retention:
    example = '{"query_log": {"days": 30, "rows": null}}'
    if not isinstance(value, dict):
        raise _bad_option("retention", value, f"an object, for example {example}")
    _refuse_unknown(value, set(Retention.__dataclass_fields__), "retention option")
    limits: dict[str, Limit] = {}
    for table, limits_of_table in value.items():
        if not isinstance(limits_of_table, dict):
            raise _bad_option(
                f"retention.{table}", limits_of_table, "an object with days, rows or both; null: without limit"
            )
        _refuse_unknown(limits_of_table, {"days", "rows"}, f"option of retention.{table}:")
        for name, number in limits_of_table.items():
            if number is not None:
                _check_integer(f"retention.{table}.{name}", number, 0, 2**31 - 1)
        limits[table] = replace(getattr(Retention(), table), **limits_of_table)
    return Retention(**limits)


def _communities(value: Any) -> Communities:
    """Check the option ``communities``: true, false (only refresh_communities() makes them), or an object."""
    if isinstance(value, bool):
        return Communities(automatic=value)
    communities: Communities = _part({"communities": value}, "communities", Communities, '{"max_cluster_size": 10}')
    for name in ("automatic", "largest_component"):
        if not isinstance(getattr(communities, name), bool):
            raise _bad_option(f"communities.{name}", getattr(communities, name), "true or false")
    _check_integer("communities.max_cluster_size", communities.max_cluster_size, 2, 100_000)
    _check_integer("communities.seed", communities.seed, 0, 2**53)
    resolution = communities.resolution
    if isinstance(resolution, bool) or not isinstance(resolution, (int, float)) or not 0 < resolution <= 100:
        raise _bad_option("communities.resolution", resolution, "a number above 0, at most 100")
    return communities


def local_embedding(model: str) -> Embedding:
    """Return the option that names a model inside the server."""
    return Embedding(model=model, dimensions=LOCAL_MODELS[model])


def _default_embedding(options: dict[str, Any]) -> Embedding:
    is_foreign = options.get("language", "auto") not in ("auto", "en")
    return local_embedding(MULTILINGUAL_MODEL if is_foreign else ENGLISH_MODEL)


def parse_embedding(value: Any) -> Embedding:
    """Check the option ``embedding`` and fill in defaults; errors as `parse_options`."""
    example = '{"provider": "openai", "model": "text-embedding-3-small", "dimensions": 1536}'
    embedding: Embedding = _part({"embedding": value}, "embedding", Embedding, example)
    _check_model("embedding", {"provider": embedding.provider, "model": embedding.model})
    if embedding.local:
        _choice("embedding.model", embedding.model, set(LOCAL_MODELS))
        dimensions = LOCAL_MODELS[embedding.model]
        if not isinstance(embedding.dimensions, int) or embedding.dimensions != dimensions:
            raise _bad_option("embedding.dimensions", embedding.dimensions, f"{dimensions} for {embedding.model}")
        return embedding
    for name in ("model", "dimensions"):
        if value.get(name) is None:
            raise GraphRAGError(
                f'option "embedding" names the provider "{embedding.provider}" but no {name}',
                hint=f"For example {example}.",
            )
    _check_integer("embedding.dimensions", embedding.dimensions, 1, MAX_DIMENSIONS)
    return embedding


def _check_llm(llm: LLM) -> None:
    _check_model("llm", {"provider": llm.provider, "model": llm.model})
    if not isinstance(llm.roles, dict):
        raise _bad_option("llm.roles", llm.roles, 'an object, for example {"answer": {"model": …}}')
    _refuse_unknown(llm.roles, set(ROLES), "role")
    for role, model in llm.roles.items():
        if not isinstance(model, dict):
            raise _bad_option(f"llm.roles.{role}", model, "an object with provider, model or limits")
        _refuse_unknown(model, {"provider", "model", *_CALL_LIMITS}, f'option of role "{role}":')
        _check_model(f"llm.roles.{role}", {name: model.get(name) for name in ("provider", "model")})
        _check_call_limits(f"llm.roles.{role}", model)
    _check_call_limits("llm", {name: getattr(llm, name) for name in _CALL_LIMITS})
    _check_budget("llm.monthly_budget", llm.monthly_budget)
    if not isinstance(llm.bypass, bool):
        raise _bad_option("llm.bypass", llm.bypass, "true or false")
    if not isinstance(llm.role_limits, dict):
        raise _bad_option("llm.role_limits", llm.role_limits, 'an object, for example {"*": {"monthly_budget": 5}}')
    for role, limits in llm.role_limits.items():
        option = f"llm.role_limits.{role}"
        if not isinstance(limits, dict):
            raise _bad_option(option, limits, "an object with monthly_budget, requests_per_minute or both")
        _refuse_unknown(limits, set(RoleLimits.__dataclass_fields__), f'limit of role "{role}":')
        _check_budget(f"{option}.monthly_budget", limits.get("monthly_budget"))
        if limits.get("requests_per_minute") is not None:
            _check_integer(f"{option}.requests_per_minute", limits["requests_per_minute"], 0, 2**31 - 1)


def _check_call_limits(option: str, values: dict[str, Any]) -> None:
    if values.get("max_output_tokens") is not None:
        _check_integer(f"{option}.max_output_tokens", values["max_output_tokens"], 1, 1_000_000)
    seconds = values.get("timeout")
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if seconds is not None and not (is_number and 0 < seconds <= 3600):
        raise _bad_option(f"{option}.timeout", seconds, "seconds, above 0 and at most 3600, or null")


def _check_budget(option: str, budget: Any) -> None:
    if budget is not None and (isinstance(budget, bool) or not isinstance(budget, (int, float)) or budget < 0):
        raise _bad_option(option, budget, "an amount in the currency of the providers' prices, or null")


def _check_model(option: str, model: dict[str, Any]) -> None:
    for name, value in model.items():
        if value is not None and (not isinstance(value, str) or not value):
            raise _bad_option(f"{option}.{name}", value, "a name")


def _check_prompts(prompts: Any) -> None:
    if not isinstance(prompts, dict):
        raise _bad_option("prompts", prompts, 'an object of texts, for example {"answer": "…"}')
    from pg_graphrag.text.prompts import check

    for name, text in prompts.items():
        check(name, text)


def check_used(llm: LLM) -> None:
    """Refuse a provider or a model that no role asks; options stored by earlier versions may have one, and stay readable."""
    if (unused := llm.unused()) is not None:
        option, value = unused
        missing = "model" if option.endswith(".provider") else "provider"
        raise GraphRAGError(
            f'option "{option}" is {value!r}, but no {missing} goes with it',
            hint='Give both: {"llm": {"provider": …, "model": …}}. The option "llm" is replaced as a whole, not a part of it.',
        )


def reindexes(old: Options, new: Options) -> bool:
    """Whether the `new` options may give other chunks, terms or mentions."""
    if new.extractor != "llm":
        return bool(changed_options(old, new, INDEXING + CONCEPTS))
    prompts = [{name: options.prompts.get(name) for name in EXTRACTION_PROMPTS} for options in (old, new)]
    return bool(changed_options(old, new, INDEXING + EXTRACTION)) or prompts[0] != prompts[1]


def changed_options(old: Options, new: Options, names: tuple[str, ...]) -> list[str]:
    """Return those of `names` whose value differs."""
    old_values, new_values = asdict(old), asdict(new)
    return [name for name in names if _ordered(old_values[name]) != _ordered(new_values[name])]


def _ordered(value: Any) -> Any:
    """Return a value in which order matters: prompts list types in the given order."""
    return [(name, _ordered(part)) for name, part in value.items()] if isinstance(value, dict) else value


def _refuse_unknown(options: dict[str, Any], known_names: set[str], kind: str) -> None:
    for name in options:
        if name not in known_names:
            raise GraphRAGError(f'unknown {kind} "{name}"', hint=known_hint(name, sorted(known_names)))


def _choice(name: str, value: Any, choices: set[str]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise _bad_option(name, value, "one of " + ", ".join(sorted(choices)))


def _check_integer(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise _bad_option(name, value, f"a whole number from {low} to {high}")


def _bad_option(name: str, value: Any, expected: str) -> GraphRAGError:
    return GraphRAGError(f'option "{name}" cannot be {value!r}', hint=f"Give {expected}.")
