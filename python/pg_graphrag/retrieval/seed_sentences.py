"""What the first chunks of a walk say of the question: an entity counts more where its sentence has the question's words.

A chunk names many entities, and a question of several steps is about one of them: of a film's cast the one who plays the part
that is asked for.
"""

from pg_graphrag.numeric import Ids, Scores, int64s, np
from pg_graphrag.retrieval.ids import numbered
from pg_graphrag.retrieval.lexical import shared_words
from pg_graphrag.retrieval.query import Query, timed

# Of entities of a model's graph no place in the text is known: they count as they are.
_SENTENCES = """
WITH mentions AS (
     SELECT m.chunk_id, m.start_offset, m.end_offset, pg_catalog.count(*) AS size,
            pg_catalog.string_agg(pg_catalog.int8send(m.entity_id), ''::bytea) AS entities
       FROM graphrag.entity_mentions m
      WHERE m.chunk_id = ANY ($1) AND m.entity_id IS NOT NULL AND m.start_offset IS NOT NULL
      GROUP BY m.chunk_id, m.start_offset, m.end_offset)
SELECT pg_catalog.array_agg(
           pg_catalog.substr(c.content, m.start_offset - c.start_offset + 1, m.end_offset - m.start_offset)) AS sentences,
       pg_catalog.string_agg(pg_catalog.int8send(m.chunk_id), ''::bytea) AS chunks,
       pg_catalog.string_agg(pg_catalog.int8send(m.size), ''::bytea) AS sizes,
       pg_catalog.string_agg(m.entities, ''::bytea) AS entities
  FROM mentions m
  JOIN graphrag.chunks c ON c.id = m.chunk_id
"""


@timed("seed_sentences")
def shares(query: Query, chunks: list[int]) -> tuple[Ids, Ids, Scores]:
    """Return (entities, chunks, shares), (n,) each, of what `chunks` mention; share: of the question in its sentence, 0 … 1."""
    row = query.db.query(_SENTENCES, ["int8[]"], [chunks])[0]
    if row["sentences"] is None:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    sizes = int64s(row["sizes"])
    of_sentences = shared_words(query).shares_of_query(row["sentences"])
    return int64s(row["entities"]), np.repeat(int64s(row["chunks"]), sizes), np.repeat(of_sentences, sizes)


def factors(nodes: Ids, chunks: Ids, mentioned: tuple[Ids, Ids, Scores], more: float) -> Scores:
    """Return factors of edges (nodes, chunks), (m,) each: 1, and `more` times the share of the best sentence with the node.

    `mentioned`: (nodes, chunks, shares), (n,) each.
    """
    count = len(nodes)
    _, node_place = numbered(np.append(nodes, mentioned[0]))
    chunk_ids, chunk_place = numbered(np.append(chunks, mentioned[1]))
    edge_ids, place = numbered(node_place * max(len(chunk_ids), 1) + chunk_place)
    best = np.zeros(len(edge_ids))
    np.maximum.at(best, place[count:], mentioned[2])
    return 1.0 + more * best[place[:count]]
