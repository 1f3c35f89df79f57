"""What attached rows bring: 60 questions over two schemas, with rows attached, without, and written out as texts; and their cost.

    python -m bench rows [--manual FOLDER] [--cost 5000]

`shop`: a made-up works (sites, makers, models, machines; reports and notes that call these by nicknames and codes), and 30
questions from templates that take a document and the rows to which it leads. `catalog`: pg_settings as a table beside 17 chapters
of the manual (HTML files, --manual; left out without), and 30 written questions that take a setting and a chapter
(questions/rows-catalog.tsv). No language model. Three corpora of each:

attached   attach_entities() and attach_relationships()
without    the documents alone; rows cannot be found
as texts   each row a document in sentences, foreign keys as the names of what they lead to: what people do today

R@5: share of the evidence among the first five of `hybrid`; of documents and of rows alone. `context`: share of the evidence
among the references of a context of 2,000 tokens; then the difference of both, question by question, with its 95 % interval.
Time: median of a search, clock, of three each; and where the session's process can be read, the processor's time of known
questions, corpora in turns: the ratio of each turn, the median of each session, and of the sessions the median between the second
least and the second greatest (with eight sessions an interval of 93 %).
With --cost so many rows with three foreign keys each are attached to a corpus of its own: processor time of the worker's session
where it can be read. A database of its own is made, and dropped again.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from pg_graphrag.ground import bootstrap
from psycopg import conninfo

DATABASE = "bench_rows"
# Sessions, and turns of each, in which the processor's time is measured: what a session lays where in memory makes a difference.
SESSIONS, ROUNDS = 8, 6
# Turns that fill the session's memory.
FIRST_ROUNDS = 2
CATALOG = Path(__file__).resolve().parents[1] / "data/questions/rows-catalog.tsv"
MANUAL = Path("/usr/share/doc/postgresql-doc-17/html")
CHAPTERS = (
    "wal-configuration", "wal-async-commit", "wal-reliability", "routine-vacuuming", "kernel-resources",
    "continuous-archiving", "hot-standby", "warm-standby", "logical-replication-config", "planner-stats",
    "how-parallel-query-works", "explicit-locking", "ssl-tcp", "transaction-iso", "explicit-joins", "monitoring-stats",
    "encryption-options",
)  # fmt: skip

SITES = [
    ("Osaka Works", "Osaka"), ("Lyon Works", "Lyon"), ("Gdansk Yard", "Gdansk"), ("Porto Mill", "Porto"),
    ("Turku Foundry", "Turku"),
]  # fmt: skip
MAKERS = ["Halvorsen", "Brandt & Sohn", "Okafor Tools", "Lindqvist", "Marchetti"]
MODELS = ["RZ-500K", "LH-455", "TQ-90B", "MX-12", "PV-3000", "KD-77", "ZF-808", "AB-21C", "WN-640", "GT-5"]
NICKNAMES = [
    "Big Bertha", "Old Faithful", "the Duchess", "Grey Goose", "Little John", "the Widow", "Iron Maggie", "Sleepy Joe",
    "the Kraken", "Blue Danube", "Mad Max", "the Bishop", "Lazy Susan", "Red Baron", "the Colonel", "Sweet Caroline",
    "Black Beauty", "the Hermit", "Golden Boy", "Tin Lizzie",
]  # fmt: skip
# What a report says of a machine, and how a question calls it.
EVENTS = [
    ("leaked methane during the night shift", "let methane escape at night"),
    ("threw a belt that hit the safety cage", "hurled a belt against the cage"),
    ("stopped when lightning struck the roof", "stood still after the lightning"),
    ("burned through three fuses in one hour", "burned three fuses"),
    ("flooded the floor with cooling water", "put the floor under cooling water"),
    ("stamped two hundred plates upside down", "stamped plates the wrong way up"),
    ("jammed on a forgotten wrench", "was jammed by a wrench that somebody forgot"),
    ("sang at a pitch that cracked a window", "cracked a window by its noise"),
    ("caught a glove but nobody was hurt", "caught somebody's glove"),
    ("lost its calibration after the earthquake", "was no longer calibrated after the earthquake"),
    ("smelled of vinegar until its filter was changed", "smelled of vinegar"),
    ("ran for a whole weekend without anyone noticing", "ran a weekend unnoticed"),
    ("drilled a hole into its own table", "drilled into its own table"),
    ("was found with a nest of swallows inside", "had swallows nesting in it"),
    ("reported a temperature below absolute zero", "measured an impossible temperature"),
    ("tripped the breaker of the whole hall", "took the power of the whole hall"),
    ("dropped a gear into the paint bath", "dropped a gear into paint"),
    ("was repainted without permission", "was painted without permission"),
    ("shook so hard that its bolts came loose", "shook its bolts loose"),
    ("froze during the cold snap in January", "froze in January"),
]  # fmt: skip
NOTES = [
    "is drained from the lower valve while it is still warm", "needs a new seal after four hundred hours",
    "must never be greased with lithium soap", "is levelled with a water gauge before each start",
    "has its chain tightened by a quarter turn each month", "is cleaned with alcohol and never with water",
    "takes its oil from above, two litres at a time", "is to be left open for an hour after a fire alarm",
    "starts only when both pedals are pressed", "wants its blade turned after each thousand cuts",
]  # fmt: skip

SHOP = """
CREATE SCHEMA shop;
CREATE TABLE shop.sites (id int PRIMARY KEY, name text NOT NULL UNIQUE, city text);
CREATE TABLE shop.makers (id int PRIMARY KEY, name text NOT NULL UNIQUE);
CREATE TABLE shop.models (id int PRIMARY KEY, code text NOT NULL UNIQUE, maker_id int REFERENCES shop.makers, volts int);
CREATE TABLE shop.machines (id int PRIMARY KEY, tag text NOT NULL UNIQUE, nickname text, site_id int REFERENCES shop.sites,
                            model_id int REFERENCES shop.models, installed date);
