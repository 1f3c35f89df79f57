"""Hierarchical Leiden, of a whole graph, or of the changed parts of an earlier hierarchy.

Sources: Traag et al. 2019 (arXiv 1810.08473) through graspologic-native; the update is dynamic-frontier local moving
(Sahu 2024, arXiv 2402.11454) with Leiden's guarantee that a community is connected.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pg_graphrag.ground.numeric import Ids, Scores, np
from pg_graphrag.server.backend import in_thread

# A smaller gain of modularity is rounding.
GAIN = 1e-12


@dataclass(frozen=True, slots=True)
class Settings:
    """Parameters; the defaults are GraphRAG's, except `largest_component`, which keeps the largest component alone."""

    max_cluster_size: int = 10
    resolution: float = 1.0
    seed: int = 0xDEADBEEF
    largest_component: bool = False


@dataclass(slots=True)
class Cluster:
    """Members are node numbers, ascending; `parent` is the place of the cluster one level up in the list that has both."""

    level: int
    parent: int | None
    members: Ids


@dataclass
class Graph:
    """An undirected weighted graph over nodes 0 … n-1: edges `low` < `high` (m,) int64, unique and sorted, `weight` (m,) > 0."""

    nodes: int
    low: Ids
    high: Ids
    weight: Scores
    _adjacency: tuple[Ids, Ids, Scores] | None = field(default=None, repr=False)

    @property
    def adjacency(self) -> tuple[Ids, Ids, Scores]:
        """(starts (n + 1,), neighbours (2m,), weights (2m,)): the neighbours of v are neighbours[starts[v] : starts[v + 1]]."""
        if self._adjacency is None:
            ends = np.concatenate([self.low, self.high])
            order = np.argsort(ends, kind="stable")
            starts = np.searchsorted(ends[order], np.arange(self.nodes + 1))
            neighbors = np.concatenate([self.high, self.low])[order]
            self._adjacency = starts, neighbors, np.concatenate([self.weight, self.weight])[order]
        return self._adjacency

    def subgraph(self, members: Ids | list[int]) -> "Graph":
        """Return the graph with only the edges between `members`; the numbers of the nodes stay."""
        is_member = np.zeros(self.nodes, bool)
        is_member[members] = True
        is_inside = is_member[self.low] & is_member[self.high]
        return Graph(self.nodes, self.low[is_inside], self.high[is_inside], self.weight[is_inside])

    def part(self, members: Ids) -> "Graph":
        """Return the graph between `members`, ascending, renumbered 0 … m-1; it costs their edges."""
        starts, neighbors, weights = self.adjacency
        counts = starts[members + 1] - starts[members]
        owners = np.repeat(np.arange(len(members)), counts)
        # Places of their edges: those of each member stand together.
        places = np.arange(len(owners)) + np.repeat(starts[members] - np.cumsum(counts) + counts, counts)
        ends = np.searchsorted(members, neighbors[places])
        is_inside = (ends > owners) & (ends < len(members))
        is_inside[is_inside] = members[ends[is_inside]] == neighbors[places[is_inside]]
        return Graph(len(members), owners[is_inside], ends[is_inside], weights[places[is_inside]])

    def components(self, members: Iterable[int]) -> list[list[int]]:
        """Return the connected parts of `members`, each ascending, the largest first (ties: the one with the first node)."""
        starts, neighbors, _ = self.adjacency
        unvisited = dict.fromkeys(members)
        parts = []
        while unvisited:
            queue = [next(iter(unvisited))]
            del unvisited[queue[0]]
            for node in queue:
                for neighbor in neighbors[starts[node] : starts[node + 1]].tolist():
                    if neighbor in unvisited:
                        del unvisited[neighbor]
                        queue.append(neighbor)
            parts.append(sorted(queue))
        return sorted(parts, key=lambda part: (-len(part), part))


