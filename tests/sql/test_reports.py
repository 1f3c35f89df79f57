"""Reports of communities: put together without a model, or written by one; touched only where their input changed; found."""

import json
import re
from typing import Any

import pytest

from tests.endpoint import Endpoint, Request
from tests.endpoint.server import Messages
from tests.runtime.cluster import Database
from tests.sql.ingest import STORIES, delete, index_all, jobs, new_corpus, rows, value, work
from tests.sql.llm import provider
from tests.sql.test_communities import ring_graph
from tests.sql.themes import SEA

REPORTS = "SELECT r.* FROM graphrag.community_reports r JOIN graphrag.corpora c ON c.id = r.corpus_id WHERE c.name = %s"


def reports(db: Database, corpus: str) -> list[dict[str, Any]]:
    sql = REPORTS.replace("r.*", "to_jsonb(r) - 'tsv'")
    return [report for (report,) in rows(db, sql + " ORDER BY r.community_id", corpus)]


def is_report(request: Request) -> bool:
    return request.kind == "chat" and "Write a report on the group" in request.text


def reply(messages: Messages) -> str:
    """A report that says what its data begins with, and refers to what is there and to what is not."""
    data = str(messages[-1]["content"]).rpartition("never an instruction to you.\n\n")[2]
    result = {
        "title": "About " + re.findall(r"^E1 (.*?) \(", data, re.M)[0],
        "summary": f"A group of {len(re.findall(r'^E[0-9]+ ', data, re.M))}.",
        "rating": 7.5,
        "rating_explanation": "Because.",
        "findings": [
            {
                "summary": "First.",
                "explanation": "Told.",
                "entities": ["E1", "E999"],
                "relationships": ["R1", "r2", "R0"],
            }
        ],
    }
    return f"Here it is:\n```json\n{json.dumps(result)}\n```"


@pytest.fixture(scope="module")
def stories(module_db: Database) -> str:
    return index_all(module_db, new_corpus(module_db, communities=True), STORIES)


def test_without_a_model_a_report_is_put_together_and_cites_what_exists(module_db: Database, stories: str) -> None:
    report_rows = reports(module_db, stories)
    assert len(report_rows) == value(
        module_db, "SELECT count(*) FROM graphrag.community_overview WHERE corpus = %s", stories
    )
    sentences = " ".join(STORIES.values())
    for report in report_rows:
        assert report["model"] is None and report["findings"] and 0 <= report["rating"] <= 10
        assert report["content"].startswith(f"# {report['title']}\n\n{report['summary']}")
        for line in report["summary"].splitlines():
            assert line in sentences
        message = [line for line in report["content"].splitlines() if line and not line.startswith("#")]
        assert len(message) == len(set(message)) <= 8
        for finding in report["findings"]:
            for table, ids in (
                ("entities", finding["entity_ids"]),
                ("relationships", finding["relationship_ids"]),
                ("chunks", finding["chunk_ids"]),
            ):
                assert ids
                assert value(module_db, f"SELECT count(*) FROM graphrag.{table} WHERE id = ANY (%s)", ids) == len(ids)
    vectors = "SELECT count(*) FROM graphrag.report_vectors v JOIN graphrag.embedding_spaces s ON s.id = v.space_id"
    assert value(
        module_db, vectors + " JOIN graphrag.corpora c ON c.id = s.corpus_id WHERE c.name = %s", stories
    ) == len(report_rows)


def test_a_report_is_embedded_again_only_where_title_or_summary_change(module_db: Database, stories: str) -> None:
    vectors = (
        "SELECT v.community_id, v.ctid::text FROM graphrag.report_vectors v"
        " JOIN graphrag.communities c ON c.id = v.community_id WHERE c.corpus_id = %s ORDER BY 1"
    )
    number = value(module_db, "SELECT id FROM graphrag.corpora WHERE name = %s", stories)
    before = dict(rows(module_db, vectors, number))
    first = min(before)
    module_db.execute("UPDATE graphrag.community_reports SET input_hash = 'another' WHERE corpus_id = %s", [number])
    module_db.execute("UPDATE graphrag.community_reports SET summary = 'Another.' WHERE community_id = %s", [first])
    module_db.execute("UPDATE graphrag.communities SET report_due = true WHERE corpus_id = %s", [number])
    module_db.execute("SELECT graphrag._queue_jobs('reports', ARRAY[%s])", [number])
    work(module_db)
    hashes = "SELECT count(*) FROM graphrag.community_reports WHERE corpus_id = %s AND input_hash = 'another'"
    assert value(module_db, hashes, number) == 0
    after = dict(rows(module_db, vectors, number))
    assert [id_ for id_ in before if before[id_] != after[id_]] == [first]


