"""graphrag.refresh_communities: finds the communities of a corpus, or brings them up to date.

It reads the graph, clusters it without an open transaction, and writes the difference under the corpus' lock. A
community that is still the same keeps its id.
"""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pg_graphrag.ground.numeric import Ids, NDArray, Scores, float64s, int64s, np, packed, places_of
from pg_graphrag.index.community import imported_communities
from pg_graphrag.index.community.leiden import Cluster, Graph, Settings, cluster, graph_of, modularity, update
from pg_graphrag.index.community.reports import hash_reports
from pg_graphrag.server import Database, Row, reserve
from pg_graphrag.server.corpus.corpora import Corpus, find_corpus
from pg_graphrag.server.queue import Job, queue

# A community keeps its id when its old and new members have a Jaccard similarity above this.
SAME = 0.5
# Once so large a share of the relationships has changed, the whole graph is clustered: small steps add up.
ANEW = 0.25
# A weight that changed by a smaller share moves no node: PMI changes a little with every document.
CHANGED = 0.25


@dataclass
class _StoredCommunity:
    """A stored community."""

    level: int
    parent: int | None
    size: int
    members: frozenset[int]


@dataclass
class _Snapshot:
    """What one refresh reads: the graph over `entities` (ids by node number), and the stored communities.

    `names`: {name of a row: the row's own entity}. A name is a member of its row's communities, and not counted in their sizes.
    """

    revision: str | None
    horizon: str
    entities: Ids
    graph: Graph
    stored: dict[int, _StoredCommunity]
    state: Row | None
    changed_entities: set[int]
    names: dict[int, int]


def refresh(db: Database, corpus: Corpus, job: Job) -> bool:
    """Serve a job of kind communities; False: documents came meanwhile, so there is more to do. Commits.

    Where the option turns workers off, only imported communities are taken over.
    """
    if _take_over_imports(db, corpus):
        db.commit()
    if hash_reports(db, corpus):
        db.commit()
    if not corpus.options.communities.automatic:
        return True
    start = time.process_time()
    snapshot = _read_snapshot(db, corpus)
    db.rollback()
    clusters, extent = _cluster(snapshot, _settings(corpus))
    db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus.id])
    if _state(db, corpus.id, "refreshed_at") != _state_of(snapshot):  # another session was faster
        db.rollback()
        return False
    _write(db, corpus, snapshot, clusters, extent, time.process_time() - start)
    return not _is_waiting(db, corpus.id) and _revision(db, corpus.id) == snapshot.revision


def refresh_named(db: Database, name: str | None) -> str:
    """Serve graphrag.refresh_communities(); return a summary as JSON."""
    corpus = find_corpus(db, name)
    _take_over_imports(db, corpus)
    hash_reports(db, corpus)
    db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus.id])
    start = time.process_time()
    snapshot = _read_snapshot(db, corpus)
    clusters, extent = _cluster(snapshot, _settings(corpus))
    return json.dumps(_write(db, corpus, snapshot, clusters, extent, time.process_time() - start)[1])


def _is_waiting(db: Database, corpus_id: int) -> bool:
    return bool(db.query("SELECT FROM graphrag.imported_communities WHERE corpus_id = $1", ["int4"], [corpus_id]))


def _take_over_imports(db: Database, corpus: Corpus) -> bool:
    """Take over imported communities and their reports, without hashes; return whether there were any.

    What other documents say counts as newer: the next step clusters it, starting from the imported communities.
    """
    if not _is_waiting(db, corpus.id):
        return False
    db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus.id])
    pending = imported_communities.take_pending(db, corpus.id)
    if pending is None:  # another session was faster
        return True
    start = time.process_time()
    snapshot = _read_snapshot(db, corpus)
    numbers, clusters = imported_communities.clusters(pending, snapshot.entities)
    is_imported = np.zeros(len(snapshot.entities), bool)
    for item in clusters:
        is_imported[item.members] = True
    is_later = np.isin(snapshot.entities, imported_communities.entities_not_imported(db, corpus.id)) & ~is_imported
    snapshot.graph = snapshot.graph.subgraph(np.flatnonzero(~is_later))
    ids, _ = _write(db, corpus, snapshot, clusters, "all", time.process_time() - start)
    imported_communities.store_reports(db, corpus, pending, dict(zip(numbers, ids, strict=True)))
    return True


def _settings(corpus: Corpus) -> Settings:
    values = asdict(corpus.options.communities)
    del values["automatic"]
    return Settings(**values)


def _revision(db: Database, corpus_id: int) -> str | None:
    rows = db.query(
        "SELECT r.revision::text AS revision FROM graphrag.corpus_revisions r WHERE r.corpus_id = $1",
        ["int4"],
        [corpus_id],
    )
    return rows[0]["revision"] if rows else None