"""
SHOP_ATTACHED = (
    "attach_entities('shop.sites', %s, '{id}', 'name', type => 'site', attributes => '{city}')",
    "attach_entities('shop.makers', %s, '{id}', 'name', type => 'maker')",
    "attach_entities('shop.models', %s, '{id}', 'code', type => 'model', attributes => '{volts}')",
    "attach_entities('shop.machines', %s, '{id}', 'tag', '{nickname}', 'machine', '{installed}')",
    "attach_relationships('shop.models', %s, 'made by', '{maker_id}', 'shop.makers')",
    "attach_relationships('shop.machines', %s, 'stands in', '{site_id}', 'shop.sites')",
    "attach_relationships('shop.machines', %s, 'is of model', '{model_id}', 'shop.models')",
)
SHOP_TEXTS = """
SELECT 'sites/' || id, name, format('%s is a site in %s.', name, city) FROM shop.sites
UNION ALL SELECT 'makers/' || id, name, format('%s is a maker of machines.', name) FROM shop.makers
UNION ALL SELECT 'models/' || x.id, x.code, format('%s is a model made by %s. It needs %s volts.', x.code, m.name, x.volts)
            FROM shop.models x JOIN shop.makers m ON m.id = x.maker_id
UNION ALL SELECT 'machines/' || x.id, x.tag,
                 format('%s, called %s, is a machine of model %s. It stands in %s and was installed on %s.',
                        x.tag, x.nickname, m.code, s.name, x.installed)
            FROM shop.machines x JOIN shop.models m ON m.id = x.model_id JOIN shop.sites s ON s.id = x.site_id
"""
SETTINGS = """
CREATE SCHEMA config;
CREATE TABLE config.contexts (name text PRIMARY KEY, meaning text);
INSERT INTO config.contexts VALUES
    ('internal', 'It cannot be changed.'), ('postmaster', 'It takes effect when the server starts: changing it needs a restart.'),
    ('sighup', 'A reload of the configuration changes it.'), ('superuser-backend', 'Superusers set it when they connect.'),
    ('backend', 'It is set when a session starts.'), ('superuser', 'Superusers may set it in a session.'),
    ('user', 'Any user may set it in a session.');
CREATE TABLE config.categories (name text PRIMARY KEY);
INSERT INTO config.categories SELECT DISTINCT category FROM pg_settings;
CREATE TABLE config.settings (name text PRIMARY KEY, unit text, boot_val text, context text REFERENCES config.contexts,
                              category text REFERENCES config.categories, description text);
INSERT INTO config.settings
SELECT name, unit, left(boot_val, 100), context, category, concat_ws(' ', short_desc, extra_desc) FROM pg_settings
 WHERE name !~ '[.]';
