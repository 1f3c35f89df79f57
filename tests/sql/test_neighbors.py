"""graphrag.neighbors walks the relationships breadth first."""

from typing import Any

import psycopg
import pytest
from pg_graphrag.search.graph_view.edge_strength import strengths_of

from tests.sql.graph_rows import chunk, corpus, document, entity, mention, relationship


@pytest.fixture
def chain(db: Any) -> Any:
    """a - b - c - d, and a heavier way from a to c over x."""
    c = corpus(db)
    ids = {name: entity(db, c, name) for name in ("Ada", "Bob", "Cleo", "Dan", "Xena")}
    relationship(db, c, ids["Ada"], ids["Bob"], "1")
    relationship(db, c, ids["Cleo"], ids["Bob"], "1")
    relationship(db, c, ids["Ada"], ids["Xena"], "5", ["kin"])
    relationship(db, c, ids["Xena"], ids["Cleo"], "5")
    relationship(db, c, ids["Cleo"], ids["Dan"], "1")
    return db


def neighbors(db: Any, name: str, hops: int = 1) -> list[tuple[Any, ...]]:
    return db.execute("SELECT hop, name, path FROM graphrag.neighbors(%s, 'c', %s)", [name, hops]).fetchall()


def test_one_hop_gives_the_neighbours_strongest_first(chain: Any) -> None:
    assert neighbors(chain, "Ada") == [(1, "Xena", ["Ada", "Xena"]), (1, "Bob", ["Ada", "Bob"])]


def test_each_entity_comes_once_by_its_shortest_and_strongest_way(chain: Any) -> None:
    assert neighbors(chain, "Ada", 10) == [
        (1, "Xena", ["Ada", "Xena"]),
        (1, "Bob", ["Ada", "Bob"]),
        (2, "Cleo", ["Ada", "Xena", "Cleo"]),
        (3, "Dan", ["Ada", "Xena", "Cleo", "Dan"]),
    ]


def test_the_relationship_that_led_there_is_given(chain: Any) -> None:
    row = chain.execute("SELECT relationship, keywords, weight FROM graphrag.neighbors('Ada', 'c') LIMIT 1").fetchone()
    assert row == ("they meet", ["kin"], 5)


@pytest.mark.parametrize("spelling", ["ADA", "  ada ", '"Ada"', "Ａｄａ"])
def test_the_entity_is_found_whatever_the_spelling(chain: Any, spelling: str) -> None:
    assert len(neighbors(chain, spelling)) == 2


@pytest.mark.parametrize("name", ["nobody", "", None])
def test_an_unknown_entity_has_no_neighbours(chain: Any, name: str) -> None:
    assert neighbors(chain, name) == []


@pytest.mark.parametrize("hops", [0, -1, 11, None])
def test_hops_out_of_range_are_refused(chain: Any, hops: int) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
        neighbors(chain, "Ada", hops)
    assert caught.value.diag.message_hint


def test_a_breadth_first_search_in_python_finds_the_same(db: Any) -> None:
    c = corpus(db)
    ids = [entity(db, c, f"n{i}") for i in range(30)]
    edges = {(i, (i * i + 7) % 30) for i in range(30)} | {(i, (3 * i + 1) % 30) for i in range(0, 30, 2)}
    pairs = {(min(a, b), max(a, b)) for a, b in edges if a != b}
    for a, b in pairs:
        relationship(db, c, ids[a], ids[b])
    distance = {0: 0}
    frontier = [0]
    while frontier:
        frontier = sorted(
            {b if a == node else a for node in frontier for a, b in pairs if node in (a, b)} - distance.keys()
        )
        distance |= {node: 1 + max(distance.values()) for node in frontier}
    result = {name: hop for hop, name, _ in neighbors(db, "n0", 10)}
    assert result == {f"n{node}": hop for node, hop in distance.items() if 1 <= hop <= 10}


def test_a_reader_may_use_it(chain: Any) -> None:
    with chain.transaction():
        chain.execute("SET LOCAL ROLE graphrag_reader")
        assert len(neighbors(chain, "Ada")) == 2


def test_weight_and_pmi_together_say_which_relationship_is_strong(db: Any) -> None:
    c = corpus(db)
    documents = [document(db, "c", f"d{number}") for number in range(8)]
    chunks = [chunk(db, c, number) for number in documents]
    # Everybody meets the mayor, in six of eight chunks; Ada and Bob meet in the one that has both. Zed is two steps away.
    where = {"Ada": range(4), "Bob": range(1), "Mayor": range(6), "Zed": range(7, 8)}
    ids = {name: entity(db, c, name, mentions=len(places)) for name, places in where.items()}
    for name, places in where.items():
        for place in places:
            mention(db, c, documents[place], chunks[place], ids[name])
    # weight · log2(n_xy N / n_x n_y): Ada – Mayor 9 · log2(24/24) = 0, Ada – Bob log2(8/4) = 1.
    for source, target, weight, places in (
        ("Ada", "Mayor", "9", range(3)),
        ("Ada", "Bob", "1", range(1)),
        ("Bob", "Zed", "1", range(7, 8)),
        ("Mayor", "Zed", "2", range(7, 8)),
    ):
        number = relationship(db, c, ids[source], ids[target], weight)
        db.execute("UPDATE graphrag.relationships SET mention_count = %s WHERE id = %s", [len(places), number])
        for place in places:
            db.execute(
                """INSERT INTO graphrag.relationship_mentions
                       (corpus_id, document_id, chunk_id, relationship_id, source_key, target_key, description, forward, weight)
                   VALUES (%s, %s, %s, %s, '', '', 'they meet', true, %s)""",
                [c, documents[place], chunks[place], number, int(weight) // len(places)],
            )
    expected = [(1, "Bob", ["Ada", "Bob"]), (1, "Mayor", ["Ada", "Mayor"]), (2, "Zed", ["Ada", "Bob", "Zed"])]
    assert neighbors(db, "Ada", 2) == expected
    # The graph that all documents make, read as that of a part.
    part = "SELECT hop, name, path FROM graphrag.neighbors('Ada', '{\"$not\": {\"no\": 1}}', 2, 'c')"
    assert db.execute(part).fetchall() == expected
    lines = db.execute("SELECT graphrag.to_mermaid('Ada', 'c', 1)").fetchone()[0].splitlines()
    bob, mayor = (
        next(i for i, line in enumerate(lines) if line.strip().endswith(f"n{ids[x]}")) for x in ("Bob", "Mayor")
    )
    assert bob < mayor
    strongest = "SELECT target, strength FROM graphrag.graph_edges WHERE source = 'Ada' ORDER BY strength DESC"
    assert db.execute(strongest).fetchall() == [("Bob", 1.0), ("Mayor", 0.0)]


def test_sql_and_numpy_say_the_same_strength(db: Any) -> None:
    cases = [
        (weight, both, source, target, chunks)
        for weight in (0.5, 1.0, 7.25, 12345.0)
        for both in (0, 1, 3, 40)
        for source in (0, 3, 47)
        for target in (0, 5, 1000)
        for chunks in (0, 7, 1001, 100_000)
    ]
    sql = "SELECT graphrag._strength(%s, %s, %s, %s, %s)"
    assert [db.execute(sql, [*case]).fetchone()[0] for case in cases] == [float(strengths_of(*case)) for case in cases]
