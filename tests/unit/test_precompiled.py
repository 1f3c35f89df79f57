"""What is compiled at installation is what Python compiles."""

import subprocess
import sys
from pathlib import Path

from pg_graphrag.ground import precompiled

# In a process of its own: `re` and dataclasses of the tests stay as they are.
WRITE = (
    "from pathlib import Path\nfrom pg_graphrag.ground import precompiled\nprecompiled.PATH = Path({path!r})\n{then}"
)
COMPARE = """
import dataclasses, re
before = re._compiler.compile
precompiled.use()
assert re._compiler.compile is not before
find = precompiled._opened()
known = [0, 0]
def compile_(pattern, flags=0, taken=re._compiler.compile):
    ours, theirs = taken(pattern, flags), before(pattern, flags)
    assert ours == theirs and (ours.groups, ours.groupindex, ours.flags) == (theirs.groups, theirs.groupindex, theirs.flags)
    known[find((pattern, int(flags))) is not None] += 1
    return ours
re._compiler.compile = compile_
import pg_graphrag.search.search, pg_graphrag.operate.jobs.process_jobs
assert known[1] > 20 * known[0], known
from pg_graphrag.text import chunks, concept, languages, letters
from pg_graphrag.text.words import names
missed = known[0]
assert languages.is_english("déjà vu, they say") and concept.key("“déjà”") == letters.unified_text("Déjà")
assert names._heading() and chunks._patterns()
assert known[0] == missed, known
@dataclasses.dataclass(frozen=True)
class Pair:
    left: int
    right: int = 2
from collections import namedtuple
assert namedtuple("Two", "one other")(1, other=2) == (1, 2)
assert Pair(1) == Pair(1, 2) and re.compile(r"(?P<a>x)\\d").match("x1")["a"] == "x"
from pg_graphrag.search.query.rankings import Ranking
assert Ranking.empty("none").zeros == 0
"""
DAMAGE = "import re\nbefore = re._compiler.compile\nprecompiled.use()\nassert re._compiler.compile is before"


def run(path: Path, then: str) -> None:
    script = WRITE.format(path=str(path), then=then)
    subprocess.run([sys.executable, "-c", script], check=True)


def test_patterns_and_dataclasses_are_those_that_python_makes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    run(path, "precompiled.write()")
    run(path, COMPARE)


def test_a_file_of_another_python_or_none_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "file"
    run(path, DAMAGE)
    path.write_bytes(b"\x00\x00")
    run(path, DAMAGE)
    path.write_bytes(precompiled._packed({("a", 0): None}).replace(sys.version[:6].encode(), b"9.99.9"))
    run(path, DAMAGE)