"""
SETTINGS_ATTACHED = (
    "attach_entities('config.contexts', %s, '{name}', 'name', type => 'context', text => '{meaning}')",
    "attach_entities('config.categories', %s, '{name}', 'name', type => 'category')",
    "attach_entities('config.settings', %s, '{name}', 'name', type => 'setting', attributes => '{unit,boot_val}',"
    " text => '{description}')",
    "attach_relationships('config.settings', %s, 'context', '{context}', 'config.contexts')",
    "attach_relationships('config.settings', %s, 'category', '{category}', 'config.categories')",
)
SETTINGS_TEXTS = """
SELECT 'contexts/' || name, name, format('Context %s: %s', name, meaning) FROM config.contexts
UNION ALL SELECT 'categories/' || name, name, format('%s is a category of settings.', name) FROM config.categories
UNION ALL SELECT 'settings/' || s.name, s.name,
                 format('%s is a setting of category %s. %s Its default is %s%s. Its context is %s. %s',
                        s.name, s.category, s.description, s.boot_val, ' ' || s.unit, s.context, c.meaning)
            FROM config.settings s JOIN config.contexts c ON c.name = s.context
"""
Question = tuple[str, list[str]]
Document = tuple[str, str, str]


def shop(connection: psycopg.Connection[Any]) -> tuple[list[Document], list[Question]]:
    """Make the tables; return documents and questions."""
    connection.execute(SHOP.encode())
    insert = connection.cursor().executemany
    insert("INSERT INTO shop.sites VALUES (%s, %s, %s)", [(n, *site) for n, site in enumerate(SITES, 1)])
    insert("INSERT INTO shop.makers VALUES (%s, %s)", [*enumerate(MAKERS, 1)])
    insert(
        "INSERT INTO shop.models VALUES (%s, %s, %s, %s)",
        [(n, code, (3 * n) % len(MAKERS) + 1, 110 * (n % 3 + 1)) for n, code in enumerate(MODELS, 1)],
    )
    machines = [
        (
            n,
            f"M-{100 + 7 * n}",
            nickname,
            (2 * n + n // 5) % len(SITES) + 1,
            (7 * n) % len(MODELS) + 1,
            f"20{n:02}-03-01",
        )
        for n, nickname in enumerate(NICKNAMES, 1)
    ]
    insert("INSERT INTO shop.machines VALUES (%s, %s, %s, %s, %s, %s)", machines)
    documents = [
        (f"report-{n}", f"Report {n}", f"{nickname[0].upper()}{nickname[1:]} {event}. The shift leader wrote it down.")
        for n, (nickname, (event, _)) in enumerate(zip(NICKNAMES, EVENTS, strict=True), 1)
    ]
    # A note writes the code otherwise than the table.
    documents += [
        (f"note-{n}", f"Note {n}", f"The {code.replace('-', '' if n % 2 else ' ')} {text}. So says the handbook.")
        for n, (code, text) in enumerate(zip(MODELS, NOTES, strict=True), 1)
    ]
    questions: list[Question] = []
    for number, _, nickname, site, model, _ in machines:
        event, maker = EVENTS[number - 1][1], (3 * model) % len(MAKERS) + 1
        row = f"machines/{number}"
        match number % 4:
            case 0 | 1:
                questions.append(
                    (f"In which city is the machine that {event}?", [f"report-{number}", row, f"sites/{site}"])
                )
            case 2:
                evidence = [f"report-{number}", row, f"models/{model}", f"makers/{maker}"]
                questions.append((f"Who made the machine that {event}?", evidence))
            case _:
                pass
        if number % 2:
            evidence = [row, f"models/{model}", f"note-{model}"]
            questions.append((f"What does the handbook say of a machine such as {nickname}?", evidence))
        elif number % 4 == 0:
            evidence = [row, f"models/{model}"]
            questions.append((f"How many volts does {nickname} need?", evidence))
    return documents, questions[:30]


def catalog(connection: psycopg.Connection[Any], manual: Path) -> tuple[list[Document], list[Question]]:
    """Make the tables; return chapters of the manual and questions."""
    # It takes lxml.
    from pg_graphrag.beside.readers.web.html import extract

    connection.execute(SETTINGS.encode())
    documents: list[Document] = []
    for name in CHAPTERS:
        title, text = extract((manual / f"{name}.html").read_text(encoding="utf-8"))
        documents.append((name, title or name, text))
    lines = CATALOG.read_text(encoding="utf-8").splitlines()
    return documents, [(question, keys.split()) for question, keys in (line.split("\t") for line in lines)]


def load(
    connection: psycopg.Connection[Any],
    corpus: str,
    documents: list[Document],
    attached: tuple[str, ...],
    texts: str | None,
) -> float:
    """Make a corpus of documents, with rows attached or as texts; return the seconds that indexing took."""
    connection.execute("SELECT graphrag.create_corpus(%s)", [corpus])
    connection.cursor().executemany(
        "INSERT INTO graphrag.documents (corpus, source_key, title, content) VALUES (%s, %s, %s, %s)",
        [(corpus, *document) for document in documents],
    )
    for call in attached:
        connection.execute(f"SELECT graphrag.{call}".encode(), [corpus])
    if texts is not None:
        connection.execute(
            "INSERT INTO graphrag.documents (corpus, source_key, title, content) SELECT %s, x.* FROM ("
            f"{texts.replace('%', '%%')}) x".encode(),
            [corpus],
        )
    start = time.perf_counter()
    connection.execute("CALL graphrag.process_jobs()")
    connection.execute("SELECT graphrag.optimize(%s)", [corpus])
    return time.perf_counter() - start


def recall(keys: list[str], evidence: list[str]) -> float:
    return len(set(keys) & set(evidence)) / len(evidence) if evidence else 0.0


Recalls = dict[str, list[float]]


def measure(connection: psycopg.Connection[Any], corpus: str, questions: list[Question]) -> tuple[Recalls, float]:
    """Return recall of the evidence, of documents and of rows in it, and of a context, of each question; and ms of a search."""
    recalls: Recalls = {name: [] for name in ("all", "documents", "rows", "context")}
    times = []
    for question, evidence in questions:
        for _ in range(3):
            start = time.perf_counter()
            results = connection.execute(
                "SELECT source_key FROM graphrag.search(%s, %s, top_k => 5)", [question, corpus]
            ).fetchall()
            times.append(time.perf_counter() - start)
        keys = [key for (key,) in results]
        context = connection.execute(
            "SELECT r ->> 'source_key' FROM graphrag.context(%s, %s, max_tokens => 2000) c,"
            " jsonb_array_elements(c -> 'references') r",
            [question, corpus],
        ).fetchall()
        recalls["all"].append(recall(keys, evidence))
        if documents := [key for key in evidence if "/" not in key]:
            recalls["documents"].append(recall(keys, documents))
        recalls["rows"].append(recall(keys, [key for key in evidence if "/" in key]))
        recalls["context"].append(recall([key for (key,) in context], evidence))
    return recalls, 1000 * statistics.median(times)


def in_turns(url: str, corpora: list[str], questions: list[Question]) -> dict[str, NDArray[np.float64]]:
    """Return the processor's ms of a search and of a context, (sessions, rounds, corpora), of corpora that take turns.

    Empty where it cannot be read.
    """
    statements = {
        "search": "SELECT * FROM graphrag.search(%s, %s, top_k => 5)",
        "context": "SELECT graphrag.context(%s, %s, max_tokens => 2000)",
    }
    used = {what: np.zeros((SESSIONS, FIRST_ROUNDS + ROUNDS, len(corpora))) for what in statements}
    for session in range(SESSIONS):
        with psycopg.connect(url, autocommit=True) as connection:
            pid = connection.info.backend_pid
            if processor(pid) is None:
                return {}
            for turn in range(FIRST_ROUNDS + ROUNDS):
                for what, statement in statements.items():
                    for place in range(len(corpora)):
                        # None is always behind the same one, whose data the processor's caches have.
                        number = (place + turn) % len(corpora)
                        before = processor(pid) or 0.0
                        for question, _ in questions:
                            connection.execute(statement.encode(), [question, corpora[number]]).fetchall()
                        used[what][session, turn, number] = (processor(pid) or 0.0) - before
    return {what: 1000 * seconds[:, FIRST_ROUNDS:] / len(questions) for what, seconds in used.items()}


def _interval(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return mean, low and high of the values of questions, (n,)."""
    ((low, high),) = bootstrap.intervals(bootstrap.means(values[:, None], 0))
    return float(values.mean()), low, high


