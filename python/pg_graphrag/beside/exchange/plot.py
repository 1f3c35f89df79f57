"""Draws the graph by community: SVG, PNG or PDF by matplotlib, or one HTML file.

The HTML file can be panned, searched and read without a network.
"""

import json
import math
import textwrap
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pg_graphrag.ground.errors import GraphRAGError, missing_package

if TYPE_CHECKING:
    import networkx

# Groups with a colour and a line in the legend; the others are grey together.
COLOURS = (
    "#3b6fb6", "#d9822b", "#3a9e5c", "#c23b4b", "#8a63b8", "#8c6b58", "#d46fae", "#2ba7b3", "#a8a032", "#5b7f95",
    "#e0a93b", "#6b8e3a",
)  # fmt: skip
OTHERS = "#b4bac2"
MAX_LABELS = 70
# Lines between groups cross the whole picture: more of them hide it.
MAX_BETWEEN = 2000
MAX_NAME = 28
# Letters of a line of the legend, and lines of an entry.
LEGEND_WIDTH = 34
LEGEND_LINES = 3
_SIZE = (14.0, 10.0)
# Graphs with at most so many entities fill the page and show single relationships; larger ones show communities.
FEW = 60
# Wider than the one that matplotlib brings, where they are installed: names of all scripts.
_FONTS = (
    *("DejaVu Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "IPAexGothic", "WenQuanYi Zen Hei", "Droid Sans Fallback"),
    *("Hiragino Sans", "PingFang SC", "Yu Gothic", "Microsoft YaHei", "Noto Sans"),
)
# Their files, by the beginnings of their names.
_FONT_FILES = (
    "NotoSansCJK-Regular",
    "NotoSansCJKjp-Regular",
    "NotoSansCJKsc-Regular",
    "ipaexg",
    "wqy-zenhei",
    "DroidSansFallback",
)

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Groups:
    """What colours mean: the group of each entity by its key, and the titles of groups that have one."""

    kind: str
    group_of: Mapping[str, Any]
    titles: Mapping[Any, str]


def plot(graph: "networkx.Graph[str]", groups: Groups, path: Path, title: str) -> None:
    """Draw a graph to a file whose ending names the format.

    Raises GraphRAGError: 58P01 without matplotlib, 22023 for another ending.
    """
    if path.suffix.lower() not in (".svg", ".png", ".pdf"):
        raise GraphRAGError(f"no format for {path.name}", hint="Name the file *.svg, *.png, *.pdf or *.html.")
    try:
        from matplotlib import font_manager, rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise missing_package("plot needs", "matplotlib", "plot") from error
    order = sorted(graph, key=lambda node: (-graph.degree(node), node))
    members, group_order = members_of(graph, groups)
    colours = dict(zip(group_order, COLOURS, strict=False))
    places = positions(graph, [members[group] for group in [*group_order, None] if group in members])

    figure = Figure(figsize=_SIZE, dpi=150)
    canvas: Any = FigureCanvasAgg(figure)
    axes = figure.add_axes((0.01, 0.01, 0.78, 0.94))
    axes.set_axis_off()
    # Discs are round; springs may fill the page.
    axes.set_aspect("equal" if len(order) > FEW else "auto")
    left_out = _draw_edges(axes, graph, places, groups, colours)
    sizes = _sizes(graph, order)
    axes.scatter(
        [places[node][0] for node in order],
        [places[node][1] for node in order],
        s=[sizes[node] for node in order],
        c=[colours.get(groups.group_of.get(node), OTHERS) for node in order],
        linewidths=0.4,
        edgecolors="white",
        zorder=2,
    )
    axes.margins(0.06 if len(order) > FEW else 0.1)
    fonts = _fonts(font_manager)
    figure.text(0.02, 0.965, title, fontsize=13, fontfamily=fonts, parse_math=False)
    _draw_legend(figure, groups, members, group_order, colours, fonts, left_out)
    canvas.draw()
    # What the legend tells of has a name in the picture.
    first = [members[group][0] for group in colours]
    label_order = list(dict.fromkeys([*sorted(first, key=order.index), *order]))
    _draw_labels(axes, canvas.get_renderer(), graph, label_order, places, sizes, fonts)
    with rc_context(
        {"svg.fonttype": "none"}
    ):  # letters stay letters: the reader's fonts have them all, and they can be searched
        figure.savefig(path, format=path.suffix[1:].lower())


def members_of(graph: "networkx.Graph[str]", groups: Groups) -> tuple[dict[Any, list[str]], list[Any]]:
    """Return the members of each group, the most connected first, and the groups, those with most relationships first.

    By relationships, so that a hub has a colour, however small its group.
    """
    members: dict[Any, list[str]] = defaultdict(list)
    for node in sorted(graph, key=lambda node: (-graph.degree(node), node)):
        members[groups.group_of.get(node)].append(node)
    ends = {group: sum(graph.degree(node) for node in nodes) for group, nodes in members.items()}
    return members, sorted((group for group in members if group is not None), key=lambda g: (-ends[g], str(g)))


def _fonts(font_manager: Any) -> list[str]:
    """Return the families that are installed. matplotlib's list is as old as its cache: files of `_FONTS` are looked for."""
    manager = font_manager.fontManager
    font_names = {Path(font.fname).name for font in manager.ttflist}
    for file in font_manager.findSystemFonts():
        if Path(file).name.startswith(_FONT_FILES) and Path(file).name not in font_names:
            manager.addfont(file)
    installed = {font.name for font in manager.ttflist}
    return [font for font in _FONTS if font in installed]


def positions(graph: "networkx.Graph[str]", groups: Sequence[Sequence[str]]) -> dict[str, Point]:
    """Return where nodes are drawn: groups as discs beside each other, the most connected in the middle of each.

    Springs would show single ties better, but let parts that hang on nothing fly apart and the rest shrink: so they are for few
    nodes alone, and for each connected part by itself. The same graph has the same positions. `groups`: their members, the most
    connected first.
    """
    places: dict[str, Point] = {}
    if len(graph) <= FEW:
        return _sprung(graph)
    for group, (x, y) in zip(groups, _discs(graph, groups), strict=True):
        for index, node in enumerate(group):
            # A sunflower's seeds: evenly spread, no two on one spot.
            radius, angle = math.sqrt(index), index * math.pi * (3 - math.sqrt(5))
            places[node] = (x + radius * math.cos(angle), y + radius * math.sin(angle))
    return places


def _sprung(graph: "networkx.Graph[str]") -> dict[str, Point]:
    """Return where few nodes are drawn: connected parts beside each other, each by springs."""
    import networkx

    components = sorted(
        (sorted(part) for part in networkx.connected_components(graph)), key=lambda part: (-len(part), part)
    )
    places: dict[str, Point] = {}
    for component, (x, y) in zip(components, _discs(graph, components), strict=True):
        # In one order: springs begin with the positions of the nodes in theirs.
        part = networkx.Graph()
        part.add_nodes_from(component)
        part.add_edges_from(sorted(sorted(edge) for edge in graph.subgraph(component).edges()))
        radius = math.sqrt(len(component)) if len(component) > 1 else 0.0
        springs = networkx.spring_layout(part, seed=1, iterations=300, k=2.2 / math.sqrt(len(component)), scale=radius)
        places |= {node: (x + float(place[0]), y + float(place[1])) for node, place in springs.items()}
    return places


def _discs(graph: "networkx.Graph[str]", groups: Sequence[Sequence[str]]) -> list[Point]:
    """Return the centres of discs that do not overlap, from the middle outwards, each as near as may be to those it is
    most related to."""
    home = {node: number for number, group in enumerate(groups) for node in group}
    ties: Counter[tuple[int, int]] = Counter()
    for source, target in graph.edges():
        first, second = home[source], home[target]
        ties[first, second] += 1
        ties[second, first] += 1
    radii = [math.sqrt(len(group)) + 1.2 for group in groups]
    centres: list[Point] = []
    for number, radius in enumerate(radii):
        best: tuple[float, Point] | None = None
        for index, (x, y) in enumerate(centres):
            for step in range(24):
                angle = step * math.pi / 12
                distance = radius + radii[index]
                spot = (x + distance * math.cos(angle), y + distance * math.sin(angle))
                if any(math.dist(spot, centre) < radius + radii[i] - 1e-9 for i, centre in enumerate(centres)):
                    continue
                pull = sum(ties[number, i] * math.dist(spot, centre) for i, centre in enumerate(centres))
                tie_count = sum(ties[number, i] for i in range(len(centres)))
                cost = math.hypot(*spot) + (pull / tie_count if tie_count else 0.0)
                if best is None or cost < best[0]:
                    best = (cost, spot)
        centres.append(best[1] if best else (0.0, 0.0))
    return centres


def _sizes(graph: "networkx.Graph[str]", order: Sequence[str]) -> dict[str, float]:
    """Return the areas of nodes, in square points: by degree, smaller where there are many."""
    largest = max((graph.degree(node) for node in order), default=0) or 1
    unit = max(14.0, min(250.0, 9000 / max(len(order), 1)))
    return {node: unit * (0.25 + 2.75 * graph.degree(node) / largest) for node in order}


def _draw_edges(
    axes: Any, graph: "networkx.Graph[str]", places: Mapping[str, Point], groups: Groups, colours: Mapping[Any, str]
) -> int:
    """Draw the relationships within groups, and the strongest between groups; return how many of these are left out."""
    from matplotlib.collections import LineCollection

    by_colour: dict[str, list[tuple[Point, Point]]] = defaultdict(list)
    crossing = []
    for source, target, weight in graph.edges(data="weight", default=1.0):
        source_group, target_group = groups.group_of.get(source), groups.group_of.get(target)
        if source_group == target_group is not None:
            by_colour[colours.get(source_group, OTHERS)].append((places[source], places[target]))
        else:
            crossing.append((-weight, *sorted((source, target))))
    by_colour[OTHERS] += [(places[source], places[target]) for _, source, target in sorted(crossing)[:MAX_BETWEEN]]
    strength = max(0.06, min(0.5, 60 / max(sum(map(len, by_colour.values())), 1) ** 0.75))
    for colour, lines in sorted(by_colour.items()):
        # Between groups, lines cross the whole picture.
        alpha = strength * (0.6 if colour == OTHERS else 1.2) if len(graph) > FEW else 0.9
        axes.add_collection(LineCollection(lines, colors=colour, alpha=min(1.0, alpha), linewidths=0.6, zorder=1))
    return max(0, len(crossing) - MAX_BETWEEN)


def _draw_legend(
    figure: Any,
    groups: Groups,
    members: Mapping[Any, Sequence[str]],
    group_order: Sequence[Any],
    colours: Mapping[Any, str],
    fonts: Sequence[str],
    left_out: int,
) -> None:
    y = 0.93
    figure.text(0.80, y, groups.kind, fontsize=10, weight="bold", fontfamily=list(fonts[:1]))
    entries = [
        (colours[group], groups.titles.get(group) or str(group), len(members[group]))
        for group in group_order
        if group in colours
    ]
    rest = sum(len(nodes) for group, nodes in members.items() if group not in colours)
    if rest:
        entries.append((OTHERS, "others", rest))
    for colour, title, size in entries:
        y -= 0.048
        figure.text(0.80, y, "●", color=colour, fontsize=13, va="center")
        figure.text(
            0.817, y, f"{_wrapped(title)} ({size:,})", fontsize=8, va="center", fontfamily=list(fonts), parse_math=False
        )
    if left_out:
        note = f"Lines between {groups.kind.lower()}: the {MAX_BETWEEN:,} strongest, {left_out:,} are left out"
        figure.text(0.80, y - 0.06, _wrapped(note), fontsize=8, va="center", fontfamily=list(fonts))


def _wrapped(title: str) -> str:
    return "\n".join(
        textwrap.wrap(" ".join(title.split()), LEGEND_WIDTH, max_lines=LEGEND_LINES, placeholder="…") or [""]
    )


def _draw_labels(
    axes: Any,
    renderer: Any,
    graph: "networkx.Graph[str]",
    order: Sequence[str],
    places: Mapping[str, Point],
    sizes: Mapping[str, float],
    fonts: Sequence[str],
) -> None:
    """Name the most connected nodes, each where its name covers no other name, and no node if that can be; one that has no
    such place goes without."""
    boxes: list[Any] = []
    frame = axes.get_window_extent(renderer)
    dots = axes.transData.transform([places[node] for node in order])
    for node in order[: 3 * MAX_LABELS]:
        if len(boxes) >= MAX_LABELS:
            break
        name = " ".join(str(graph.nodes[node].get("name", node)).split())
        label = name if len(name) <= MAX_NAME else name[: MAX_NAME - 1].rstrip() + "…"
        gap = math.sqrt(sizes[node]) / 2 + 1
        text = axes.annotate(
            label,
            places[node],
            (0, 0),
            textcoords="offset points",
            fontsize=11 if len(order) <= FEW else 8.5 if len(boxes) < 15 else 7,
            fontfamily=list(fonts),
            zorder=3,
            parse_math=False,
            # Not an outline, which would turn the letters of an SVG into shapes.
            bbox={"facecolor": "white", "alpha": 0.6, "linewidth": 0, "pad": 0.6},
        )
        free: list[tuple[int, int]] = []
        for number, (x, y, horizontal, vertical) in enumerate(_sides(gap)):
            text.set(position=(x, y), horizontalalignment=horizontal, verticalalignment=vertical)
            box = text.get_window_extent(renderer).expanded(1.04, 1.1)
            is_inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            if is_inside and not any(box.overlaps(label_box) for label_box in boxes):
                hidden_dots = (dots > (box.x0, box.y0)).all(axis=1) & (dots < (box.x1, box.y1)).all(axis=1)
                free.append((int(hidden_dots.sum()), number))
        if free:
            x, y, horizontal, vertical = _sides(gap)[min(free)[1]]
            text.set(position=(x, y), horizontalalignment=horizontal, verticalalignment=vertical)
            boxes.append(text.get_window_extent(renderer).expanded(1.04, 1.1))
        else:
            text.remove()


def _sides(gap: float) -> tuple[tuple[float, float, str, str], ...]:
    """Return where a name may be beside its node: offset in points, and its alignments."""
    return (
        (gap, 0, "left", "center"),
        (-gap, 0, "right", "center"),
        (0, gap, "center", "bottom"),
        (0, -gap, "center", "top"),
    )


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
