"""What a walk starts from: dates, numbers and identifiers of a question lead to their chunks, names to those that begin so."""

from typing import Any

import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import index_all, put, put_all, search, searched_corpus, work

# Every report says the same of another day, so that nothing but the day tells them apart.
DAYS = {
    "stamp": "20260406_10:00",
    "iso": "2026-05-07",
    "words": "June 8, 2026",
    "ordinal": "July 9th 2026",
    "other": "20260410_11:00",
}
REPORTS = {name: f"{day}: the pump of the northern hall was inspected and oiled." for name, day in DAYS.items()}
PEOPLE = {
    "smith": "Adam Smith keeps the lighthouse. Adam Smith paints the door.",
    "code": "The driver raised 42P01 and stopped.",
    **{f"alley{number}": f"Baker Street {number}{number} has a shop of hats." for number in range(4)},
}


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    name = searched_corpus(module_db)
    put_all(module_db, name, REPORTS | PEOPLE)
    put(module_db, name, "song", "It was released by Ivor Cutler.", title="Privilege (song)")
    work(module_db)
    return name


def gains(db: Database, corpus: str, key: str, **arguments: Any) -> list[str]:
    """Documents that a walk for a question reaches more for it naming `key`, those that gain most first."""
    mass = [
        {
            row["source_key"]: row["score"]
            for row in search(db, f"of the pump of the northern hall {text}?", corpus, "ppr", top_k=20, **arguments)
        }
        for text in (f"and {key}", "")
    ]
    gained = {name: score - mass[1].get(name, 0.0) for name, score in mass[0].items()}
    return sorted((name for name in gained if gained[name] > 0), key=lambda name: -gained[name])


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("day", "wanted"),
    [
        *(("April 6, 2026", "stamp"), ("April 6th", "stamp"), ("2026-04-06", "stamp"), ("20260406", "stamp")),
        *(("20260507", "iso"), ("7 May 2026", "iso"), ("2026/6/8", "words"), ("8 June", "words")),
        *(("20260709", "ordinal"), ("July 9", "ordinal")),
    ],
)
def test_a_day_leads_to_its_documents_however_it_is_written(
    module_db: Database, corpus: str, day: str, wanted: str
) -> None:
    assert gains(module_db, corpus, day)[0] == wanted


def test_an_identifier_leads_to_its_documents(module_db: Database, corpus: str) -> None:
    assert gains(module_db, corpus, "42P01")[0] == "code"
    assert gains(module_db, corpus, "42P01", filter={"open": True}) == []


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("Adam Smith", ["smith"]), ("Adam", ["smith"]), ("Privilege", ["song"]), ("Zebulon", []), ("Baker Street", [])],
)
def test_a_name_leads_to_those_that_begin_with_it_if_these_are_few(
    module_db: Database, corpus: str, name: str, wanted: list[str]
) -> None:
    question = "Who oiled the pump of the northern hall?"
    named, unnamed = (
        {row["source_key"]: row["score"] for row in search(module_db, question, corpus, "ppr", top_k=20, **words)}
        for words in ({"low_level_keywords": [name]}, {"low_level_keywords": []})
    )
    assert [key for key, score in named.items() if score > unnamed.get(key, 0.0)] == wanted


CAST = {
    "first": "Ann Archer paints the scenery. The king of the Golden Mountain is played by Bea Baker. Cal Cooper sings.",
    "archer": "Ann Archer was born in Leeds.",
    "baker": "Bea Baker was born in York.",
    "cooper": "Cal Cooper was born in Hull.",
}


@pytest.mark.parametrize(("part", "wanted"), [("king of the Golden Mountain", "baker"), ("scenery", "archer")])
def test_a_walk_goes_to_whom_the_sentence_of_the_question_names(module_db: Database, part: str, wanted: str) -> None:
    corpus = index_all(module_db, searched_corpus(module_db), CAST)
    ranked = [row["source_key"] for row in search(module_db, f"What of the {part}?", corpus, "ppr")]
    assert ranked[:2] == ["first", wanted]


WALTZ = {
    "first": "The Golden Mountain Waltz stars Ann Archer. Its queen is Bea Baker.",
    "archer": "Ann Archer lives in Leeds.",
    "baker": "Bea Baker lives in York.",
}


def test_the_words_of_a_name_tell_nothing_of_who_is_beside_it(module_db: Database) -> None:
    corpus = index_all(module_db, searched_corpus(module_db), WALTZ)
    results = search(module_db, "Who is the queen of the Golden Mountain Waltz?", corpus, "ppr")
    assert [row["source_key"] for row in results] == ["first", "baker", "archer"]


PLAY = {
    "first": "Golden Mountain is a play of Ann Archer. Golden Mountain has a king. Golden Mountain has a queen.",
    "archer": "Ann Archer lives in Leeds.",
    "songs": "Golden Mountain has songs.",
    "books": "Golden Mountain has books.",
}


def test_a_walk_goes_on_and_not_back_to_what_the_question_names(module_db: Database) -> None:
    corpus = index_all(module_db, searched_corpus(module_db), PLAY)
    ranked = [row["source_key"] for row in search(module_db, "Who wrote Golden Mountain?", corpus, "ppr")]
    assert ranked[:2] == ["first", "archer"]


