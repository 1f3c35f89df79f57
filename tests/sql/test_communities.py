"""Communities in the database: found, projected, kept up to date, and made by workers after the documents."""

import json
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.sql import graph_rows
from tests.sql.ingest import STORIES, new_corpus, put, rows, value

# Rings of friends, each of eight in two halves; who is next to whom is told with weight 3.
RINGS = 4


def ring_graph(db: Database, name: str = "rings", **options: Any) -> tuple[int, list[int]]:
    """Entities of `RINGS` dense groups of eight, chained by weak relationships; returns corpus and entity ids."""
    number = value(db, "SELECT graphrag.create_corpus(%s, %s)", name, Jsonb(options))
    ids = [graph_rows.entity(db, number, f"{name} {at:02}") for at in range(8 * RINGS)]
    for ring in range(RINGS):
        for node in range(8):
            for other in range(node + 1, 8):
                weight = "3" if node // 4 == other // 4 else "1"
                graph_rows.relationship(db, number, ids[8 * ring + node], ids[8 * ring + other], weight)
        if ring:
            graph_rows.relationship(db, number, ids[8 * ring - 1], ids[8 * ring], "0.5")
    return number, ids


def refresh(db: Database, name: str) -> dict[str, Any]:
    return dict(value(db, "SELECT graphrag.refresh_communities(%s)", name))


def communities(db: Database, number: int) -> dict[int, tuple[int, int | None, frozenset[int]]]:
    """{id: (level, parent, members)}"""
    records = rows(
        db,
        "SELECT c.id, c.level, c.parent_id, array_agg(m.entity_id) FROM graphrag.communities c"
        " JOIN graphrag.community_members m ON m.community_id = c.id WHERE c.corpus_id = %s GROUP BY c.id",
        number,
    )
    return {id_: (level, parent, frozenset(members)) for id_, level, parent, members in records}


def test_refresh_finds_the_rings_and_their_halves(db: Database) -> None:
    number, ids = ring_graph(db, communities={"max_cluster_size": 5})
    done = refresh(db, "rings")
    assert (done["clustered"], done["levels"], done["created"]) == ("all", [RINGS, 2 * RINGS], 3 * RINGS)
    clusters = communities(db, number)
    tops = {members for level, _, members in clusters.values() if level == 0}
    assert tops == {frozenset(ids[8 * ring : 8 * ring + 8]) for ring in range(RINGS)}
    for level, parent, members in clusters.values():
        if level:
            assert members < clusters[parent][2]
            assert len(members) == 4
    assert rows(db, "SELECT DISTINCT c.size = 8 FROM graphrag.communities c WHERE level = 0") == [(True,)]


def test_nothing_changed_nothing_is_touched(db: Database) -> None:
    number, _ = ring_graph(db)
    refresh(db, "rings")
    db.execute("UPDATE graphrag.communities SET report_due = false")
    stamp = rows(db, "SELECT c.xmin::text, c.id FROM graphrag.communities c ORDER BY 2")
    assert refresh(db, "rings")["clustered"] == "nothing"
    assert rows(db, "SELECT c.xmin::text, c.id FROM graphrag.communities c ORDER BY 2") == stamp
    assert value(db, "SELECT count(*) FROM graphrag.communities WHERE corpus_id = %s", number) == RINGS


def test_a_new_entity_joins_one_community_and_the_others_stay(db: Database) -> None:
    number, ids = ring_graph(db)
    refresh(db, "rings")
    db.execute("UPDATE graphrag.communities SET report_due = false")
    before = communities(db, number)
    newcomer = graph_rows.entity(db, number, "newcomer")
    for friend in ids[:3]:
        graph_rows.relationship(db, number, friend, newcomer, "2")
    done = refresh(db, "rings")
    assert (done["clustered"], done["created"], done["changed"], done["removed"]) == ("part", 0, 1, 0)
    after = communities(db, number)
    assert after.keys() == before.keys()
    changed = [id_ for id_ in after if after[id_] != before[id_]]
    assert [after[id_][2] - before[id_][2] for id_ in changed] == [{newcomer}]
    assert rows(db, "SELECT id FROM graphrag.communities WHERE report_due") == [(changed[0],)]


