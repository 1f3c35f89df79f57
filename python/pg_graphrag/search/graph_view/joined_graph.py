"""The graph of a part with the names of rows as the rows' own entities, for what is shown: neighbors, views, pictures."""

from collections.abc import Iterable

from pg_graphrag.ground.numeric import Ids, Places, distinct, np
from pg_graphrag.search.graph_view.row_names import row_names
from pg_graphrag.search.graph_view.visible_graph import VisibleGraph
from pg_graphrag.search.query.query import Query
from pg_graphrag.server import Row


class JoinedGraph:
    """Places of entities as one: `own` (entities,): of a name the place of its row's entity, of all others their own.

    `members`: {place of a row's entity: it and its names}. `is_joined` (entities,): whether a place is one of several.
    """

    def __init__(self, query: Query, graph: VisibleGraph):
        """Join the names that the query's caller may see."""
        self.graph, self.topology = graph, graph.topology
        ids = self.topology.entities.ids
        self.own = np.arange(len(ids))
        of_names = row_names(query).rows(ids)
        names, rows = (
            self.topology.entities.places(np.array(list(part), np.int64)) for part in (of_names, of_names.values())
        )
        self.own[names] = rows
        self.members: dict[int, list[int]] = {}
        for name, row in sorted(zip(names.tolist(), rows.tolist(), strict=True)):
            self.members.setdefault(row, [row]).append(name)
        self.is_joined = np.zeros(len(ids), np.bool_)
        self.is_joined[names] = self.is_joined[rows] = True

    def with_names(self, places: Places) -> Places:
        """Return places of rows' and other entities, and the names of these behind each."""
        if not self.members:
            return places
        return np.array([one for place in places.tolist() for one in self.members.get(place, (place,))], np.int64)

    def entity_ids(self) -> Ids:
        """Return the ids of entities that are no names of rows, (n,) ascending."""
        ids: Ids = np.sort(self.topology.entities.ids[self.own == np.arange(len(self.own))])
        return ids

    def degrees(self, places: Places) -> Ids:
        """Return how many relationships with others entities have, (n,): a row's and its names' together."""
        topology = self.topology
        degrees = topology.incident.counts(places)
        for index, place in enumerate(places.tolist()):
            if place in self.members:
                members = np.array(self.members[place], np.int64)
                owners, edges = topology.incident.at(members)
                others = topology.low[edges] + topology.high[edges] - owners
                degrees[index] = int((self.own[others] != place).sum())
        return degrees

    def mention_counts(self, places: Places) -> Ids:
        """Return how many chunks mention entities, (n,): a row's own or a name of it."""
        counts = self.topology.mention_counts[places].copy()
        for index, place in enumerate(places.tolist()):
            if place in self.members:
                _, chunks, *_ = self.topology.chunks_of.at(np.array(self.members[place], np.int64))
                counts[index] = len(distinct(chunks))
        return counts

    def entities(self, ids: Iterable[int]) -> list[Row]:
        """Return `VisibleGraph.stated_entities` with the numbers of all members."""
        rows = self.graph.stated_entities(list(ids))
        places = self.topology.entities.places([row["id"] for row in rows])
        numbers = zip(self.degrees(places).tolist(), self.mention_counts(places).tolist(), strict=True)
        return [
            row | {"degree": degree, "mention_count": count} for row, (degree, count) in zip(rows, numbers, strict=True)
        ]

    def relationships(self, ids: Iterable[int]) -> list[Row]:
        """Return `VisibleGraph.stated_relationships` with rows in place of their names, and none of a row itself."""
        rows = self.graph.stated_relationships(list(ids))
        if not self.members:
            return rows
        own_ids = self.topology.entities.ids[list(self.members)].tolist()
        own = {row["id"]: row for row in self.graph.stated_entities(own_ids)}
        joined = []
        for row in rows:
            for end in ("source", "target"):
                (place,) = self.topology.entities.places([row[f"{end}_id"]])
                if self.own[place] != place:
                    entity = own[int(self.topology.entities.ids[self.own[place]])]
                    row |= {f"{end}_id": entity["id"], end: entity["name"], f"{end}_key": entity["key"]}
            if row["source_id"] != row["target_id"]:
                joined.append(row)
        return joined