def compare(
    connection: psycopg.Connection[Any],
    url: str,
    name: str,
    made: tuple[list[Document], list[Question]],
    attached: tuple[str, ...],
    texts: str,
) -> None:
    documents, questions = made
    arms = {"attached": (attached, None), "without": ((), None), "as texts": ((), texts)}
    print(f"\n{name}: {len(documents)} documents, {len(questions)} questions")
    print(f"{'':10} {'R@5':>6} {'docs':>6} {'rows':>6} {'context':>8} {'ms':>7} {'indexed':>9}")
    by_arm: dict[str, Recalls] = {}
    for arm, (calls, sentences) in arms.items():
        corpus = f"{name}, {arm}"
        seconds = load(connection, corpus, documents, calls, sentences)
        by_arm[arm], ms = measure(connection, corpus, questions)
        figures = {kind: statistics.mean(values) for kind, values in by_arm[arm].items()}
        print(
            f"{arm:10} {figures['all']:6.3f} {figures['documents']:6.3f} {figures['rows']:6.3f}"
            f" {figures['context']:8.3f} {ms:7.1f} {seconds:7.1f} s",
            flush=True,
        )
    differences = [
        _interval(np.array(by_arm["attached"][kind]) - np.array(by_arm["as texts"][kind]))
        for kind in ("all", "context")
    ]
    intervals = [f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]" for mean, low, high in differences]
    print(f"attached less as texts: R@5 {intervals[0]}, context {intervals[1]}", flush=True)
    for what, ms in in_turns(url, [f"{name}, {arm}" for arm in arms], questions).items():
        figures_ = ", ".join(f"{arm} {median:.2f}" for arm, median in zip(arms, np.median(ms, (0, 1)), strict=True))
        print(f"processor of a {what}, ms: {figures_}")
        for number, arm in enumerate(arms):
            if arm != "without":
                # A mean would follow the one session that others disturbed.
                ratios = np.sort(np.median(ms[..., number] / ms[..., 1], 1))
                each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
                middle = f"{np.median(ratios):.3f} [{ratios[1]:.3f}, {ratios[-2]:.3f}]"
                print(f"    {arm} / without {middle}; sessions {each}", flush=True)


