"""What the property tests and bench/load/soak.py share: small texts about few names, a model that reads them, and the truth."""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import psycopg

from tests.sql.ingest import jobs, new_corpus, put, rows, value, wait_for, work

Connection = psycopg.Connection[Any]

# Spellings of few names, so that documents share entities.
NAMES = (
    "Ada Lovelace",
    "Charles Babbage",
    "ADA LOVELACE",
    "London",
    "Analytical Engine",
    "“London”",
    "Ａｄａ Lovelace",
    "Bletchley Park",
)
# What a person may do, and why it may be refused: no such entity, with itself, twice, deleted before.
CURATIONS = (
    "create_entity(%(one)s, %(corpus)s, 'county', %(said)s)",
    "edit_entity(%(one)s, %(corpus)s, description => %(said)s)",
    "rename_entity(%(one)s, %(other)s, %(corpus)s)",
    "merge_entities(ARRAY[%(one)s], %(other)s, %(corpus)s)",
    "delete_entity(%(one)s, %(corpus)s)",
    "create_relationship(%(one)s, %(other)s, %(corpus)s, '{said}', %(said)s)",
    "edit_relationship(%(one)s, %(other)s, %(corpus)s, weight => 2.5)",
    "delete_relationship(%(one)s, %(other)s, %(corpus)s)",
    "insert_graph(%(corpus)s, jsonb_build_object('relationships', jsonb_build_array("
    "jsonb_build_object('source', %(one)s::text, 'target', %(other)s::text, 'description', %(said)s::text))))",
)
REFUSED = ("42704", "22023", "23505", "55000")
VERBS = ("met", "wrote to", "left", "admired")


def extraction(messages: Sequence[dict[str, Any]]) -> str:
    """What a model makes of such a text: the names it spells, each pair of neighbours related, said by the verbs."""
    if any(message["role"] == "assistant" for message in messages):
        return '{"entities": [], "relationships": []}'
    text = "\n".join(str(message["content"]) for message in messages if message["role"] == "user")
    mentioned = [name for name in NAMES if name in text]
    verbs = ", ".join(verb for verb in VERBS if verb in text)
    entities = [
        {
            "name": name,
            "type": "place" if "L" in name[:2] and place % 2 else "person",
            "description": f"{verbs} {place}.",
        }
        for place, name in enumerate(mentioned)
    ]
    relationships = [
        {
            "source": first,
            "target": other,
            "keywords": verbs.split(", "),
            "description": f"They {verbs}.",
            "strength": 2,
        }
        for first, other in pairwise(mentioned)
    ]
    return json.dumps({"entities": entities, "relationships": relationships})


def sections(db: Connection, corpus: str) -> dict[str, str]:
    """The hash of each section of the fingerprint."""
    return dict(rows(db, "SELECT section, hash FROM graphrag.fingerprint_sections(%s)", corpus))


def broken(db: Connection, corpus: str) -> list[tuple[Any, ...]]:
    """The invariants that do not hold."""
    return rows(db, "SELECT * FROM graphrag.check(%s)", corpus)


