"""Values of attributes, and relations of a schema."""

from typing import Any

import pytest
from pg_graphrag.server.corpus.extraction_schema import as_value, parse


@pytest.mark.parametrize(
    ("raw", "kind", "value"),
    [
        (" a\n b ", "text", "a b"),
        ("", "text", None),
        ("x" * 1001, "text", None),
        ("-12", "integer", -12),
        ("12.0", "integer", None),
        ("9" * 19, "integer", None),
        ("1e3", "number", 1000.0),
        ("NaN", "number", None),
        ("1e999", "number", None),
        ("twelve", "number", None),
        ("Yes", "boolean", True),
        ("perhaps", "boolean", None),
        ("2024-02-29", "date", "2024-02-29"),
        ("2023-02-29", "date", None),
        ("20240229", "date", None),
    ],
)
def test_a_value_is_one_of_its_type_or_none(raw: str, kind: str, value: Any) -> None:
    assert as_value(raw, kind) == value


def test_a_relation_is_found_by_a_keyword_and_turned_round() -> None:
    schema = parse({"entities": {"machine": {}, "plant": {}}, "relations": [["machine", "located_in", "plant"]]})
    assert schema.relation("machine", ("stands", "Located-In"), "plant") == ("located_in", True)
    assert schema.relation("plant", ("located in",), "machine") == ("located_in", False)
    assert schema.relation("machine", ("near",), "plant") is None
    assert schema.relation("plant", ("located in",), "plant") is None
    anything = parse({"entities": {"machine": {}}})
    assert anything.relation("machine", ("near",), "machine") == ("near", True)
    assert not parse(["machine", "plant"]).is_closed
