"""What the page of results, its pictures and README's lines show is what RESULTS says; other pages' figures are there, too."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from docs import results
from docs.bars import Bar, Panel, drawing
from docs.measured import Page
from tests.runtime.cluster import PROJECT
from tests.unit.test_docs import FENCE, PAGES

# A number with a point, or one with a unit behind it; no version, no part of a name, a date or a larger number.
UNIT = r"ms|s|MB|kB|GB|%|×|times|minutes|documents/s|searches/s|tokens|calls"
FIGURE = re.compile(rf"(?<![\w.,#/-])(?:(\d*\.\d+)(?!\.?\d)|(\d[\d,]*)(?= (?:{UNIT})(?!\w)))")
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?|(?<![\w.])\.\d+")
VERSION = re.compile(
    r"\b(?:PostgreSQL|pgvector|AGE|Debian|Python|LightRAG|graphrag|pg-raggraph|cognee|version|from) \d[\d.]*(?:\.\d+)+"
    r"|\b\d+\.\d+\.\d+\w*"
)
# Pages of which every block with figures has to link to what they were read from.
MEASURED = ("README.md", "docs/peers.md")
# docs/scale.md holds its own figures, as RESULTS does; docs/results.md is written from both.
CHECKED = [
    path
    for path in PAGES
    if path.name not in ("scale.md", "results.md") and path.parent.name not in ("bench", "decisions")
]


def sections(text: str) -> dict[str, str]:
    """Return {anchor: a section with those below it}."""
    by_anchor: dict[str, str] = {}
    headings = list(re.finditer(r"^(#+) +(.+?)\s*$", text, re.MULTILINE))
    for number, heading in enumerate(headings):
        ends = [later.start() for later in headings[number + 1 :] if len(later[1]) <= len(heading[1])]
        slug = re.sub(r"[^\w\- ]", "", heading[2].lower()).replace(" ", "-")
        by_anchor[slug] = text[heading.end() : min(ends, default=len(text))]
    return by_anchor


def blocks(text: str) -> list[str]:
    """Return paragraphs, items of lists and tables, without code; a table belongs to the paragraph before it."""
    joined: list[str] = []
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", FENCE.sub("", text)):
        if block.lstrip().startswith("|") and joined and not joined[-1].startswith("#"):
            joined[-1] += "\n\n" + block
        else:
            joined.append(block)
    return joined


def figures(block: str) -> list[str]:
    """Return the figures of a block: numbers with a point, and whole ones with a unit."""
    words = re.sub(r"`[^`\n]*`|\]\([^)]*\)", " ", block)
    return [(match[1] or match[2]) for match in FIGURE.finditer(VERSION.sub(" ", words))]


def is_among(figure: str, text: str) -> bool:
    """Whether a text has the figure, or a longer one that is the figure when rounded."""
    places = len(figure.partition(".")[2])
    value = float(figure.replace(",", ""))
    numbers = {float(number.replace(",", "")) for number in NUMBER.findall(text)}
    return any(abs(number - value) <= 0.5 * 10**-places + 1e-9 for number in numbers)


def unsaid(text: str, by_anchor: dict[str, str], *, is_measured: bool = False) -> list[str]:
    """Return the figures of a page that the sections which their block links to do not have.

    A block without such a link claims no measurement; on a page of measurements its figures count as unsaid.
    """
    missing = []
    for block in blocks(text):
        linked = re.findall(r"bench/RESULTS\.md#([\w-]+)", block)
        if linked or is_measured:
            source = "\n".join(by_anchor[anchor] for anchor in linked)
            missing += [figure for figure in figures(block) if not is_among(figure, source)]
    return missing


SECTIONS = sections(results.RESULTS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", CHECKED, ids=lambda path: path.name)
def test_figures_beside_a_link_to_results_are_in_that_section(path: Path) -> None:
    name = path.relative_to(PROJECT).as_posix()
    text = path.read_text(encoding="utf-8")
    if path == results.README:  # what is written from RESULTS is tested below
        text = text.replace(results.lines(), "")
    assert unsaid(text, SECTIONS, is_measured=name in MEASURED) == []


def test_a_figure_that_the_linked_section_does_not_have_is_named() -> None:
    measured = {"speed": "p50 4.53 ms, 1,290 of 2,000; recall .875", "size": "81 MB"}
    good = "In PostgreSQL 17.2 it takes 4.5 ms, finds .88 (`top_k => .3`) ([here](bench/RESULTS.md#speed)).\n\nElsewhere 7.7."
    assert unsaid(good, measured) == []
    assert unsaid(good.replace("4.5 ms", "4.4 ms").replace(".88", ".89"), measured) == ["4.4", ".89"]
    assert unsaid("It takes 81 MB, [here](bench/RESULTS.md#speed).", measured) == ["81"]
    assert unsaid("As [here](bench/RESULTS.md#speed):\n\n| p50 |\n|---|\n| 5.5 ms |", measured) == ["5.5"]
    assert unsaid("No link, 7 ms.", measured, is_measured=True) == ["7"]


def test_the_page_and_the_first_pages_lines_are_what_results_say() -> None:
    assert results.PAGE.read_text(encoding="utf-8") == results.page(), f"run: {results.COMMAND}"
    text = results.README.read_text(encoding="utf-8")
    assert text == results.readme(text), f"run: {results.COMMAND}"
    assert text.count(results.BEGIN) == 1


@pytest.mark.parametrize("ask", results.QUESTIONS, ids=lambda ask: ask.__name__)
def test_a_picture_shows_what_results_say(ask: Callable[[Page], results.Question]) -> None:
    question = ask(Page(results.RESULTS))
    drawn = (results.PICTURES / f"{question.name}.svg").read_text(encoding="utf-8")
    assert drawn == drawing(question.title, question.panels), f"run: {results.COMMAND}"


def test_a_bar_is_as_long_as_its_figure_and_a_point_as_far_as_its_logarithm() -> None:
    bars = [Bar("a & b", "7"), Bar("ours", "1,400", is_own=True), Bar("c", "700")]
    svg = ET.fromstring(drawing("Speed", [Panel("of bars", bars), Panel("of points", bars, is_logarithmic=True)]))
    space = "{http://www.w3.org/2000/svg}"
    small, large, half = [int(rect.get("width", "")) for rect in svg.iter(f"{space}rect")]
    assert large == pytest.approx(2 * half, abs=1) and large == pytest.approx(200 * small, abs=100)
    left, right, middle = [int(point.get("cx", "")) for point in svg.iter(f"{space}circle")]
    assert left < middle < right and right - middle < middle - left
    labels = [text for bar in bars for text in (bar.label, bar.figure)]
    assert [text.text for text in svg.iter(f"{space}text")] == ["of bars", *labels, "of points", *labels]


def test_a_figure_that_is_nowhere_is_an_error_that_names_it(tmp_path: Path) -> None:
    page = tmp_path / "RESULTS.md"
    page.write_text("# R\n\n## How fast\n\n| | p50 / p95 |\n|---|---|\n| **ours** (2) | 0.812 [0.8, 0.9] / 7 |\n")
    read = Page(page)
    assert read.cell("How fast", "ours", "p50") == ".812"
    assert read.cell("How fast", "ours", "p50", 1) == "7"
    for heading, row, column in (
        ("How slow", "ours", "p50"),
        ("How fast", "theirs", "p50"),
        ("How fast", "ours", "p99"),
    ):
        with pytest.raises(LookupError, match="How"):
            read.cell(heading, row, column)
    with pytest.raises(LookupError, match="day of its run"):
        read.run("How fast")
