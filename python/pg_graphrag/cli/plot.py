"""``pg-graphrag plot``: a drawing of the graph by community."""

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from pg_graphrag.cli.database import connect
from pg_graphrag.client.graph import stream, to_networkx
from pg_graphrag.exchange.plot import Groups, plot

if TYPE_CHECKING:
    import networkx

_TITLES = (
    "SELECT o.community_id, o.title FROM graphrag.community_overview o WHERE o.corpus = %s AND o.title IS NOT NULL"
)


def draw(url: str, corpus: str, path: Path, max_nodes: int, level: int) -> int:
    """Draw the most connected entities of a corpus and say what was drawn."""
    with connect(url) as connection:
        whole = to_networkx(stream(connection, corpus))
        titles = dict(connection.execute(_TITLES, [corpus]).fetchall())
    shown = sorted(whole, key=lambda node: (-whole.degree(node), node))[:max_nodes]
    graph = whole.subgraph(shown)
    groups = groups_of(graph, level, titles)
    among = "" if len(shown) == len(whole) else f", the most connected of {len(whole):,}"
    counts = f"{len(shown):,} entities{among}, {graph.number_of_edges():,} relationships"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        plot(graph, groups, path, f"{corpus}: {counts}")
    if path.suffix.lower() != ".svg" and any("missing from font" in str(one.message) for one in said):
        hint = "write SVG, which its reader's fonts show, or install a font such as Noto Sans CJK"
        print(f"pg-graphrag: no font of this machine has all letters of the names: {hint}", file=sys.stderr)
    print(f"{path}: {counts}, by {groups.kind.lower()}")
    return 0


def groups_of(graph: "networkx.Graph[str]", level: int, titles: dict[int, str]) -> Groups:
    """Return the communities of a level, or above where one is not divided that far; types, where there are none yet.

    Communities without a report are named by their most connected members.
    """
    columns = [f"community_{one}" for one in range(level, -1, -1)]
    of = {}
    for node, about in graph.nodes(data=True):
        home = next((about[column] for column in columns if column in about), None)
        if home is not None:
            of[node] = home
    if not of:
        return Groups("Types", {node: graph.nodes[node]["type"] for node in graph}, {})
    members: dict[int, list[str]] = {}
    for node in sorted(of, key=lambda node: (-graph.degree(node), node)):
        members.setdefault(of[node], []).append(graph.nodes[node]["name"])
    names = {community: titles.get(community) or ", ".join(some[:3]) for community, some in members.items()}
    return Groups("Communities", of, names)
