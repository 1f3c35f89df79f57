"""Which chunks mention what, but for hubs: the edges over which walks and bridges lead."""

from dataclasses import dataclass

from pg_graphrag.ground.numeric import Flags, Ids, distinct, np, within
from pg_graphrag.search.graph_view import seeds
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.query.query import Query
from pg_graphrag.server import cached_property

# An entity in more than this share of the chunks, but at least in more than MIN_HUB, is a hub, which does not tell where to look;
# so is one in more than MAX_HUB, of however many: a question would read the more mentions the larger the corpus is. On MuSiQue's
# 1,890 passages hubs of 38 in place of 94 rank the same.
HUB_SHARE = 0.05
MIN_HUB, MAX_HUB = 20, 300


def hub_size(query: Query) -> float:
    """Return in how many chunks an entity is at most that is no hub."""
    return min(max(HUB_SHARE * graph_of(query).chunk_count(), MIN_HUB), MAX_HUB)


@dataclass(frozen=True)
class Mentions:
    """Edges between nodes and the chunks that mention them, (m,) each.

    `nodes`: entities, or what a walk joins to one; `entity_ids`: the entities of these, below 0 where a node is none;
    `are_titles`: of which edges the node is the title of the chunk's document; `are_named`: of which the query names it.
    """

    nodes: Ids
    entity_ids: Ids
    chunks: Ids
    are_titles: Flags
    are_named: Flags

    @classmethod
    def none(cls) -> "Mentions":
        """Return no edges."""
        nothing, none = np.empty(0, np.int64), np.empty(0, np.bool_)
        return cls(nothing, nothing, nothing, none, none)

    @cached_property
    def titled(self) -> Ids:
        """The chunks, ascending, of documents that the query names by their titles."""
        return distinct(self.chunks[self.are_titles & self.are_named])

    def titled_by(self, chunk: int) -> Ids:
        """Return the other chunks, ascending, whose title a chunk mentions, but for its own and what the query names."""
        mentioned = distinct(self.nodes[(self.chunks == chunk) & ~self.are_named & ~self.are_titles])
        return distinct(self.chunks[self.are_titles & within(self.nodes, mentioned) & (self.chunks != chunk)])


def mentions_in(query: Query, chunks: Ids) -> Mentions:
    """Return the mentions of entities in some chunks."""
    hub = hub_size(query)
    named = np.array(sorted(seeds.entities(query, hub)), np.int64)
    entities, owners, *_ = graph_of(query).edges_of_chunks(chunks, hub)
    return Mentions(entities, entities, owners, seeds.titled(query, entities, owners), within(entities, named))
