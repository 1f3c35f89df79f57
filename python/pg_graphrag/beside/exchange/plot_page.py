"""A drawing of the graph as one HTML file: it can be moved, searched and read without a network."""

import json
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from pg_graphrag.beside.exchange.plot_image import COLOURS, OTHERS, Groups, members_of, positions

if TYPE_CHECKING:
    import networkx

MAX_DESCRIPTION = 600


def page(graph: "networkx.Graph[str]", groups: Groups, path: Path, title: str) -> None:
    """Write a graph, as `to_networkx` makes it, to an HTML file."""
    members, group_order = members_of(graph, groups)
    colours = dict(zip(group_order, COLOURS, strict=False))
    places = positions(graph, [members[group] for group in [*group_order, None] if group in members])
    number = {node: place for place, node in enumerate(graph)}
    data = {
        "kind": groups.kind,
        "nodes": [
            {
                "name": attributes.get("name", node),
                "type": attributes.get("type", ""),
                "description": attributes.get("description", "")[:MAX_DESCRIPTION],
                "x": round(places[node][0], 3),
                "y": round(places[node][1], 3),
                "colour": colours.get(groups.group_of.get(node), OTHERS),
            }
            for node, attributes in graph.nodes(data=True)
        ],
        "edges": [
            {
                "ends": [number[source], number[target]],
                "weight": float(attributes.get("weight") or 1),
                "label": ", ".join(attributes.get("keywords") or [])
                or attributes.get("description", "")[:MAX_DESCRIPTION],
            }
            for source, target, attributes in graph.edges(data=True)
        ],
        "groups": [
            {"colour": colours[group], "title": groups.titles.get(group) or str(group), "size": len(members[group])}
            for group in group_order
            if group in colours
        ],
    }
    template = resources.files("pg_graphrag.beside.exchange").joinpath("plot.html").read_text(encoding="utf-8")
    # "<" would end the script, or begin a comment in it.
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    path.write_text(template.replace("@title@", escape(title)).replace("@data@", text), encoding="utf-8")
