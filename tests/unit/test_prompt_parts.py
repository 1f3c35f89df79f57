"""A context's prompt in parts: their tokens add up to those of the whole, whatever it is made of."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pg_graphrag.search.contexts.context_packing import prompt_parts

from tests.unit.tokenizing import load

# No lone surrogates: PostgreSQL text cannot hold them. What tokens like to be joined by comes often.
TEXT = st.text(
    st.one_of(
        st.sampled_from(" \n\r\t/.-[]()'\"a1é。\xa0\u2028"),
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
    ),
    max_size=12,
)
LINES = st.lists(TEXT.map("- {}\n".format), max_size=3)
REPORTS = st.lists(TEXT, max_size=2)
CHUNKS = st.lists(
    st.fixed_dictionaries(
        {
            "reference": st.integers(1, 3),
            "document_id": st.just(1),
            "content": TEXT,
            "source": st.fixed_dictionaries({"source_key": TEXT, "title": st.none() | TEXT}),
        }
    ),
    max_size=3,
)
CLAIMS = st.lists(
    st.fixed_dictionaries(
        {
            "reference": st.integers(1, 3),
            "document_id": st.just(1),
            "source": st.fixed_dictionaries({"source_key": TEXT, "title": st.none() | TEXT}),
            "description": TEXT,
        }
        | dict.fromkeys(("subject", "object", "type", "status", "start_date", "end_date"), TEXT)
    ),
    max_size=2,
)

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "reference": st.integers(1, 3),
            "document_id": st.just(1),
            "place": st.integers(0, 1),
            "heading": TEXT.map("shop.{}\n| | |\n".format),
            "line": TEXT.map("| [1] | {} |\n".format),
            "source": st.fixed_dictionaries(
                {"source_key": TEXT, "title": st.none() | TEXT, "table": TEXT, "key": TEXT}
            ),
        }
    ),
    max_size=2,
)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "cl100k_base", "o200k_base"])
@given(entities=LINES, relationships=LINES, reports=REPORTS, claims=CLAIMS, rows=ROWS, chunks=CHUNKS)
@settings(max_examples=150, deadline=None)
def test_the_tokens_of_the_parts_are_the_tokens_of_the_prompt(
    name: str,
    entities: list[str],
    relationships: list[str],
    reports: list[str],
    claims: list[dict[str, Any]],
    rows: list[dict[str, Any]],
    chunks: list[dict[str, Any]],
) -> None:
    ranks = load(name)
    parts = prompt_parts(entities, relationships, reports, claims, rows, chunks)
    for _ in range(2):
        assert sum(map(ranks.count_known, parts)) == ranks.count("".join(parts))


def test_the_prompt_has_a_section_for_each_kind_of_entry() -> None:
    chunk = {
        "reference": 1,
        "document_id": 7,
        "content": "The text.",
        "source": {"source_key": "k", "title": "A title"},
    }
    row = {
        "reference": 2,
        "document_id": 8,
        "place": 0,
        "heading": "shop.persons\n|  | key |\n",
        "line": "| [2] | 3 |\n",
        "source": {"source_key": "persons/3", "title": "Ada", "table": "shop.persons", "key": "3"},
    }
    assert "".join(
        prompt_parts(["- Ada\n", "- Engine\n"], ["- Ada -- Engine\n"], ["The report."], [], [row], [chunk])
    ) == (
        "Reports:\nThe report.\n\n"
        "Entities:\n- Ada\n- Engine\n\n"
        "Relationships:\n- Ada -- Engine\n\n"
        "Rows:\nshop.persons\n|  | key |\n| [2] | 3 |\n\n"
        "Text:\n[1] The text.\n\nReferences:\n[1] A title"
    )
    assert "".join(prompt_parts(["- Ada\n"], [], [], [], [], [])) == "Entities:\n- Ada"
    assert prompt_parts([], [], [], [], [], []) == []
