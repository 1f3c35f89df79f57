"""The graph of concepts around a question, and the part of it that given chunks state (LazyGraphRAG)."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pg_graphrag.ground.numeric import distinct, np, within
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.graph_view.edge_strength import are_strong, strengths
from pg_graphrag.search.graph_view.graph_tables import Among
from pg_graphrag.search.query.query import Query, timed
from pg_graphrag.search.retrievers import graph_evidence
from pg_graphrag.search.retrievers.lexical import shared_words

# Concepts that match a question, and relationships of each that are looked at for its neighbours.
MATCHES = 20
NEIGHBORS_EACH = 30
# Longer names are fragments of sentences.
MAX_CHARACTERS = 80
# A name that is not the very one counts as matching a sub-query from this cosine on.
NEAR = 0.6
# Statements shown of a chunk besides its passage; pairs of a statement; concepts of a community.
STATEMENTS_EACH = 5
PAIRS_EACH = 3
CONCEPTS_EACH = 20

# The sentence of a mention: what a model said, or where the text says it.
_STATEMENTS = """
SELECT s.chunk_id, s.relationship_id, s.statement
  FROM (SELECT m.chunk_id, m.relationship_id,
               coalesce(m.description, pg_catalog.substr(c.content, greatest(m.start_offset - c.start_offset, 0) + 1,
                                                         m.end_offset - greatest(m.start_offset, c.start_offset))) AS statement,
               pg_catalog.row_number() OVER (PARTITION BY m.chunk_id, m.relationship_id ORDER BY m.start_offset, m.id) AS place
          FROM graphrag.relationship_mentions m
          JOIN graphrag.chunks c ON c.id = m.chunk_id
         WHERE m.chunk_id = ANY ($1) AND m.relationship_id IS NOT NULL) s
 WHERE s.place = 1
"""


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of a chunk, and the relationships that it states, as pairs of names, the strongest first.

    `share`: of the query's words in sentence and names; `strength`: of the strongest relationship.
    """

    sentence: str
    pairs: tuple[tuple[str, str], ...]
    share: float
    strength: float

    @property
    def line(self) -> str:
        """What it states, in one line."""
        return f"{'; '.join(f'{source} – {target}' for source, target in self.pairs)}: {self.sentence}"


@timed("graph")
def names_about(query: Query, limit: int) -> list[str]:
    """Return names of concepts for a question: those that it names, then the most strongly related ones."""
    matches = list(graph_evidence.match_entities(query, MATCHES))
    matched = set(matches)
    names = _names(query, matches)
    if matches and len(names) < limit:
        ids = np.array(matches, np.int64)
        _, low, high, _ = graph_of(query).strongest(ids, NEIGHBORS_EACH)
        edges = graph_of(query).among(distinct(np.concatenate((ids, low, high))))
        strength = strengths(query, edges)
        keys = graph_of(query).keys(distinct(np.append(edges.low, edges.high)).tolist())
        best: dict[int, float] = {}
        for ends, value in zip(
            zip(edges.low.tolist(), edges.high.tolist(), strict=True), strength.tolist(), strict=True
        ):
            for end, other in (ends, ends[::-1]):
                if value > 0 and other in matched and end not in matched:
                    best[end] = max(value, best.get(end, 0.0))
        names += _names(query, sorted(best, key=lambda end: (-best[end], keys[end].encode()))[: 2 * limit])
    return list(dict.fromkeys(names))[:limit]


def names_matching(query: Query, limit: int) -> list[str]:
    """Return the names of the concepts that a sub-query names, or nearly names; best first."""
    matches = graph_evidence.match_entities(query, limit)
    return list(dict.fromkeys(_names(query, [entity for entity, (score, _) in matches.items() if score >= NEAR])))


def _names(query: Query, entities: list[int]) -> list[str]:
    names = {row["id"]: row["name"] for row in graph_of(query).entities(entities)}
    # A name is shown in one line, whatever a document has in it.
    lines = (" ".join(names[entity].split()) for entity in entities if entity in names)
    return [line for line in lines if 0 < len(line) <= MAX_CHARACTERS]


@timed("graph")
def stated_in(query: Query, chunks: Sequence[int]) -> dict[int, list[Statement]]:
    """Return {chunk: relationships that it states}: those that share most with the query first.

    Weak relationships of the graph that these chunks make are left out.
    """
    rows = query.db.query(_STATEMENTS, ["int8[]"], [list(chunks)]) if chunks else []
    ids = sorted({row["relationship_id"] for row in rows})
    if not ids:
        return {}
    ends = {row["id"]: row for row in graph_of(query).ends(ids)}
    entities = {end for row in ends.values() for end in (row["source_id"], row["target_id"])}
    among = graph_of(query).among(sorted(entities))
    stated_here = within(among.ids, np.array(ids, np.int64))
    edges = Among(
        among.ids[stated_here],
        among.low[stated_here],
        among.high[stated_here],
        among.weights[stated_here],
        among.counts[stated_here],
    )
    strength = strengths(query, edges)
    is_strong = are_strong(edges.low, edges.high, strength)
    strong = dict(zip(edges.ids[is_strong].tolist(), strength[is_strong].tolist(), strict=True))
    names = {row["id"]: row for row in graph_of(query).relationships(list(strong))}
    words = shared_words(query)
    pairs: dict[tuple[int, str], list[tuple[float, str, str]]] = {}
    for row in rows:
        if (relationship := row["relationship_id"]) in names:
            source, target = (names[relationship][end][:MAX_CHARACTERS] for end in ("source", "target"))
            sentence = " ".join(row["statement"].split())
            pairs.setdefault((row["chunk_id"], sentence), []).append((-strong[relationship], source, target))
    best = {key: sorted(stated)[:PAIRS_EACH] for key, stated in pairs.items()}
    texts = [
        " ".join((sentence, *(name for pair in stated for name in pair[1:]))) for (_, sentence), stated in best.items()
    ]
    statements: dict[int, list[Statement]] = {}
    for ((chunk, sentence), stated), share in zip(best.items(), words.shares_of_query(texts).tolist(), strict=True):
        named = tuple((source, target) for _, source, target in stated)
        statements.setdefault(chunk, []).append(Statement(sentence, named, share, -stated[0][0]))
    for chunk in statements:
        statements[chunk].sort(key=lambda one: (-one.share, -one.strength, one.sentence.encode()))
    return statements


def about(statements: dict[int, list[Statement]]) -> list[str]:
    """Return the names of the concepts in statements, the strongest first."""
    strength: defaultdict[str, float] = defaultdict(lambda: -np.inf)
    for one in (one for part in statements.values() for one in part):
        for name in (name for pair in one.pairs for name in pair):
            strength[name] = max(strength[name], one.strength)
    return sorted(strength, key=lambda name: (-strength[name], name.encode()))[:CONCEPTS_EACH]
