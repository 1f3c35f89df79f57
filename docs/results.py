"""Write docs/results.md with its pictures, and three lines of README.md, from the tables of bench/RESULTS.md.

`./test --python -m docs.results` writes them; a test fails while any of it is stale. No figure is typed here but the bars that
are to be reached: a figure is named by the heading of its section, the first cells of its row, and the beginning of its
column's title (docs/measured.py). docs/bars.py draws.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docs.bars import Bar, Panel, drawing, number
from docs.measured import Page, short, tables

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench/RESULTS.md"
SCALE = ROOT / "docs/scale.md"
PAGE = ROOT / "docs/results.md"
README = ROOT / "README.md"
PICTURES = ROOT / "docs/pictures"
COMMAND = "./test --python -m docs.results"
BEGIN, END = "<!-- Written by docs/results.py. -->\n", "<!-- /results -->"


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
    "post-graph-rag on PostgreSQL": ("post-graph-rag", "mix"),
    "cognee on files": ("cognee", "hybrid"),
    "MiniRAG on files": ("MiniRAG", "mini"),
    "HippoRAG 2 on files": ("HippoRAG", "graph"),
    "graphrag on files": ("graphrag", "local"),
}
UNSEEN, BESIDE = "Questions that nothing was chosen by", "Beside other systems, on 300 passages"
# `hybrid`, and the others that are compared with it on sets that weights were chosen by.
CHOSEN_MODES = ("hybrid", "ppr", "mix", "path", "naive", "bm25")
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
        held(
            f"evidence among the first five: `hybrid`, no model, {title}",
            least,
            results.cell(UNSEEN, (name, "all"), "hybrid", 1),
        )
        for name, (title, least) in SETS.items()
    ]
    chosen = "Without a language model"
    better = []
    for name in ("musique (", "musique-own", "lihua-jan-jun", "lihua-other", "jsquad", "drcd", "cmrc"):
        own, *others = [results.cell(chosen, name, mode, 1) for mode in CHOSEN_MODES]
        better += [
            f"{name.strip(' (')} (`{mode}` {other}, `hybrid` {own})"
            for mode, other in zip(CHOSEN_MODES[1:], others, strict=True)
            if number(other) > number(own)
        ]
    return Question(
        "finding",
        "Is it better at finding?",
        [
            Panel("Evidence among the first five passages, no language model", alone),
            Panel("The same with a recorded model's graph, all systems with equal vectors", beside(results, "R@5")),
        ],
        bar_table(bars),
        [
            "Samples of the dev sets, not whole ones. What HippoRAG 2 or BridgeRAG publish is of whole sets, with models that"
            " extract or judge.",
            "Rules were made with some questions of MuSiQue and HotpotQA, none with those of 2WikiMultiHopQA. On the part of"
            f" MuSiQue's that nothing was chosen by, `hybrid` has {results.cell(UNSEEN, ('musique', 'last'), 'hybrid', 1)}.",
            "Lost: on sets by which weights were chosen, another mode finds more at five: "
            f"{'; '.join(better) or 'nowhere'}.",
            "Lost: of concepts, which are what NLP takes for entities, more are junk than the bars allow "
            f"({results.link('Junk among concepts', 'figures')}).",
        ],
        [(results, UNSEEN), (results, BESIDE), (results, chosen)],
    )


def beside(results: Page, column: str) -> list[Bar]:
    """Return a column of the tables beside peers: indexing by system, questions by system and mode; of those that have a row."""
    length = 1 if column in ("indexing", "kB") else 2
    bars = []
    for label, row in PEERS.items():
        with contextlib.suppress(LookupError):
            bars.append(Bar(label, results.cell(BESIDE, row[:length], column), label == "pg_graphrag"))
    return bars


@dataclass
class Rival:
    """The peer on PostgreSQL that comes closest to our cost."""

    cost: str
    least: float
    ours: str
    name: str
    theirs: str

    @property
    def times(self) -> str:
        """How many times our cost its cost is."""
        return f"{number(self.theirs) / number(self.ours):.1f}"


def rivals(results: Page) -> Iterator[Rival]:
    """Yield the closest peer for each cost that has a bar."""
    for what, column, least in (
        ("processor time of a document", "indexing", 12),
        ("p50 of a question", "ms by the clock", 5),
    ):
        ours, *others = beside(results, column)
        peers = [
            Rival(what, least, ours.figure, peer.label, peer.figure) for peer in others if "PostgreSQL" in peer.label
        ]
        yield min(peers, key=lambda peer: float(peer.times))


def cost(results: Page) -> Question:
    """Ask what a document and a question cost, beside others."""
    own, indexing = "pg_graphrag", beside(results, "indexing")
    bars = [
        held(
            f"{rival.cost}, times less than {rival.name} ({rival.theirs} ms; ours {rival.ours})",
            rival.least,
            rival.times,
        )
        for rival in rivals(results)
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
                "A question: p50 by the clock, ms (logarithmic)",
                beside(results, "ms by the clock"),
                is_logarithmic=True,
            ),
            Panel("Beside microsoft/graphrag: processor, s (logarithmic)", built, is_logarithmic=True),
        ],
        bar_table(bars),
        [
            "Without a model there are no calls at all; the calls of each system are in the table that this is drawn from.",
            "Lost: replies of models are read as streams, which stop one that loops and cost a quarter of that"
            f" ({results.link(BESIDE, 'whole replies')}: {results.cell(BESIDE, 'pg_graphrag, whole replies', 'indexing')} ms).",
            f"Lost: indexing costs about as little, or less, with {' and '.join(cheap) or 'nobody'} (kept in memory).",
            f"Lost: a document takes {disk[own]} kB of disk here, and less elsewhere: {', '.join(small) or 'nowhere'}.",
        ],
        [(results, BESIDE), (results, graphrag)],
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
    return Question(
        "truth",
        "Does it stay true?",
        [Panel("A change: a worker's processor, ms", panel)],
        f"After a build documents came, one was edited and one was deleted:\n\n{table(titles, rows)}",
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
    many, growth, readers = "Many corpora", "A corpus that grows", "What a reader pays under protect()"
    scale, million = Page(SCALE), "A million chunks, measured"
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
        Bar(mode, scale.cell(million, f"`{mode}`", "1,012,000"), is_own=True) for mode in ("bm25", "naive", "hybrid")
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
    published = ("vectors and GPT-4o-mini", "LightRAG and GPT-4o-mini", "HippoRAG 2 and GPT-4o-mini")
    likeness = []
    for name in ("Medical", "Novel"):
        row = f"{name}, facts"
        likeness.append(
            Bar(f"{name}: our first sentence, no model", results.cell(extracts, row, "ROUGE-L"), is_own=True)
        )
        likeness += [
            Bar(f"{name}: {label}", results.cell(extracts, row, "published", part))
            for part, label in enumerate(published)
        ]
    other = ("lihua (130)", "of other documents")
    refused = [results.cell(extracts, other, column) for column in ("answerable refused", "unanswerable refused")]
    never = results.cell(extracts, ("lihua (130)", "LiHua's Null"), "unanswerable refused")
    return Question(
        "answers",
        "Does it answer without a model?",
        [
            Panel("Questions whose answer stands in what is shown, all its words", panel),
            Panel("GraphRAG-Bench, facts: ROUGE-L of answers, others as published", likeness),
        ],
        "",
        [
            "Answers are sentences of the documents, with citations: nothing is invented, and nothing is put in other words.",
            f"Of questions that only other documents answer {refused[1]} are refused, of answerable ones {refused[0]}"
            " (LiHua-World).",
            f"Lost: of questions about what was never said, in the chats' own words, {never} are refused.",
            f"Lost: of the words of gold answers to creative tasks {results.cell(extracts, 'Medical, creative', 'all')} are among"
            " the sentences: those are texts to be written, which takes a model.",
            "Lost: where an answer takes two documents, on sets that nothing was chosen by, about half of the answers are not"
            " among the sentences.",
        ],
        [(results, extracts)],
    )


QUESTIONS = (finding, cost, truth, size, answers)


def held(what: str, least: float, figure: str) -> list[str]:
    """Return the row of a bar: what is measured, the bar, the figure, and whether it holds."""
    return [what, short(f"{least:g}"), figure, verdict(least, figure)]


def verdict(least: float, figure: str) -> str:
    """Return whether a figure reaches its bar."""
    return "holds" if number(figure) >= least else "**does not hold**"


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
        BEGIN.strip(),
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
    """Return what README.md shows of it, one line for each of the first three questions."""
    results = Page(RESULTS)
    bars = finding(results).panels[0].bars
    recalls = [" / ".join(bar.figure for bar in bars[start::3]) for start in range(3)]
    costs = [
        f"{rival.cost} {rival.ours} ms, of the closest peer ({rival.name}) {rival.theirs}"
        f" (bar: {rival.least:g} times less; {verdict(rival.least, rival.times)})"
        for rival in rivals(results)
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
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + lines() + END + rest.partition(END)[2]


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    README.write_text(readme(README.read_text(encoding="utf-8")), encoding="utf-8")
    PICTURES.mkdir(exist_ok=True)
    results = Page(RESULTS)
    for ask in QUESTIONS:
        question = ask(results)
        (PICTURES / f"{question.name}.svg").write_text(drawing(question.title, question.panels), encoding="utf-8")


if __name__ == "__main__":
    main()
