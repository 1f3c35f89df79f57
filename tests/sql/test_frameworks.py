"""Frameworks over either host, each with its real package in an environment of its own, on demand (300 MB each):
``GRAPHRAG_FRAMEWORKS=1 ./test tests/sql/test_frameworks.py``."""

import os
import subprocess
import tomllib

import pytest

from bench.peers.peers import peer_python
from tests.runtime import beside
from tests.runtime.cluster import PROJECT, Database

if not os.environ.get("GRAPHRAG_FRAMEWORKS"):
    pytest.skip("environments of frameworks are made on demand: GRAPHRAG_FRAMEWORKS=1", allow_module_level=True)

# Suite: extras of the package that it is about, and what its tests need besides.
SUITES = {
    "langchain": (("langchain", "langchain-graph"), ("langchain-tests>=1", "numpy")),
    "llama_index": (("llama-index",), ("pytest>=8.3",)),
    "notebook": ((), ("ipykernel>=6", "nbclient>=0.10", "pandas>=2.2", "pytest>=8.3")),
    "django": (("django",), ("asyncpg>=0.30", "pytest>=8.3")),
}


@pytest.mark.parametrize("name", SUITES)
def test_the_suite_of_a_framework_passes(name: str, db: Database) -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras, others = SUITES[name]
    if beside.IS_BESIDE:
        extras += ("server",)
    requirements = [*project["dependencies"], *others]
    requirements += [item for extra in extras for item in project["optional-dependencies"][extra]]
    try:
        python = peer_python(f"framework-{name}", requirements)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"the packages cannot be had: {error}")
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.frameworks.plugin",
        "--noconftest",
        "-o",
        "asyncio_mode=auto",
    ]
    done = subprocess.run(
        [str(python), "-m", "pytest", *options, f"tests/frameworks/{name}_suite.py"],
        cwd=PROJECT,
        env=os.environ | {"GRAPHRAG_FRAMEWORK_URL": db.url, "PYTHONPATH": f"{PROJECT}/python:{PROJECT}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
