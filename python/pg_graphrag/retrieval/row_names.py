"""Names of rows: what documents call a row by its name, an alias, a code or its key is one entity with the row's own.

The two have mentions of their own, since who may not see the row must have what documents say alone. Who sees the row has them as
one, in what is asked for and in what is shown. A name that several rows have, or that is another row's own, is none of theirs.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pg_graphrag.numeric import Ids, int64s, np
from pg_graphrag.retrieval.cached_graph import graph_of
from pg_graphrag.retrieval.ids import distinct, numbered, union, within
from pg_graphrag.retrieval.query import Query, once, visible_digest
from pg_graphrag.retrieval.row_tables import has_rows
from pg_graphrag.retrieval.session_cache import cache, is_at_revision
from pg_graphrag.server import Row

# Names in more chunks are hubs: what leads to a country is not read for its row.
MAX_MENTIONS = 20
# Entities of which a session caches whether they are one with others, and about what one takes that is.
MAX_CACHED = 50_000
GROUP_BYTES = 250
_ROWS = "SELECT r.name_id, r.entity_id FROM graphrag._rows_named($1, $2) r"
# Of rows among the entities $1, or of which one of these is a name.
_NAMES = """
SELECT r.name_id, r.entity_id
  FROM graphrag._names_of_rows(ARRAY(
           SELECT coalesce(n.entity_id, u.id)
             FROM pg_catalog.unnest($1) AS u (id)
             LEFT JOIN graphrag._rows_named($1, $2) AS n ON n.name_id = u.id), $2) r
"""
_PACKED = f"""
SELECT pg_catalog.string_agg(pg_catalog.int8send(n.name_id), ''::bytea) AS names,
       pg_catalog.string_agg(pg_catalog.int8send(n.entity_id), ''::bytea) AS own
  FROM ({_NAMES}) n
"""


@dataclass(frozen=True)
class _Groups:
    """What is known of the entities `asked`, ascending: {entity: the row's own, then its names} of those that are one of several.

    `members`: these, ascending.
    """

    asked: Ids
    members: Ids
    of: dict[int, list[int]]


_NO_GROUPS = _Groups(np.empty(0, np.int64), np.empty(0, np.int64), {})


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

    def groups(self, entities: Ids) -> dict[int, list[int]]:
        """Return {entity: the row's own, then its names} of entities that are one of several.

        Without names in more than MAX_MENTIONS chunks. What was read is cached in the session: a walk meets a thousand entities.
        """
        if not len(entities) or not has_rows(self.query):
            return {}
        new = entities[~within(entities, self._groups.asked)]
        if len(new) and len(self._groups.asked) + len(new) > MAX_CACHED:
            self._groups, new = _NO_GROUPS, entities
        if len(new):
            self._read_groups(new)
        groups = self._groups
        return {entity: groups.of[entity] for entity in entities[within(entities, groups.members)].tolist()}

    @cached_property
    def _groups(self) -> "_Groups":
        """What `groups` returns, of the entities that were asked for."""
        return cache.get(self.query.corpus, self._cache_key) or _NO_GROUPS

    @property
    def _cache_key(self) -> Hashable:
        query = self.query
        return "names of rows", query.corpus.id, None if query.visible is None else visible_digest(query)

    def _read_groups(self, entities: Ids) -> None:
        query, corpus = self.query, self.query.corpus
        row = query.db.query(_PACKED, ["int8[]", "int8[]"], [entities.tolist(), query.visible_ids])[0]
        names, own = int64s(row["names"]).tolist(), int64s(row["own"]).tolist()
        graph = graph_of(query)
        counts = graph.mention_counts(names) if names else {}
        keys = graph.keys(names) if names else {}
        by_row: dict[int, list[int]] = {}
        for name, row_entity in sorted(zip(names, own, strict=True), key=lambda pair: keys[pair[0]].encode()):
            if counts.get(name, 0) <= MAX_MENTIONS:
                by_row.setdefault(row_entity, [row_entity]).append(name)
        # What is cached changes for all queries, or not at all.
        of = self._groups.of | {member: group for group in by_row.values() for member in group}
        asked = union(self._groups.asked, np.append(entities, np.array(names, np.int64)))
        self._groups = _Groups(asked, np.sort(np.fromiter(of, np.int64, len(of))), of)
        if is_at_revision(query.db, corpus):
            size = asked.nbytes + GROUP_BYTES * len(of)
            cache.put(corpus, self._cache_key, self._groups, size)

    def own_of(self, entities: Ids) -> Ids:
        """Return the rows' own entities for those names, (n,), that `groups` has."""
        distinct, place = numbered(entities)
        groups = self.groups(distinct)
        if not groups:
            return entities
        return np.array([groups[entity][0] if entity in groups else entity for entity in distinct.tolist()])[place]

    def members_of(self, entities: Ids) -> Ids:
        """Return entities with the names of the rows among them, that `groups` has, distinct and ascending."""
        groups = self.groups(entities)
        members = [member for group in groups.values() for member in group]
        return distinct(np.append(entities, np.array(members, np.int64)))

    def same(self, entities: Sequence[int]) -> dict[int, list[int]]:
        """Return {entity: the others that are one with it, the row's own first}; no names in more than MAX_MENTIONS chunks."""
        rows = self.rows(entities)
        groups = self.groups(np.array([rows.get(entity, entity) for entity in entities], np.int64))
        same = {}
        for entity in entities:
            row = rows.get(entity, entity)
            same[entity] = [other for other in groups.get(row, [row]) if other != entity]
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
