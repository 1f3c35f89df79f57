"""graphrag.refresh_communities: find the communities of a corpus, or bring them up to date.

Read, cluster with no transaction open, write the difference under the corpus' lock: ids stay with communities that are
still the same.
"""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pg_graphrag.community import imported
from pg_graphrag.community.leiden import Cluster, Graph, Settings, cluster, graph_of, modularity, update
from pg_graphrag.corpus.corpora import Corpus, find
from pg_graphrag.jobs.queueing import queue
from pg_graphrag.numeric import np
from pg_graphrag.server import Database, Row, columns, reserve, slices

# A community is still the same when it shares more than half of all members with what it was (Jaccard).
SAME = 0.5
# Once so large a share of the relationships has changed, everything is clustered anew: small steps add up.
ANEW = 0.25
# A weight that has changed by less, as a share of the whole, moves nobody: PMI changes a little with every document.
CHANGED = 0.25


@dataclass
class _Known:
    """A stored community."""

    level: int
    parent: int | None
    size: int
    members: frozenset[int]


@dataclass
class _Seen:
    """What one refresh reads: the graph over `entities` (ids by node number), and what was there before."""

    revision: str | None
    horizon: str
    entities: Any
    graph: Graph
    before: dict[int, _Known]
    state: Row | None
    touched: set[int]


def refresh(db: Database, corpus: Corpus, job: Row) -> bool:
    """Serve a job of kind communities; False: documents came meanwhile, so there is more to do. Commits.

    Where workers are not to find communities (any more), only what was imported is taken over.
    """
    if _adopt(db, corpus):
        db.commit()
    if imported.hash_reports(db, corpus):
        db.commit()
    if not corpus.options.communities.automatic:
        return True
    started = time.monotonic()
    seen = _read(db, corpus)
    db.rollback()
    made, how = _cluster(seen, _settings(corpus))
    db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus.id])
    if _state(db, corpus.id, "refreshed_at") != _state_of(seen):  # somebody else was faster
        db.rollback()
        return False
    _write(db, corpus, seen, made, how, time.monotonic() - started)
    return not _is_waiting(db, corpus.id) and _revision(db, corpus.id) == seen.revision


def refresh_named(db: Database, name: str | None) -> str:
    """Serve graphrag.refresh_communities(); return what was done, as JSON."""
    corpus = find(db, name)
    _adopt(db, corpus)
    imported.hash_reports(db, corpus)
    db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus.id])
    started = time.monotonic()
    seen = _read(db, corpus)
    made, how = _cluster(seen, _settings(corpus))
    return json.dumps(_write(db, corpus, seen, made, how, time.monotonic() - started)[1])


def _is_waiting(db: Database, corpus_id: int) -> bool:
    return bool(db.query("SELECT FROM graphrag.imported_communities WHERE corpus_id = $1", ["int4"], [corpus_id]))


def _adopt(db: Database, corpus: Corpus) -> bool:
    """Take over the communities that were imported, and their reports as far as their hashes; return whether there were any.

    What other documents say is left as if it had come since: the next step clusters it, starting from what is taken over.
    """
    if not _is_waiting(db, corpus.id):
        return False
    db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus.id])
    given = imported.waiting(db, corpus.id)
    if given is None:  # somebody else was faster
        return True
    started = time.monotonic()
    seen = _read(db, corpus)
    numbers, made = imported.clusters(given, seen.entities)
    inside = np.zeros(len(seen.entities), bool)
    for one in made:
        inside[one.members] = True
    later = np.isin(seen.entities, imported.others(db, corpus.id)) & ~inside
    seen.graph = seen.graph.within(np.flatnonzero(~later))
    ids, _ = _write(db, corpus, seen, made, "all", time.monotonic() - started)
    imported.store_reports(db, corpus, given, dict(zip(numbers, ids, strict=True)))
    return True


def _settings(corpus: Corpus) -> Settings:
    given = asdict(corpus.options.communities)
    del given["automatic"]
    return Settings(**given)


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


def _state_of(seen: _Seen) -> Row | None:
    return None if seen.state is None else {"refreshed_at": seen.state["refreshed_at"]}


# Rows that were written since the last refresh began to read; all, where the database has been restored since.
_NEWER = (
    "($2 IS NULL OR pg_catalog.age(x.xmin) <= pg_catalog.age($2::xid8::xid)"
    " OR $2::xid8 > pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot()))"
)