def test_an_entity_that_goes_leaves_its_community(db: Database) -> None:
    number, ids = ring_graph(db)
    refresh(db, "rings")
    before = communities(db, number)
    db.execute("DELETE FROM graphrag.relationships WHERE low_id = %(id)s OR high_id = %(id)s", {"id": ids[0]})
    db.execute("DELETE FROM graphrag.entities WHERE id = %s", [ids[0]])
    done = refresh(db, "rings")
    after = communities(db, number)
    assert after.keys() == before.keys()
    assert ids[0] not in frozenset().union(*(members for _, _, members in after.values()))
    assert done["clustered"] == "part"
    assert rows(db, "SELECT size FROM graphrag.communities ORDER BY size") == [(7,), (8,), (8,), (8,)]


def test_other_parameters_begin_anew_and_keep_the_ids_of_what_is_the_same(db: Database) -> None:
    number, _ = ring_graph(db)
    refresh(db, "rings")
    before = communities(db, number)
    db.execute("SELECT graphrag.alter_corpus('rings', %s)", [Jsonb({"communities": {"max_cluster_size": 5}})])
    done = refresh(db, "rings")
    assert (done["clustered"], done["levels"]) == ("all", [RINGS, 2 * RINGS])
    assert before.keys() <= communities(db, number).keys()


def test_the_graph_has_vertices_and_edges_of_communities(db: Database) -> None:
    number, ids = ring_graph(db, communities={"max_cluster_size": 5})
    graph_rows.project_all(db, number)
    refresh(db, "rings")
    clusters = communities(db, number)
    members = rows(
        db,
        "SELECT (r ->> 'c')::bigint, (r ->> 'level')::int, array_agg((r ->> 'e')::bigint) FROM graphrag.cypher('rings',"
        " 'MATCH (e:Entity)-[:IN_COMMUNITY]->(c:Community) RETURN e.entity_id AS e, c.community_id AS c, c.level AS level') r"
        " GROUP BY 1, 2",
    )
    assert {(id_, level, frozenset(inside)) for id_, level, inside in members} == {
        (id_, level, inside) for id_, (level, _, inside) in clusters.items()
    }
    parents = rows(
        db,
        "SELECT (r ->> 'c')::bigint, (r ->> 'p')::bigint FROM graphrag.cypher('rings',"
        " 'MATCH (c:Community)-[:PARENT]->(p:Community) RETURN c.community_id AS c, p.community_id AS p') r",
    )
    assert set(parents) == {(id_, parent) for id_, (_, parent, _) in clusters.items() if parent is not None}
    # What changes changes there, too; what goes goes.
    db.execute("DELETE FROM graphrag.relationships")
    db.execute("DELETE FROM graphrag.entities WHERE id = %s", [ids[0]])
    graph_rows.project(db, number, entities=[ids[0]])
    refresh(db, "rings")
    for label in ("Community", "IN_COMMUNITY", "PARENT"):
        assert value(db, f'SELECT count(*) FROM graphrag_{number}."{label}"') == 0
    db.execute("SELECT graphrag.rebuild_graph('rings')")


def test_workers_find_communities_after_the_documents_and_leave_nothing_in_the_queue(db: Database) -> None:
    corpus = new_corpus(db, communities=True)
    for key, text in STORIES.items():
        put(db, corpus, key, text)
    assert value(db, "SELECT count(*) FROM graphrag.communities") == 0
    db.execute("CALL graphrag.process_jobs()")
    assert value(db, "SELECT count(*) FROM graphrag.jobs") == 0
    assert value(db, "SELECT count(*) FROM graphrag.community_overview WHERE corpus = %s AND level = 0", corpus) > 0
    orphans = (
        "SELECT count(*) FROM graphrag.relationships r"
        " WHERE NOT EXISTS (SELECT FROM graphrag.community_members m WHERE m.entity_id = r.low_id)"
    )
    assert value(db, orphans) == 0
    db.execute("DELETE FROM graphrag.documents")
    db.execute("CALL graphrag.process_jobs()")
    assert value(db, "SELECT count(*) FROM graphrag.communities") == 0


def test_a_corpus_that_says_false_has_communities_only_when_asked(db: Database) -> None:
    corpus = new_corpus(db, communities=False)
    put(db, corpus, "ada", STORIES["ada"])
    db.execute("CALL graphrag.process_jobs()")
    assert value(db, "SELECT count(*) FROM graphrag.communities") == 0
    assert refresh(db, corpus)["communities"] > 0


