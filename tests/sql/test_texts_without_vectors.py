"""A text of which an endpoint has no vector holds up nothing: a dead letter says which document is without it, and heals."""

import json
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Cluster, Database
from tests.sql.embedded import DIMENSIONS, SAID, assert_embedded, embedded, vectors
from tests.sql.ingest import STORIES, corpus_id, index_all, keys, put_all, rows, search, statuses, value, work
from tests.sql.llm import provider

REPLY = json.dumps(SAID)
pytestmark = pytest.mark.usefixtures("closed_breakers")


def stumble(endpoint: Endpoint, *parts: str, kind: str = "nan", **details: Any) -> None:
    """Have no vector of texts with one of some parts."""
    endpoint.misbehave(
        kind,
        None,
        when=lambda request: any(part in text for text in request.body.get("input", ()) for part in parts),
        **details,
    )


def assert_lacking(db: psycopg.Connection[Any], corpus: str, *source_keys: str) -> None:
    """Dead letters say that these documents lack vectors, and nothing else is amiss."""
    failed = rows(db, "SELECT source_key FROM graphrag.failed_jobs WHERE corpus = %s ORDER BY 1", corpus)
    assert [key for (key,) in failed] == [*source_keys]
    assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []


def heal(db: psycopg.Connection[Any], endpoint: Endpoint, corpus: str) -> None:
    """Ask again where the endpoint has all vectors: then nothing lacks any."""
    endpoint.behave()
    db.execute("SELECT graphrag.retry_failed(%s)", [corpus])
    work(db)
    assert set(statuses(db, corpus).values()) == {"indexed"}
    assert_embedded(db, corpus)
    assert_lacking(db, corpus)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("nan", "a vector with NaN"),
        ("server_error", "failed to encode response: json: unsupported value: NaN"),
        ("server_error", "answered 500: out of memory"),
        ("server_error", "answered 424: model backend failed"),
        ("server_error", "answered 406: Not Acceptable"),
        ("server_error", "answered 451: Unavailable For Legal Reasons"),
        ("server_error", "answered 403: it does not accept the key, or not what was sent: blocked by rule 942100"),
        ("reset", "the connection to provider"),
        ("timeout", "did not answer within 1 s"),
    ],
)
def test_a_document_is_indexed_without_the_vector_of_a_text_that_has_none(
    module_db: Database, endpoint: Endpoint, kind: str, words: str
) -> None:
    corpus = embedded(module_db, provider(module_db, endpoint, timeout=1 if kind == "timeout" else 120))
    put_all(module_db, corpus, STORIES | {"bad": "Poison for the model. It was read by Ada Lovelace."})
    status = int(words.split()[1][:3]) if words.startswith("answered") else 500
    stumble(endpoint, "Poison", kind=kind, message=words.rpartition(": ")[2] if status != 500 else words, status=status)
    work(module_db)
    assert statuses(module_db, corpus) == dict.fromkeys([*STORIES, "bad"], "indexed")
    assert_lacking(module_db, corpus, "bad")
    error = value(module_db, "SELECT last_error FROM graphrag.failed_jobs WHERE corpus = %s", corpus)
    assert words in error and "Poison for the model." in error
    findings = rows(module_db, "SELECT detail FROM graphrag.health() WHERE subject = %s", f'corpus "{corpus}"')
    assert findings == [("1 documents are indexed without some vectors: the endpoint has none of these texts",)]
    assert rows(module_db, "SELECT FROM graphrag.provider_state WHERE open_until > now()") == []
    assert keys(search(module_db, "who wrote the first compiler?", corpus, "naive"))[0] == "hopper"
    assert "bad" in keys(search(module_db, "poison", corpus, "bm25"))
    heal(module_db, endpoint, corpus)


# A kept connection that breaks at once is replaced: its request counts twice.
@pytest.mark.parametrize(("kind", "times"), [("nan", 1), ("server_error", 2), ("reset", 4), ("timeout", 1)])
def test_a_query_that_has_no_vector_is_asked_for_little_and_closes_nothing(
    module_db: Database, endpoint: Endpoint, kind: str, times: int
) -> None:
    corpus = embedded(module_db, provider(module_db, endpoint, timeout=1 if kind == "timeout" else 120))
    put_all(module_db, corpus, STORIES)
    work(module_db)
    stumble(endpoint, "Poison", kind=kind)
    for number in range(6):
        with pytest.raises(psycopg.Error, match=r"vector|did not answer|answered 500|connection"):
            search(module_db, f"Poison {number}", corpus, "naive")
    sent = [text for request in endpoint.requests for text in request.body.get("input", ()) if "Poison" in text]
    assert len(sent) == 6 * times
    assert keys(search(module_db, "who wrote the first compiler?", corpus, "naive"))[0] == "hopper"