def _read(db: Database, corpus: Corpus) -> _Seen:
    revision = _revision(db, corpus.id)
    state = _state(db, corpus.id, "revision::text AS revision, settings, edges, edge_count, changed, refreshed_at")
    row = db.query(
        "SELECT pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::text AS horizon,"
        "       pg_catalog.string_agg(pg_catalog.int8send(e.id), ''::bytea ORDER BY e.key) AS entities"
        "  FROM graphrag.entities e WHERE e.corpus_id = $1",
        ["int4"],
        [corpus.id],
    )[0]
    entities = _int64s(row["entities"])
    low, high, weight = _edges(db, corpus.name)
    by_id = np.argsort(entities)
    low, high = (by_id[np.searchsorted(entities, ends, sorter=by_id)] for ends in (low, high))
    touched = db.query(
        "SELECT pg_catalog.string_agg(pg_catalog.int8send(t.id), ''::bytea) AS ids FROM"
        f" (SELECT x.id FROM graphrag.entities x WHERE x.corpus_id = $1 AND {_NEWER}"
        f"   UNION SELECT x.low_id FROM graphrag.relationships x WHERE x.corpus_id = $1 AND {_NEWER}"
        f"   UNION SELECT x.high_id FROM graphrag.relationships x WHERE x.corpus_id = $1 AND {_NEWER}) t",
        ["int4", "text"],
        [corpus.id, None if state is None else state["revision"]],
    )[0]["ids"]
    graph = graph_of(len(entities), low, high, weight)
    return _Seen(
        revision, row["horizon"], entities, graph, _stored(db, corpus.id), state, set(_int64s(touched).tolist())
    )


def _edges(db: Database, name: str) -> tuple[Any, Any, Any]:
    row = db.query(
        "SELECT pg_catalog.string_agg(pg_catalog.int8send(e.low_id), ''::bytea) AS low,"
        "       pg_catalog.string_agg(pg_catalog.int8send(e.high_id), ''::bytea) AS high,"
        "       pg_catalog.string_agg(pg_catalog.float8send(e.weight), ''::bytea) AS weight"
        "  FROM graphrag.clustered_relationships($1) e",
        ["text"],
        [name],
    )[0]
    weight = np.frombuffer(row["weight"] or b"", ">f8").astype(np.float64)
    return _int64s(row["low"]), _int64s(row["high"]), weight


def _int64s(packed: bytes | None) -> Any:
    return np.frombuffer(packed or b"", ">i8").astype(np.int64)


def _stored(db: Database, corpus_id: int) -> dict[int, _Known]:
    rows = db.query(
        "SELECT c.id, c.level, c.parent_id, c.size,"
        "       (SELECT pg_catalog.string_agg(pg_catalog.int8send(m.entity_id), ''::bytea)"
        "          FROM graphrag.community_members m WHERE m.community_id = c.id) AS members"
        "  FROM graphrag.communities c WHERE c.corpus_id = $1 ORDER BY c.level, c.id",
        ["int4"],
        [corpus_id],
    )
    return {
        row["id"]: _Known(row["level"], row["parent_id"], row["size"], frozenset(_int64s(row["members"]).tolist()))
        for row in rows
    }


def _cluster(seen: _Seen, settings: Settings) -> tuple[list[Cluster], str]:
    """Return the hierarchy, and how much was clustered for it: all, part or nothing."""
    state = seen.state
    if state is None or json.loads(state["settings"]) != asdict(settings):
        return cluster(seen.graph, settings), "all"
    nodes, count = _changed_nodes(seen)
    if state["changed"] + count > ANEW * max(state["edge_count"], len(seen.graph.low)):
        return cluster(seen.graph, settings), "all"
    before = _as_clusters(seen)
    lost = any(len(one.members) != known.size for one, known in zip(before, seen.before.values(), strict=True))
    if not nodes and not lost:
        return before, "nothing"
    seen.state = state | {"changed": state["changed"] + count}
    return update(seen.graph, settings, before, nodes), "part"


def _as_clusters(seen: _Seen) -> list[Cluster]:
    number = {entity: node for node, entity in enumerate(seen.entities.tolist())}
    place = {community: at for at, community in enumerate(seen.before)}
    return [
        Cluster(
            known.level,
            None if known.parent is None else place[known.parent],
            np.array(sorted(number[entity] for entity in known.members if entity in number), np.int64),
        )
        for known in seen.before.values()
    ]


