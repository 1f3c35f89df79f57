"""Corpora that are embedded by the local model of many languages."""

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.sql.ingest import index_all, search, searched_corpus, value, work

MODEL = "multilingual-e5-small"
PAGES = {
    "price": "導入により、運用コストは三割削減された。",
    "weather": "明日は全国的に晴れ、気温は二十度まで上がる見込みです。",
    "music": "この交響曲は一八二四年にウィーンで初演された。",
}
ASKED = {
    "How much did operating expenses fall?": "price",
    "Will it be sunny tomorrow?": "weather",
    "When was the symphony first performed?": "music",
    "费用减少了多少？": "price",
}


@pytest.mark.parametrize("mode", ["naive", "hybrid"])
def test_questions_find_pages_in_another_language(module_db: Database, mode: str) -> None:
    corpus = index_all(module_db, searched_corpus(module_db, embedding={"model": MODEL}), PAGES)
    assert {question: search(module_db, question, corpus, mode)[0]["source_key"] for question in ASKED} == ASKED
    assert "dense" not in search(module_db, next(iter(ASKED)), corpus, mode)[0]["explain"]


FRENCH = {
    "prix": "Grâce au nouveau système, les coûts d'exploitation ont baissé de trente pour cent en un an.",
    "météo": "Demain le soleil brillera partout et la température montera jusqu'à vingt degrés.",
    "musique": "La symphonie a été jouée pour la première fois à Vienne en 1824.",
    "expenses": "Le fichier expenses.conf décrit les options du démon ; le raccourci expenses ouvre ce fichier.",
    "sunny": "Le thème sunny change la couleur des fenêtres ; sunny est aussi le nom du paquet de ce thème.",
    "performed": "Le compteur performed dit combien de tâches sont faites ; performed revient à zéro la nuit.",
}


def test_a_word_that_two_languages_of_one_script_share_leads_no_question_astray(module_db: Database) -> None:
    corpus = index_all(module_db, searched_corpus(module_db), FRENCH)
    asked = {
        "How much did operating expenses fall?": "prix",
        "Will it be sunny and warm in the country tomorrow?": "météo",
        "When was the symphony first performed?": "musique",
    }
    assert {question: search(module_db, question, corpus, "hybrid")[0]["source_key"] for question in asked} == asked
    assert search(module_db, "expenses.conf", corpus, "hybrid")[0]["source_key"] == "expenses"


def test_a_corpus_is_embedded_anew_by_it(module_db: Database) -> None:
    corpus = index_all(module_db, searched_corpus(module_db, embedding={"model": "all-MiniLM-L6-v2"}), PAGES)
    module_db.execute("SELECT graphrag.reembed(%s, %s)", [corpus, Jsonb({"model": MODEL})])
    work(module_db)
    assert search(module_db, "Will it be sunny tomorrow?", corpus, "naive")[0]["source_key"] == "weather"
    assert (
        value(module_db, "SELECT options -> 'embedding' ->> 'model' FROM graphrag.corpora WHERE name = %s", corpus)
        == MODEL
    )


def test_a_local_model_that_does_not_exist_is_refused(module_db: Database) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="e5-large") as caught:
        searched_corpus(module_db, embedding={"model": "e5-large"})
    assert MODEL in str(caught.value.diag.message_hint)


CHOSEN = "SELECT embedding FROM graphrag.progress WHERE corpus = %s"
ENGLISH = {"ship": "The big ship left the port at dawn.", "engine": "Ada Lovelace wrote notes on the engine."}
GERMAN = {"Schiff": "Das Schiff ist in der Nacht nicht mit dem Zug und auch nicht mit dem Wagen zu erreichen."}


@pytest.mark.parametrize(
    ("texts", "options", "model"),
    [
        (ENGLISH, {}, "all-MiniLM-L6-v2"),
        (PAGES, {}, MODEL),
        (ENGLISH | PAGES, {}, MODEL),
        (GERMAN, {}, MODEL),
        (ENGLISH, {"language": "ja"}, MODEL),
        (PAGES, {"language": "en"}, "all-MiniLM-L6-v2"),
        (PAGES, {"embedding": {"provider": "local"}}, "all-MiniLM-L6-v2"),
    ],
    ids=["en", "ja", "en and ja", "de", "option ja", "option en", "option embedding"],
)
def test_a_corpus_gets_the_model_that_fits_its_options_or_its_first_documents(
    module_db: Database, texts: dict[str, str], options: dict[str, Any], model: str
) -> None:
    corpus = searched_corpus(module_db, **options)
    assert value(module_db, CHOSEN, corpus) is None
    # What has no text chooses nothing.
    index_all(module_db, corpus, {"blank": " "})
    index_all(module_db, corpus, texts)
    assert value(module_db, CHOSEN, corpus) == model


def test_a_corpus_keeps_its_model_and_progress_says_when_another_would_pay(module_db: Database) -> None:
    advice = "SELECT embedding_advice FROM graphrag.progress WHERE corpus = %s"
    corpus = index_all(module_db, searched_corpus(module_db), ENGLISH)
    assert value(module_db, advice, corpus) is None
    index_all(module_db, corpus, PAGES)
    assert value(module_db, CHOSEN, corpus) == "all-MiniLM-L6-v2"
    text = value(module_db, advice, corpus)
    assert text.startswith(
        "3 of the last 5 chunks are in other languages than English, and found by words alone: SELECT"
    )
    module_db.execute(text.partition(": ")[2].encode())
    work(module_db)
    assert value(module_db, CHOSEN, corpus) == MODEL
    assert embedded_keys(module_db, corpus) == {*ENGLISH, *PAGES}
    assert value(module_db, advice, corpus) is None


