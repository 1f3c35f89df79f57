"""``./test --coverage [ARGS]``: pytest, and which lines of the package ran, in the server or beside it.

Servers that a test starts by ``bin/graphrag-server up`` are not measured, nor are branches.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from coverage import Coverage, CoverageData

from tests.runtime.cluster import PROJECT, Runtime

PACKAGE = PROJECT / "python/pg_graphrag"
HERE = Path(__file__).parent
# Beside the report, what coverage.py of each process writes.
DATA = PROJECT / "build/coverage"
SHOWN = 25


def main(arguments: list[str]) -> int:
    """Run pytest under measurement and print the figures; return pytest's exit status."""
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    settings = DATA / "settings"
    settings.write_text(
        f"[run]\nparallel = true\ndata_file = {DATA}/beside\nsource = {PACKAGE}\nconcurrency = thread\n"
        "disable_warnings = no-data-collected\n",
        encoding="utf-8",
    )
    offsets = line_offsets()
    within = prepare_server(offsets)
    environment = os.environ | {
        "COVERAGE_PROCESS_START": str(settings),
        "PYTHONPATH": os.pathsep.join([os.environ["PYTHONPATH"], str(HERE / "beside")]),
        "GRAPHRAG_SERVER_PYTHONPATH": "/srv/pg_graphrag/coverage",
    }
    tests = arguments or ["-n", "4", "--dist", "loadfile", "--no-loadscope-reorder"]
    try:
        status = subprocess.run([sys.executable, "-m", "pytest", *tests], env=environment, check=False).returncode
    except KeyboardInterrupt:
        status = 130  # what ran until then is reported
    report(settings, offsets, (within / "lines").read_bytes())
    return status


def line_offsets() -> dict[str, int]:
    """Return where the lines of each module begin, by its path in the package, and the sum of all under ''."""
    offsets: dict[str, int] = {}
    total = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        offsets[path.relative_to(PACKAGE).as_posix()] = total
        total += len(path.read_text(encoding="utf-8").splitlines())
    return offsets | {"": total}


def prepare_server(offsets: dict[str, int]) -> Path:
    """Put what measures into the server's root; return its folder, which the server's processes write."""
    server = Runtime()
    folder = server.folder / "coverage"
    owner = server.folder.stat()
    folder.mkdir(exist_ok=True)
    shutil.copyfile(HERE / "within/sitecustomize.py", folder / "sitecustomize.py")
    (folder / "offsets.json").write_text(json.dumps({name: at for name, at in offsets.items() if name}))
    (folder / "lines").write_bytes(bytes(offsets[""]))
    for path in (folder, *folder.iterdir()):
        os.chown(path, owner.st_uid, owner.st_gid)
    return folder


def report(settings: Path, offsets: dict[str, int], marks: bytes) -> None:
    """Print the share of lines that ran: in the server, beside it, in either; and where the share is least."""
    names = [name for name in offsets if name]
    ends = [*[offsets[name] for name in names[1:]], offsets[""]]
    within = CoverageData(basename=str(DATA / "within"))
    within.add_lines(
        {
            str(PACKAGE / name): [at + 1 for at, mark in enumerate(marks[offsets[name] : end]) if mark]
            for name, end in zip(names, ends, strict=True)
        }
    )
    within.write()
    beside = Coverage(data_file=str(DATA / "all-beside"), config_file=str(settings))
    beside.combine([str(path) for path in DATA.glob("beside.*")], keep=True)
    both = Coverage(data_file=str(DATA / "all"), config_file=str(settings))
    both.combine([str(DATA / "within"), *(str(path) for path in DATA.glob("beside.*"))], keep=True)
    inside = Coverage(data_file=str(DATA / "within"), config_file=str(settings))
    inside.load()
    for what, measured in (("in the server", inside), ("beside it", beside)):
        print(f"{what}: {measured.report(file=io.StringIO()):.1f} % of the package's lines")
    print(f"together: {both.report(file=io.StringIO()):.1f} %; least covered:")
    shares = []
    for name in names:
        _, statements, _, missing, _ = both.analysis2(str(PACKAGE / name))
        if missing:
            shares.append((1 - len(missing) / len(statements), len(missing), name))
    for share, count, name in sorted(shares)[:SHOWN]:
        print(f"{100 * share:5.0f} %  {count:4} lines missing  {name}")
    both.html_report(directory=str(DATA / "html"))
    print(f"every line: {DATA / 'html/index.html'}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
