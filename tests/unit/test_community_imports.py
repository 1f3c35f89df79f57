"""What is made of communities and references of another system, whatever they hold."""

from typing import Any

import pytest
from pg_graphrag.index.community.imported_communities import import_communities, nested, renumbered

NUMBERS = {"Entities": {"5": 50, "7": 70}, "Relationships": {"23": 230}, "Reports": {"0": 9}}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("Ada [Data: Entities (5, 7, 5)].", "Ada [Data: Entities (50, 70)]."),
        (
            "Ada [Data: Entities (5); Relationships (23, 99, +more)].",
            "Ada [Data: Entities (50); Relationships (230, +more)].",
        ),
        ("Ada [Data: Claims (3); Reports (0)].", "Ada [Data: Reports (9)]."),
        ("Ada [Data: Claims (3)].", "Ada."),
        ("Ada [Data: five].", "Ada [Data: five]."),
        ("Entities (5) [x]", "Entities (5) [x]"),
    ],
)
def test_references_get_the_numbers_of_here(given: str, wanted: str) -> None:
    assert renumbered(given, NUMBERS)[0] == wanted


def test_an_entity_is_in_one_community_of_a_level_and_in_its_parent() -> None:
    given: list[tuple[int, int, int | None, set[int]]] = [
        (0, 0, None, {1, 2, 3}),
        (1, 0, None, {3, 4}),
        (2, 0, None, {3}),
        (3, 1, 0, {1, 9}),
        (4, 1, 1, {3, 4}),
        (5, 1, 2, {3}),
    ]
    assert nested(given) == {0: [1, 2, 3], 1: [4], 3: [1], 4: [4]}


@pytest.mark.parametrize(
    ("communities", "references", "message"),
    [
        ("{}", None, "communities must be an array"),
        ('[{"number": 0}]', None, r"communities\[0\].level cannot be null"),
        ('[{"number": 0, "level": 0}, {"number": 0, "level": 0}]', None, r"communities\[1\].number cannot be 0"),
        ('[{"number": 0, "level": 1}]', None, r"communities\[0\].parent cannot be null"),
        ('[{"number": 0, "level": 0}, {"number": 1, "level": 2, "parent": 0}]', None, r"\[1\].parent cannot be 0"),
        ('[{"number": 0, "level": 0, "entities": [1]}]', None, r"entities cannot be \[1\]"),
        ('[{"number": 0, "level": 0, "members": []}]', None, 'unknown field "members"'),
        ('[{"number": 0, "level": 0, "created": "soon"}]', None, 'created cannot be "soon"'),
        ('[{"number": 0, "level": 0, "report": {"title": "t"}}]', None, "report.summary cannot be null"),
        (
            '[{"number": 0, "level": 0, "report": {"title": "t", "summary": "s", "content": "", "rating": 11}}]',
            None,
            "report.rating cannot be 11",
        ),
        ("[]", '{"Claims": {}}', 'cited has an unknown field "Claims"'),
        ("[]", '{"Relationships": {"1": ["a"]}}', r'cited.Relationships.1 cannot be \["a"\]'),
    ],
)
def test_a_bad_entry_is_refused_with_its_place(
    communities: str, references: str | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pg_graphrag.ground.errors import GraphRAGError
    from pg_graphrag.index.community import imported_communities

    monkeypatch.setattr(imported_communities, "find_corpus", lambda *_: None)
    database: Any = None
    with pytest.raises(GraphRAGError, match=message):
        import_communities(database, "c", communities, references)
