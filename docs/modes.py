"""Writes the lists of modes from their registry: SQL, command line, client and manual.

`./test --python -m docs.modes` writes it; a test fails while any of it is stale.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pg_graphrag.search import modes
from pg_graphrag.search.query.mode import Mode
from pg_graphrag.search.query.mode_options import CHECKS, OF_EVERY_MODE, PAPER, Option, SearchOptions

ROOT = Path(__file__).resolve().parents[1]
ROWS = (
    "rank int, chunk_id bigint, document_id bigint, source_key text, title text, content text, score double precision,"
    " explain jsonb"
)

INTRODUCTION = """Most people need the default, `hybrid`. The argument `mode` of `search`, `context` and `ask` names another:

<!-- setup
INSERT INTO graphrag.documents (source_key, title, content) VALUES
    ('ann', 'Ann Lee',   'Ann Lee founded Acme Rockets in Osaka in 1999. Acme Rockets builds small launchers.'),
    ('bob', 'Bob Stone', 'Bob Stone is the chief engineer of Acme Rockets. He designed the Kestrel engine.'),
    ('kes', 'Kestrel',   'The Kestrel engine burns methane. It first flew on the Heron launcher in 2011.');
CALL graphrag.process_jobs();
-->
```sql
SELECT mode, array_agg(source_key ORDER BY rank) AS found
  FROM unnest('{bm25,hybrid,naive,path}'::text[]) AS mode,
       graphrag.search('How is Ann Lee connected with the Kestrel engine?', mode => mode)
 GROUP BY mode ORDER BY mode;
```
```text
  mode  |     found
--------+---------------
 bm25   | {ann,kes,bob}
 hybrid | {ann,bob,kes}
 naive  | {kes,ann,bob}
 path   | {ann,bob,kes}
```

Bob Stone's document connects them, and names only one: modes that walk over the graph put it before the engine's own.

