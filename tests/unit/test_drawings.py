"""DOT and Mermaid text: whatever a name holds, the picture shows it and nothing else."""

import html
import re

import pydot
import pytest
from pg_graphrag.search.explore.drawings import MERMAID_EDGES, Edge, Node, dot, mermaid

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pydot")

HOSTILE = [
    'the "Kestrel" engine',
    "C:\\new\\",
    '\\"',
    "two\nlines",
    "a]; n1 -- n9 [label=b",
    "$$x^2$$ and $1",
    "\\N \\G \\l",
    "<b>bold</b> & AT&amp;T &#34;",
    "ד״ר \u202eevil\u202c ירושלים",
    "%%{init: {}}%% ```",
    "1. first",
    "- item",
    "`**x**`",
    "style a:b#c;",
    "end",
    "日本国",
    "{x|y}",
]


def shown_by_graphviz(quoted: str) -> str:
    """Read a label as Graphviz does: escapes (escString), then HTML entities."""
    escapes = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
    return html.unescape(re.sub(r"\\.", lambda result: escapes[result[0]], quoted[1:-1]))


def shown_by_mermaid(label: str) -> str:
    return html.unescape(re.sub(r"#(\w+);", r"&#\1;", label.replace("<br/>", "\n")))


def hostile_graph() -> tuple[list[Node], list[Edge]]:
    nodes = [Node(i, name, name, name, i == 1) for i, name in enumerate(HOSTILE, 1)]
    return nodes, [Edge(1, i, name, name, 2.5) for i, name in enumerate(HOSTILE, 1) if i > 1]


def test_dot_shows_hostile_names_as_they_are() -> None:
    (graph,) = pydot.graph_from_dot_data(dot(*hostile_graph())) or ()
    assert not graph.get_strict() and graph.get_type() == "graph"
    result = {node.get_name(): shown_by_graphviz(node.get_label()) for node in graph.get_nodes() if node.get_label()}
    assert result == {f"n{i}": name for i, name in enumerate(HOSTILE, 1)}
    edges = {(e.get_source(), e.get_destination()): shown_by_graphviz(e.get_label()) for e in graph.get_edges()}
    assert edges == {("n1", f"n{i}"): name for i, name in enumerate(HOSTILE, 1) if i > 1}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_mermaid_label_holds_nothing_that_is_markup(name: str) -> None:
    line = mermaid([Node(1, name, "", "")], []).splitlines()[1]
    match = re.fullmatch(r'  n1\["([^"]*)"\]', line)
    assert match and shown_by_mermaid(match[1]) == name
    left = re.sub(r"#\d+;|<br/>", "", match[1])
    assert not re.search(r"[\"#;:%$&<>`*_\\{}\[\]|@]|^\s*([-+]|\d+\.)", left)


def test_control_characters_are_left_out() -> None:
    node = Node(1, "a\x01b\x1bc", "", "")
    assert 'label="abc"' in dot([node], []) and '["abc"]' in mermaid([node], [])


def test_mermaid_keeps_the_strongest_edges_and_says_so() -> None:
    nodes = [Node(i, str(i), "", "") for i in range(2)]
    text = mermaid(nodes, [Edge(0, 1, "", "", 1.0)] * (MERMAID_EDGES + 1))
    assert text.count("---") == MERMAID_EDGES
    assert "%% the strongest 500 of 501 relationships" in text


def test_long_descriptions_are_cut() -> None:
    assert len(dot([Node(1, "a", "t", "x" * 10_000)], [])) < 1000


def test_a_line_of_mermaid_says_what_relates_two_names() -> None:
    nodes = [Node(1, "Bob Stone", "", ""), Node(2, "Acme Rockets", "", "")]
    sentences = {
        "Bob Stone is the chief engineer of Acme Rockets.": "is the chief engineer of",
        "acme rockets, founded by Bob Stone, builds launchers.": "founded by",
        "He works there.": "He works there.",
        "": None,
    }
    for sentence, label in sentences.items():
        line = mermaid(nodes, [Edge(1, 2, "", sentence, 1)]).splitlines()[3]
        assert line == (f'  n1 ---|"{label}"| n2' if label else "  n1 --- n2")
    assert '---|"employs"|' in mermaid(nodes, [Edge(1, 2, "employs", "Bob Stone leads Acme Rockets", 1)])