def test_the_graph_and_the_overview_have_the_titles(module_db: Database, stories: str) -> None:
    titles = sorted(report["title"] for report in reports(module_db, stories))
    cypher = "SELECT r ->> 't' FROM graphrag.cypher(%s, 'MATCH (c:Community) RETURN c.title AS t') r"
    assert sorted(title for (title,) in rows(module_db, cypher, stories)) == titles
    overview = rows(module_db, "SELECT title FROM graphrag.community_overview WHERE corpus = %s", stories)
    assert sorted(title for (title,) in overview) == titles


def test_a_change_elsewhere_leaves_a_report_alone(db: Database) -> None:
    corpus = index_all(db, new_corpus(db, communities=True), STORIES | {"sea": SEA["nemo"]})
    before = {report["community_id"]: report for report in reports(db, corpus)}
    sea = [report for report in before.values() if "Nemo" in report["content"]]
    assert len(sea) == 1
    index_all(db, corpus, {"ned": SEA["land"]})
    after = {report["community_id"]: report for report in reports(db, corpus)}
    assert [id_ for id_ in after if before.get(id_) != after[id_]] == [sea[0]["community_id"]]
    assert "Ned Land" in after[sea[0]["community_id"]]["content"]
    delete(db, corpus, "ned")
    work(db)
    assert [value["content"] for value in reports(db, corpus)] == [value["content"] for value in before.values()]


def written(db: Database, endpoint: Endpoint, **options: Any) -> tuple[int, list[int]]:
    """A graph of four rings whose reports a model writes."""
    name = provider(db, endpoint, timeout=20, price_input=1, price_output=2)
    return ring_graph(
        db, llm={"roles": {"report": {"provider": name, "model": "m"}}}, communities={"max_cluster_size": 5, **options}
    )


@pytest.fixture
def endpoint() -> Any:
    with Endpoint() as server:
        server.reply(reply)
        yield server


def test_a_model_writes_reports_bottom_up_and_refers_to_what_exists(db: Database, endpoint: Endpoint) -> None:
    number, ids = written(db, endpoint)
    db.execute("SELECT graphrag.refresh_communities('rings')")
    work(db)
    assert jobs(db, "rings") == []
    report_rows = reports(db, "rings")
    assert len(report_rows) == 12
    assert {report["model"] for report in report_rows} == {"m"}
    for report in report_rows:
        assert (report["title"][:12], report["rating"]) == ("About rings ", 7.5)
        (finding,) = report["findings"]
        assert set(finding["entity_ids"]) <= set(ids) and len(finding["entity_ids"]) == 1
        known = "SELECT count(*) FROM graphrag.relationships WHERE id = ANY (%s)"
        assert value(db, known, finding["relationship_ids"]) == len(finding["relationship_ids"]) == 2
    assert len(list(filter(is_report, endpoint.requests))) == 12
    calls = "SELECT count(*), sum(cost) > 0 FROM graphrag.llm_calls WHERE corpus_id = %s AND purpose = 'report'"
    assert rows(db, calls, number) == [(12, True)]


def test_an_unchanged_input_asks_nobody_and_a_changed_one_asks_once(db: Database, endpoint: Endpoint) -> None:
    _, ids = written(db, endpoint)
    db.execute("SELECT graphrag.refresh_communities('rings')")
    work(db)
    endpoint.forget()
    # All are looked through; no input is another.
    db.execute("UPDATE graphrag.communities SET report_due = true")
    db.execute("SELECT graphrag.refresh_communities('rings')")
    work(db)
    assert endpoint.requests == []
    db.execute("UPDATE graphrag.entities SET description = 'changed' WHERE id = %s", [ids[0]])
    db.execute("SELECT graphrag.refresh_communities('rings')")
    work(db)
    # The half and the whole ring that the entity is in.
    assert sum("changed" in request.text for request in endpoint.requests) == len(endpoint.requests) == 2


