"""Names where capital letters do not tell: at the beginning of a sentence, a heading, a list item, a line of a chat."""

import pytest
from pg_graphrag.text.words.concepts import concepts

pytest.importorskip("HanTa")


def found(text: str) -> list[str]:
    return [f"{concept.name}/{concept.type[0]}" for concept in concepts(text, "en")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A given name that is another word too.
        ("Bob Stone is a mason.", ["Bob Stone/N"]),
        ("Grace Hopper's compiler.", ["Grace Hopper/N"]),
        ("Mark Twain wrote it.", ["Mark Twain/N"]),
        ("Will Smith acted.", ["Will Smith/N"]),
        ("May Parker.", ["May Parker/N"]),
        ("Rose McGowan came.", ["Rose McGowan/N"]),
        ("Jack O'Neill came.", ["Jack O'Neill/N"]),
        ("Mary J. Blige sang.", ["Mary J. Blige/N"]),
        ("Duke Ellington played.", ["Duke Ellington/N"]),
        ("Bob is a mason.", ["Bob/N"]),
        # Nouns, adjectives and unknown words.
        ("Bletchley Park hired mathematicians.", ["Bletchley Park/N", "mathematician/C"]),
        ("President Lincoln spoke at Gettysburg.", ["President Lincoln/N", "Gettysburg/N"]),
        ("Lake Victoria is a lake.", ["Lake Victoria/N"]),
        ("Gulf War began.", ["Gulf War/N"]),
        ("Green Day is a band.", ["Green Day/N"]),
        ("New York is big.", ["New York/N"]),
        ("Long Island is an island.", ["Long Island/N"]),
        ("Dead Sea Scrolls were found.", ["Dead Sea Scrolls/N"]),
        ("Composer John Williams met him.", ["John Williams/N"]),
        ("The late Professor Abraham Van Helsing came.", ["Abraham Van Helsing/N"]),
        ("Prime Minister Atal Bihari Vajpayee spoke.", ["Atal Bihari Vajpayee/N"]),
        ("Sir Isaac Newton wrote.", ["Isaac Newton/N"]),
        ("German Chancellor Merkel spoke.", ["German Chancellor Merkel/N"]),
        ("Bank of America grew.", ["Bank of America/N", "America/N"]),
        ("Battle of Hastings", ["Battle of Hastings/N", "Hastings/N"]),
        ("Duke of the Abruzzi", ["Duke of the Abruzzi/N", "Abruzzi/N"]),
        ("President of France", ["France/N"]),
        # What stands within a sentence of the same text is known at the beginning of another.
        ("We met Visit Stone. Visit Stone spoke.", ["Visit Stone/N", "Visit Stone/N"]),
        ("Visit Stone, not Paris.", ["Stone/N", "Paris/N"]),
        # Headings, list items, quotations, chats.
        ("Chapter 5. Data Definition\n\nIt is easy.", ["Data Definition/N"]),
        ("Data Definition Language", ["Data Definition Language/N"]),
        ("- Grace Hopper, admiral", ["Grace Hopper/N"]),
        ("* Bob Stone: mason", ["Bob Stone/N"]),
        ("1. Bob Stone", ["Bob Stone/N"]),
        ('The "Grace Hopper" award', ["Grace Hopper/N"]),
        ("LiHua: Grace Hopper called.", ["LiHua/N", "Grace Hopper/N"]),
        ("LiHua: Hi Bob, Grace Hopper is here.", ["LiHua/N", "Bob/N", "Grace Hopper/N"]),
        # Function words, adverbs, verbs and forms of address are no part of a name.
        ("When Bob Stone arrived, he was late.", ["Bob Stone/N"]),
        ("Yesterday Grace Hopper spoke.", ["Grace Hopper/N"]),
        ("Interestingly Bob left.", ["Bob/N"]),
        ("However Bob left.", ["Bob/N"]),
        ("Dear Bob, thanks.", ["Bob/N"]),
        ("Welcome Bob!", ["Bob/N"]),
        ("The Beatles played.", ["Beatles/N"]),
        ("According to Grace Hopper, no.", ["Grace Hopper/N"]),
        ("Did Grace Hopper write it?", ["Grace Hopper/N"]),
        ("Former President Clinton left.", ["President Clinton/N"]),
        ("Ask Alice about it.", ["Alice/N"]),
        ("Call Bob.", ["Bob/N"]),
        ("Creating Tables is easy.", ["Tables/N"]),
        # Identifiers and commands are no names of persons.
        ("Run VACUUM on the table.", ["VACUUM/N"]),
        ("Using PostgreSQL 17 you can.", ["PostgreSQL 17/N"]),
        ("Query planner chooses an index scan.", ["Query planner/C", "index scan/C"]),
        # A verb that may be a plural stands between nouns.
        ("Kestrel engine burns methane.", ["Kestrel engine/C", "Kestrel/N", "methane/C"]),
        ("Each index scans the table.", []),
    ],
)
def test_a_name_at_the_beginning_of_a_sentence_is_whole(text: str, expected: list[str]) -> None:
    assert found(text) == expected


def test_a_name_at_the_beginning_has_the_key_that_it_has_within_a_sentence() -> None:
    for name in ("Grace Hopper", "Bletchley Park", "New York City", "Lake Victoria", "House of Commons", "Bob Stone"):
        assert f"{name}/N" in found(f"{name} was mentioned.")
        assert f"{name}/N" in found(f"It was {name} that they mentioned.")
        assert f"{name}/N" in found(f"What about {name}?")


def test_the_example_of_the_readme_has_its_names() -> None:
    text = "The Kestrel engine burns methane. It first flew on the Heron launcher in 2011. Kim Park studies the Kestrel engine."
    assert {"Kestrel engine/C", "Kestrel/N", "methane/C", "Heron launcher/C", "Heron/N", "Kim Park/N"} == set(
        found(text)
    )
