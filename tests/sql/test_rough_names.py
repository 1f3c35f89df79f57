"""search_entities by a rough name: mistyped, initials, another script, an alias; and what must not be taken for one."""

import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import index_all, new_corpus, rows

TEXTS = {
    "write": "Ada Lovelace visited the Charles Babbage Institute. The Charles Babbage Institute is in Minneapolis.",
    "pumps": "Pump 1712 stands beside Pump 1713. Филипп Киркоров met Тамара Иванова.",
    "ja": "PostgreSQL is a database. Berkeley made it.",
}
SQL = "SELECT name, explain ->> 'because' FROM graphrag.search_entities(%s, %s, 3, %s, %s)"


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    return index_all(module_db, new_corpus(module_db), TEXTS)


@pytest.mark.parametrize(
    ("rough", "name", "why"),
    [
        ("Charels Babbage Institute", "Charles Babbage Institute", "spelling"),
        ("Charles Babage Insitute", "Charles Babbage Institute", "spelling"),
        ("charlesbabbage-institute", "Charles Babbage Institute", "named"),
        ("CBI", "Charles Babbage Institute", "initials"),
        ("Berkley", "Berkeley", "spelling"),
        ("Филип Киркоров", "Филипп Киркоров", "spelling"),
        ("Tamara Ivanova", "Тамара Иванова", "transliteration"),
        ("постгрескл", "PostgreSQL", "transliteration"),
        ("ポストグレスキューエル", "PostgreSQL", "transliteration"),
    ],
)
@pytest.mark.parametrize("filter_", [None, '{"$source_key": {"$prefix": ""}}'])
def test_a_rough_name_is_found(
    module_db: Database, corpus: str, rough: str, name: str, why: str, filter_: str | None
) -> None:
    best = rows(module_db, SQL, rough, corpus, filter_, [rough])[0]
    assert best[0].lower() == name.lower()
    assert best[1].startswith(why)


def test_a_name_that_is_there_is_not_compared(module_db: Database, corpus: str) -> None:
    found = rows(module_db, SQL, "Pump 1712", corpus, None, ["Pump 1712"])
    assert found[0] == ("Pump 1712", "named: Pump 1712")
    assert all(not why.startswith("spelling") for _, why in found)


def test_another_number_is_another_thing(module_db: Database, corpus: str) -> None:
    found = rows(module_db, SQL, "Pump 1714", corpus, None, ["Pump 1714"])
    assert all(not why.startswith("spelling") for _, why in found)


def test_an_alias_may_be_mistyped(module_db: Database, corpus: str) -> None:
    module_db.execute("SELECT graphrag.rename_entity('Ada Lovelace', 'Countess', %s)", [corpus])
    for filter_ in (None, '{"$source_key": "write"}'):
        assert rows(module_db, SQL, "Ada Lovelase", corpus, filter_, ["Ada Lovelase"])[0][0] == "Countess"


def test_what_hidden_documents_name_is_not_found(module_db: Database, corpus: str) -> None:
    found = rows(module_db, SQL, "Berkley", corpus, '{"$source_key": "pumps"}', ["Berkley"])
    assert "Berkeley" not in [name for name, _ in found]


def test_a_name_alone_is_compared_and_a_sentence_is_not(module_db: Database, corpus: str) -> None:
    def reasons(text: str) -> list[str]:
        return [why for _, why in rows(module_db, SQL, text, corpus, None, None) if why.startswith("spelling")]

    # The second and third are of the graph in the session's memory.
    assert [len(reasons("Charels Babbage Institute")) for _ in range(3)] == [1, 1, 1]
    for text in ("Charels Babbage Institute?", "And Charels Babbage Institute as it is now"):
        assert reasons(text) == []
