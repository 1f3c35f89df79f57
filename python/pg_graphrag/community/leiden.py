"""Hierarchical Leiden, from nothing or from an earlier hierarchy of which only what changed is clustered again.

Sources: Traag et al. 2019 (arXiv 1810.08473) through graspologic-native; the update is dynamic-frontier local moving
(Sahu 2024, arXiv 2402.11454) with Leiden's guarantee that a community is connected.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pg_graphrag.interrupts import in_thread
from pg_graphrag.numeric import np

# A move must bring so much modularity: what is less is rounding.
GAIN = 1e-12


@dataclass(frozen=True, slots=True)
class Settings:
    """Parameters; the defaults are GraphRAG's, but for `largest_component`: it leaves out what is not connected to the most."""

    max_cluster_size: int = 10
    resolution: float = 1.0
    seed: int = 0xDEADBEEF
    largest_component: bool = False


@dataclass(slots=True)
class Cluster:
    """Members are node numbers, ascending; `parent` is the place of the cluster one level up in the list that has both."""

    level: int
    parent: int | None
    members: Any


@dataclass
class Graph:
    """An undirected weighted graph over nodes 0 … n-1: edges `low` < `high` (m,) int64, unique and sorted, `weight` (m,) > 0."""

    nodes: int
    low: Any
    high: Any
    weight: Any
    _adjacency: tuple[Any, Any, Any] | None = field(default=None, repr=False)

    @property
    def adjacency(self) -> tuple[Any, Any, Any]:
        """(starts (n + 1,), neighbours (2m,), weights (2m,)): the neighbours of v are neighbours[starts[v] : starts[v + 1]]."""
        if self._adjacency is None:
            ends = np.concatenate([self.low, self.high])
            order = np.argsort(ends, kind="stable")
            starts = np.searchsorted(ends[order], np.arange(self.nodes + 1))
            others = np.concatenate([self.high, self.low])[order]
            self._adjacency = starts, others, np.concatenate([self.weight, self.weight])[order]
        return self._adjacency

    def within(self, members: Any) -> "Graph":
        """Return the graph with only the edges between `members`; the numbers of the nodes stay."""
        inside = np.zeros(self.nodes, bool)
        inside[members] = True
        kept = inside[self.low] & inside[self.high]
        return Graph(self.nodes, self.low[kept], self.high[kept], self.weight[kept])

    def components(self, members: Iterable[int]) -> list[list[int]]:
        """Return the connected parts of `members`, each ascending, the largest first (ties: the one with the first node)."""
        starts, others, _ = self.adjacency
        left = dict.fromkeys(members)
        found = []
        while left:
            queue = [next(iter(left))]
            del left[queue[0]]
            for node in queue:
                for other in others[starts[node] : starts[node + 1]].tolist():
                    if other in left:
                        del left[other]
                        queue.append(other)
            found.append(sorted(queue))
        return sorted(found, key=lambda part: (-len(part), part))