def kinds(db: Database, corpus: str) -> set[str]:
    statement = "SELECT j.kind FROM graphrag.jobs j JOIN graphrag.corpora c ON c.id = j.corpus_id WHERE c.name = %s"
    return {kind for (kind,) in rows(db, statement, corpus)} - {"optimize"}


@pytest.mark.slow
def test_repair_queues_communities_that_are_missing_or_stale_where_they_are_wanted(db: Database) -> None:
    corpus = new_corpus(db, communities={"max_cluster_size": 5})
    unwanted = new_corpus(db, communities={"automatic": False})
    for key, text in STORIES.items():
        put(db, corpus, key, text)
    put(db, unwanted, "ada", STORIES["ada"])
    empty = new_corpus(db, communities=True)  # nothing to find
    db.execute("CALL graphrag.process_jobs()")
    number = "SELECT count(*) FROM graphrag.community_overview WHERE corpus = %s"
    before = value(db, number, corpus)
    db.execute("SELECT graphrag.repair()")
    assert kinds(db, corpus) == set()
    # Missing, as after a restore without them.
    db.execute("DELETE FROM graphrag.communities")
    db.execute("DELETE FROM graphrag.community_states")
    db.execute("SELECT graphrag.repair()")
    assert kinds(db, corpus) == {"communities"}
    assert kinds(db, empty) == set()
    db.execute("CALL graphrag.process_jobs()")
    assert value(db, number, corpus) == before > 0 and value(db, number, unwanted) == 0
    # Stale: what a job should have done is not done, and the job is gone.
    sea = "Captain Nemo sailed the Nautilus. Captain Nemo fought the Kraken."
    db.execute("SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"communities": False})])
    put(db, corpus, "sea", sea)
    db.execute("CALL graphrag.process_jobs()")
    options = Jsonb({"communities": {"max_cluster_size": 5}})
    db.execute("UPDATE graphrag.corpora SET options = options || %s WHERE name = %s", [options, corpus])
    assert kinds(db, corpus) == set() and value(db, number, corpus) == before
    db.execute("SELECT graphrag.repair()")
    db.execute("CALL graphrag.process_jobs()")
    assert value(db, number, corpus) > before
    # A report that is due, and nobody to write it.
    db.execute("DELETE FROM graphrag.community_reports")
    db.execute("UPDATE graphrag.communities SET report_due = true")
    db.execute("SELECT graphrag.repair()")
    assert kinds(db, corpus) == {"reports"}
    db.execute("CALL graphrag.process_jobs()")
    assert value(db, "SELECT count(*) FROM graphrag.community_reports") == value(db, number, corpus)


def test_a_refresh_that_took_long_waits_in_proportion(db: Database) -> None:
    corpus = new_corpus(db, communities=True)
    put(db, corpus, "ada", STORIES["ada"])
    db.execute("CALL graphrag.process_jobs()")
    db.execute("UPDATE graphrag.community_states SET seconds = 30.5")
    put(db, corpus, "turing", STORIES["turing"])
    db.execute("CALL graphrag.process_jobs()")
    wait = "SELECT extract(epoch FROM j.next_attempt_at - s.refreshed_at)::int FROM graphrag.jobs j, graphrag.community_states s"
    assert rows(db, wait + " WHERE j.kind = 'communities'") == [(600,)]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("yes", "communities"),
        ({"max_cluster_size": 1}, "communities.max_cluster_size"),
        ({"resolution": 0}, "communities.resolution"),
        ({"seed": -1}, "communities.seed"),
        ({"automatic": "no"}, "communities.automatic"),
        ({"gamma": 1}, "gamma"),
    ],
)
def test_bad_options_are_named(module_db: Database, given: Any, named: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=named):
        new_corpus(module_db, communities=given)


