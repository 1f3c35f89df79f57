"""Write docs/results.md with its pictures, and three lines of README.md, from the tables of bench/RESULTS.md.

`./test --python -m docs.results` writes them; a test fails while any of it is stale. No figure is typed here but the bars: a
figure is named by the heading of its section, the first cells of its row, and the beginning of its column's title.
"""

import io
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench/RESULTS.md"
SCALE = ROOT / "docs/scale.md"
PAGE = ROOT / "docs/results.md"
README = ROOT / "README.md"
PICTURES = ROOT / "docs/pictures"
COMMAND = "./test --python -m docs.results"
MARKS = ("<!-- Written by docs/results.py. -->\n", "<!-- /results -->")
# {what is drawn: (in the light, in the dark)}. A light one stands in what matplotlib writes, and is a variable afterwards.
COLOURS = {
    "paper": ("#fffffe", "#0d1117"),
    "ink": ("#1f2329", "#e6edf3"),
    "faint": ("#d0d7df", "#3d444e"),
    "own": ("#0550af", "#58a6fe"),
    "other": ("#8c959e", "#7d8591"),
}


class Page:
    """The tables and the first lines of a page's sections, by their headings."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sections: dict[str, str] = {}
        text = path.read_text(encoding="utf-8")
        for part in re.split(r"^#{1,4} +", text, flags=re.MULTILINE)[1:]:
            heading, _, below = part.partition("\n")
            self._sections[heading] = below

    def section(self, heading: str) -> str:
        """Return the text below a heading, up to the next.

        Raises
        ------
        LookupError
            There is no such heading.
        """
        if heading not in self._sections:
            raise LookupError(f'{self._path.name} has no section "{heading}"')
        return self._sections[heading]

    def cell(self, heading: str, row: str | tuple[str, ...], column: str, part: int = 0) -> str:
        """Return a figure: the part (of "a / b / c") of the cell in this row and column.

        Raises
        ------
        LookupError
            No table of the section has the row, or the column.
        """
        firsts = (row,) if isinstance(row, str) else row
        for titles, rows in tables(self.section(heading)):
            columns = [number for number, title in enumerate(titles) if title.startswith(column)]
            for cells in rows:
                if columns and all(cell.startswith(first) for cell, first in zip(cells, firsts, strict=False)):
                    return short(cells[columns[0]].split(" / ")[part])
        raise LookupError(f'{self._path.name}, "{heading}": no table has a row {firsts} and a column "{column}"')

    def machine(self) -> str:
        """Return the sentence of the page's head that says what was measured on."""
        (sentence,) = re.findall(r"Measured on [^\n]*?[a-z0-9]\.(?= )", self.section("Results"))
        return str(sentence)

    def link(self, heading: str, text: str = "") -> str:
        """Return a link from a page of docs/ to a section."""
        self.section(heading)
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        return f"[{text or heading}]({Path(os.path.relpath(self._path, PAGE.parent)).as_posix()}#{anchor})"

    def run(self, heading: str) -> str:
        """Return the command that a section begins with, and what is said of its run: day, commit, load.

        Raises
        ------
        LookupError
            The section says neither day nor commit behind its first command.
        """
        found = re.search(r"`python -m bench [^`]+`[^(\n]*\((?:[^()]|\([^()]*\))*\)", self.section(heading))
        if found is None or not re.search(r"\b20\d\d-|\d November", found[0]):
            raise LookupError(f'{self._path.name}, "{heading}": no command with the day of its run')
        return found[0]


