"""graphrag.check() names every damage, and nothing where there is none."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.asking import warnings
from tests.sql.ingest import STORIES, delete, index_all, long_text, new_corpus, put, refused, rows, value, work
from tests.sql.llm import provider

LABELS = ("Entity", "Chunk", "Document", "RELATED", "MENTIONED_IN", "PART_OF")


def violated(db: Any, corpus: str) -> list[tuple[str, str, str]]:
    return rows(db, "SELECT * FROM graphrag.check(%s)", corpus)


def extraction(messages: Sequence[dict[str, Any]]) -> str:
    text = "\n".join(str(message["content"]) for message in messages)
    names = [name for name in ("Ada Lovelace", "Charles Babbage", "Alan Turing", "London") if name in text]
    entities = [{"name": name, "type": "person", "description": f"{name}, {len(text)}."} for name in names]
    relationships = [
        {"source": names[0], "target": name, "keywords": ["knew"], "description": f"They met {name}.", "strength": 2}
        for name in names[1:]
    ]
    claims = [{"subject": name, "type": "fact", "status": "TRUE", "description": "So it was."} for name in names[:1]]
    return json.dumps({"entities": entities, "relationships": relationships, "claims": claims})


def with_all_a_model_finds(db: Database, endpoint: Endpoint, **options: Any) -> str:
    """Return a corpus with everything: packed and unpacked items, a tombstone, described mentions, claims."""
    endpoint.reply(extraction)
    model = {"provider": provider(db, endpoint), "model": "model-1"}
    name = new_corpus(db, extractor="llm", claims=True, max_gleaning=0, llm={"roles": {"extract": model}}, **options)
    for key in ("ada", "babbage", "turing"):
        put(db, name, key, STORIES[key], title=f"About {key}")
    work(db)
    db.execute("SELECT graphrag.optimize(%s)", [name])
    for key in ("hopper", "enigma"):
        put(db, name, key, STORIES[key])
    delete(db, name, "turing")
    work(db)
    return name


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> Iterator[str]:
    with Endpoint() as endpoint:
        yield with_all_a_model_finds(module_db, endpoint)


def test_a_healthy_corpus_breaks_nothing(module_db: Database, corpus: str) -> None:
    assert value(module_db, "SELECT count(*) FROM graphrag.bm25_tombstones") > 0
    assert value(module_db, "SELECT count(*) FROM graphrag.claims") > 0
    assert violated(module_db, corpus) == []


@pytest.mark.parametrize(
    "place", ["1", "pg_catalog.char_length(content)"], ids=["shared with the one before", "its own"]
)
def test_a_chunk_of_a_long_document_is_compared_letter_by_letter(module_db: Database, place: str) -> None:
    name = index_all(module_db, new_corpus(module_db, chunk_token_size=60, chunk_overlap=15), {"travels": long_text()})
    assert violated(module_db, name) == []
    module_db.execute(
        f"UPDATE graphrag.chunks SET content = overlay(content PLACING '_' FROM {place} FOR 1)"
        "  WHERE ordinal = 7 AND own_offset > start_offset"
        "    AND corpus_id = (SELECT c.id FROM graphrag.corpora c WHERE c.name = %s)",
        [name],
    )
    assert ("the chunks of a document are the document", "a chunk has other text than the document") in {
        (invariant, detail) for invariant, _, detail in violated(module_db, name)
    }


def test_concepts_break_nothing(module_db: Database) -> None:
    name = new_corpus(module_db)
    for key, content in STORIES.items():
        put(module_db, name, key, content, title=key)
    index_all(module_db, name, {"blank": " \u3000\x1c\n"})
    assert violated(module_db, name) == []


def test_chunks_in_which_no_concept_was_found_break_nothing(module_db: Database, corpus: str) -> None:
    with module_db.transaction(force_rollback=True):
        module_db.execute(
            "UPDATE graphrag.chunks SET concepts = ''"
            " WHERE corpus_id = (SELECT c.id FROM graphrag.corpora c WHERE c.name = %s)",
            [corpus],
        )
        assert violated(module_db, corpus) == []


def test_waiting_work_breaks_nothing(module_db: Database, corpus: str) -> None:
    with module_db.transaction(force_rollback=True):
        delete(module_db, corpus, "ada")
        put(module_db, corpus, "babbage", "Something else.")
        put(module_db, corpus, "new", "Something new.")
        module_db.execute("UPDATE graphrag.documents SET source_key = 'renamed' WHERE source_key = 'hopper'")
        assert violated(module_db, corpus) == []


# Damage, and the invariant that names it. :c stands for the corpus' number.
DAMAGES = {
    "UPDATE graphrag.documents SET indexed_hash = 'x', indexed_at = now() WHERE source_key = 'ada'": "a document is indexed",
    "DELETE FROM graphrag.jobs; UPDATE graphrag.documents SET indexed_at = NULL; DELETE FROM graphrag.jobs": "what is due",
    "INSERT INTO graphrag.jobs (corpus_id, kind, document_id) SELECT :c, 'remove', min(id) FROM graphrag.documents"
    " WHERE corpus_id = :c": "what is due",
    "INSERT INTO graphrag.jobs (corpus_id, kind, document_id) VALUES (:c, 'index', 999999)": "what is due",
    "DELETE FROM graphrag.documents WHERE source_key = 'ada'; DELETE FROM graphrag.jobs": "a chunk has its document",
    "UPDATE graphrag.chunks SET content = content || '.' WHERE corpus_id = :c": "the chunks of a document",
    "UPDATE graphrag.chunks SET end_offset = end_offset - 1 WHERE corpus_id = :c": "the chunks of a document",
    "UPDATE graphrag.chunks SET ordinal = ordinal + 1 WHERE corpus_id = :c": "the chunks of a document",
    "UPDATE graphrag.chunk_windows SET start_offset = start_offset + 1 WHERE corpus_id = :c": "windows partition",
    "DELETE FROM graphrag.chunk_windows WHERE corpus_id = :c": "windows partition",
    "UPDATE graphrag.entity_mentions SET document_id = 999999 WHERE corpus_id = :c": "what refers to a chunk",
    "UPDATE graphrag.claims SET document_id = 999999 WHERE corpus_id = :c": "what refers to a chunk",
    "UPDATE graphrag.entities SET mention_count = mention_count + 1 WHERE corpus_id = :c": "entities and relationships",
    "UPDATE graphrag.relationships SET weight = weight + .1 WHERE corpus_id = :c": "entities and relationships",
    "INSERT INTO graphrag.entities (corpus_id, key, name, type) VALUES (:c, 'x', 'x', 'x')": "entities and relationships",
    "UPDATE graphrag.entity_mentions SET raw_key = raw_key || 'x' WHERE corpus_id = :c": "a mention has the key",
    "UPDATE graphrag.relationship_mentions SET forward = NOT forward WHERE corpus_id = :c": "a mention has the key",
    "UPDATE graphrag.entity_values SET count = count + 1": "spellings, types, keywords",
    "UPDATE graphrag.entity_values SET count = count + 1 WHERE kind = 'd'": "spellings, types, keywords",
    "DELETE FROM graphrag.relationship_values WHERE kind = 'k'": "spellings, types, keywords",
    "UPDATE graphrag.relationship_mentions SET description = 'x' WHERE corpus_id = :c": "spellings, types, keywords",
    "UPDATE graphrag.entities SET name = 'x' WHERE corpus_id = :c": "name and type",
    "UPDATE graphrag.entities SET type = 'x' WHERE corpus_id = :c": "name and type",
    "UPDATE graphrag.entities SET degree = degree + 1 WHERE corpus_id = :c": "degree is",
    "UPDATE graphrag.relationships SET source_id = target_id, target_id = source_id": "a relationship is shown",
    "UPDATE graphrag.relationships SET keywords = '{x}' WHERE corpus_id = :c": "a relationship is shown",
    "UPDATE graphrag.entities SET description = 'x' WHERE corpus_id = :c": "the description of each entity",
    "UPDATE graphrag.entities SET summary_of = 'x' WHERE corpus_id = :c": "the description of each entity",
    "UPDATE graphrag.relationships SET description = 'x' WHERE corpus_id = :c": "the description of each relationship",
    "SELECT graphrag.refresh_communities(c.name) FROM graphrag.corpora c WHERE c.id = :c;"
    " DELETE FROM graphrag.communities": "communities that were found",
    "SELECT graphrag.refresh_communities(c.name) FROM graphrag.corpora c WHERE c.id = :c;"
    " UPDATE graphrag.community_states SET community_count = NULL;"
    " DELETE FROM graphrag.communities": "communities that were found",
    "SELECT graphrag.refresh_communities(c.name) FROM graphrag.corpora c WHERE c.id = :c;"
    " DELETE FROM graphrag.communities WHERE id = (SELECT max(id) FROM graphrag.communities)": "communities that were found",
    "UPDATE graphrag.chunks SET language = 'de' WHERE corpus_id = :c": "language and tokens",
    "UPDATE graphrag.chunks SET token_count = token_count + 1 WHERE corpus_id = :c": "language and tokens",
    "UPDATE graphrag.chunks SET concepts = '\\x00000000000000020000000000000001' WHERE corpus_id = :c": "the concepts",
    "UPDATE graphrag.chunks SET concepts = decode(repeat('0000000000000001', 4), 'hex') WHERE corpus_id = :c": "the concepts",
    """UPDATE graphrag.corpora SET options = '{"language": 5}' WHERE id = :c""": "options of a corpus",
    """UPDATE graphrag.corpora SET options = options || '{"cypher": "x"}' WHERE id = :c""": "options of a corpus",
    "UPDATE graphrag.corpora SET tokenizer = 'nowhere' WHERE id = :c": "language and tokens",
    "UPDATE graphrag.corpora SET tokenizer = '../x' WHERE id = :c": "language and tokens",
    "UPDATE graphrag.corpora SET tokenizer_fingerprint = 'x' WHERE id = :c": "language and tokens",
    "DELETE FROM graphrag.corpus_revisions": "a corpus with chunks has a revision",
    "DELETE FROM graphrag._document_counts": "progress counts",
    "UPDATE graphrag._index_counts SET count = count + 1": "progress counts",
    "ALTER SEQUENCE graphrag.chunks_id_seq RESTART": "sequences are beyond",
    "DELETE FROM graphrag.window_vectors": "everything that is searched",
    "DELETE FROM graphrag.entity_vectors": "everything that is searched",
    "DELETE FROM graphrag.entity_mention_vectors": "everything that is searched",
    "DELETE FROM graphrag.relationship_mention_vectors": "everything that is searched",
    "UPDATE graphrag.window_vectors SET chunk_id = 0": "every vector is of something",
    "UPDATE graphrag.entity_vectors SET entity_id = entity_id + 1000000": "every vector is of something",
    "INSERT INTO graphrag.window_vectors SELECT * FROM graphrag.window_vectors": "every vector is of something",
    "DELETE FROM graphrag.bm25_tail WHERE kind = 'chunk'": "BM25 holds each item once",
    "DELETE FROM graphrag.bm25_tombstones": "BM25 holds each item once",
    "UPDATE graphrag.bm25_tail SET length = length + 1": "BM25 holds each item once",
    "UPDATE graphrag.bm25_segments SET total_length = 0": "BM25 holds each item once",
    "INSERT INTO graphrag.bm25_tombstones SELECT corpus_id, 'chunk', id FROM graphrag.chunks": "BM25 holds each item once",
    "UPDATE graphrag.bm25_tail SET terms[1] = 'zzz'": "BM25 holds the terms",
    "DELETE FROM graphrag.bm25_postings WHERE term = 'london'": "BM25 holds the terms",
    "UPDATE graphrag.bm25_postings SET frequencies = set_byte(frequencies, 0, 9)": "BM25 holds the terms",
    "UPDATE graphrag.bm25_postings SET df = df + 1": "BM25 counts the items",
}
DAMAGES |= {f'DELETE FROM graphrag_:c."{label}"': "the graph is" for label in LABELS}
DAMAGES |= {
    f"""UPDATE graphrag_:c."{label}" SET properties = '{{"x": 1}}'""": "the graph is"
    for label in LABELS
    if label != "PART_OF"
}
DAMAGES |= {
    f'UPDATE graphrag_:c."{label}" SET start_id = end_id, end_id = start_id': "the graph is"
    for label in ("RELATED", "MENTIONED_IN", "PART_OF")
}
DAMAGES["SELECT ag_catalog.drop_label('graphrag_:c', 'RELATED')"] = "the corpus has its graph"
DAMAGES["UPDATE ag_catalog.ag_label SET id = 99 WHERE name = 'Chunk'"] = "the corpus has its graph"


@pytest.mark.sample(26)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named(module_db: Database, corpus: str, damage: str) -> None:
    number = value(module_db, "SELECT id FROM graphrag.corpora WHERE name = %s", corpus)
    with module_db.transaction(force_rollback=True):
        # As another program would: past our triggers, which would mend some of it.
        module_db.execute(
            "ALTER TABLE graphrag.documents DISABLE TRIGGER USER"
            if "documents SET indexed_hash" in damage
            else "SELECT 1"
        )
        module_db.execute(damage.replace(":c", str(number)).encode())
        violations = violated(module_db, corpus)
    wanted = DAMAGES[damage]
    assert [invariant for invariant, _, _ in violations if invariant.startswith(wanted)], violations


def test_rebuild_graph_mends_a_damaged_projection(module_db: Database, corpus: str) -> None:
    number = value(module_db, "SELECT id FROM graphrag.corpora WHERE name = %s", corpus)
    before = value(module_db, "SELECT graphrag.fingerprint(%s)", corpus)
    for statement in (
        'DELETE FROM graphrag_:c."Chunk"',
        """UPDATE graphrag_:c."RELATED" SET properties = '{}'""",
        """UPDATE graphrag_:c."Entity" SET properties = '{"key": "x"}' WHERE id::text LIKE '%1'""",
        'DELETE FROM graphrag_:c."PART_OF"',
    ):
        module_db.execute(statement.replace(":c", str(number)).encode())
    violations = violated(module_db, corpus)
    assert {invariant for invariant, _, _ in violations} == {"the graph is what the tables are"}
    assert all("graphrag.rebuild_graph()" in detail for _, _, detail in violations)
    assert value(module_db, "SELECT graphrag.fingerprint(%s)", corpus) != before
    module_db.execute("SELECT graphrag.rebuild_graph(%s)", [corpus])
    assert violated(module_db, corpus) == []
    assert value(module_db, "SELECT graphrag.fingerprint(%s)", corpus) == before


@pytest.mark.slow
def test_rebuild_graph_mends_whatever_check_names_of_the_graph(module_db: Database, corpus: str) -> None:
    number = value(module_db, "SELECT id FROM graphrag.corpora WHERE name = %s", corpus)
    before = value(module_db, "SELECT graphrag.fingerprint(%s)", corpus)
    for damage, wanted in DAMAGES.items():
        if not wanted.startswith(("the graph is", "the corpus has its graph")):
            continue
        module_db.execute(damage.replace(":c", str(number)).encode())
        assert {check for check, _, _ in violated(module_db, corpus)} & {wanted, f"{wanted} what the tables are"}, (
            damage
        )
        module_db.execute("SELECT graphrag.rebuild_graph(%s)", [corpus])
        assert violated(module_db, corpus) == [], damage
    assert value(module_db, "SELECT graphrag.fingerprint(%s)", corpus) == before


def test_many_violations_are_cut_short(module_db: Database, corpus: str) -> None:
    with module_db.transaction(force_rollback=True):
        module_db.execute(
            "INSERT INTO graphrag.entities (corpus_id, key, name, type)"
            " SELECT c.id, 'x' || n, 'x', 'x' FROM graphrag.corpora c, generate_series(1, 150) n WHERE c.name = %s",
            [corpus],
        )
        violations = [row for row in violated(module_db, corpus) if row[0].startswith("entities and relationships")]
    assert len(violations) == 101
    assert violations[-1][1:] == ("…", "there are more than these 100")


def test_they_are_the_owners(module_db: Database, corpus: str) -> None:
    with module_db.transaction(force_rollback=True):
        module_db.execute("SET LOCAL ROLE graphrag_reader")
        assert refused(module_db, "SELECT graphrag.check(%s)", corpus).sqlstate == "42501"


CURATIONS = {
    "create": "SELECT graphrag.create_entity('Nobody', :c, 'ghost', 'Was never there.')",
    "fragment": 'SELECT graphrag.insert_graph(:c, \'{"entities": [{"name": "Ada Lovelace", "description": "Counted."}],'
    ' "relationships": [{"source": "Nobody", "target": "London", "keywords": ["saw"], "weight": 2.5},'
    ' {"source": "London", "target": "Ada Lovelace", "description": "Home."}]}\')',
    "merge": "SELECT graphrag.merge_entities(ARRAY['Charles Babbage'], 'Ada Lovelace', :c)",
    "edit": "SELECT graphrag.edit_entity('Ada Lovelace', :c, 'countess', 'Edited.')",
    "weigh": "SELECT graphrag.edit_relationship('Ada Lovelace', 'London', :c, ARRAY['edited'], 'Edited.', 7)",
    "rename": "SELECT graphrag.rename_entity('Ada Lovelace', 'Augusta King', :c)",
    "part": "SELECT graphrag.delete_relationship('Augusta King', 'London', :c)",
    "delete": "SELECT graphrag.delete_entity('Nobody', :c)",
}


@pytest.mark.slow
def test_curations_break_nothing_and_leave_no_trace_when_undone(module_db: Database, corpus: str) -> None:
    before = value(module_db, "SELECT graphrag.fingerprint(%s)", corpus)
    name = "'" + corpus + "'"
    ids = []
    for what, statement in CURATIONS.items():
        ids.append(value(module_db, statement.replace(":c", name)))
        assert violated(module_db, corpus) == [], what
        assert value(module_db, "SELECT graphrag.fingerprint(%s)", corpus) != before, what
    with module_db.transaction(force_rollback=True):
        module_db.execute("UPDATE graphrag.aliases SET entity_key = 'london' WHERE key = 'charles babbage'")
        assert "a mention has the key of what it mentions, or an alias of it" in {
            check for check, _, _ in violated(module_db, corpus)
        }
    for number in ids:
        module_db.execute("SELECT graphrag.undo_curation(%s)", [number])
        assert violated(module_db, corpus) == []
    assert value(module_db, "SELECT graphrag.fingerprint(%s)", corpus) == before


def test_a_search_of_a_torn_index_says_what_to_look_at(module_db: Database, corpus: str) -> None:
    """TRUNCATE leaves vectors and BM25, which lead to entities that are gone."""
    with module_db.transaction(force_rollback=True):
        module_db.execute("SET LOCAL client_min_messages = warning")
        module_db.execute("TRUNCATE graphrag.entities CASCADE")
        diag = refused(module_db, "SELECT * FROM graphrag.search('Ada Lovelace', %s, 'local')", corpus)
    assert (diag.sqlstate, "graphrag.check(" in (diag.message_hint or "")) == ("XX000", True)
    assert ".py:" in (diag.message_detail or "")


@contextmanager
def own_session(db: Database) -> Iterator[Database]:
    """A session whose work is undone: after graphs that were made and undone, AGE's caches fail in it."""
    with Database.open(db.url) as own, own.transaction(force_rollback=True):
        yield own