def test_pruning_leaves_out_rare_names_and_hubs_and_weak_pairs(db: Database) -> None:
    number = graph_rows.corpus(db, "pruned")
    db.execute("UPDATE graphrag.corpora SET options = %s", [Jsonb({"extractor": "nlp"})])
    document = graph_rows.document(db, "pruned", "d")
    for ordinal in range(100):
        graph_rows.chunk(db, number, document, ordinal)
    names = [graph_rows.entity(db, number, f"name {at:02}", mentions=4) for at in range(40)]
    rare = graph_rows.entity(db, number, "rare")
    hub = graph_rows.entity(db, number, "hub", mentions=90)
    pairs = [
        graph_rows.relationship(db, number, names[at], names[at + 1], "1", mentions=1 + at // 2 % 4)
        for at in range(0, 40, 2)
    ]
    graph_rows.relationship(db, number, names[0], rare, "1")
    for name in names:
        graph_rows.relationship(db, number, name, hub, "1")
    db.execute(
        "UPDATE graphrag.entities e SET degree ="
        " (SELECT count(*) FROM graphrag.relationships r WHERE e.id IN (r.low_id, r.high_id))"
    )
    edges = rows(db, "SELECT relationship_id, weight FROM graphrag.clustered_relationships('pruned') ORDER BY 1")
    assert {id_ for id_, _ in edges} <= set(pairs)
    # Pairs said once are 5 of 20 … the weakest two fifths go: what is said once or twice is half of them, and ties stay together.
    counts = dict(rows(db, "SELECT id, mention_count FROM graphrag.relationships"))
    assert sorted({counts[id_] for id_, _ in edges}) == [2, 3, 4]
    edge = rows(db, "SELECT pmi FROM graphrag.graph_edges WHERE relationship_id = %s", edges[0][0])
    assert edges[0][1] == pytest.approx(edge[0][0])


def test_readers_see_communities_but_do_not_refresh_them(db: Database) -> None:
    ring_graph(db)
    refresh(db, "rings")
    db.execute("SET ROLE graphrag_reader")
    assert value(db, "SELECT count(*) FROM graphrag.community_overview") == RINGS
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        refresh(db, "rings")
    db.execute("RESET ROLE")


def test_settings_are_kept_as_given(db: Database) -> None:
    ring_graph(db, communities={"seed": 7, "resolution": 1.5})
    refresh(db, "rings")
    stored = json.loads(json.dumps(value(db, "SELECT settings FROM graphrag.community_states")))
    assert stored == {"max_cluster_size": 10, "resolution": 1.5, "seed": 7, "largest_component": False}


@pytest.mark.parametrize("weight", ["1", "0", "-1"])
def test_a_relationship_that_people_added_between_what_is_never_mentioned_together_is_clustered(
    db: Database, weight: str
) -> None:
    number, ids = ring_graph(db)
    db.execute("UPDATE graphrag.entities SET mention_count = 2")
    # Chunks enough for the graph to be pruned.
    document = graph_rows.document(db, "rings", "long")
    for ordinal in range(120):
        graph_rows.chunk(db, number, document, ordinal)
    graph_rows.relationship(db, number, ids[0], ids[-1], weight, mentions=0)
    nobody = graph_rows.entity(db, number, "never mentioned", mentions=0)
    graph_rows.relationship(db, number, ids[1], nobody, "1", mentions=0)
    clustered = {(low, high) for _, low, high, _ in rows(db, "SELECT * FROM graphrag.clustered_relationships('rings')")}
    assert ((ids[0], ids[-1]) in clustered) == (weight == "1")
    assert nobody not in {end for pair in clustered for end in pair}
    assert refresh(db, "rings")["communities"] > 0


@pytest.mark.parametrize("chunks", [19, 30])
def test_what_a_small_corpus_says_of_names_of_one_chunk_alone_is_no_community(db: Database, chunks: int) -> None:
    number = graph_rows.corpus(db, "small")
    document = graph_rows.document(db, "small", "d")
    for ordinal in range(chunks):
        graph_rows.chunk(db, number, document, ordinal)
    once, twice = (graph_rows.entity(db, number, name, mentions=count) for name, count in (("once", 1), ("twice", 2)))
    other, alone = (graph_rows.entity(db, number, name, mentions=1) for name in ("other", "alone"))
    pairs = {(once, twice), (once, other), (other, alone)}
    for low, high in pairs:
        graph_rows.relationship(db, number, low, high, "1")
    clustered = {(low, high) for _, low, high, _ in rows(db, "SELECT * FROM graphrag.clustered_relationships('small')")}
    assert clustered == (pairs if chunks < 20 else {(once, twice)})