# What the merge counted and what the rules make of all mentions, where the two differ; summaries apart, which a model wrote.
COUNTED_OTHERWISE = """
WITH entities AS (
    SELECT e.* FROM graphrag.entities e JOIN graphrag.corpora c ON c.id = e.corpus_id WHERE c.name = %(corpus)s
), relationships AS (
    SELECT r.* FROM graphrag.relationships r JOIN graphrag.corpora c ON c.id = r.corpus_id WHERE c.name = %(corpus)s
), ids AS (
    SELECT ARRAY(SELECT id FROM entities) AS entities, ARRAY(SELECT id FROM relationships) AS relationships,
           ARRAY(SELECT m.id FROM entities e JOIN graphrag.entity_mentions m ON m.entity_id = e.id) AS mentioned,
           ARRAY(SELECT m.id FROM relationships r JOIN graphrag.relationship_mentions m ON m.relationship_id = r.id) AS stated
), counted AS (
    SELECT concat_ws(' ', 'entity', v.entity_id, v.kind, v.value) AS item, to_jsonb(v.count::bigint) AS what
      FROM entities e JOIN graphrag.entity_values v ON v.entity_id = e.id
     UNION ALL
    SELECT concat_ws(' ', 'relationship', v.relationship_id, v.kind, v.value), to_jsonb(v.count::bigint)
      FROM relationships r JOIN graphrag.relationship_values v ON v.relationship_id = r.id
     UNION ALL
    SELECT concat_ws(' ', 'entity', id),
           jsonb_build_array(name, type, mention_count, evidence_rank, CASE WHEN summary_of IS NULL THEN description END)
      FROM entities
     UNION ALL
    SELECT concat_ws(' ', 'relationship', id), jsonb_build_array(keywords, CASE WHEN summary_of IS NULL THEN description END)
      FROM relationships
     UNION ALL
    SELECT concat_ws(' ', 'counts', id),
           jsonb_build_array(mention_count, evidence_rank, weight, direction, source_id, target_id, curated)
      FROM relationships
), merged AS (
    SELECT concat_ws(' ', 'entity', g.entity_id, g.kind, g.value) AS item, to_jsonb(g.count) AS what
      FROM ids, graphrag._given_entity_values(ids.entities, NULL, NULL) g
     UNION ALL
    SELECT concat_ws(' ', 'relationship', g.relationship_id, g.kind, g.value), to_jsonb(g.count)
      FROM ids, graphrag._given_relationship_values(ids.relationships, NULL) g
     UNION ALL
    SELECT concat_ws(' ', 'entity', m.entity_id),
           jsonb_build_array(m.name, m.type, m.mention_count, m.evidence_rank,
                             CASE WHEN e.summary_of IS NULL
                                  THEN coalesce(m.description, trim(regexp_replace(m.sentence, '\\s+', ' ', 'g')), '') END)
      FROM ids, graphrag._merged_entities(ids.entities, ids.mentioned, NULL, 1200) m, entities e
     WHERE e.id = m.entity_id
     UNION ALL
    SELECT concat_ws(' ', 'relationship', m.relationship_id),
           jsonb_build_array(m.keywords,
                             CASE WHEN r.summary_of IS NULL
                                  THEN coalesce(m.description, trim(regexp_replace(m.sentence, '\\s+', ' ', 'g')), '') END)
      FROM ids, graphrag._merged_relationships(ids.relationships, ids.stated, 1200) m, relationships r
     WHERE r.id = m.relationship_id
     UNION ALL
    SELECT concat_ws(' ', 'counts', n.relationship_id),
           jsonb_build_array(n.mention_count, n.evidence_rank, n.weight, n.direction,
                             CASE WHEN n.forward THEN r.low_id ELSE r.high_id END,
                             CASE WHEN n.forward THEN r.high_id ELSE r.low_id END, n.fragments > 0)
      FROM ids, graphrag._counted_relationships(ids.relationships, NULL, NULL) n, relationships r
     WHERE r.id = n.relationship_id
)
SELECT item, counted.what, merged.what FROM counted FULL JOIN merged USING (item)
 WHERE counted.what IS DISTINCT FROM merged.what ORDER BY item
"""


def counted_otherwise(db: Connection, corpus: str) -> list[tuple[Any, ...]]:
    """The merged values that are not what the rules make of all mentions: (item, counted, merged anew)."""
    return db.execute(COUNTED_OTHERWISE.encode(), {"corpus": corpus}).fetchall()


def settle(db: Connection, corpus: str) -> None:
    """Work until the queue is empty, whatever waits for a while."""

    def empty() -> bool:
        work(db)
        db.execute("SELECT graphrag.retry_failed(%s)", [corpus])
        return not jobs(db, corpus)

    wait_for(empty, "an empty queue")


def assert_true(db: Connection, corpus: str, documents: Mapping[str, str], **options: Any) -> None:
    """Assert that the corpus is what these documents make undisturbed, and that every invariant holds."""
    fresh = new_corpus(db, **options)
    for key in sorted(documents):
        put(db, fresh, key, documents[key])
    settle(db, fresh)
    wanted, got = sections(db, fresh), sections(db, corpus)
    for section in wanted:
        if got[section] != wanted[section]:
            assert lines(db, corpus, section) == lines(db, fresh, section), section
    assert value(db, "SELECT graphrag.fingerprint(%s)", corpus) == value(db, "SELECT graphrag.fingerprint(%s)", fresh)
    assert broken(db, corpus) == []
    assert broken(db, fresh) == []
    db.execute("SELECT graphrag.drop_corpus(%s)", [fresh])


def anew(db: Connection, corpus: str, documents: Mapping[str, str]) -> None:
    """Delete all documents, then insert them in the opposite order."""
    db.execute("DELETE FROM graphrag.documents WHERE corpus = %s", [corpus])
    settle(db, corpus)
    for key in sorted(documents, reverse=True):
        put(db, corpus, key, documents[key])
    settle(db, corpus)


def curate(db: Connection, corpus: str, what: str, name: str, other: str, statement: str) -> int | None:
    """Do one of `CURATIONS`; return its number, or None where it was refused."""
    given = {"corpus": corpus, "one": name, "other": other, "said": statement}
    try:
        ((number,),) = db.execute(f"SELECT graphrag.{what}".encode(), given).fetchall()
    except psycopg.Error as error:
        if error.sqlstate not in REFUSED:
            raise
        return None
    return int(number)


def undo_all(db: Connection, corpus: str) -> None:
    """Undo the curations in force, the first ones first."""
    for (number,) in rows(
        db,
        "SELECT x.id FROM graphrag.curations x JOIN graphrag.corpora c ON c.id = x.corpus_id"
        " WHERE c.name = %s AND x.undone_at IS NULL ORDER BY x.id",
        corpus,
    ):
        db.execute("SELECT graphrag.undo_curation(%s)", [number])


def lines(db: Connection, corpus: str, section: str) -> list[str]:
    """The rows of a section."""
    return [line for (line,) in rows(db, "SELECT line FROM graphrag._canonical(%s, %s)", corpus, section)]
