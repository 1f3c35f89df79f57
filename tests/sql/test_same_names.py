"""What documents call by several names is one entity where a document says so; else it is suggested."""

from collections.abc import Iterator

import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import canonical, index_all, rows, searched_corpus, work

CHATS = {
    "a": "LiHua: Hey Adam! Can you meet me?\nAdamSmith: Hi Li Hua! You can come by.",
    "b": "WolfgangSchulz: Will you play the Kestrel engine song, Li Hua?\nLiHua: I will, Wolfgang!",
}
OTHERS = {
    "c": "Much was said of LiHua in Osaka.",
    "d": "The Kestrel engine burns methane in Osaka.",
    "e": "In Osaka many speak of Kestrel.",
}


@pytest.fixture
def corpus(module_db: Database) -> Iterator[str]:
    name = index_all(module_db, searched_corpus(module_db, language="en"), CHATS | OTHERS)
    yield name
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])


def nodes(db: Database, corpus: str) -> dict[str, str]:
    return dict(rows(db, "SELECT name, type FROM graphrag.graph_nodes WHERE corpus = %s", corpus))


def test_who_speaks_is_one_person_by_every_name(module_db: Database, corpus: str) -> None:
    type_of = nodes(module_db, corpus)
    assert {name: type_of.get(name) for name in ("Li Hua", "Adam Smith", "Wolfgang Schulz")} == dict.fromkeys(
        ("Li Hua", "Adam Smith", "Wolfgang Schulz"), "PERSON"
    )
    assert {"AdamSmith", "WolfgangSchulz"}.isdisjoint(type_of)
    assert rows(module_db, "SELECT * FROM graphrag.check(%s)", corpus) == []


def test_what_is_likely_one_is_suggested(module_db: Database, corpus: str) -> None:
    pairs = {
        frozenset(row) for row in rows(module_db, "SELECT entity, target FROM graphrag.suggest_merges(%s)", corpus)
    }
    assert {frozenset(("LiHua", "Li Hua")), frozenset(("Kestrel", "Kestrel engine"))} <= pairs


def test_a_merge_of_a_suggestion_is_undone(module_db: Database, corpus: str) -> None:
    before = canonical(module_db, corpus)
    ((curation,),) = rows(module_db, "SELECT graphrag.merge_entities(ARRAY['LiHua'], 'Li Hua', corpus => %s)", corpus)
    assert "LiHua" not in nodes(module_db, corpus)
    module_db.execute("SELECT graphrag.undo_curation(%s)", [curation])
    assert canonical(module_db, corpus) == before


def test_the_order_of_chats_changes_nothing(module_db: Database, corpus: str) -> None:
    other = searched_corpus(module_db, language="en")
    for key in reversed([*CHATS, *OTHERS]):
        index_all(module_db, other, {key: (CHATS | OTHERS)[key]})
    assert nodes(module_db, other) == nodes(module_db, corpus)
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [other])


def test_a_label_alone_is_no_speaker_once_the_chat_is_gone(module_db: Database, corpus: str) -> None:
    module_db.execute("DELETE FROM graphrag.documents WHERE corpus = %s AND source_key IN ('a', 'b')", [corpus])
    work(module_db)
    assert "LiHua" in nodes(module_db, corpus)
    assert "Li Hua" not in nodes(module_db, corpus)
    assert rows(module_db, "SELECT * FROM graphrag.check(%s)", corpus) == []
