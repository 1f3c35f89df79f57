"""The benchmarks: list them, run one, write down what it said.

python -m bench                         every benchmark, and what it measures
python -m bench protection --rounds 6   run one; without --url on the server of this checkout (bin/graphrag-server)
python -m bench --record protection …   and put its output, with command, commit and machine, into bench/RESULTS.md
"""

from __future__ import annotations

import ast
import datetime
import os
import re
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
RESULTS = BENCH / "RESULTS.md"
HEADING = "## Recorded runs\n"


def benchmarks() -> dict[str, Path]:
    """Return {name: script} of what can be run, folder by folder; modules that scripts share are none."""
    return {
        path.stem: path
        for path in sorted(BENCH.glob("*/*.py"))
        if 'if __name__ == "__main__"' in path.read_text(encoding="utf-8")
    }


def summary(script: Path) -> str:
    """Return the first sentence of a script's docstring."""
    text = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split())


def takes(script: Path, option: str) -> bool:
    """Whether a script has an option."""
    return f'add_argument("{option}"' in script.read_text(encoding="utf-8")


def server_url() -> str:
    """Return the URL of the checkout's server, which is started and has the extension."""
    server = str(ROOT / "bin/graphrag-server")
    subprocess.run([server, "up"], check=True, stdout=subprocess.DEVNULL)
    create = "CREATE EXTENSION IF NOT EXISTS pg_graphrag CASCADE"
    subprocess.run([server, "psql", "-X", "-q", "-c", create], check=True, stdout=subprocess.DEVNULL)
    return subprocess.run([server, "url"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def models_folder() -> str:
    """Return the folder with the models of the checkout's server, for what runs the package beside a database."""
    prepare = [str(ROOT / "bin/graphrag-server"), "prepare"]
    root = subprocess.run(prepare, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return f"{root}/usr/lib/pg_graphrag"


def recorded(results: str, name: str, arguments: list[str], output: str, place: str) -> str:
    """Return the results with the run in them; a run of the same benchmark with the same arguments is replaced."""
    command = " ".join(["python -m bench", name, *arguments])
    begin, end = f"<!-- run {command} -->\n", "<!-- /run -->\n"
    block = f"{begin}`{command}` ({place})\n\n```text\n{output.rstrip()}\n```\n{end}"
    if HEADING not in results:
        results = f"{results.rstrip()}\n\n{HEADING}"
    former = re.compile(re.escape(begin) + r".*?" + re.escape(end), re.DOTALL)
    if former.search(results):
        return former.sub(lambda _: block, results)
    return f"{results.rstrip()}\n\n{block}"


def public(options: list[str]) -> list[str]:
    """Return arguments without what is of this machine: a URL, which may hold a password, and the folder of the data."""
    kept_arguments: list[str] = []
    arguments = iter(options)
    for argument in arguments:
        option, equals, _ = argument.partition("=")
        if option not in ("--url", "--data"):
            kept_arguments.append(argument)
        elif not equals:
            next(arguments, None)
    return kept_arguments


def place_of_run() -> str:
    """Return the day, the commit and the machine."""
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True)
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    return f"{day}, commit {commit.stdout.strip()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        folder = BENCH
        for name, script in benchmarks().items():
            if script.parent != folder:
                folder = script.parent
                print(f"\n{folder.name}/")
            data = " [data: bench/README.md]" if takes(script, "--data") else ""
            print(f"{name:14} {summary(script)}{data}")
        return 0
    records = arguments[0] == "--record"
    name, *options = arguments[1:] if records else arguments
    if name not in benchmarks():
        print(f'there is no benchmark "{name}"; python -m bench lists them', file=sys.stderr)
        return 2
    script = benchmarks()[name]
    module = f"bench.{script.parent.name}.{name}"
    command = [sys.executable, "-m", module, *options]
    names = {option.partition("=")[0] for option in options}
    if takes(script, "--url") and not names & {"--url", "-h", "--help"}:
        command += ["--url", server_url()]
        os.environ.setdefault("PG_GRAPHRAG_HOME", models_folder())
    place = place_of_run()
    paths = [str(ROOT / "python"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if records and process.returncode == 0:
        text = RESULTS.read_text(encoding="utf-8")
        RESULTS.write_text(recorded(text, name, public(options), "".join(lines), place), encoding="utf-8")
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