def _state(db: Database, corpus_id: int, fields: str) -> Row | None:
    rows = db.query(f"SELECT {fields} FROM graphrag.community_states WHERE corpus_id = $1", ["int4"], [corpus_id])
    return rows[0] if rows else None


def _state_of(snapshot: _Snapshot) -> Row | None:
    return None if snapshot.state is None else {"refreshed_at": snapshot.state["refreshed_at"]}


# Rows written since the last refresh began to read; all rows, where the database has been restored since.
_NEWER = (
    "($2 IS NULL OR pg_catalog.age(x.xmin) <= pg_catalog.age($2::xid8::xid)"
    " OR $2::xid8 > pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot()))"
)


def _read_snapshot(db: Database, corpus: Corpus) -> _Snapshot:
    revision = _revision(db, corpus.id)
    state = _state(db, corpus.id, "revision::text AS revision, settings, edges, edge_count, changed, refreshed_at")
    row = db.query(
        "SELECT pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::text AS horizon,"
        f"       {packed('e.key', entities='e.id')}"
        "  FROM graphrag.entities e WHERE e.corpus_id = $1",
        ["int4"],
        [corpus.id],
    )[0]
    entities = int64s(row["entities"])
    low, high, weight = _edges(db, corpus.name)
    low, high = places_of(np.stack([low, high]), entities)
    changed_ids = db.value(
        "SELECT pg_catalog.string_agg(pg_catalog.int8send(t.id), ''::bytea) FROM"
        f" (SELECT x.id FROM graphrag.entities x WHERE x.corpus_id = $1 AND {_NEWER}"
        f"   UNION SELECT x.low_id FROM graphrag.relationships x WHERE x.corpus_id = $1 AND {_NEWER}"
        f"   UNION SELECT x.high_id FROM graphrag.relationships x WHERE x.corpus_id = $1 AND {_NEWER}) t",
        ["int4", "text"],
        [corpus.id, None if state is None else state["revision"]],
    )
    graph = graph_of(len(entities), low, high, weight)
    return _Snapshot(
        revision,
        row["horizon"],
        entities,
        graph,
        _stored_communities(db, corpus.id),
        state,
        set(int64s(changed_ids).tolist()),
        {
            row["name_id"]: row["entity_id"]
            for row in db.query(
                "SELECT n.name_id, n.entity_id FROM graphrag._row_names n WHERE n.corpus_id = $1", ["int4"], [corpus.id]
            )
        },
    )


def _edges(db: Database, name: str) -> tuple[Ids, Ids, Scores]:
    row = db.query(
        f"SELECT {packed(low='e.low_id', high='e.high_id', weight='e.weight::float8')}"
        "  FROM graphrag.clustered_relationships($1) e",
        ["text"],
        [name],
    )[0]
    return int64s(row["low"]), int64s(row["high"]), float64s(row["weight"])


def _stored_communities(db: Database, corpus_id: int) -> dict[int, _StoredCommunity]:
    rows = db.query(
        "SELECT c.id, c.level, c.parent_id, c.size,"
        f"       {packed(members='m.entity_id')}"
        "  FROM graphrag.communities c LEFT JOIN graphrag.community_members m ON m.community_id = c.id"
        " WHERE c.corpus_id = $1 GROUP BY c.id ORDER BY c.level, c.id",
        ["int4"],
        [corpus_id],
    )
    return {
        row["id"]: _StoredCommunity(
            row["level"], row["parent_id"], row["size"], frozenset(int64s(row["members"]).tolist())
        )
        for row in rows
    }


def _cluster(snapshot: _Snapshot, settings: Settings) -> tuple[list[Cluster], str]:
    """Return the hierarchy, and how much was clustered for it: all, part or nothing."""
    state = snapshot.state
    if state is None or json.loads(state["settings"]) != asdict(settings):
        return cluster(snapshot.graph, settings), "all"
    nodes, count = _changed_nodes(snapshot)
    if state["changed"] + count > ANEW * max(state["edge_count"], len(snapshot.graph.low)):
        return cluster(snapshot.graph, settings), "all"
    previous = _as_clusters(snapshot)
    has_lost_members = any(
        len(item.members) != community.size for item, community in zip(previous, snapshot.stored.values(), strict=True)
    )
    if not nodes and not has_lost_members:
        return previous, "nothing"
    snapshot.state = state | {"changed": state["changed"] + count}
    return update(snapshot.graph, settings, previous, nodes), "part"