def _packed_edges(seen: _Seen) -> tuple[Any, Any]:
    """Return ((m, 2) entity ids, (m,) float32 shares of the whole weight) of the graph."""
    graph = seen.graph
    shares = graph.weight / (float(graph.weight.sum()) or 1.0)
    ends = (
        np.stack([seen.entities[graph.low], seen.entities[graph.high]], axis=1) if len(graph.low) else np.empty((0, 2))
    )
    return ends.astype("<i8"), shares.astype("<f4")


def _changed_nodes(seen: _Seen) -> tuple[set[int], int]:
    """Return the nodes that have other edges than at the last refresh, and how many edges are others."""
    assert seen.state is not None
    packed, count = seen.state["edges"], seen.state["edge_count"]
    old_ends = np.frombuffer(packed[: 16 * count], "<i8").reshape(-1, 2)
    old = dict(zip(map(tuple, old_ends.tolist()), np.frombuffer(packed[16 * count :], "<f4").tolist(), strict=True))
    ends, shares = _packed_edges(seen)
    changed = []
    for pair, share in zip(map(tuple, ends.tolist()), shares.tolist(), strict=True):
        was = old.pop(pair, 0.0)
        if abs(share - was) > CHANGED * max(share, was):
            changed.append(pair)
    changed += old
    number = {entity: node for node, entity in enumerate(seen.entities.tolist())}
    return {number[entity] for pair in changed for entity in pair if entity in number}, len(changed)


def _write(
    db: Database, corpus: Corpus, seen: _Seen, made: Sequence[Cluster], how: str, seconds: float
) -> tuple[list[int], dict[str, Any]]:
    """Store a hierarchy as a difference to what is there; the corpus is locked. Returns its ids, and what was done."""
    members = [frozenset(seen.entities[one.members].tolist()) for one in made]
    ids = _identify(db, seen.before, made, members)
    parent = {number: None if one.parent is None else ids[one.parent] for number, one in zip(ids, made, strict=True)}
    level = {number: one.level for number, one in zip(ids, made, strict=True)}
    now = dict(zip(ids, members, strict=True))
    was = {number: known.members for number, known in seen.before.items()}
    new = [number for number in ids if number not in was]
    gone = [number for number in was if number not in now]
    kept = [number for number in ids if number in was]
    others = [number for number in kept if was[number] != now[number]]
    moved = [
        number
        for number in kept
        if (seen.before[number].parent, seen.before[number].size) != (parent[number], len(now[number]))
    ]
    _store_communities(db, corpus.id, [(n, level[n], parent[n], len(now[n])) for n in new])
    _move(db, [(n, parent[n], len(now[n])) for n in moved])
    _in_slices(db, "DELETE FROM graphrag.communities WHERE id = ANY ($1)", gone)
    none: frozenset[int] = frozenset()
    _store_members(db, corpus.id, [(n, e) for n in new + others for e in sorted(now[n] - was.get(n, none))])
    _remove_members(db, [(n, e) for n in others for e in sorted(was[n] - now[n])])
    touched = [number for number in kept if not seen.touched.isdisjoint(now[number])]
    _in_slices(
        db,
        "UPDATE graphrag.communities SET report_due = true WHERE id = ANY ($1) AND NOT report_due",
        sorted({*others, *moved, *touched}),
    )
    db.query(
        "SELECT graphrag._project_communities($1, $2)",
        ["int4", "int8[]"],
        [corpus.id, sorted({*new, *moved, *others, *gone})],
    )
    quality = _keep_state(db, corpus, seen, made, how, seconds)
    due = db.query(
        "SELECT pg_catalog.count(*) AS n FROM graphrag.communities WHERE corpus_id = $1 AND report_due",
        ["int4"],
        [corpus.id],
    )[0]["n"]
    if due:
        queue(db, "reports", corpus.id)
    levels = Counter(one.level for one in made)
    done = {"communities": len(made), "levels": [levels[level] for level in range(len(levels))], "created": len(new)}
    done |= {"changed": len(others), "removed": len(gone), "clustered": how, "modularity": round(quality, 6)}
    return ids, done | {"reports_due": due}


