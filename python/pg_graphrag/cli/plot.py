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
        full_graph = to_networkx(stream(connection, corpus))
        titles = dict(connection.execute(_TITLES, [corpus]).fetchall())
    nodes = sorted(full_graph, key=lambda node: (-full_graph.degree(node), node))[:max_nodes]
    graph = full_graph.subgraph(nodes)
    groups = groups_of(graph, level, titles)
    scope = "" if len(nodes) == len(full_graph) else f", the most connected of {len(full_graph):,}"
    counts = f"{len(nodes):,} entities{scope}, {graph.number_of_edges():,} relationships"
    with warnings.catch_warnings(record=True) as font_warnings:
        warnings.simplefilter("always")
        plot(graph, groups, path, f"{corpus}: {counts}")
    if path.suffix.lower() != ".svg" and any("missing from font" in str(warning.message) for warning in font_warnings):
        hint = "write SVG, which its reader's fonts show, or install a font such as Noto Sans CJK"
        print(f"pg-graphrag: no font of this machine has all letters of the names: {hint}", file=sys.stderr)
    print(f"{path}: {counts}, by {groups.kind.lower()}")
    return 0


def groups_of(graph: "networkx.Graph[str]", level: int, titles: dict[int, str]) -> Groups:
    """Return the communities of a level, or above where one is not divided that far; types, where there are none yet.

    Communities without a report are named by their most connected members.
    """
    columns = [f"community_{depth}" for depth in range(level, -1, -1)]
    home_of = {}
    for node, attributes in graph.nodes(data=True):
        home = next((attributes[column] for column in columns if column in attributes), None)
        if home is not None:
            home_of[node] = home
    if not home_of:
        return Groups("Types", {node: graph.nodes[node]["type"] for node in graph}, {})
    members: dict[int, list[str]] = {}
    for node in sorted(home_of, key=lambda node: (-graph.degree(node), node)):
        members.setdefault(home_of[node], []).append(graph.nodes[node]["name"])
    names = {
        community: titles.get(community) or ", ".join(member_names[:3]) for community, member_names in members.items()
    }
    return Groups("Communities", home_of, names)
