"""Types of names in one document."""

import pytest
from pg_graphrag.text.concept import Concept, entity_types


def tagged(name: str, tag: str, probability: int = 90) -> Concept:
    return Concept(name, 0, len(name), "NAME", tag=tag, probability=probability)


@pytest.mark.parametrize(
    ("concepts", "persons", "expected"),
    [
        ([tagged("Oslo", "LOCATION")], [], {"oslo": "LOCATION"}),
        ([tagged("Oslo", "LOCATION"), tagged("Oslo", "PERSON"), tagged("Oslo", "LOCATION")], [], {"oslo": "LOCATION"}),
        # Surer counts more; of two alike the first by name.
        ([tagged("Oslo", "LOCATION", 50), tagged("Oslo", "PERSON")], [], {"oslo": "PERSON"}),
        ([tagged("Oslo", "PERSON"), tagged("Oslo", "LOCATION")], [], {"oslo": "LOCATION"}),
        # What the tagger takes for no name, or hardly for one, is a term.
        ([Concept("VPN", 0, 3, "NAME")], [], {"vpn": "CONCEPT"}),
        ([tagged("projector", "PRODUCT", 49)], [], {"projector": "CONCEPT"}),
        ([tagged("Grace", "ORGANIZATION")], ["Grace", "Al"], {"grace": "PERSON", "al": "PERSON"}),
    ],
)
def test_a_name_has_the_type_that_its_document_says_most_surely(
    concepts: list[Concept], persons: list[str], expected: dict[str, str]
) -> None:
    assert entity_types(concepts, persons) == expected


def test_without_a_tagger_no_name_is_taken_for_a_term() -> None:
    assert entity_types([Concept("Oslo", 0, 4, "NAME")], is_read=False) == {}