def test_where_a_model_finds_the_graph_the_dead_letter_comes_after_it(module_db: Database, endpoint: Endpoint) -> None:
    name = provider(module_db, endpoint)
    corpus = embedded(module_db, name, extractor="llm", llm={"provider": name, "model": "m"}, max_gleaning=0)
    put_all(module_db, corpus, {"bad": "Poison for Ada Lovelace, who wrote of The Engine."})
    stumble(endpoint, "Poison")
    work(module_db)
    assert statuses(module_db, corpus) == {"bad": "indexed"}
    assert rows(module_db, "SELECT kind FROM graphrag.failed_jobs WHERE corpus = %s", corpus) == [("index",)]
    assert_lacking(module_db, corpus, "bad")
    number = corpus_id(module_db, corpus)
    assert value(module_db, "SELECT count(*) > 0 FROM graphrag.entities WHERE corpus_id = %s", number)
    heal(module_db, endpoint, corpus)
    assert rows(module_db, "SELECT FROM graphrag.jobs WHERE corpus_id = %s AND document_id IS NOT NULL", number) == []


def test_another_model_is_swapped_in_without_the_vectors_that_it_does_not_give(
    module_db: Database, endpoint: Endpoint
) -> None:
    name = provider(module_db, endpoint)
    corpus = embedded(module_db, name)
    put_all(module_db, corpus, STORIES | {"bad": "Poison for the model.", "name": "Bob Jones met Toxic Smith."})
    work(module_db)
    stumble(endpoint, "Poison for the model.", "toxic smith")
    model = {"provider": name, "model": "other", "dimensions": DIMENSIONS}
    module_db.execute("SELECT graphrag.reembed(%s, %s)", [corpus, Jsonb(model)])
    work(module_db)
    states = "SELECT s.model, s.state FROM graphrag.embedding_spaces s WHERE s.corpus_id = %s AND s.state <> 'retired'"
    assert rows(module_db, states, corpus_id(module_db, corpus)) == [("other", "active")]
    assert_lacking(module_db, corpus, "bad", "name")
    # A third has all: nothing says otherwise any more.
    endpoint.behave()
    module_db.execute("SELECT graphrag.reembed(%s, %s)", [corpus, Jsonb(model | {"model": "third"})])
    work(module_db)
    assert_embedded(module_db, corpus)
    assert_lacking(module_db, corpus)