def test_repair_moves_every_sequence_past_the_numbers_in_use(module_db: Database, corpus: str) -> None:
    with own_session(module_db) as db:
        for table in ("documents", "chunks", "entities", "curations", "jobs"):
            db.execute(f"SELECT setval('graphrag.{table}_id_seq', 1, false)".encode())
        assert violated(db, corpus)
        db.execute("SELECT graphrag.repair()")
        assert violated(db, corpus) == []


def test_repair_goes_on_where_rows_of_a_corpus_are_damaged(module_db: Database, corpus: str) -> None:
    whole = new_corpus(module_db, communities=False)
    number = value(module_db, "SELECT id FROM graphrag.corpora WHERE name = %s", corpus)
    with own_session(module_db) as db, warnings(db) as said:
        db.execute("UPDATE graphrag.entity_mentions SET attributes = 'null' WHERE corpus_id = %s", [number])
        put(db, whole, "new", "Its job is lost.")
        db.execute("DELETE FROM graphrag.jobs")
        repaired = value(db, "SELECT graphrag.repair()")
        assert (repaired["jobs_queued"], repaired["not_repaired"]) == (1, [corpus])
    assert [f'corpus "{corpus}" is not repaired' in line for line in said] == [True]


def test_repair_leaves_a_corpus_closed_whose_condition_cannot_be_put_in_force(module_db: Database, corpus: str) -> None:
    with own_session(module_db) as db, warnings(db) as said:
        db.execute("SELECT graphrag.protect(%s, 'true')", [corpus])
        db.execute("UPDATE graphrag.corpora SET protection = 'of_nobody(metadata)' WHERE name = %s", [corpus])
        assert "not_repaired" not in value(db, "SELECT graphrag.repair()")
        db.execute("CREATE ROLE repair_reader IN ROLE graphrag_reader; SET ROLE repair_reader")
        with pytest.raises(psycopg.Error, match="is closed"), db.transaction():
            db.execute("SELECT * FROM graphrag.documents WHERE corpus = %s", [corpus])
        db.execute("RESET ROLE")
        assert rows(db, "SELECT detail FROM graphrag.health() WHERE subject = %s", f'corpus "{corpus}"') == [
            ("was restored: readers see nothing of it",)
        ]
        db.execute("SELECT graphrag.protect(%s, 'false')", [corpus])
        assert rows(db, "SELECT FROM graphrag.health() WHERE subject = %s", f'corpus "{corpus}"') == []
    assert ["stays closed to readers" in line for line in said] == [True]


def test_vectors_that_are_gone_from_tables_of_their_own_are_named_and_mended(module_db: Database) -> None:
    name = index_all(module_db, new_corpus(module_db, communities=False), {"ada": STORIES["ada"]})
    number = value(module_db, "SELECT id FROM graphrag.corpora WHERE name = %s", name)
    tables = "SELECT graphrag._make_tables(s.id) FROM graphrag.embedding_spaces s WHERE s.corpus_id = %s"
    module_db.execute(tables, [number])
    health = "SELECT detail FROM graphrag.health() WHERE subject = %s"
    assert rows(module_db, health, f'corpus "{name}"') == []
    module_db.execute(
        "DELETE FROM graphrag.window_vectors v USING graphrag.chunks c WHERE c.id = v.chunk_id AND c.corpus_id = %s",
        [number],
    )
    assert rows(module_db, health, f'corpus "{name}"') == [("was restored: its texts have no vectors",)]
    # AGE's caches fail in a session in which graphs were made and undone, as in that of the tests before.
    with Database.open(module_db.url) as db:
        db.execute("SELECT graphrag.repair()")
        work(db)
        assert rows(db, health, f'corpus "{name}"') == violated(db, name) == []
