"""Options of a corpus and of a search: defaults, ranges, and clear refusals."""

import json
from typing import Any

import pytest
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.search import modes
from pg_graphrag.search.contexts.context_packing import proportional
from pg_graphrag.search.query.mode_options import CHECKS, SearchOptions
from pg_graphrag.search.search import known_options
from pg_graphrag.search.search import parse_search_options as parse_search
from pg_graphrag.server.corpus.options import INDEXING, PINNED, Options, changed_options, parse_options

MODES = [mode.name for mode in modes.all_modes()]


def search_options(given: str | None, mode: str, of: str = "search") -> SearchOptions:
    return parse_search(given, modes.find(mode), of)


def test_nothing_given_is_all_defaults() -> None:
    assert parse_options({}) == Options()
    assert search_options(None, "hybrid") == search_options("{}", "naive") == SearchOptions()


def test_what_is_given_is_kept_beside_the_defaults() -> None:
    options = parse_options({"language": "ja", "embedding": {"provider": "local"}})
    assert (options.language, options.chunk_token_size, options.embedding.dimensions) == ("ja", 1200, 384)


@pytest.mark.parametrize(("size", "overlap"), [(50, 0), (50, 25), (8192, 4096), (1200, 100)])
def test_sizes_at_their_bounds_are_allowed(size: int, overlap: int) -> None:
    assert parse_options({"chunk_token_size": size, "chunk_overlap": overlap}).chunk_overlap == overlap


@pytest.mark.parametrize(
    "given",
    [
        {"chunk_token_size": 49},
        {"chunk_token_size": 8193},
        {"chunk_token_size": 100, "chunk_overlap": 51},
        {"chunk_token_size": 150},  # the default overlap is more than half
        {"chunk_overlap": 1.5},
        {"embedding": None},
        {"embedding": {"dimensions": 384.0}},
        {"embedding": {"model": ["all-MiniLM-L6-v2"]}},
        {"language": ["en"]},
        {"extractor": None},
        {"": 1},
    ],
)
def test_a_value_that_cannot_be_is_refused_with_a_hint(given: dict[str, Any]) -> None:
    with pytest.raises(GraphRAGError) as error:
        parse_options(given)
    assert error.value.sqlstate == "22023"
    assert error.value.hint


def test_the_hint_of_a_mistyped_option_begins_with_the_one_that_was_meant() -> None:
    with pytest.raises(GraphRAGError) as error:
        parse_options({"chunk_size": 100})
    assert str(error.value.hint).startswith("Did you mean chunk_token_size? Known: answer_timeout, ")
    with pytest.raises(GraphRAGError) as error:
        parse_options({"x" * 1000: 100})
    assert str(error.value.hint).startswith("Known: answer_timeout, ")
    with pytest.raises(GraphRAGError) as error:
        search_options('{"min_relevence": 0}', "hybrid")
    assert str(error.value.hint).startswith("Did you mean min_relevance? Known: ")


def test_changed_names_what_differs() -> None:
    assert changed_options(parse_options({}), parse_options({"language": "en"}), INDEXING) == ["language"]
    assert changed_options(parse_options({}), parse_options({"language": "auto"}), INDEXING) == []
    assert changed_options(parse_options({}), parse_options({"tokenizer": "cl100k_base"}), PINNED) == ["tokenizer"]


@pytest.mark.parametrize("name", known_options())
def test_every_search_option_takes_its_default_in_some_mode_of_ask(name: str) -> None:
    own = {name: option.default for mode in modes.all_modes() for name, option in mode.own_options.items()}
    default = own[name] if name in own else getattr(SearchOptions(), name)
    assert any(_accepts(name, default, mode) for mode in MODES)


def test_every_shared_option_has_a_field_and_a_check() -> None:
    assert SearchOptions.__dataclass_fields__.keys() - {"own_values"} == CHECKS.keys()


def test_an_option_of_one_mode_is_read_by_its_object() -> None:
    k = modes.find("lazy").own_options["k"]
    assert (search_options(None, "lazy")[k], search_options('{"k": 3}', "lazy")[k]) == (10, 3)


def _accepts(name: str, value: Any, mode: str) -> bool:
    try:
        search_options(json.dumps({name: value}), mode, "ask")
    except GraphRAGError as error:
        assert name in error.message
        return False
    return True


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ('{"rrf_k": 60}', "naive"),
        ('{"damping": 0.5}', "mix"),
        ('{"graph_top_k": 5}', "bm25"),
        ('{"chunk_top_k": 5}', "hybrid"),
        ('{"unknown": 1}', "hybrid"),
        ('{"rrf_k": 10001}', "mix"),
        ('{"rrf_k": 1.0}', "path"),
        ('{"damping": 0}', "hybrid"),
        ('{"damping": true}', "hybrid"),
        ('{"damping": "0.5"}', "hybrid"),
        ('{"profile": "worst"}', "hybrid"),
        ('{"profile": null}', "hybrid"),
        ('{"bm25_idf": {}}', "bm25"),
        ('{"rerank": 1}', "naive"),
        ('{"transform": "guess"}', "naive"),
        ('{"transform": "hyde", "rrf_k": 5}', "naive"),
        ('{"path_weighting": "vector"}', "hybrid"),
        ('{"fuse": "rrf"}', "mix"),
        ('{"query_entities": ["a"]}', "local"),
        ('{"answer_types": ["a"]}', "bm25"),
        ('{"graph_top_k": 5}', "ppr"),
        ('{"damping": 0.5}', "path"),
        ("[]", "hybrid"),
        ("1", "hybrid"),
        ("null", "hybrid"),
    ],
)
def test_an_unknown_misplaced_or_bad_search_option_is_refused_with_a_hint(options: str, mode: str) -> None:
    with pytest.raises(GraphRAGError) as error:
        search_options(options, mode)
    assert error.value.sqlstate == "22023"
    assert error.value.hint


def test_the_papers_profile_has_the_papers_budgets_and_what_is_given_wins() -> None:
    options = search_options('{"profile": "paper", "max_entity_tokens": 10}', "mix", "context")
    assert (options.graph_top_k, options.max_entity_tokens, options.max_relation_tokens) == (60, 10, 4000)
    whole = search_options('{"profile": "paper"}', "hybrid", "context")
    # LightRAG's max_token_for_text_unit, _local_context and _global_context.
    for total, each in ((whole.max_total_tokens, 4000), (1200, 400)):
        budgets = proportional(whole, total)
        assert (budgets.text, budgets.graph) == (each, (each, each))
    assert proportional(search_options("{}", "hybrid", "context"), 30_000).text is None
    assert search_options('{"graph_top_k": 7}', "path").graph_top_k == 7


def test_rrf_k_is_of_every_mode_whose_transform_fuses() -> None:
    for transform in ("decompose", "corrective"):
        options = json.dumps({"rrf_k": 7, "transform": transform})
        assert all(search_options(options, mode).rrf_k == 7 for mode in MODES)