def test_a_corpus_of_whose_texts_the_endpoint_has_none_is_no_torn_restore(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = embedded(module_db, provider(module_db, endpoint))
    put_all(module_db, corpus, {"bad": "Poison for the model."})
    stumble(endpoint, "Poison for the model.")
    work(module_db)
    assert rows(module_db, "SELECT severity FROM graphrag.health() WHERE subject = %s", f'corpus "{corpus}"') == [
        ("warning",)
    ]


def test_reports_of_which_the_endpoint_has_no_vector_hold_up_no_worker(module_db: Database, endpoint: Endpoint) -> None:
    corpus = embedded(module_db, provider(module_db, endpoint), communities=True)
    put_all(module_db, corpus, STORIES)
    # A title and a summary.
    stumble(endpoint, "\n")
    work(module_db)
    number = corpus_id(module_db, corpus)
    assert value(module_db, "SELECT count(*) > 0 FROM graphrag.community_reports WHERE corpus_id = %s", number)
    assert rows(module_db, "SELECT kind, last_error FROM graphrag.jobs WHERE corpus_id = %s", number) == []


@pytest.mark.slow
def test_a_dump_has_what_says_that_a_document_is_without_vectors(
    shared_cluster: Cluster, db: Database, endpoint: Endpoint
) -> None:
    corpus = embedded(db, provider(db, endpoint))
    put_all(db, corpus, STORIES | {"bad": "Poison for the model."})
    stumble(endpoint, "Poison for the model.")
    work(db)
    put_all(db, corpus, {"late": "This waits."})
    url = shared_cluster.create_database("restored_letters", "template0")
    shared_cluster.restore("restored_letters", shared_cluster.dump(db.info.dbname))
    with Database.open(url) as restored:
        restored.execute("SELECT graphrag.repair()")
        assert_lacking(restored, corpus, "bad")
        heal(restored, endpoint, corpus)
    shared_cluster.drop_database("restored_letters")


def test_a_merge_is_undone_though_the_endpoint_has_no_vector_of_the_name(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = embedded(module_db, provider(module_db, endpoint))
    put_all(module_db, corpus, STORIES | {"met": "Bob Jones met Toxic Smith in London."})
    work(module_db)
    merge = value(module_db, "SELECT graphrag.merge_entities('{Toxic Smith}', 'Bob Jones', %s)", corpus)
    stumble(endpoint, "toxic smith")
    module_db.execute("SELECT graphrag.undo_curation(%s)", [merge])
    assert vectors(module_db, corpus)["toxic smith"] is None
    assert_lacking(module_db, corpus, "met")
    # Nor is an index anew, of what people said of it.
    module_db.execute("SELECT graphrag.create_relationship('Toxic Smith', 'Ada Lovelace', %s)", [corpus])
    module_db.execute("SELECT graphrag.reindex(%s)", [corpus])
    work(module_db)
    assert_lacking(module_db, corpus, "met")
    heal(module_db, endpoint, corpus)


def test_of_a_name_that_no_model_embeds_a_dead_letter_is_of_those_whose_alias_leads_to_it(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = embedded(module_db, provider(module_db, endpoint))
    put_all(module_db, corpus, {"first": "Bob Jones met Poison Smith in London."})
    work(module_db)
    module_db.execute("SELECT graphrag.merge_entities('{Bob Jones}', 'Poison Smith', %s)", [corpus])
    module_db.execute("DELETE FROM graphrag.documents WHERE corpus = %s", [corpus])
    work(module_db)
    stumble(endpoint, "poison smith")
    index_all(module_db, corpus, STORIES | {"alias": "Bob Jones met Ada Lovelace."})
    assert statuses(module_db, corpus) == dict.fromkeys([*STORIES, "alias"], "indexed")
    assert_lacking(module_db, corpus, "alias")
    heal(module_db, endpoint, corpus)


def test_what_only_people_made_may_be_without_a_vector(module_db: Database, endpoint: Endpoint) -> None:
    corpus = index_all(module_db, embedded(module_db, provider(module_db, endpoint)), STORIES)
    stumble(endpoint, "toxic smith")
    module_db.execute("SELECT graphrag.create_entity('Toxic Smith', %s)", [corpus])
    assert rows(module_db, "SELECT * FROM graphrag.check(%s)", corpus) == []


def test_who_waits_for_an_endpoint_that_is_gone_is_told_after_a_restore_too(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = index_all(module_db, embedded(module_db, provider(module_db, endpoint)), STORIES)
    module_db.execute(
        "DELETE FROM graphrag.window_vectors v USING graphrag.embedding_spaces s WHERE s.id = v.space_id AND s.corpus_id = %s",
        [corpus_id(module_db, corpus)],
    )
    module_db.execute("SELECT graphrag.repair()")
    endpoint.misbehave("server_error", None)
    module_db.execute("CALL graphrag.process_jobs()")
    module_db.execute("UPDATE graphrag.jobs SET created_at = created_at - '1 hour'::interval")
    # Between two attempts.
    module_db.execute("UPDATE graphrag.provider_state SET open_until = now() - '1 s'::interval")
    health = "SELECT detail FROM graphrag.health() WHERE subject = %s AND detail LIKE '%%wait for an endpoint%%'"
    ((detail,),) = rows(module_db, health, f'corpus "{corpus}"')
    assert detail.startswith("1 jobs wait for an endpoint, the first for 01:00") and detail.endswith(": ProviderFault")
    endpoint.behave()
    module_db.execute("SELECT graphrag.retry_failed(%s)", [corpus])
    work(module_db)
    assert rows(module_db, health, f'corpus "{corpus}"') == []
