"""Names of rows: if documents call a row by its name, an alias, a code or its key, that entity is the row's own entity.

Both keep mentions of their own, because a caller who may not see the row must get what documents alone say. A caller
who sees the row gets both as one entity, in what he asks for and in what he is shown. A name that several rows have, or
that is another row's own name, belongs to none of them.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from pg_graphrag.ground.numeric import Ids, distinct, int64s, np, numbered, packed, union, within
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.query.query import Query, once, visible_digest
from pg_graphrag.server import Row
from pg_graphrag.server.caches.session_cache import cache, is_at_revision

# Names in more chunks are hubs: what leads to a country is not read for its row.
MAX_MENTIONS = 20
# Entities for which a session caches whether they are one with others, and about how many bytes a name of a row takes.
MAX_CACHED = 50_000
_NAME_BYTES = 500
# Names, each with its row's own entity: of the rows among the entities $1, and of rows that one of these names. By all
# documents, and by the documents $2.
_NAMES = f"""
SELECT {packed(names="r.name_id", own="r.entity_id")}
  FROM graphrag._row_names r
 WHERE r.entity_id = ANY (ARRAY(SELECT coalesce(n.entity_id, u.id)
                                  FROM pg_catalog.unnest($1) AS u (id)
                                  LEFT JOIN graphrag._row_names n ON n.name_id = u.id))
"""
_VISIBLE_NAMES = f"""
SELECT {packed(names="r.name_id", own="r.entity_id")}
  FROM graphrag._names_of_rows(ARRAY(
           SELECT coalesce(n.entity_id, u.id)
             FROM pg_catalog.unnest($1) AS u (id)
             LEFT JOIN graphrag._rows_named($1, $2) AS n ON n.name_id = u.id), $2) r
"""


@dataclass(frozen=True)
class _Names:
    """What is known of the entities `asked`, ascending.

    `rows`: {name: the row's own entity}; `names`: {row's own entity: its names, in the order of their keys}. `groups`:
    {entity that is one of several: the row's own entity, then its names in at most MAX_MENTIONS chunks}; `members`: these,
    ascending.
    """

    asked: Ids
    rows: dict[int, int]
    names: dict[int, list[int]]
    groups: dict[int, list[int]]
    members: Ids


_NO_NAMES = _Names(np.empty(0, np.int64), {}, {}, {}, np.empty(0, np.int64))


class RowNames:
    """Which entities are one with a row's own, as the query's caller sees rows.

    What was read is cached in the session: a walk meets a thousand entities, and a context shows them.
    """

    def __init__(self, query: Query):
        self.query = query
        digest = None if query.visible is None else visible_digest(query)
        self._cache_key: Hashable = "names of rows", query.corpus.id, digest
        self._names: _Names = cache.get(query.corpus, self._cache_key) or _NO_NAMES

    def rows(self, entities: Ids | Iterable[int]) -> dict[int, int]:
        """Return {name: the row's entity} of the entities that name one row."""
        asked = entities if isinstance(entities, np.ndarray) else np.array(list(entities), np.int64)
        rows = self._of(asked).rows
        return {entity: rows[entity] for entity in asked.tolist() if entity in rows} if rows else {}

    def own(self, entity: int) -> int:
        """Return the entity of the row that an entity names; itself if it names none."""
        return self.rows([entity]).get(entity, entity)

    def names(self, entities: Iterable[int]) -> dict[int, list[int]]:
        """Return {row's entity: its names, in the order of their keys} of rows among entities, or that these name."""
        entities = list(entities)
        known = self._of(np.array(entities, np.int64))
        own = dict.fromkeys(known.rows.get(entity, entity) for entity in entities)
        return {entity: known.names[entity] for entity in own if entity in known.names}

    def groups(self, entities: Ids) -> dict[int, list[int]]:
        """Return {entity: the row's own, then its names} of entities that are one of several.

        Without names in more than MAX_MENTIONS chunks.
        """
        known = self._of(entities)
        return {entity: known.groups[entity] for entity in entities[within(entities, known.members)].tolist()}

    def _of(self, entities: Ids) -> _Names:
        """Return what is known, about these entities at least."""
        if len(entities) and self.query.corpus.has_rows:
            new = entities[~within(entities, self._names.asked)]
            if len(new) and len(self._names.asked) + len(new) > MAX_CACHED:
                self._names, new = _NO_NAMES, entities
            if len(new):
                self._read(new)
        return self._names

    def _read(self, entities: Ids) -> None:
        query, corpus = self.query, self.query.corpus
        if query.visible is None:
            row = query.db.query(_NAMES, ["int8[]"], [entities.tolist()])[0]
        else:
            row = query.db.query(_VISIBLE_NAMES, ["int8[]", "int8[]"], [entities.tolist(), query.visible_ids])[0]
        names, own = int64s(row["names"]).tolist(), int64s(row["own"]).tolist()
        graph = graph_of(query)
        counts = graph.mention_counts(names) if names else {}
        keys = graph.keys(names) if names else {}
        by_row: dict[int, list[int]] = {}
        for name, row_entity in sorted(zip(names, own, strict=True), key=lambda pair: keys[pair[0]].encode()):
            by_row.setdefault(row_entity, []).append(name)
        few = {
            row_entity: [row_entity, *(name for name in of_row if counts.get(name, 0) <= MAX_MENTIONS)]
            for row_entity, of_row in by_row.items()
        }
        groups = {member: group for group in few.values() if len(group) > 1 for member in group}
        # The cache changes for all queries, or not at all.
        known = self._names
        self._names = _Names(
            union(known.asked, np.concatenate([entities, np.array([*names, *by_row], np.int64)])),
            known.rows | dict(zip(names, own, strict=True)),
            known.names | by_row,
            known.groups | groups,
            union(known.members, np.fromiter(groups, np.int64, len(groups))),
        )
        if is_at_revision(query.db, corpus):
            size = self._names.asked.nbytes + _NAME_BYTES * len(self._names.rows)
            cache.put(corpus, self._cache_key, self._names, size)

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

        Relationships between a row and its own name are dropped.
        """
        if not self.query.corpus.has_rows:
            return rows
        graph = graph_of(self.query)
        ends = {row["id"]: (row["source_id"], row["target_id"]) for row in graph.ends([row["id"] for row in rows])}
        of_names = self.rows({end for pair in ends.values() for end in pair})
        if not of_names:
            return rows
        own = {row["id"]: row for row in graph.entities(sorted(set(of_names.values())))}
        joined = []
        for row in rows:
            source, target = ends[row["id"]]
            if source not in of_names and target not in of_names:
                joined.append(row)
                continue
            own_source, own_target = of_names.get(source, source), of_names.get(target, target)
            if own_source == own_target:
                continue
            # A session caches the row unchanged.
            if own_source != source:
                row = row | {"source": own[own_source]["name"], "source_key": own[own_source]["key"]}
            if own_target != target:
                row = row | {"target": own[own_target]["name"], "target_key": own[own_target]["key"]}
            joined.append(row)
        return joined


@once
def row_names(query: Query) -> RowNames:
    """Return the names of rows as a query sees them."""
    return RowNames(query)