def graph_of(nodes: int, low: Ids, high: Ids, weight: Scores) -> Graph:
    """Return the graph of edges in any order and direction; those between the same two nodes are summed, loops left out."""
    low, high = np.minimum(low, high), np.maximum(low, high)
    pairs, place = np.unique(low * nodes + high, return_inverse=True)
    summed = np.bincount(place, weight, len(pairs))
    is_edge = (pairs // max(nodes, 1) != pairs % max(nodes, 1)) & (summed > 0)
    pairs, summed = pairs[is_edge], summed[is_edge]
    return Graph(nodes, pairs // max(nodes, 1), pairs % max(nodes, 1), summed)


def modularity(graph: Graph, labels: Ids, resolution: float = 1.0) -> float:
    """Return the modularity of a flat partition: `labels` (n,), the community of each node; -1: a community of its own."""
    total = float(graph.weight.sum())
    if not total:
        return 0.0
    is_single = labels < 0
    labels = np.where(is_single, np.arange(graph.nodes) + labels.max(initial=0) + 1, labels)
    _, labels = np.unique(labels, return_inverse=True)
    inner_weight = float(graph.weight[labels[graph.low] == labels[graph.high]].sum())
    degree = np.bincount(graph.low, graph.weight, graph.nodes) + np.bincount(graph.high, graph.weight, graph.nodes)
    sums = np.bincount(labels, degree)
    return inner_weight / total - resolution * float((sums**2).sum()) / (2 * total) ** 2


def cluster(graph: Graph, settings: Settings) -> list[Cluster]:
    """Cluster a whole graph, as GraphRAG does; parents come before children. Nodes without an edge are in no cluster."""
    if settings.largest_component and len(graph.low):
        connected_nodes = np.union1d(graph.low, graph.high).tolist()
        graph = graph.subgraph(graph.components(connected_nodes)[0])
    return _hierarchy(graph, np.arange(graph.nodes), settings, None, 0)


def _hierarchy(graph: Graph, numbers: Ids, settings: Settings, parent: int | None, first: int) -> list[Cluster]:
    """Cluster a graph whose nodes have `numbers` in the whole graph.

    Its top clusters belong to the level below `parent`, a place in a list that already has `first` clusters.
    """
    import graspologic_native

    if not len(graph.low):
        return []
    names = [str(number) for number in numbers.tolist()]
    edges = [
        (names[low], names[high], weight)
        for low, high, weight in zip(graph.low.tolist(), graph.high.tolist(), graph.weight.tolist(), strict=True)
    ]
    assignments = in_thread(
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
    parents: dict[int, int | None] = {}
    for assignment in assignments:
        members[assignment.level, assignment.cluster].append(int(assignment.node))
        parents[assignment.cluster] = assignment.parent_cluster
    order = sorted(members, key=lambda key: (key[0], min(members[key])))
    places = {number: first + index for index, (_, number) in enumerate(order)}
    clusters = []
    for level, number in order:
        mother = parents[number]
        clusters.append(
            Cluster(
                level, parent if mother is None else places[mother], np.array(sorted(members[level, number]), np.int64)
            )
        )
    return clusters


def update(
    graph: Graph, settings: Settings, previous: Sequence[Cluster], changed_nodes: Iterable[int]
) -> list[Cluster]:
    """Cluster again what changed: `previous` is the hierarchy so far, without removed nodes; `changed_nodes` have other edges.

    New nodes, which are in no cluster, count as changed. A cluster without a changed node stays, with all its levels.
    """
    if settings.largest_component and len(graph.low):
        graph = graph.subgraph(graph.components(np.union1d(graph.low, graph.high).tolist())[0])
    connected_nodes = np.union1d(graph.low, graph.high)
    children: dict[int | None, list[int]] = defaultdict(list)
    for place, item in enumerate(previous):
        children[item.parent].append(place)
    return _Update(graph, settings, previous, children, set(changed_nodes)).run(connected_nodes)


class _Update:
    """One run of `update`."""

    def __init__(
        self,
        graph: Graph,
        settings: Settings,
        previous: Sequence[Cluster],
        children: dict[int | None, list[int]],
        changed_nodes: set[int],
    ) -> None:
        self._graph = graph
        self._settings = settings
        self._previous = previous
        self._children = children
        self._changed_nodes = changed_nodes
        self._clusters: list[Cluster] = []

    def run(self, connected_nodes: Ids) -> list[Cluster]:
        self._divide_members(self._graph.part(connected_nodes), connected_nodes, self._children[None], 0, None)
        return self._by_level()

    def _divide_members(self, graph: Graph, members: Ids, old: list[int], level: int, parent: int | None) -> None:
        """Divide `members`, which the `old` clusters of this level divided so far, and go on with each part.

        `graph` is theirs.
        """
        label: dict[int, int] = {}
        for place in old:
            label |= dict.fromkeys(self._previous[place].members.tolist(), place)
        for part, origin in _move(graph, members, label, self._changed_nodes, self._settings.resolution):
            if parent is not None and len(part) == len(members):
                return
            if origin is not None and self._is_same(self._previous[origin].members, part):
                self._keep(origin, level, parent)
                continue
            self._clusters.append(Cluster(level, parent, np.array(part, np.int64)))
            self._divide(part, [] if origin is None else self._children[origin], level, len(self._clusters) - 1)

    def _is_same(self, members: Ids, part: list[int]) -> bool:
        return len(members) == len(part) and not self._changed_nodes.intersection(part) and members.tolist() == part

    def _divide(self, part: list[int], old: list[int], level: int, place: int) -> None:
        if len(part) <= self._settings.max_cluster_size:
            return
        members = np.array(part, np.int64)
        graph = self._graph.part(members)
        if old:
            self._divide_members(graph, members, old, level + 1, place)
            return
        parts = _hierarchy(graph, members, self._settings, place, len(self._clusters))
        if sum(part_cluster.level == 0 for part_cluster in parts) > 1:
            for part_cluster in parts:
                part_cluster.level += level + 1
            self._clusters += parts

    def _keep(self, place: int, level: int, parent: int | None) -> None:
        self._clusters.append(Cluster(level, parent, self._previous[place].members))
        mother = len(self._clusters) - 1
        for child in self._children[place]:
            self._keep(child, level + 1, mother)

    def _by_level(self) -> list[Cluster]:
        clusters = self._clusters
        order = sorted(range(len(clusters)), key=lambda i: (clusters[i].level, int(clusters[i].members[0])))
        place = {index: number for number, index in enumerate(order)}
        clusters = [clusters[index] for index in order]
        for item in clusters:
            item.parent = None if item.parent is None else place[item.parent]
        return clusters


def _move(
    graph: Graph, members: Ids, label: dict[int, int], changed_nodes: set[int], resolution: float
) -> list[tuple[list[int], int | None]]:
    """Move the changed nodes, and the nodes that their moves affect, to the community with the largest gain of modularity.

    `graph` is the graph of `members`, ascending. `label` is the old community of each member; new members have none.
    Returns (members ascending, old label), ordered by first member. When a community falls apart, its largest part keeps
    the label.
    """
    starts, neighbors, weights = graph.adjacency
    numbers = members.tolist()
    weight_sums = np.bincount(graph.low, graph.weight, graph.nodes) + np.bincount(graph.high, graph.weight, graph.nodes)
    total = float(weight_sums.sum()) or 1.0
    degrees = weight_sums.tolist()
    home = [label.get(number, -1 - node) for node, number in enumerate(numbers)]
    sums: dict[int, float] = defaultdict(float)
    for community, degree in zip(home, degrees, strict=True):
        sums[community] += degree
    queue = deque(node for node, number in enumerate(numbers) if number in changed_nodes or home[node] < 0)
    queued = set(queue)
    affected = {home[node] for node in queue}
    while queue:
        node = queue.popleft()
        queued.discard(node)
        span = slice(starts[node], starts[node + 1])
        node_neighbors, shares = neighbors[span].tolist(), weights[span].tolist()
        links: dict[int, float] = defaultdict(float)
        for neighbor, share in zip(node_neighbors, shares, strict=True):
            links[home[neighbor]] += share
        current, degree = home[node], degrees[node]
        sums[current] -= degree
        stay = links.get(current, 0.0) - resolution * degree * sums[current] / total
        best, gain = current, stay
        for target in sorted(links):
            target_gain = links[target] - resolution * degree * sums[target] / total
            if target_gain > gain + GAIN * total:
                best, gain = target, target_gain
        sums[best] += degree
        if best == current:
            continue
        home[node] = best
        affected |= {current, best}
        for neighbor in node_neighbors:
            if home[neighbor] != best and neighbor not in queued:
                queued.add(neighbor)
                queue.append(neighbor)
    _merge(graph, home, affected, sums, resolution / total)
    parts = _parts(graph, home, affected, set(label.values()))
    return [([numbers[node] for node in part], origin) for part, origin in parts]


def _merge(graph: Graph, home: list[int], affected: set[int], sums: dict[int, float], penalty: float) -> None:
    """Merge affected communities with the neighbour that gains most modularity, which no move of a single node can do."""
    starts, neighbors, weights = graph.adjacency
    groups: dict[int, list[int]] = defaultdict(list)
    for node, community in enumerate(home):
        groups[community].append(node)
    queue = deque(sorted(community for community in affected if community in groups))
    while queue:
        community = queue.popleft()
        links: dict[int, float] = defaultdict(float)
        for node in groups.get(community, ()):
            span = slice(starts[node], starts[node + 1])
            for neighbor, share in zip(neighbors[span].tolist(), weights[span].tolist(), strict=True):
                if home[neighbor] != community:
                    links[home[neighbor]] += share
        gains = {target: link - penalty * sums[community] * sums[target] for target, link in links.items()}
        best = max(sorted(gains), key=gains.__getitem__, default=None)
        if best is None or gains[best] <= GAIN / penalty:
            continue
        # The larger community keeps its label.
        smaller, larger = sorted((community, best), key=lambda label: (len(groups[label]), label))
        for node in groups[smaller]:
            home[node] = larger
        groups[larger] += groups.pop(smaller)
        sums[larger] += sums.pop(smaller)
        affected.add(larger)
        queue.append(larger)


def _parts(graph: Graph, home: list[int], affected: set[int], labels: set[int]) -> list[tuple[list[int], int | None]]:
    groups: dict[int, list[int]] = defaultdict(list)
    for node, community in enumerate(home):
        groups[community].append(node)
    parts: list[tuple[list[int], int | None]] = []
    for community, nodes in groups.items():
        pieces = graph.components(nodes) if community in affected else [sorted(nodes)]
        parts += [
            (piece, community if community in labels and not index else None) for index, piece in enumerate(pieces)
        ]
    return sorted(parts, key=lambda part: part[0][0])
