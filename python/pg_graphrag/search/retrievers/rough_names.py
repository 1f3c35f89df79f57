"""Finds entities by a rough name: mistyped, abbreviated to its initials, or in another script."""

from collections.abc import Iterator

from pg_graphrag.ground.numeric import int64s, packed
from pg_graphrag.index.curation.name_variants import Resembling
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.graph_view.row_names import row_names
from pg_graphrag.search.graph_view.topology_graph import TopologyGraph
from pg_graphrag.search.graph_view.visible_graph import whole_visible_graph
from pg_graphrag.search.query.query import MAX_KEYWORDS, Query, timed
from pg_graphrag.text.concept import key

# Longer texts are no names, and a query that is a question or has more words.
MAX_LENGTH, MAX_WORDS = 64, 6
# Names that are compared between two looks whether the search was cancelled: some 20 ms.
AT_ONCE = 5000
_KEYS = f"""
SELECT {packed(ids="f.id")}, pg_catalog.array_agg(f.key) AS keys
  FROM (SELECT e.id, e.key FROM graphrag.entities e WHERE e.corpus_id = $1
        UNION ALL
        SELECT e.id, a.key FROM graphrag.aliases a JOIN graphrag.entities e ON e.corpus_id = a.corpus_id AND e.key = a.entity_key
         WHERE a.corpus_id = $1) f
"""


@timed("graph")
def rough_matches(query: Query) -> dict[int, tuple[float, str]]:
    """Return {entity: (likeness in 0.7 … 1, reason)} of names that resemble a keyword, or a query that may be a name.

    None for a keyword that is itself a name or an alias.
    """
    texts = query.low or ([] if _is_sentence(query.text) else [query.text])
    names = {key(text): text for text in texts[:MAX_KEYWORDS] if len(text) <= MAX_LENGTH}
    rough = [Resembling(name) for name in names if name and not graph_of(query).named([name])]
    matches: dict[int, tuple[float, str]] = {}
    if not rough:
        return matches
    for place, (entity, name) in enumerate(_names(query)):
        if place % AT_ONCE == 0:
            query.db.poll()
        for one in rough:
            likeness, reason = one.likeness(name)
            if likeness > matches.get(entity, (0.0,))[0]:
                matches[entity] = likeness, f"{reason}: {names[one.name]}"
    own = row_names(query).rows(list(matches)) if query.corpus.has_rows else {}
    for entity, row in own.items():
        matches[row] = max(matches[entity], matches.get(row, (0.0, "")))
    return matches


def _is_sentence(text: str) -> bool:
    return "?" in text or "？" in text or len(text.split()) > MAX_WORDS


def _names(query: Query) -> Iterator[tuple[int, str]]:
    """Yield (entity, key) of all names and aliases that the caller may see."""
    graph = graph_of(query) if query.visible is None else whole_visible_graph(query)
    if not isinstance(graph, TopologyGraph):
        row = query.db.query(_KEYS, ["int4"], [query.corpus.id])[0]
        yield from zip(int64s(row["ids"]).tolist(), row["keys"] or (), strict=True)
        return
    topology = graph.topology
    ids = topology.entities.ids.tolist()
    yield from zip(ids, topology.keys, strict=True)
    for alias, entity_key in zip(topology.aliases.keys, topology.aliases.entity_keys, strict=True):
        if (place := topology.keys.place(entity_key)) is not None:
            yield ids[place], alias
