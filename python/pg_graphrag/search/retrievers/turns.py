"""Turns of a conversation: the turns around one say what it is about.

The corpus' option `conversation` names a field of the metadata. Documents with the same value there are the turns of
one conversation, in the order of `valid_from`, then of source keys. A turn scores by its own words and windows, plus a
part of the scores of the turns around it: "Yes, for years!" is found by the question that it answers. Only turns that
the caller sees count, as if there were no others.
"""

from collections.abc import Sequence
from typing import Any

from pg_graphrag.ground.numeric import Flags, Ids, Scores, distinct, int64s, np, packed, union, within
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.query.query import Query, timed
from pg_graphrag.search.query.rankings import Ranking, leveled_sums
from pg_graphrag.search.retrievers.dense import ids_literal

# The share of a turn's score that the next and the previous turn get. From .2 to .4 all are as good.
NEIGHBOUR = 0.3
# What the next one has of a turn that asks. From .6 to .8 all are as good.
ANSWER = 0.7
# Turns to either side that count.
REACH = 3
# In a conversation with more turns each scores by itself: all would be read for a few.
MAX_TURNS = 1000
# In a corpus with at most so many chunks all turns are read: looking up some conversations takes longer.
FEW_CHUNKS = 5000
_ALL_TURNS = """
SELECT d.metadata -> {field} AS name, d.id, d.valid_from, d.source_key
  FROM graphrag.documents d
 WHERE d.corpus_id = {corpus} AND d.metadata ->> {field} IS NOT NULL {visible}
"""
# Turns of the conversations of some chunks, each by the index of metadata, up to the limit.
_SOME_TURNS = f"""
SELECT t.name, d.id, d.valid_from, d.source_key
  FROM (SELECT DISTINCT o.metadata -> {{field}} AS name
          FROM graphrag.chunks c
         CROSS JOIN LATERAL (SELECT d.metadata FROM graphrag.documents d WHERE d.id = c.document_id OFFSET 0) o
         WHERE c.id = ANY ({{chunks}}) AND o.metadata ->> {{field}} IS NOT NULL) t
 CROSS JOIN LATERAL (
        SELECT d.id, d.valid_from, d.source_key FROM graphrag.documents d
         WHERE d.corpus_id = {{corpus}} AND d.metadata @> pg_catalog.jsonb_build_object({{field}}, t.name)
           AND d.metadata -> {{field}} = t.name {{visible}}
         LIMIT {MAX_TURNS + 1}) d
"""
_IN_ORDER = """
SELECT {columns}
  FROM (SELECT s.id, s.valid_from, s.source_key, pg_catalog.dense_rank() OVER (ORDER BY s.name) AS conversation,
               pg_catalog.count(*) OVER (PARTITION BY s.name) AS size
          FROM ({turns}) s) t
  JOIN graphrag.chunks c ON c.document_id = t.id
 WHERE t.size <= {most}
"""
_COLUMNS = packed(
    't.conversation, t.valid_from, t.source_key COLLATE "C", c.ordinal',
    chunks="c.id",
    conversations="t.conversation",
    asking="(c.content ~ '[?？؟]')::int",
)


@timed("turns")
def with_turns(query: Query, rankings: Sequence[Ranking]) -> list[Ranking]:
    """Return rankings in which turns get a part of the scores of the turns around them, measured above the last score.

    Other chunks keep their scores.
    """
    turns = _turns(query, distinct(np.concatenate([ranking.ids for ranking in rankings])))
    return [turns.added_to(ranking) for ranking in rankings]


class _Turns:
    """Chunks in the order in which they were said, one conversation after the other, (n,).

    `before`, `after`: the part that each has of the score of the one before and after it, (n,).
    """

    def __init__(self, chunks: Ids, conversations: Ids, asking: Flags) -> None:
        follows = np.zeros(len(chunks), np.bool_)
        follows[1:] = conversations[1:] == conversations[:-1]
        self.chunks = chunks
        self.before = np.where(follows, np.where(np.roll(asking, 1), ANSWER, NEIGHBOUR), 0.0)
        self.after = np.where(np.roll(follows, -1), NEIGHBOUR, 0.0)
        self._by_id = np.argsort(chunks)
        self._ascending = chunks[self._by_id]

    def added_to(self, ranking: Ranking) -> Ranking:
        """Return a ranking with what its chunks lend to others."""
        if not len(ranking.ids):
            return ranking
        last = 0.0 if ranking.zeros else float(ranking.scores.min())
        own = np.zeros(len(self.chunks))
        are_turns = within(ranking.ids, self._ascending)
        own[self._places(ranking.ids[are_turns])] = ranking.scores[are_turns] - last
        lent = self._lent(own)
        has_gain = lent > 0
        gains = dict(zip(self.chunks[has_gain].tolist(), lent[has_gain].tolist(), strict=True))
        ids = union(ranking.ids, self.chunks[has_gain])
        scores = np.full(len(ids), last)
        scores[np.searchsorted(ids, ranking.ids)] = ranking.scores
        are_turns = within(ids, self._ascending)
        scores[are_turns] += lent[self._places(ids[are_turns])]
        scores = leveled_sums(scores)
        order = np.argsort(-scores, kind="stable")

        def reason(chunk: int) -> dict[str, Any]:
            own_reason = ranking.reason(chunk) if (ranking.ids == chunk).any() else {}
            return own_reason | ({"turns": round(gains[chunk], 6)} if chunk in gains else {})

        zeros = max(ranking.zeros - (len(ids) - len(ranking.ids)), 0)
        return Ranking(ranking.retriever, ids[order], scores[order], reason, zeros, ranking.coverage)

    def _places(self, chunks: Ids) -> Ids:
        return self._by_id[np.searchsorted(self._ascending, chunks)]

    def _lent(self, own: Scores) -> Scores:
        """Return the part of others' scores that turns get, (n,); it decreases with the distance."""
        lent = np.zeros(len(own))
        from_before = from_after = own
        for _ in range(REACH):
            from_before = self.before * np.roll(from_before, 1)
            from_after = self.after * np.roll(from_after, -1)
            lent += from_before + from_after
        return lent


def _turns(query: Query, chunks: Ids) -> _Turns:
    """Read the visible turns of the conversations that chunks belong to."""
    visible = ""
    if query.removed is not None:
        visible = f"AND d.id <> ALL ({ids_literal(query.removed)})"
    elif query.visible is not None:
        visible = f"AND d.id = ANY ({ids_literal(query.visible)})"
    field = query.db.value("SELECT pg_catalog.quote_literal($1)", ["text"], [query.corpus.options.conversation])
    are_few = graph_of(query).chunk_count() <= FEW_CHUNKS
    turns = (_ALL_TURNS if are_few else _SOME_TURNS).format(
        field=f"{field}::text", chunks=ids_literal(chunks), corpus=query.corpus.id, visible=visible
    )
    row = query.db.literal_query(_IN_ORDER.format(columns=_COLUMNS, turns=turns, most=MAX_TURNS))[0]
    return _Turns(int64s(row["chunks"]), int64s(row["conversations"]), int64s(row["asking"]) > 0)