def processor(pid: int) -> float | None:
    """Return the processor time of a process of this machine in seconds, to the nanosecond; None where it cannot be read."""
    try:
        # Linux' clock of a process: its number and CPUCLOCK_SCHED. What /proc says is rounded to hundredths of a second.
        return time.clock_gettime(~pid << 3 | 2)
    except OSError:
        return None


def cost(connection: psycopg.Connection[Any], rows: int) -> None:
    """Attach so many rows with three foreign keys each, of which a name and an attribute are known."""
    connection.execute(
        "CREATE SCHEMA cost; CREATE TABLE cost.kinds (id int PRIMARY KEY, name text NOT NULL UNIQUE);"
        "CREATE TABLE cost.items (id int PRIMARY KEY, name text NOT NULL UNIQUE, a int REFERENCES cost.kinds,"
        " b int REFERENCES cost.kinds, c int REFERENCES cost.kinds, amount int);"
        f"INSERT INTO cost.kinds SELECT n, 'kind ' || n FROM generate_series(0, {max(rows // 10, 50)}) n;"
        f"INSERT INTO cost.items SELECT n, 'Item number ' || n, n % {max(rows // 10, 50)}, n % 7, n % 50, n"
        f" FROM generate_series(1, {rows}) n".encode()
    )
    connection.execute("SELECT graphrag.create_corpus('cost', '{\"communities\": false, \"cypher\": false}')")
    for call in (
        "attach_entities('cost.kinds', 'cost', '{id}', 'name')",
        "attach_entities('cost.items', 'cost', '{id}', 'name', attributes => '{amount}')",
        *(f"attach_relationships('cost.items', 'cost', 'has {name}', '{{{name}}}', 'cost.kinds')" for name in "abc"),
    ):
        connection.execute(f"SELECT graphrag.{call}".encode())
    pid = connection.info.backend_pid
    start, used = time.perf_counter(), processor(pid)
    connection.execute("CALL graphrag.process_jobs()")
    seconds, after = time.perf_counter() - start, processor(pid)
    count = rows + max(rows // 10, 50) + 1
    print(f"\n{count} rows, {3 * rows} foreign keys: {seconds:.1f} s", end="")
    if used is not None and after is not None:
        print(f", {1000 * (after - used) / count:.2f} ms of processor time a row", end="")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="of the server, as superuser")
    parser.add_argument("--manual", type=Path, default=MANUAL)
    parser.add_argument("--cost", type=int, default=0, metavar="ROWS")
    parser.add_argument("--only", choices=("shop", "catalog", "cost"))
    options = parser.parse_args()
    with psycopg.connect(options.url, autocommit=True) as maintenance:
        maintenance.execute(f"DROP DATABASE IF EXISTS {DATABASE}".encode())
        maintenance.execute(f"CREATE DATABASE {DATABASE}".encode())
        try:
            url = conninfo.make_conninfo(options.url, dbname=DATABASE)
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("SET client_min_messages = error; CREATE EXTENSION pg_graphrag CASCADE")
                if options.only in (None, "shop"):
                    compare(connection, url, "shop", shop(connection), SHOP_ATTACHED, SHOP_TEXTS)
                if options.only in (None, "catalog") and options.manual.is_dir():
                    made = catalog(connection, options.manual)
                    compare(connection, url, "catalog", made, SETTINGS_ATTACHED, SETTINGS_TEXTS)
                if options.only in (None, "cost") and options.cost:
                    cost(connection, options.cost)
        finally:
            maintenance.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)".encode())


if __name__ == "__main__":
    main()