def graph_of(nodes: int, low: Any, high: Any, weight: Any) -> Graph:
    """Return the graph of edges in any order and direction; those between the same two nodes are summed, loops left out."""
    low, high = np.minimum(low, high), np.maximum(low, high)
    pairs, place = np.unique(low * nodes + high, return_inverse=True)
    summed = np.bincount(place, weight, len(pairs))
    kept = (pairs // max(nodes, 1) != pairs % max(nodes, 1)) & (summed > 0)
    pairs, summed = pairs[kept], summed[kept]
    return Graph(nodes, pairs // max(nodes, 1), pairs % max(nodes, 1), summed)


def modularity(graph: Graph, labels: Any, resolution: float = 1.0) -> float:
    """Return the modularity of a flat partition: `labels` (n,) int64, each node its community; -1: none of its own."""
    total = float(graph.weight.sum())
    if not total:
        return 0.0
    alone = labels < 0
    labels = np.where(alone, np.arange(graph.nodes) + labels.max(initial=0) + 1, labels)
    _, labels = np.unique(labels, return_inverse=True)
    inside = float(graph.weight[labels[graph.low] == labels[graph.high]].sum())
    degree = np.bincount(graph.low, graph.weight, graph.nodes) + np.bincount(graph.high, graph.weight, graph.nodes)
    sums = np.bincount(labels, degree)
    return inside / total - resolution * float((sums**2).sum()) / (2 * total) ** 2


def cluster(graph: Graph, settings: Settings) -> list[Cluster]:
    """Cluster from nothing, as GraphRAG does; parents come before their children. Nodes without an edge are in no cluster."""
    if settings.largest_component and len(graph.low):
        connected = np.union1d(graph.low, graph.high).tolist()
        graph = graph.within(graph.components(connected)[0])
    return _hierarchy(graph, settings, None, 0)


def _hierarchy(graph: Graph, settings: Settings, parent: int | None, first: int) -> list[Cluster]:
    """Cluster a graph; its top clusters are of the level below `parent`, a place in a list that has `first` clusters."""
    import graspologic_native

    if not len(graph.low):
        return []
    edges = [
        (str(low), str(high), weight)
        for low, high, weight in zip(graph.low.tolist(), graph.high.tolist(), graph.weight.tolist(), strict=True)
    ]
    found = in_thread(
        lambda: graspologic_native.hierarchical_leiden(
            edges=edges,
            starting_communities=None,
            resolution=settings.resolution,
            randomness=0.001,
            iterations=1,
            use_modularity=True,
            max_cluster_size=settings.max_cluster_size,
            seed=settings.seed,
        )
    )
    members: dict[tuple[int, int], list[int]] = defaultdict(list)
    above: dict[int, int | None] = {}
    for one in found:
        members[one.level, one.cluster].append(int(one.node))
        above[one.cluster] = one.parent_cluster
    order = sorted(members, key=lambda key: (key[0], min(members[key])))
    place = {number: first + at for at, (_, number) in enumerate(order)}
    clusters = []
    for level, number in order:
        mother = above[number]
        clusters.append(
            Cluster(
                level, parent if mother is None else place[mother], np.array(sorted(members[level, number]), np.int64)
            )
        )
    return clusters


def update(graph: Graph, settings: Settings, before: Sequence[Cluster], changed: Iterable[int]) -> list[Cluster]:
    """Cluster again what changed: `before` is the hierarchy so far (gone nodes left out), `changed` nodes have other edges.

    New nodes, which are in no cluster, count as changed. What nothing changed in stays as it is, all levels down.
    """
    if settings.largest_component and len(graph.low):
        graph = graph.within(graph.components(np.union1d(graph.low, graph.high).tolist())[0])
    connected = np.union1d(graph.low, graph.high)
    below: dict[int | None, list[int]] = defaultdict(list)
    for place, one in enumerate(before):
        below[one.parent].append(place)
    return _Update(graph, settings, before, below, set(changed)).run(connected)


class _Update:
    """One run of `update`."""

    def __init__(
        self,
        graph: Graph,
        settings: Settings,
        before: Sequence[Cluster],
        below: dict[int | None, list[int]],
        changed: set[int],
    ) -> None:
        self._graph = graph
        self._settings = settings
        self._before = before
        self._below = below
        self._changed = changed
        self._made: list[Cluster] = []

    def run(self, connected: Any) -> list[Cluster]:
        self._split(self._graph, connected, self._below[None], 0, None)
        return self._by_level()

    def _split(self, graph: Graph, members: Any, old: list[int], level: int, parent: int | None) -> None:
        """Divide `members`, which `old` clusters of this level divided before, and go on with each part."""
        label: dict[int, int] = {}
        for place in old:
            label |= dict.fromkeys(self._before[place].members.tolist(), place)
        for part, came in _move(graph, members, label, self._changed, self._settings.resolution):
            if parent is not None and len(part) == len(members):
                return
            if came is not None and self._is_same(self._before[came].members, part):
                self._keep(came, level, parent)
                continue
            self._made.append(Cluster(level, parent, np.array(part, np.int64)))
            self._divide(part, [] if came is None else self._below[came], level, len(self._made) - 1)

    def _is_same(self, known: Any, part: list[int]) -> bool:
        return len(known) == len(part) and not self._changed.intersection(part) and known.tolist() == part

    def _divide(self, part: list[int], old: list[int], level: int, place: int) -> None:
        if len(part) <= self._settings.max_cluster_size:
            return
        inside = self._graph.within(np.array(part, np.int64))
        if old:
            self._split(inside, np.array(part, np.int64), old, level + 1, place)
            return
        found = _hierarchy(inside, self._settings, place, len(self._made))
        if sum(one.level == 0 for one in found) > 1:
            for one in found:
                one.level += level + 1
            self._made += found

    def _keep(self, place: int, level: int, parent: int | None) -> None:
        self._made.append(Cluster(level, parent, self._before[place].members))
        mother = len(self._made) - 1
        for child in self._below[place]:
            self._keep(child, level + 1, mother)

    def _by_level(self) -> list[Cluster]:
        order = sorted(range(len(self._made)), key=lambda at: (self._made[at].level, int(self._made[at].members[0])))
        place = {at: number for number, at in enumerate(order)}
        made = [self._made[at] for at in order]
        for one in made:
            one.parent = None if one.parent is None else place[one.parent]
        return made


def _move(
    graph: Graph, members: Any, label: dict[int, int], changed: set[int], resolution: float
) -> list[tuple[list[int], int | None]]:
    """Move the changed nodes, and those their moves concern, to the community that gains most modularity.

    `label` says where each of `members` was; others are new. Returns (members ascending, the label it came from), where
    of several parts of one label, when it fell apart, the largest keeps it; ordered by first member.
    """
    starts, others, weights = graph.adjacency
    nodes = members.tolist()
    degrees = np.zeros(graph.nodes)
    degrees += np.bincount(graph.low, graph.weight, graph.nodes)
    degrees += np.bincount(graph.high, graph.weight, graph.nodes)
    total = float(degrees[members].sum()) or 1.0
    inside = set(nodes)
    home = {node: label.get(node, -1 - node) for node in nodes}
    sums: dict[int, float] = defaultdict(float)
    for node, degree in zip(nodes, degrees[members].tolist(), strict=True):
        sums[home[node]] += degree
    queue = deque(node for node in nodes if node in changed or home[node] < 0)
    waiting = set(queue)
    touched = {home[node] for node in queue}
    while queue:
        node = queue.popleft()
        waiting.discard(node)
        span = slice(starts[node], starts[node + 1])
        near, shares = others[span].tolist(), weights[span].tolist()
        links: dict[int, float] = defaultdict(float)
        for other, share in zip(near, shares, strict=True):
            if other in inside:
                links[home[other]] += share
        here, degree = home[node], float(degrees[node])
        sums[here] -= degree
        stay = links.get(here, 0.0) - resolution * degree * sums[here] / total
        best, gain = here, stay
        for there in sorted(links):
            found = links[there] - resolution * degree * sums[there] / total
            if found > gain + GAIN * total:
                best, gain = there, found
        sums[best] += degree
        if best == here:
            continue
        home[node] = best
        touched |= {here, best}
        for other in near:
            if other in inside and home[other] != best and other not in waiting:
                waiting.add(other)
                queue.append(other)
    _merge(graph, home, touched, sums, resolution / total)
    return _parts(graph, home, touched, label)


def _merge(graph: Graph, home: dict[int, int], touched: set[int], sums: dict[int, float], penalty: float) -> None:
    """Join touched communities whole to the neighbour that gains most modularity: what no single node's move can do."""
    starts, others, weights = graph.adjacency
    groups: dict[int, list[int]] = defaultdict(list)
    for node, where in home.items():
        groups[where].append(node)
    waiting = deque(sorted(where for where in touched if where in groups))
    while waiting:
        where = waiting.popleft()
        links: dict[int, float] = defaultdict(float)
        for node in groups.get(where, ()):
            span = slice(starts[node], starts[node + 1])
            for other, share in zip(others[span].tolist(), weights[span].tolist(), strict=True):
                if other in home and home[other] != where:
                    links[home[other]] += share
        gains = {there: link - penalty * sums[where] * sums[there] for there, link in links.items()}
        best = max(sorted(gains), key=gains.__getitem__, default=None)
        if best is None or gains[best] <= GAIN / penalty:
            continue
        # The larger one keeps its name.
        small, large = sorted((where, best), key=lambda one: (len(groups[one]), one))
        for node in groups[small]:
            home[node] = large
        groups[large] += groups.pop(small)
        sums[large] += sums.pop(small)
        touched.add(large)
        waiting.append(large)


def _parts(
    graph: Graph, home: dict[int, int], touched: set[int], label: dict[int, int]
) -> list[tuple[list[int], int | None]]:
    groups: dict[int, list[int]] = defaultdict(list)
    for node, where in home.items():
        groups[where].append(node)
    known = set(label.values())
    parts: list[tuple[list[int], int | None]] = []
    for where, nodes in groups.items():
        pieces = graph.components(nodes) if where in touched else [sorted(nodes)]
        parts += [(piece, where if where in known and not at else None) for at, piece in enumerate(pieces)]
    return sorted(parts, key=lambda part: part[0][0])
