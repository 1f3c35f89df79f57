"""Names of rows: what documents call a row by its name, an alias, a code or its key is one entity with the row's own.

The two have mentions of their own, since who may not see the row must have what documents say alone. Who sees the row has them as
one, in what is asked for and in what is shown. A name that several rows have, or that is another row's own, is none of theirs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pg_graphrag.retrieval.cached_graph import graph_of
from pg_graphrag.retrieval.query import Query, once
from pg_graphrag.retrieval.row_tables import has_rows
from pg_graphrag.server import Row

# Names in more chunks are hubs: what leads to a country is not read for its row.
MAX_MENTIONS = 20
_ROWS = "SELECT r.name_id, r.entity_id FROM graphrag._rows_named($1, $2) r"
# Of rows among the entities $1, or of which one of these is a name.
_NAMES = """
SELECT r.name_id, r.entity_id
  FROM graphrag._names_of_rows(ARRAY(
           SELECT coalesce(n.entity_id, u.id)
             FROM pg_catalog.unnest($1) AS u (id)
             LEFT JOIN graphrag._rows_named($1, $2) AS n ON n.name_id = u.id), $2) r
"""


@dataclass
class RowNames:
    """Which entities are one with a row's own, as the query's caller sees rows.

    `_rows`: {name: the row's entity, None for what is no name}, of those that were asked for.
    """

    query: Query
    _rows: dict[int, int | None] = field(default_factory=dict)

    def rows(self, entities: Iterable[int]) -> dict[int, int]:
        """Return {name: the row's entity} of those entities that are names of one row."""
        entities = list(entities)
        new = [entity for entity in entities if entity not in self._rows]
        if new and has_rows(self.query):
            name_rows = self.query.db.query(_ROWS, ["int8[]", "int8[]"], [new, self.query.visible_ids])
            self._rows |= dict.fromkeys(new) | {row["name_id"]: row["entity_id"] for row in name_rows}
        return {entity: row for entity in entities if (row := self._rows.get(entity)) is not None}

    def own(self, entity: int) -> int:
        """Return the entity of the row that an entity names; itself, where it names none."""
        return self.rows([entity]).get(entity, entity)

    def names(self, entities: Iterable[int]) -> dict[int, list[int]]:
        """Return {row's entity: its names, in the order of their keys} of rows among entities, or that these name."""
        entities = list(entities)
        if not entities or not has_rows(self.query):
            return {}
        name_rows = self.query.db.query(_NAMES, ["int8[]", "int8[]"], [entities, self.query.visible_ids])
        of_names = {row["name_id"]: row["entity_id"] for row in name_rows}
        self._rows |= dict.fromkeys(entities) | of_names
        if not of_names:
            return {}
        keys = graph_of(self.query).keys(of_names)
        names: dict[int, list[int]] = {}
        for name in sorted(of_names, key=lambda name: keys[name].encode()):
            names.setdefault(of_names[name], []).append(name)
        return names

    def few_names(self, entities: Iterable[int]) -> dict[int, list[int]]:
        """Return `names` without those in more than MAX_MENTIONS chunks."""
        names = self.names(entities)
        if not names:
            return {}
        counts = graph_of(self.query).mention_counts([name for of_row in names.values() for name in of_row])
        return {
            row: [name for name in of_row if counts.get(name, 0) <= MAX_MENTIONS] for row, of_row in names.items()
        }

    def same(self, entities: Sequence[int]) -> dict[int, list[int]]:
        """Return {entity: the others that are one with it, the row's own first}; no names in more than MAX_MENTIONS chunks."""
        names = self.few_names(entities)
        if not names:
            return {}
        rows = self.rows(entities)
        same = {}
        for entity in entities:
            row = rows.get(entity, entity)
            same[entity] = [other for other in (row, *names.get(row, ())) if other != entity]
        return same

    def relationships(self, rows: list[Row]) -> list[Row]:
        """Return relationships (id, source, target, source_key, target_key, …) with rows in place of their names.

        None is between a row and a name of it.
        """
        if not has_rows(self.query):
            return rows
        graph = graph_of(self.query)
        ends = {row["id"]: (row["source_id"], row["target_id"]) for row in graph.ends([row["id"] for row in rows])}
        of_names = self.rows({end for pair in ends.values() for end in pair})
        own = {row["id"]: row for row in graph.entities(sorted(set(of_names.values())))}
        joined = []
        for row in rows:
            source, target = (of_names.get(end, end) for end in ends[row["id"]])
            if source != target:
                for side, before, end in zip(("source", "target"), ends[row["id"]], (source, target), strict=True):
                    if before != end:
                        row |= {side: own[end]["name"], f"{side}_key": own[end]["key"]}
                joined.append(row)
        return joined


@once
def row_names(query: Query) -> RowNames:
    """Return the names of rows as a query sees them."""
    return RowNames(query)
