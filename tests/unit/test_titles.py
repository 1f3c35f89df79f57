"""Runs of a question's words that may be titles, and the keys under which a title may name an entity."""

import pytest
from pg_graphrag.search.graph_view.seeds import _runs
from pg_graphrag.text.words.names import title_keys


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("Who made Gone with the Wind?", "gone with the wind"),
        ("Who made Gone with the Wind (1939)?", "gone with the wind"),
        ('Is "Blind Shaft", or The Mask Of Fu Manchu, older?', "blind shaft"),
        ('Is "Blind Shaft", or The Mask Of Fu Manchu, older?', "the mask of fu manchu"),
        ("Who is Lothair II's mother?", "lothair ii"),
        ("Do Move (1970 Film) and Méditerranée (1963 Film) have the same director?", "move (1970 film)"),
        ("Is Cheer Up! older?", "cheer up!"),
        ("Is Cheer Up! older?", "cheer up"),
        ("Is 10 Things I Hate About You new?", "10 things i hate about you"),
        ("who made gone with the wind?", "gone with the wind"),
    ],
)
def test_a_title_is_among_the_runs_of_a_question(question: str, title: str) -> None:
    start, end = _runs(question)[title]
    assert end - start == len(title.split())


def test_runs_have_several_words_and_begin_as_titles_do() -> None:
    assert set(_runs("Who made Blind Shaft then")) == {
        *("who made", "who made blind", "who made blind shaft", "who made blind shaft then"),
        *("blind shaft", "blind shaft then", "shaft then"),
    }
    assert _runs("Coffee?") == {}


@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("Move (1970 film)", {"move (1970 film)", "move"}),
        ("The Falcon (film)", {"the falcon (film)", "falcon (film)", "the falcon", "falcon"}),
        ("Edward Sedgwick Jr.", {"edward sedgwick jr.", "edward sedgwick jr"}),
        ("(1939)", {"(1939)"}),
    ],
)
def test_a_title_names_with_and_without_article_full_stop_and_brackets(title: str, names: set[str]) -> None:
    assert title_keys(title) == names