TOWNS = {
    "Alpha Falls": "Alpha Falls is a town of Beta Valley, near Gamma Ridge. Its mayor is elected.",
    "Beta Valley": "Beta Valley has rivers and woods.",
    "Gamma Ridge": "Gamma Ridge has a road.",
    **{f"Fair {number}": f"Alpha Falls has a fair of hats on day {number}." for number in range(4)},
}


def put_titled(db: Database, corpus: str, texts: dict[str, str]) -> None:
    """Documents whose keys are their titles."""
    for title, text in texts.items():
        db.execute(
            "INSERT INTO graphrag.documents (corpus, source_key, title, content) VALUES (%s, %s, %s, %s)",
            [corpus, title, title, text],
        )
    work(db)


@pytest.mark.parametrize("more", [0, 7])
def test_what_the_first_chunk_mentions_by_its_title_comes_next_if_it_is_little(module_db: Database, more: int) -> None:
    """A list mentions much."""
    corpus = searched_corpus(module_db)
    names = [f"{name} Hill" for name in "Delta Epsilon Zeta Theta Kappa Lambda Sigma".split()][:more]
    texts = TOWNS | {name: f"{name} has a tower." for name in names}
    texts["Alpha Falls"] += "".join(f" It is near {name}." for name in names)
    put_titled(module_db, corpus, texts)
    results = search(module_db, "Where is the mayor of Alpha Falls elected?", corpus, "hybrid", top_k=5)
    ranked = [row["source_key"] for row in results]
    assert ranked[0] == "Alpha Falls"
    raised = {row["source_key"] for row in results if "titles" in row["explain"]}
    assert raised == (set() if more else {"Beta Valley", "Gamma Ridge"})
    if not more:
        assert set(ranked[1:3]) == raised


def test_titles_that_are_left_out_do_not_make_a_list(module_db: Database) -> None:
    """Nothing of ten is brought forward; who does not see eight of them is told of two."""
    hidden = [f"{name} Hill" for name in "Delta Epsilon Zeta Theta Kappa Lambda Sigma Omega".split()]
    mentions = "".join(f" It is near {name}." for name in hidden)
    texts = TOWNS | {name: f"{name} has a tower." for name in hidden}
    corpus = searched_corpus(module_db)
    put_titled(module_db, corpus, texts | {"Alpha Falls": TOWNS["Alpha Falls"] + mentions})

    def raised(**arguments: Any) -> set[str]:
        rows = search(module_db, "Where is the mayor of Alpha Falls elected?", corpus, **arguments)
        return {row["source_key"] for row in rows if "titles" in row["explain"]}

    assert raised() == set()
    assert raised(filter={"$source_key": {"$nin": hidden}}) == {"Beta Valley", "Gamma Ridge"}


THREAD = {
    "mail 1": (
        "Budget Meeting",
        "The invoice of the harbour crane is due in May. Otto Braun pays it before the Budget Meeting.",
    ),
    "mail 2": ("Budget Meeting", "Lunch is at noon."),
    "mail 3": ("Budget Meeting", "The room is booked."),
    "otto": ("Otto Braun", "Otto Braun lives in Kiel."),
    **{f"ship {number}": (f"Ship {number}", f"A ship sailed to port {number}.") for number in range(6)},
}


def test_a_title_that_the_first_chunk_has_itself_brings_nothing_forward(module_db: Database) -> None:
    """Mails of a thread have one title; the parts of a document, too."""
    corpus = searched_corpus(module_db)
    for key, (title, text) in THREAD.items():
        put(module_db, corpus, key, text, title=title)
    work(module_db)
    results = search(module_db, "When is the invoice of the harbour crane due?", corpus, "hybrid", top_k=4)
    assert [row["source_key"] for row in results][:2] == ["mail 1", "otto"]
    assert {row["source_key"] for row in results if "titles" in row["explain"]} == {"otto"}


# What a document is called, others mention; that wasps nest, too, is what words alone find.
FILMS = {
    "The Girl Who Kicked the Hornets' Nest (film)": "It is a drama directed by Daniel van Alfredson.",
    "Daniel van Alfredson": "He was born at Uppsala in May 1959.",
    "Xawery Żuławski": "He was born at Warsaw in December 1971.",
    "Wasps": "Hornets and other wasps make their nests of chewed wood, spittle and patience.",
    "Birds": "They sleep in a nest.",
    **{f"Director {number}": f"The director number {number} was born in the nest of a town." for number in range(6)},
}
GIRL, DIRECTOR, OTHER, *_ = FILMS


@pytest.fixture(scope="module")
def films(module_db: Database) -> str:
    name = searched_corpus(module_db)
    for title, text in FILMS.items():
        put(module_db, name, title, text, title=title)
    work(module_db)
    return name


@pytest.mark.parametrize("title", [GIRL.removesuffix(" (film)"), GIRL.removesuffix(" (film)").lower()])
def test_a_title_of_any_words_leads_to_its_document_and_on_to_whom_it_names(
    module_db: Database, films: str, title: str
) -> None:
    assert gains(module_db, films, title)[:2] == [GIRL, DIRECTOR]


def test_of_a_comparison_both_named_come_first(module_db: Database, films: str) -> None:
    question = "Who was born first, Daniel van Alfredson or Xawery Żuławski?"
    # From the tables, and from what a session that asks again holds.
    results = [search(module_db, question, films, "hybrid", top_k=5) for _ in range(3)]
    assert {row["source_key"] for row in results[0][:2]} == {DIRECTOR, OTHER}
    assert [row["score"] for row in results[0]] == pytest.approx([row["score"] for row in results[2]])