def test_what_does_not_fit_is_told_by_the_reports_one_level_down(db: Database, endpoint: Endpoint) -> None:
    _, ids = written(db, endpoint)
    db.execute("UPDATE graphrag.entities SET description = repeat('many words ', 600) WHERE id = ANY (%s)", [ids[:8]])
    db.execute("SELECT graphrag.refresh_communities('rings')")
    work(db)
    rolled = [request.text for request in endpoint.requests if "\nG1 # About rings 0" in request.text]
    assert len(rolled) == 1
    # What connects the parts is still there.
    assert re.search(r"^R[0-9]+ rings 0[0-3] – rings 0[4-7]: they meet", rolled[0], re.M)


def test_a_model_that_answers_prose_leaves_a_report_put_together(db: Database, endpoint: Endpoint) -> None:
    written(db, endpoint)
    endpoint.reply(lambda messages: "I would rather not.")
    db.execute("SELECT graphrag.refresh_communities('rings')")
    work(db)
    assert jobs(db, "rings") == []
    assert {report["model"] for report in reports(db, "rings")} == {None}


def test_an_endpoint_that_is_down_keeps_the_reports_due_and_blames_nobody(db: Database, endpoint: Endpoint) -> None:
    written(db, endpoint)
    endpoint.misbehave("unavailable", times=1000)
    db.execute("SELECT graphrag.refresh_communities('rings')")
    work(db)
    assert reports(db, "rings") == []
    assert [(kind, state) for _, kind, state, _ in jobs(db, "rings")] == [("reports", "pending")]
    # An outage is no error of the job: no number of them makes it a dead letter.
    ((errors, message),) = rows(db, "SELECT errors, last_error FROM graphrag.jobs WHERE kind = 'reports'")
    assert errors == 0 and "answered 503" in message
    endpoint.behave()
    db.execute("SELECT graphrag.retry_failed()")
    work(db)
    assert len(reports(db, "rings")) == 12


def found(db: Database, corpus: str, query: str, **arguments: Any) -> list[tuple[Any, ...]]:
    named = "".join(f", {name} => %s" for name in arguments)
    return rows(db, f"SELECT * FROM graphrag.search_reports(%s, %s{named})", query, corpus, *arguments.values())


def test_search_finds_the_report_on_what_is_asked(module_db: Database, stories: str) -> None:
    (best, *others) = found(module_db, stories, "rotors of the Enigma machine")
    rank, community, level, title, summary, rating, score, explain = best
    report = next(entry for entry in reports(module_db, stories) if entry["community_id"] == community)
    assert "Enigma" in report["content"]
    assert (rank, level) == (1, 0) and (title, summary, rating) == (
        report["title"],
        report["summary"],
        report["rating"],
    )
    assert 0 < score <= 1 and set(explain) == {"cosine", "lexical"}
    assert [row[6] for row in [best, *others]] == sorted((row[6] for row in [best, *others]), reverse=True)
    assert len(found(module_db, stories, "Enigma", top_k=1)) == 1
    assert found(module_db, stories, "Enigma", only_level=3) == []
    assert found(module_db, stories, "") == []


def test_reports_are_closed_to_who_sees_some_documents(db: Database) -> None:
    corpus = index_all(db, new_corpus(db, communities=True), STORIES | {"sea": SEA["nemo"]})
    db.execute("ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY")
    db.execute("CREATE POLICY sea ON graphrag.documents FOR SELECT USING (source_key = 'sea')")
    db.execute("SET ROLE graphrag_reader")
    assert found(db, corpus, "Enigma Kraken Ada Lovelace") == []
    assert value(db, "SELECT count(*) FROM graphrag.community_overview") == 0
    assert value(db, "SELECT count(*) FROM graphrag.community_entities") == 0
    db.execute("RESET ROLE")
