"""``pg-graphrag plot``: a drawing of the graph by community."""

import argparse
import sys
import warnings
from collections import Counter
from typing import TYPE_CHECKING

from pg_graphrag.beside.cli.open_database import connect
from pg_graphrag.beside.client.graph_items import stream, to_networkx
from pg_graphrag.beside.exchange import plot as drawing
from pg_graphrag.beside.exchange.plot import Groups, page

if TYPE_CHECKING:
    import networkx

_TITLES = (
    "SELECT o.community_id, o.title FROM graphrag.community_overview o WHERE o.corpus = %s AND o.title IS NOT NULL"
)


def plot(args: argparse.Namespace) -> int:
    """Draw the most connected entities of a corpus and say what was drawn."""
    corpus, path = args.corpus, args.file
    with connect(args.url, args.corpus) as connection:
        full_graph = to_networkx(stream(connection, corpus))
        titles = dict(connection.execute(_TITLES, [corpus]).fetchall())
    graph = most_connected(full_graph, args.max_nodes)
    groups = groups_of(graph, args.level, titles)
    scope = "" if len(graph) == len(full_graph) else f", the most connected of {len(full_graph):,}"
    counts = f"{len(graph):,} entities{scope}, {graph.number_of_edges():,} relationships"
    if path.suffix.lower() == ".html":
        page(graph, groups, path, f"{corpus}: {counts}")
        print(f"{path}: {counts}, by {groups.kind.lower()}")
        return 0
    with warnings.catch_warnings(record=True) as font_warnings:
        warnings.simplefilter("always")
        drawing.plot(graph, groups, path, f"{corpus}: {counts}")
    if path.suffix.lower() != ".svg" and any("missing from font" in str(warning.message) for warning in font_warnings):
        hint = "write SVG, which its reader's fonts show, or install a font such as Noto Sans CJK"
        print(f"pg-graphrag: no font of this machine has all letters of the names: {hint}", file=sys.stderr)
    print(f"{path}: {counts}, by {groups.kind.lower()}")
    return 0


def most_connected(graph: "networkx.Graph[str]", max_nodes: int) -> "networkx.Graph[str]":
    """Return the part of a graph to draw, without entities that no drawn line touches; all of them if there are no lines."""
    nodes = sorted(graph, key=lambda node: (-graph.degree(node), node))[:max_nodes]
    part = graph.subgraph(nodes)
    related = [node for node in nodes if part.degree(node)]
    return part.subgraph(related or nodes)


def groups_of(graph: "networkx.Graph[str]", level: int, titles: dict[int, str]) -> Groups:
    """Return the communities of a level, or of a level above if one is not divided that far; types if there are no
    communities.

    An entity in no community, such as a hub, joins the community that it is most related to. A community without a report
    is named by its most connected members.
    """
    columns = [f"community_{depth}" for depth in range(level, -1, -1)]
    home_of = {}
    for node, attributes in graph.nodes(data=True):
        home = next((attributes[column] for column in columns if column in attributes), None)
        if home is not None:
            home_of[node] = home
    if not home_of:
        return Groups("Types", {node: graph.nodes[node]["type"] for node in graph}, {})
    home_of |= {node: home for node in graph if node not in home_of and (home := _nearest(graph, node, home_of))}
    members: dict[int, list[str]] = {}
    for node in sorted(home_of, key=lambda node: (-graph.degree(node), node)):
        members.setdefault(home_of[node], []).append(graph.nodes[node]["name"])
    names = {
        community: titles.get(community) or ", ".join(member_names[:3]) for community, member_names in members.items()
    }
    return Groups("Communities", home_of, names)


def _nearest(graph: "networkx.Graph[str]", node: str, home_of: dict[str, int]) -> int | None:
    """Return the community that the weightiest relationships of a node lead to; ties: the first."""
    weights: Counter[int] = Counter()
    for neighbor, relationship in graph[node].items():
        if neighbor in home_of:
            weights[home_of[neighbor]] += relationship.get("weight") or 1
    return min(weights, key=lambda home: (-weights[home], home), default=None)