def test_options_of_a_corpus_that_chose_its_model_change_as_those_of_others(module_db: Database) -> None:
    corpus = index_all(module_db, searched_corpus(module_db), PAGES)
    module_db.execute("SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"query_log": True})])
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="embedding"):
        module_db.execute(
            "SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"embedding": {"model": "all-MiniLM-L6-v2"}})]
        )


MINUTES = {
    "visit": "Am Montag traf sich Frau Dr. Sabine Köhler mit Herrn Thomas Brandt. Die Lieferung an die BASF SE in Ludwigshafen"
    " verzögert sich.",
    "noise": "Der Verdichter macht laute Geräusche beim Einschalten. Herr Müller bittet um Rückruf.",
}


def test_names_in_german_are_read_by_the_model_that_knows_it(module_db: Database) -> None:
    english, multilingual = (
        index_all(module_db, searched_corpus(module_db, embedding={"model": model}), MINUTES)
        for model in ("all-MiniLM-L6-v2", "multilingual-e5-small")
    )
    sql = "SELECT name, type FROM graphrag.graph_nodes WHERE corpus = %s ORDER BY name"
    names = module_db.execute(sql, [english]).fetchall()
    assert names == module_db.execute(sql, [multilingual]).fetchall()
    assert {("Sabine Köhler", "PERSON"), ("BASF SE", "ORGANIZATION"), ("Ludwigshafen", "LOCATION")} <= {*names}


def test_names_that_a_person_writes_into_an_empty_corpus_choose_its_model(module_db: Database) -> None:
    corpus = searched_corpus(module_db)
    module_db.execute("SELECT graphrag.create_entity(%s, %s)", ["渡辺電機", corpus])
    assert value(module_db, CHOSEN, corpus) == MODEL


EMBEDDED = """
SELECT d.source_key FROM graphrag.window_vectors v JOIN graphrag.documents d ON d.id = v.document_id
  JOIN graphrag.embedding_spaces s ON s.id = v.space_id AND s.state = 'active'
 WHERE d.corpus = %s
"""


def embedded_keys(db: Database, corpus: str) -> set[str]:
    return {key for (key,) in db.execute(EMBEDDED, [corpus])}


@pytest.fixture(scope="module")
def mixed(module_db: Database) -> str:
    """A corpus of English and Japanese with the model of English."""
    return index_all(module_db, searched_corpus(module_db, embedding={"model": "all-MiniLM-L6-v2"}), ENGLISH | PAGES)


def test_texts_and_names_in_languages_that_the_model_was_not_made_for_have_no_vectors(
    module_db: Database, mixed: str
) -> None:
    assert embedded_keys(module_db, mixed) == set(ENGLISH)
    names = module_db.execute(
        "SELECT e.name FROM graphrag.entity_vectors v JOIN graphrag.entities e ON e.id = v.entity_id"
        " JOIN graphrag.corpora c ON c.id = e.corpus_id WHERE c.name = %s",
        [mixed],
    ).fetchall()
    assert names
    assert all(name.isascii() for (name,) in names)
    assert module_db.execute("SELECT * FROM graphrag.check(%s)", [mixed]).fetchall() == []


@pytest.mark.parametrize("mode", ["naive", "bm25", "local", "hybrid", "mix", "ppr", "path", "graph_local"])
def test_no_mode_is_empty_for_a_text_without_vectors(module_db: Database, mixed: str, mode: str) -> None:
    results = search(module_db, "運用コストはどのくらい削減されたか", mixed, mode)
    assert results[0]["source_key"] == "price"
    assert results[0]["explain"]["embedding"].startswith("by words alone: all-MiniLM-L6-v2 was not made")
    if mode != "bm25":
        assert results[0]["explain"]["dense"].startswith("left out: the embedder was not made for ja")


def test_english_questions_are_answered_by_vectors_beside_texts_without(module_db: Database, mixed: str) -> None:
    results = search(module_db, "When did the vessel leave?", mixed, "naive")
    assert {row["source_key"] for row in results} == set(ENGLISH)
    assert "dense" not in results[0]["explain"]
    assert "embedding" not in results[0]["explain"]


def test_a_text_that_says_it_is_english_and_is_not_is_found_by_words(module_db: Database) -> None:
    corpus = index_all(module_db, searched_corpus(module_db, language="en"), PAGES)
    results = search(module_db, next(iter(PAGES.values())), corpus, "naive")
    assert results
    assert results[0]["explain"]["dense"].endswith("no document has words in a language that the embedder was made for")


def test_a_smaller_model_takes_the_vectors_of_other_languages_away(module_db: Database) -> None:
    corpus = index_all(module_db, searched_corpus(module_db, embedding={"model": MODEL}), ENGLISH | PAGES)
    assert embedded_keys(module_db, corpus) == {*ENGLISH, *PAGES}
    module_db.execute("SELECT graphrag.reembed(%s, %s)", [corpus, Jsonb({"model": "all-MiniLM-L6-v2"})])
    work(module_db)
    assert value(module_db, CHOSEN, corpus) == "all-MiniLM-L6-v2"
    assert embedded_keys(module_db, corpus) == set(ENGLISH)