def _as_clusters(snapshot: _Snapshot) -> list[Cluster]:
    number = {entity: node for node, entity in enumerate(snapshot.entities.tolist())}
    places = {community: index for index, community in enumerate(snapshot.stored)}
    return [
        Cluster(
            item.level,
            None if item.parent is None else places[item.parent],
            np.array(
                sorted(number[entity] for entity in item.members if entity in number and entity not in snapshot.names),
                np.int64,
            ),
        )
        for item in snapshot.stored.values()
    ]


def _packed_edges(snapshot: _Snapshot) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return ((m, 2) entity ids, (m,) float32 shares of the whole weight) of the graph."""
    graph = snapshot.graph
    shares = graph.weight / (float(graph.weight.sum()) or 1.0)
    ends = (
        np.stack([snapshot.entities[graph.low], snapshot.entities[graph.high]], axis=1)
        if len(graph.low)
        else np.empty((0, 2))
    )
    return ends.astype("<i8"), shares.astype("<f4")


def _changed_nodes(snapshot: _Snapshot) -> tuple[set[int], int]:
    """Return the nodes whose edges differ from those at the last refresh, and how many edges differ."""
    assert snapshot.state is not None
    edges, count = snapshot.state["edges"], snapshot.state["edge_count"]
    old_ends = np.frombuffer(edges[: 16 * count], "<i8").reshape(-1, 2)
    old = dict(zip(map(tuple, old_ends.tolist()), np.frombuffer(edges[16 * count :], "<f4").tolist(), strict=True))
    ends, shares = _packed_edges(snapshot)
    changed_pairs = []
    for pair, share in zip(map(tuple, ends.tolist()), shares.tolist(), strict=True):
        was = old.pop(pair, 0.0)
        if abs(share - was) > CHANGED * max(share, was):
            changed_pairs.append(pair)
    changed_pairs += old
    number = {entity: node for node, entity in enumerate(snapshot.entities.tolist())}
    return {number[entity] for pair in changed_pairs for entity in pair if entity in number}, len(changed_pairs)


_INSERT = """
INSERT INTO graphrag.communities (corpus_id, id, level, parent_id, size)
SELECT $1, u.* FROM unnest($2, $3, $4, $5) u
"""
_MOVE = """
UPDATE graphrag.communities c SET parent_id = u.parent_id, size = u.size
  FROM unnest($1, $2, $3) AS u (id, parent_id, size) WHERE c.id = u.id
"""
# An entity may have been removed since the graph was read.
_INSERT_MEMBERS = """
INSERT INTO graphrag.community_members (corpus_id, community_id, entity_id)
SELECT $1, u.community_id, u.entity_id FROM unnest($2, $3) AS u (community_id, entity_id)
 WHERE EXISTS (SELECT FROM graphrag.entities e WHERE e.id = u.entity_id) ON CONFLICT DO NOTHING
"""
_REMOVE_MEMBERS = """
DELETE FROM graphrag.community_members m USING unnest($1, $2) AS u (community_id, entity_id)
 WHERE m.community_id = u.community_id AND m.entity_id = u.entity_id
