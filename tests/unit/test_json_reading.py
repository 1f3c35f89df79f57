"""JSON read in steps says what the library reads at once."""

import json
import random
from decimal import Decimal
from typing import Any

import pytest
from pg_graphrag.ground import json_reading
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.json_reading import json_text, read_exact_json, read_json, read_shown_json
from pg_graphrag.server import MAX_ARGUMENT, check_size


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers of some characters are long."""
    monkeypatch.setattr(json_reading, "SLICE", 20)


def _value(chosen: random.Random, depth: int = 0) -> Any:
    kind = chosen.randrange(7 if depth < 6 else 5)
    if kind < 5:
        texts = ('a"b', "[{", "\\", '\\"', "東\n", "")
        return (None, True, chosen.randrange(-5, 1000), chosen.random(), chosen.choice(texts))[kind]
    inside = [_value(chosen, depth + 1) for _ in range(chosen.randrange(6))]
    if kind == 5:
        return inside
    return {chosen.choice(('"', "]", "a", "b\\", "")) + str(at): value for at, value in enumerate(inside)}


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("seed", range(200))
def test_what_is_read_is_what_was_written(seed: int, indent: int | None) -> None:
    given = [_value(random.Random(seed)) for _ in range(5)]
    assert read_json(json.dumps(given, indent=indent)) == given


def test_numbers_are_shown_as_they_were_written() -> None:
    text = f'{{"ü": [1.10, 2, true, null], "sum": 12345678901234567.8900, "nested": {"[" * 120}"deep"{"]" * 120}}}'
    assert json_text(read_shown_json(text)) == text
    assert json.dumps(read_shown_json("[55.00]")) == "[55.0]"


def test_a_number_that_no_float_holds_is_a_text() -> None:
    number = f"1{'0' * 400}.5"
    assert read_shown_json(f"[{number}]") == [number]


def test_decimals_are_exact() -> None:
    assert read_exact_json('{"a": [1.10, 2], "b": "a text that is longer than a slice"}')["a"] == [Decimal("1.10"), 2]


@pytest.mark.parametrize("text", ["[" * 5000 + "]" * 5000, '{"a":' * 5000 + "1" + "}" * 5000])
def test_what_is_nested_too_deep_is_refused(text: str) -> None:
    with pytest.raises(GraphRAGError, match="too deep") as raised:
        read_json(text)
    assert raised.value.sqlstate == "54001"


def test_arguments_that_are_too_long_are_refused_together_too() -> None:
    check_size((None, 1, "x" * MAX_ARGUMENT, ["y", None]))
    for given in ("x" * (MAX_ARGUMENT + 1), [None, "x" * MAX_ARGUMENT, "y"]):
        with pytest.raises(GraphRAGError, match=f"{MAX_ARGUMENT + 1:,}") as raised:
            check_size((given,))
        assert (raised.value.sqlstate, bool(raised.value.hint)) == ("54000", True)