| you ask | take |
|---|---|
| most questions | `hybrid` |
| for names, codes and error messages as they stand in the text | `bm25`, the fastest |
| about the corpus as a whole: "What are the main themes?" | `graph_global`, which reads reports on communities |
| in other words than the texts, over short, independent texts | `naive` |
| how two named things hang together | `path` |
| about the whole, with a bound on what a model may cost | `lazy` |
"""


def texts() -> dict[Path, str]:
    """Return {file: what it is to hold}."""
    return {path: write(path.read_text() if path.exists() else "") for path, write in _writers().items()}


def _writers() -> dict[Path, Callable[[str], str]]:
    every = modes.all_modes()
    names = [mode.name for mode in every]
    reports = _and([mode.name for mode in every if mode.context.reports])
    claims = _and([mode.name for mode in every if mode.context.claims])
    reduced = _and([mode.name for mode in every if mode.answer])
    client = textwrap.fill(f"{', '.join(names[:-1])} or {names[-1]}.", 108, subsequent_indent=12 * " ")
    return {
        _sql("020_modes.sql"): lambda _: _functions(every),
        _sql("010_search.sql"): _fragment(r"mode: [\w, ]+\.", f"mode: {', '.join(names)}."),
        _sql("040_context.sql"): _fragment(r"Reports are in .*?\.", f"Reports are in {reports}, claims in {claims}."),
        _sql("050_ask.sql"): _fragment(r"context \(in [\w, ]+: points", f"context (in {reduced}: points"),
        ROOT / "python/pg_graphrag/ground/mode_names.py": lambda _: _names(every),
        ROOT / "python/pg_graphrag/beside/client/asynchronous.py": _fragment(r"naive, bm25, [\w,\s]+ or \w+\.", client),
        ROOT / "docs/modes.md": lambda _: _manual(every),
    }


def _sql(name: str) -> Path:
    (path,) = (ROOT / "sql").rglob(name)
    return path


def _fragment(pattern: str, replacement: str) -> Callable[[str], str]:
    """Return what puts `replacement` in the one place that the pattern finds."""

    def write(text: str) -> str:
        assert len(re.findall(pattern, text)) == 1, pattern
        return re.sub(pattern, lambda _: replacement, text)

    return write


def _and(names: list[str]) -> str:
    return " and ".join([*filter(None, [", ".join(names[:-1])]), names[-1]])


def _functions(every: list[Mode]) -> str:
    functions = "".join("\n" + _function(mode) for mode in every if mode.function)
    return f"-- search() with the mode fixed. Written by docs/modes.py.\n{functions}"


def _function(mode: Mode) -> str:
    name = f"{mode.name}_search"
    parameters = ["query               text", "corpus              text DEFAULT 'default'"]
    parameters += ["top_k               int DEFAULT 10", "filter              jsonb DEFAULT NULL"]
    types, keywords = "text, text, int, jsonb", ""
    if mode.reads_keywords:
        parameters += ["low_level_keywords  text[] DEFAULT NULL", "high_level_keywords text[] DEFAULT NULL"]
        types += ", text[], text[]"
        low, high = (f"{level}_level_keywords => {name}.{level}_level_keywords" for level in ("low", "high"))
        keywords = f"                           {low}, {high},\n"
    parameters.append("options             jsonb DEFAULT '{}'")
    comment = f"search() with mode {mode.name}: {mode.function}".replace("'", "''")
    columns = ", ".join(f"s.{column.split()[0]}" for column in ROWS.split(", "))
    return (
        f"CREATE FUNCTION graphrag.{name}(\n    " + ",\n    ".join(parameters) + "\n"
        f") RETURNS TABLE ({ROWS})\n"
        "LANGUAGE sql STABLE COST 1000000 ROWS 10\n"
        "BEGIN ATOMIC\n"
        f"    SELECT {columns}\n"
        f"      FROM graphrag.search({name}.query, {name}.corpus, '{mode.name}', top_k => {name}.top_k,"
        f" filter => {name}.filter,\n"
        f"{keywords}"
        f"                           options => {name}.options) s;\n"
        "END;\n"
        f"COMMENT ON FUNCTION graphrag.{name}({types}, jsonb) IS '{comment}';\n"
    )


def _names(every: list[Mode]) -> str:
    def listed(constant: str, names: list[str]) -> str:
        line = f"{constant} = (" + ", ".join(f'"{name}"' for name in names) + ")"
        return line if len(line) <= 120 else f"{constant} = (\n" + "".join(f'    "{name}",\n' for name in names) + ")"

    meanings = "".join(f"    {json.dumps(mode.name)}: {_quoted(mode.does)},\n" for mode in every)
    return f'''"""Names and descriptions of the modes, for programs beside the server. Written by docs/modes.py."""

{listed("MODES", [mode.name for mode in every])}
# For graphrag.ask, models make the context of the answer.
{listed("REDUCED", [mode.name for mode in every if mode.answer])}
MEANINGS = {{
{meanings}}}
'''


def _quoted(does: str) -> str:
    """Return what a mode does, and what it is for, as a string of Python, in lines that ruff leaves as they are."""
    first, *others = re.split(r"(?<=\.) (?=[A-Z])", " ".join(does.replace("`", "").split()))
    text = " ".join([first, *(other for other in others if other.startswith(("For ", "The default")))])
    if len(text) < 100:
        return json.dumps(text, ensure_ascii=False)
    parts = textwrap.wrap(text, 100, drop_whitespace=False)
    return "(\n" + "".join(f"        {json.dumps(part, ensure_ascii=False)}\n" for part in parts) + "    )"


def _manual(every: list[Mode]) -> str:
    rows = "".join(f"| `{mode.name}` | {_line(mode.does)} | {mode.source} |\n" for mode in every)
    details = "".join(f"**{mode.name}.** {_line(mode.details)}\n\n" for mode in every if mode.details)
    return f"""<!-- Written by docs/modes.py from python/pg_graphrag/search/modes/. -->
# Modes

{INTRODUCTION}
## All modes

| mode | what it does | source |
|---|---|---|
{rows}
{details}## Options

`options => '{{…}}'`. Unknown or misplaced ones are errors.

| option | default | a value is | modes |
|---|---|---|---|
{"".join(_options(every))}"""


def _name(option: str | Option[Any]) -> str:
    return option if isinstance(option, str) else option.name


def _options(every: list[Mode]) -> Iterator[str]:
    own = {name: option for mode in every for name, option in mode.own_options.items()}
    shared = SearchOptions()
    for name in dict.fromkeys([*OF_EVERY_MODE, *(_name(option) for mode in every for option in mode.options)]):
        default, check = (own[name].default, own[name].check) if name in own else (getattr(shared, name), CHECKS[name])
        having = "all" if name in OF_EVERY_MODE else ", ".join(f"`{mode.name}`" for mode in every if mode.has(name))
        if name in own and own[name].ask_only:
            having += ", in `ask` alone"
        others = {mode.name: mode.defaults[name] for mode in every if name in mode.defaults}
        defaults = [json.dumps(default), *([f"{json.dumps(PAPER[name])} in profile `paper`"] if name in PAPER else [])]
        defaults += [
            f"{json.dumps(value)} in {_and([f'`{mode}`' for mode in others if others[mode] == value])}"
            for value in dict.fromkeys(others.values())
        ]
        yield f"| `{name}` | {'; '.join(defaults)} | {check.expectation} | {having} |\n"


def _line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    for path, text in texts().items():
        path.write_text(text)
