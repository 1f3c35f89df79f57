"""What the first chunks of a walk say of the question: an entity counts more where its sentence has the question's words.

A chunk names many entities, and a question of several steps is about one of them: of a film's cast the one who plays the part
that is asked for.
"""

from pg_graphrag.ground.id_sets import numbered
from pg_graphrag.ground.numeric import Ids, Scores, int64s, np
from pg_graphrag.search.query.query import Query, timed
from pg_graphrag.search.retrievers.lexical import shared_words

# Of entities of a model's graph no place in the text is known: they count as they are. Sentences are cut here: in SQL each cut
# unpacks the whole chunk.
_MENTIONS = """
SELECT pg_catalog.string_agg(pg_catalog.int8send(m.chunk_id), ''::bytea) AS chunks,
       pg_catalog.string_agg(pg_catalog.int8send(m.start_offset), ''::bytea) AS starts,
       pg_catalog.string_agg(pg_catalog.int8send(m.end_offset), ''::bytea) AS ends,
       pg_catalog.string_agg(pg_catalog.int8send(m.size), ''::bytea) AS sizes,
       pg_catalog.string_agg(m.entities, ''::bytea) AS entities,
       (SELECT pg_catalog.array_agg(c.content ORDER BY c.id) FROM graphrag.chunks c WHERE c.id = ANY ($1)) AS contents,
       (SELECT pg_catalog.string_agg(pg_catalog.int8send(c.id) || pg_catalog.int8send(c.start_offset), ''::bytea ORDER BY c.id)
          FROM graphrag.chunks c WHERE c.id = ANY ($1)) AS places
  FROM (SELECT e.chunk_id, e.start_offset, e.end_offset, pg_catalog.count(*) AS size,
               pg_catalog.string_agg(pg_catalog.int8send(e.entity_id), ''::bytea) AS entities
          FROM graphrag.entity_mentions e
         WHERE e.chunk_id = ANY ($1) AND e.entity_id IS NOT NULL AND e.start_offset IS NOT NULL
         GROUP BY e.chunk_id, e.start_offset, e.end_offset) m
"""


@timed("seed_sentences")
def shares(query: Query, chunks: list[int]) -> tuple[Ids, Ids, Scores]:
    """Return (entities, chunks, shares), (n,) each, of what `chunks` mention; share: of the question in its sentence, 0 … 1.

    Words of names are left out: what the question names is in most of the sentences.
    """
    row = query.db.query(_MENTIONS, ["int8[]"], [chunks])[0]
    if row["chunks"] is None:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    mentioning, sizes = int64s(row["chunks"]), int64s(row["sizes"])
    ids, offsets = int64s(row["places"]).reshape(-1, 2).T
    places = np.searchsorted(ids, mentioning)
    spans = zip(places, int64s(row["starts"]) - offsets[places], int64s(row["ends"]) - offsets[places], strict=True)
    sentences = [row["contents"][place][start:end] for place, start, end in spans]
    words = shared_words(query).without("\n".join(query.low_level_keys))
    return int64s(row["entities"]), np.repeat(mentioning, sizes), np.repeat(words.shares_of_query(sentences), sizes)


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