"""


def _write(
    db: Database, corpus: Corpus, snapshot: _Snapshot, clusters: Sequence[Cluster], extent: str, seconds: float
) -> tuple[list[int], dict[str, Any]]:
    """Store the difference between a hierarchy and the stored one; the corpus is locked. Returns ids and a summary."""
    names_of: dict[int, list[int]] = defaultdict(list)
    for name, row in snapshot.names.items():
        names_of[row].append(name)
    members = [
        frozenset(
            one for entity in snapshot.entities[item.members].tolist() for one in (entity, *names_of.get(entity, ()))
        )
        for item in clusters
    ]
    sizes = [len(item.members) for item in clusters]
    ids = _identify(db, snapshot.stored, clusters, members)
    parent = {
        number: None if item.parent is None else ids[item.parent] for number, item in zip(ids, clusters, strict=True)
    }
    level = {number: item.level for number, item in zip(ids, clusters, strict=True)}
    new_members = dict(zip(ids, members, strict=True))
    size = dict(zip(ids, sizes, strict=True))
    old_members = {number: community.members for number, community in snapshot.stored.items()}
    new_ids = [number for number in ids if number not in old_members]
    removed_ids = [number for number in old_members if number not in new_members]
    kept_ids = [number for number in ids if number in old_members]
    changed_ids = [number for number in kept_ids if old_members[number] != new_members[number]]
    moved_ids = [
        number
        for number in kept_ids
        if (snapshot.stored[number].parent, snapshot.stored[number].size) != (parent[number], size[number])
    ]
    stored = [(n, level[n], parent[n], size[n]) for n in new_ids]
    db.query_rows(_INSERT, ["int4", "int8[]", "int4[]", "int8[]", "int4[]"], stored, corpus.id)
    db.query_rows(_MOVE, ["int8[]", "int8[]", "int4[]"], [(n, parent[n], size[n]) for n in moved_ids])
    db.query_rows("DELETE FROM graphrag.communities WHERE id = ANY ($1)", ["int8[]"], removed_ids)
    none: frozenset[int] = frozenset()
    joined = [(n, e) for n in new_ids + changed_ids for e in sorted(new_members[n] - old_members.get(n, none))]
    db.query_rows(_INSERT_MEMBERS, ["int4", "int8[]", "int8[]"], joined, corpus.id)
    left = [(n, e) for n in changed_ids for e in sorted(old_members[n] - new_members[n])]
    db.query_rows(_REMOVE_MEMBERS, ["int8[]", "int8[]"], left)
    restated_ids = [number for number in kept_ids if not snapshot.changed_entities.isdisjoint(new_members[number])]
    db.query_rows(
        "UPDATE graphrag.communities SET report_due = true WHERE id = ANY ($1) AND NOT report_due",
        ["int8[]"],
        sorted({*changed_ids, *moved_ids, *restated_ids}),
    )
    db.query(
        "SELECT graphrag._project_communities($1, $2)",
        ["int4", "int8[]"],
        [corpus.id, sorted({*new_ids, *moved_ids, *changed_ids, *removed_ids})],
    )
    quality = _keep_state(db, corpus, snapshot, clusters, extent, seconds)
    due_count = db.value(
        "SELECT pg_catalog.count(*) FROM graphrag.communities WHERE corpus_id = $1 AND report_due",
        ["int4"],
        [corpus.id],
    )
    if due_count:
        queue(db, "reports", corpus.id)
    levels = Counter(item.level for item in clusters)
    summary = {
        "communities": len(clusters),
        "levels": [levels[level] for level in range(len(levels))],
        "created": len(new_ids),
    }
    summary |= {
        "changed": len(changed_ids),
        "removed": len(removed_ids),
        "clustered": extent,
        "modularity": round(quality, 6),
    }
    return ids, summary | {"reports_due": due_count}


def _identify(
    db: Database, stored: dict[int, _StoredCommunity], clusters: Sequence[Cluster], members: Sequence[frozenset[int]]
) -> list[int]:
    """Return an id for each cluster: that of the stored community with mostly the same members, or a new one."""
    home: dict[int, dict[int, int]] = defaultdict(dict)
    for number, community in stored.items():
        home[community.level].update(dict.fromkeys(community.members, number))
    matches: list[int | None] = []
    for item, entities in zip(clusters, members, strict=True):
        community_of = home[item.level]
        shared_counts = Counter(community_of[entity] for entity in entities if entity in community_of)
        best = max(sorted(shared_counts), key=shared_counts.__getitem__, default=None)
        is_same = best is not None and shared_counts[best] > SAME * (
            len(entities) + len(stored[best].members) - shared_counts[best]
        )
        matches.append(best if is_same else None)
    new_ids = iter(reserve(db, "communities_id_seq", matches.count(None)))
    return [next(new_ids) if number is None else number for number in matches]


def _keep_state(
    db: Database, corpus: Corpus, snapshot: _Snapshot, clusters: Sequence[Cluster], extent: str, seconds: float
) -> float:
    """Store the state of the clustering; return the modularity of level 0."""
    labels = np.full(snapshot.graph.nodes, -1)
    for number, item in enumerate(clusters):
        if item.level == 0:
            labels[item.members] = number
    quality = modularity(snapshot.graph, labels, corpus.options.communities.resolution)
    ends, shares = _packed_edges(snapshot)
    changed_count = 0 if extent == "all" or snapshot.state is None else snapshot.state["changed"]
    db.query(
        "INSERT INTO graphrag.community_states AS s"
        " (corpus_id, revision, settings, edges, edge_count, changed, modularity, seconds, community_count, refreshed_at)"
        " VALUES ($1, $2::xid8, $3, $4, $5, $6, $7, $8, $9, pg_catalog.clock_timestamp())"
        " ON CONFLICT (corpus_id) DO UPDATE SET (revision, settings, edges, edge_count, changed, modularity, seconds,"
        " community_count, refreshed_at) = (EXCLUDED.revision, EXCLUDED.settings, EXCLUDED.edges, EXCLUDED.edge_count,"
        " EXCLUDED.changed, EXCLUDED.modularity, EXCLUDED.seconds, EXCLUDED.community_count, EXCLUDED.refreshed_at)",
        ["int4", "text", "jsonb", "bytea", "int4", "int4", "float8", "float8", "int4"],
        [
            corpus.id,
            snapshot.horizon,
            json.dumps(asdict(_settings(corpus))),
            ends.tobytes() + shares.tobytes(),
            len(shares),
            changed_count,
            quality,
            seconds,
            len(clusters),
        ],
    )
    return quality