def _identify(
    db: Database, before: dict[int, _Known], made: Sequence[Cluster], members: Sequence[frozenset[int]]
) -> list[int]:
    """Return an id for each new cluster: that of the stored community that it still is, or a new one."""
    home: dict[int, dict[int, int]] = defaultdict(dict)
    for number, known in before.items():
        home[known.level].update(dict.fromkeys(known.members, number))
    found: list[int | None] = []
    for one, inside in zip(made, members, strict=True):
        where = home[one.level]
        shared = Counter(where[entity] for entity in inside if entity in where)
        best = max(sorted(shared), key=shared.__getitem__, default=None)
        same = best is not None and shared[best] > SAME * (len(inside) + len(before[best].members) - shared[best])
        found.append(best if same else None)
    fresh = iter(reserve(db, "communities_id_seq", found.count(None)))
    return [next(fresh) if number is None else number for number in found]


def _store_communities(db: Database, corpus_id: int, rows: Iterable[tuple[int, int, int | None, int]]) -> None:
    for part in slices(rows):
        db.query(
            "INSERT INTO graphrag.communities (corpus_id, id, level, parent_id, size)"
            " SELECT $1, u.* FROM unnest($2, $3, $4, $5) u",
            ["int4", "int8[]", "int4[]", "int8[]", "int4[]"],
            [corpus_id, *columns(part)],
        )


def _move(db: Database, rows: Iterable[tuple[int, int | None, int]]) -> None:
    for part in slices(rows):
        db.query(
            "UPDATE graphrag.communities c SET parent_id = u.parent_id, size = u.size"
            "  FROM unnest($1, $2, $3) AS u (id, parent_id, size) WHERE c.id = u.id",
            ["int8[]", "int8[]", "int4[]"],
            columns(part),
        )


def _store_members(db: Database, corpus_id: int, rows: Iterable[tuple[int, int]]) -> None:
    for part in slices(rows):
        # An entity may have gone since the graph was read.
        db.query(
            "INSERT INTO graphrag.community_members (corpus_id, community_id, entity_id)"
            " SELECT $1, u.community_id, u.entity_id FROM unnest($2, $3) AS u (community_id, entity_id)"
            "  WHERE EXISTS (SELECT FROM graphrag.entities e WHERE e.id = u.entity_id) ON CONFLICT DO NOTHING",
            ["int4", "int8[]", "int8[]"],
            [corpus_id, *columns(part)],
        )


def _remove_members(db: Database, rows: Iterable[tuple[int, int]]) -> None:
    for part in slices(rows):
        db.query(
            "DELETE FROM graphrag.community_members m USING unnest($1, $2) AS u (community_id, entity_id)"
            " WHERE m.community_id = u.community_id AND m.entity_id = u.entity_id",
            ["int8[]", "int8[]"],
            columns(part),
        )


def _in_slices(db: Database, sql: str, ids: Iterable[int]) -> None:
    for part in slices(ids):
        db.query(sql, ["int8[]"], [part])


def _keep_state(db: Database, corpus: Corpus, seen: _Seen, made: Sequence[Cluster], how: str, seconds: float) -> float:
    """Remember what was clustered; return the modularity of level 0."""
    labels = np.full(seen.graph.nodes, -1)
    for number, one in enumerate(made):
        if one.level == 0:
            labels[one.members] = number
    quality = modularity(seen.graph, labels, corpus.options.communities.resolution)
    ends, shares = _packed_edges(seen)
    changed = 0 if how == "all" or seen.state is None else seen.state["changed"]
    db.query(
        "INSERT INTO graphrag.community_states AS s"
        " (corpus_id, revision, settings, edges, edge_count, changed, modularity, seconds, refreshed_at)"
        " VALUES ($1, $2::xid8, $3, $4, $5, $6, $7, $8, pg_catalog.clock_timestamp())"
        " ON CONFLICT (corpus_id) DO UPDATE SET (revision, settings, edges, edge_count, changed, modularity, seconds,"
        " refreshed_at) = (EXCLUDED.revision, EXCLUDED.settings, EXCLUDED.edges, EXCLUDED.edge_count, EXCLUDED.changed,"
        " EXCLUDED.modularity, EXCLUDED.seconds, EXCLUDED.refreshed_at)",
        ["int4", "text", "jsonb", "bytea", "int4", "int4", "float8", "float8"],
        [
            corpus.id,
            seen.horizon,
            json.dumps(asdict(_settings(corpus))),
            ends.tobytes() + shares.tobytes(),
            len(shares),
            changed,
            quality,
            seconds,
        ],
    )
    return quality