def tables(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Yield (titles of the columns, rows of cells) of each table."""
    for block in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        rows = [[cell.strip().strip("*") for cell in line.strip().strip("|").split("|")] for line in block.splitlines()]
        yield rows[0], rows[2:]


def short(figure: str) -> str:
    """Return a figure without its interval and without a nought before the point."""
    return re.sub(r"^0(?=\.)", "", re.sub(r"\s*[\[(].*", "", figure.strip(" *")))


def number(figure: str) -> float:
    """Return what a figure says."""
    return float(figure.replace(",", "").strip("* "))


@dataclass
class Bar:
    """A bar of a picture, or its point where the axis is logarithmic; `figure` is what stands beside it."""

    label: str
    figure: str
    is_own: bool = False


@dataclass
class Panel:
    """Bars under a title."""

    title: str
    bars: list[Bar]
    is_logarithmic: bool = False


@dataclass
class Question:
    """A screen of the page."""

    name: str
    title: str
    panels: list[Panel]
    table: str
    notes: list[str]
    sources: list[tuple[Page, str]]


# {label: (system, mode)} of the pictures beside peers; of several modes the best.
PEERS = {
    "pg_graphrag": ("pg_graphrag", "hybrid"),
    "LightRAG on PostgreSQL": ("LightRAG 1.5.7 on PostgreSQL, PGTable", "mix"),
    "LightRAG on PostgreSQL and AGE": ("LightRAG 1.5.7 on PostgreSQL, AGE", "mix"),
    "LightRAG on files": ("LightRAG 1.5.7 on files", "mix"),
    "pg-raggraph on PostgreSQL": ("pg-raggraph", "naive"),
    "MiniRAG on files": ("MiniRAG", "mini"),
    "HippoRAG 2 on files": ("HippoRAG", "graph"),
    "graphrag on files": ("graphrag", "local"),
}
UNSEEN, BESIDE = "Questions that nothing was chosen by", "Beside other systems, on 300 passages"
# Of a later run.
BESIDE_LATER = "Beside cognee and post-graph-rag, on 100 passages"
LATER = {
    "pg_graphrag": ("pg_graphrag", "hybrid"),
    "post-graph-rag on PostgreSQL": ("post-graph-rag", "mix"),
    "cognee on files": ("cognee", "hybrid"),
}
# {its rows in RESULTS: (what it is called here, its bar at R@5)}
SETS = {"musique": ("MuSiQue", 0.76), "hotpotqa": ("HotpotQA", 0.965), "2wiki": ("2WikiMultiHopQA", 0.95)}


def finding(results: Page) -> Question:
    """Ask how much of the evidence is among the first five passages."""
    modes = {"hybrid": "hybrid", "naive": "vectors alone", "bm25": "BM25 alone"}
    alone = [
        Bar(f"{title}: {label}", results.cell(UNSEEN, (name, "all"), mode, 1), mode == "hybrid")
        for name, (title, _) in SETS.items()
        for mode, label in modes.items()
    ]
    bars = [
        held(f"R@5 of `hybrid`, no model, {title}", least, results.cell(UNSEEN, (name, "all"), "hybrid", 1))
        for name, (title, least) in SETS.items()
    ]
    chosen = "Without a language model"
    better = [
        f"{name} ({mode} {figure}, `hybrid` {own})"
        for name, mode, figure, own in (
            (name, mode, results.cell(chosen, name, mode, 1), results.cell(chosen, name, "hybrid", 1))
            for name in ("musique (", "musique-own", "lihua-jan-jun", "lihua-other", "jsquad", "drcd", "cmrc")
            for mode in ("ppr", "mix", "path", "naive", "bm25")
        )
        if number(figure) > number(own)
    ]
    return Question(
        "finding",
        "Is it better at finding?",
        [
            Panel("Evidence among the first five passages, no language model", alone),
            Panel("The same with a recorded model's graph, all systems with equal vectors", beside(results, "R@5")),
            Panel("The same, a later run on 100 passages", beside(results, "R@5", BESIDE_LATER)),
        ],
        bar_table(bars),
        [
            "Samples of the dev sets, not whole ones. What HippoRAG 2 or BridgeRAG publish is of whole sets, with models that"
            " extract or judge.",
            "Lost: on sets by which weights were chosen, another mode finds more at five: "
            f"{'; '.join(better) or 'nowhere'}.",
            "Lost: among concepts, which is what NLP takes for entities, is more junk than the bars allow "
            f"({results.link('Junk among concepts', 'figures')}).",
        ],
        [(results, UNSEEN), (results, BESIDE), (results, BESIDE_LATER), (results, chosen)],
    )


def beside(results: Page, column: str, heading: str = BESIDE) -> list[Bar]:
    """Return a column of the tables beside peers: indexing by system, questions by system and mode."""
    length = 1 if column in ("indexing", "kB") else 2
    peers = PEERS if heading == BESIDE else LATER
    return [
        Bar(label, results.cell(heading, row[:length], column), label == "pg_graphrag") for label, row in peers.items()
    ]


def rivals(results: Page) -> Iterator[tuple[str, float, Bar, Bar, str]]:
    """Yield (what costs, its bar, ours, the best peer with a database beneath in a run, how many times ours it is)."""
    for what, column, least in (("processor a document", "indexing", 12), ("p50 of a question", "ms by the clock", 5)):
        found = []
        for heading in (BESIDE, BESIDE_LATER):
            ours, *others = beside(results, column, heading)
            found += [
                (number(bar.figure) / number(ours.figure), ours, bar) for bar in others if "PostgreSQL" in bar.label
            ]
        times, ours, best = min(found, key=lambda pair: pair[0])
        yield what, least, ours, best, f"{times:.1f}"


def cost(results: Page) -> Question:
    """Ask what a document and a question cost, beside others."""
    own, indexing = "pg_graphrag", beside(results, "indexing")
    bars = [
        held(f"{what}, times less than {best.label} ({best.figure} ms; ours {ours.figure})", least, times)
        for what, least, ours, best, times in rivals(results)
    ]
    cheap = [bar.label for bar in indexing[1:] if number(bar.figure) <= 1.2 * number(indexing[0].figure)]
    graphrag = "Beside microsoft/graphrag, recorded extraction"
    steps = {"build": "100 documents with reports", "update": "2 documents more"}
    built = [
        Bar(f"{title}: {system}", results.cell(graphrag, (system, step), "CPU"), system == own)
        for step, title in steps.items()
        for system in (own, "graphrag")
    ]
    disk = {bar.label: bar.figure for bar in beside(results, "kB")}
    small = [f"{label} {kb}" for label, kb in disk.items() if number(kb) < number(disk[own])]
    return Question(
        "cost",
        "What does it cost?",
        [
            Panel("Indexing a document: processor, ms (logarithmic)", indexing, is_logarithmic=True),
            Panel(
                "The same, a later run on 100 passages (logarithmic)",
                beside(results, "indexing", BESIDE_LATER),
                is_logarithmic=True,
            ),
            Panel(
                "A question: p50 by the clock, ms (logarithmic)",
                beside(results, "ms by the clock"),
                is_logarithmic=True,
            ),
            Panel("Beside microsoft/graphrag: processor, s (logarithmic)", built, is_logarithmic=True),
        ],
        bar_table(bars),
        [
            "Without a model there are no calls at all; the calls of each system are in the table that this is drawn from.",
            f"Lost: since that run ours takes more than twice as much ({results.link(BESIDE, 'the figure')}).",
            f"Lost: indexing costs about as little, or less, with {' and '.join(cheap) or 'nobody'} (kept in memory).",
            f"Lost: a document takes {disk[own]} kB of disk here, and less elsewhere: {', '.join(small) or 'nowhere'}.",
        ],
        [(results, BESIDE), (results, BESIDE_LATER), (results, graphrag)],
    )


def truth(results: Page) -> Question:
    """Ask whether the index stays what its documents say."""
    change, after = "Cost of a change", "What an index says after changes"
    sizes = ("1,000", "50,000")
    panel = [
        Bar(f"{kind} of one of {size} documents", results.cell(change, (size, kind), "processor"), is_own=True)
        for kind in ("update", "delete")
        for size in sizes
    ]
    titles, rows = next(tables(results.section(after)))
    said = f"After a build documents came, one was edited and one was deleted:\n\n{table(titles, rows)}"
    return Question(
        "truth",
        "Does it stay true?",
        [Panel("A change: a worker's processor, ms", panel)],
        said,
        [
            "Under load and through crashes the index was equal to one made at once, and nothing committed was lost: "
            f"{results.link('Truth under load and crashes', 'soak, SIGKILLs and failover')}.",
            f"Lost: proof takes time, since `check()` reads all there is ({results.link(change, 'figures')}), and a failover has"
            " a gap of seconds in which no search answers.",
        ],
        [(results, change), (results, after)],
    )


def size(results: Page) -> Question:
    """Ask what many corpora, readers and many documents take."""
    scale, many, growth, readers = (
        Page(SCALE),
        "Many corpora",
        "A corpus that grows",
        "What a reader pays under protect()",
    )
    million = "A million chunks, measured"
    corpora = [
        Bar(f"{what}, {cypher} Cypher", results.cell(many, cypher, column), is_own=True)
        for column, what in (("process_jobs", "indexing"), ("a search", "a search, each another corpus"))
        for cypher in ("with", "without")
    ]
    filters = {
        "none, a new": "no filter",
        "50 %": "half of them pass a filter",
        "5 %": "5 % pass",
        "0.5 %": "0.5 % pass",
    }
    grown = [Bar(label, results.cell(growth, row, "p50"), is_own=True) for row, label in filters.items()]
    large = [
        Bar(f"`{mode}`".strip("`"), scale.cell(million, f"`{mode}`", "1,012,000"), is_own=True)
        for mode in ("bm25", "naive", "hybrid")
    ]
    half = scale.cell(million, "`hybrid`, 50 %", "1,012,000")
    large.append(Bar("hybrid, half pass a filter", half, is_own=True))
    titles, rows = next(tables(results.section(readers)))
    column = titles.index("99 % visible")
    pairs = [(row[0], *row[column].split(" / ")) for row in rows]
    times, call, owner, reader = max(
        (number(reader) / number(owner), call, owner, reader) for call, owner, reader in pairs
    )
    recalls = [scale.cell(million, "recall@10 of", column) for column in ("100,000", "1,012,000")]
    return Question(
        "size",
        "Does it hold many tenants, and large corpora?",
        [
            Panel("2,000 corpora in a database, ms a corpus", corpora),
            Panel("100,000 documents with the whole graph: p50 of hybrid, ms", grown),
            Panel("A million chunks without a graph: processor of a search, ms", large),
        ],
        "",
        [
            "Lost: a filter that half of the documents pass is compared exactly, so it costs most: "
            f"{half} ms of the processor at a million.",
            f"Lost: recall@10 of vectors is {recalls[1]} at a million, {recalls[0]} at 100,000. A million chunks with a graph"
            " were not measured.",
            f"Lost: a reader under row-level security who may see 99 % pays up to {times:.1f} times what the owner does "
            f"({call}: {reader} and {owner} ms; {results.link(readers, 'all')}).",
            "Lost: `repair()` of 2,000 graphs in one transaction ends for want of locks; `repair_corpora()` goes through them"
            " one by one.",
        ],
        [(results, many), (results, growth), (scale, million)],
    )


def answers(results: Page) -> Question:
    """Ask how often sentences of the documents hold the answer."""
    extracts = "Answers without a model"
    sets = {
        "musique (": "MuSiQue",
        "lihua (": "LiHua-World, chats",
        "unseen-1": "unseen MuSiQue, 1",
        "unseen-2": "unseen MuSiQue, 2",
    }
    panel = [
        Bar(f"{title}: {label}", results.cell(extracts, row, column), is_own=True)
        for row, title in sets.items()
        for column, label in (("in the first 3", "first three sentences"), ("in all", "all sentences shown"))
    ]
    other = ("lihua (130)", "of other documents")
    refused = [results.cell(extracts, other, column) for column in ("answerable refused", "unanswerable refused")]
    never = results.cell(extracts, ("lihua (130)", "LiHua's Null"), "unanswerable refused")
    return Question(
        "answers",
        "Does it answer without a model?",
        [Panel("Questions whose answer stands in what is shown, all its words", panel)],
        "",
        [
            "Answers are sentences of the documents, with citations: nothing is invented, and nothing is put in other words.",
            f"Of questions that only other documents answer {refused[1]} are refused, of answerable ones {refused[0]}"
            " (LiHua-World).",
            f"Lost: of questions about what was never said, in the chats' own words, {never} are refused.",
            "Lost: where an answer takes two documents, on sets that nothing was chosen by, about half of the answers are not"
            " among the sentences.",
        ],
        [(results, extracts)],
    )


QUESTIONS = (finding, cost, truth, size, answers)


def held(what: str, least: float, figure: str) -> list[str]:
    """Return the row of a bar: what is measured, the bar, the figure, and whether it holds."""
    return [what, short(f"{least:g}"), figure, "holds" if number(figure) >= least else "**does not hold**"]


def table(titles: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def bar_table(bars: list[list[str]]) -> str:
    """Return the table of bars that held() made."""
    return table(["", "bar, at least", "measured", ""], bars)


def page() -> str:
    """Return docs/results.md."""
    results = Page(RESULTS)
    parts = [
        MARKS[0].strip(),
        "# Where it stands",
        f"Five questions, with what is lost beside what is won. {results.machine()} Every figure is read out of the tables "
        f"named below it, by `{COMMAND}`, which draws the pictures, too. [All figures](../bench/RESULTS.md), "
        "[how others are measured](peers.md), [how to run a benchmark](../bench/README.md).",
    ]
    runs: dict[str, str] = {}
    for question in [ask(results) for ask in QUESTIONS]:
        parts += [
            f"## {question.title}",
            f"![{'; '.join(panel.title for panel in question.panels)}](pictures/{question.name}.svg)",
        ]
        links = {source.link(heading): source.run(heading) for source, heading in question.sources}
        runs |= links
        parts += [
            *filter(None, [question.table]),
            "\n".join(f"- {note}" for note in question.notes),
            f"From {', '.join(links)}.",
        ]
    parts += ["## The runs", "\n".join(f"- {link}: {run}" for link, run in runs.items())]
    return "\n\n".join(parts) + "\n"


def lines() -> str:
    """Return what README.md shows."""
    results = Page(RESULTS)
    bars = finding(results).panels[0].bars
    recalls = [" / ".join(bar.figure for bar in bars[start::3]) for start in range(3)]
    costs = [
        f"{what} {ours.figure} ms, {best.label} {best.figure} (bar: {least:g} times less; {verdict.strip('*')})"
        for what, least, ours, best, times in rivals(results)
        for verdict in [held(what, least, times)[-1]]
    ]
    once, later, *_ = [bar.figure for bar in truth(results).panels[0].bars]
    return (
        f"- Finding: without a model `hybrid` has {recalls[0]} of the evidence among the first five, on questions of"
        f" {' / '.join(title for title, _ in SETS.values())}; vectors alone {recalls[1]}, BM25 {recalls[2]}.\n"
        f"- Cost, with a recorded model: {'; '.join(costs)}.\n"
        f"- Truth: an update takes {once} ms of the processor among 1,000 documents and {later} among 50,000, and the index"
        " stays equal to one made at once.\n"
    )


def readme(text: str) -> str:
    """Return README.md with its lines."""
    before, _, rest = text.partition(MARKS[0])
    return before + MARKS[0] + lines() + MARKS[1] + rest.partition(MARKS[1])[2]


def picture(question: Question) -> str:
    """Return a question's picture as SVG, for light and dark: bars, or points on a logarithmic axis, each with its figure."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    colour = {name: light for name, (light, _) in COLOURS.items()}
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": question.name, "font.family": "sans-serif", "font.size": 9}
    with matplotlib.rc_context({**style, "text.color": colour["ink"], "ytick.color": colour["ink"]}):
        counts = [len(panel.bars) for panel in question.panels]
        figure, axes = pyplot.subplots(
            len(counts),
            figsize=(7.6, 0.26 * sum(counts) + 0.5 * len(counts)),
            squeeze=False,
            height_ratios=counts,
            facecolor=colour["paper"],
            layout="constrained",
        )
        for panel, place in zip(question.panels, axes[:, 0], strict=True):
            values = [number(bar.figure) for bar in panel.bars]
            shades = [colour["own" if bar.is_own else "other"] for bar in panel.bars]
            rows = range(len(values))
            least = 0.7 * min(values) if panel.is_logarithmic else 0.0
            if panel.is_logarithmic:
                place.set_xscale("log")
                place.hlines(rows, least, values, color=colour["faint"], linewidth=1)
                place.scatter(values, rows, color=shades, s=28, zorder=2)
            else:
                place.barh(rows, values, color=shades, height=0.7)
            for row, (bar, value) in enumerate(zip(panel.bars, values, strict=True)):
                place.annotate(bar.figure, (value, row), (6, 0), textcoords="offset points", va="center")
            place.set_xlim(least, max(values) * (1.6 if panel.is_logarithmic else 1.12))
            place.set_yticks(rows, [bar.label for bar in panel.bars])
            place.set_ylim(len(values) - 0.4, -0.6)
            place.set_title(panel.title, loc="left", fontsize=10, color=colour["ink"])
            place.set_facecolor(colour["paper"])
            place.tick_params(length=0)
            place.xaxis.set_visible(False)
            place.spines[:].set_visible(False)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Title": question.title})
        pyplot.close(figure)
    svg = re.sub(r"\s+$", "", written.getvalue(), flags=re.MULTILINE) + "\n"
    for name, (light, _) in COLOURS.items():
        svg = svg.replace(light, f"var(--{name})")
    light, dark = ("".join(f"--{name}:{pair[shade]};" for name, pair in COLOURS.items()) for shade in (0, 1))
    rules = f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"
    return svg.replace('<style type="text/css">', f'<style type="text/css">{rules}', 1)


def shown(svg: str) -> list[str]:
    """Return what is written in a picture, in its order: titles, labels, figures."""
    return [text.text or "" for text in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    README.write_text(readme(README.read_text(encoding="utf-8")), encoding="utf-8")
    PICTURES.mkdir(exist_ok=True)
    results = Page(RESULTS)
    for ask in QUESTIONS:
        question = ask(results)
        (PICTURES / f"{question.name}.svg").write_text(picture(question), encoding="utf-8")


if __name__ == "__main__":
    main()
