"""What sessions of other tests take for made by a local model is what it makes (tests/runtime/kept_readings)."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.runtime.cluster import READINGS, REAL_MODEL, RUN, SERVER_PYTHONPATH, Cluster, Database, Runtime, Server
from tests.sql.ingest import value

# Two texts of which one is read with the other, and one by itself; whether the model was loaded.
READ = """
DO LANGUAGE plpython3u $do$
import json
from pg_graphrag.llm.embedding import local_embedder
made = []
model = local_embedder("all-MiniLM-L6-v2")
for texts in (["Ada Lovelace wrote notes on it."], ["Ada Lovelace wrote notes on it.", "Kept in London by Charles Babbage."]):
    for places, vectors, readings in model.tag_batches(texts):
        made += [(texts[place], vector.tobytes().hex(), reading.names, *(part.tolist() for part in reading.terms))
                 for place, vector, reading in zip(places, vectors, readings)]
    made += [model.embed(texts).tobytes().hex()]
loaded = getattr(model, "_loaded", model) is not None
plpy.execute(plpy.prepare("SELECT set_config('tests.made', $1, false), set_config('tests.loaded', $2, false)", ["text"] * 2),
             [json.dumps(made), json.dumps(loaded)])
$do$
"""


def read(url: str) -> tuple[str, str]:
    """Read in a new session; return what was made, and whether the model was loaded."""
    with Database.open(url) as session:
        session.execute(READ)
        return value(session, "SHOW tests.made"), value(session, "SHOW tests.loaded")


def test_what_is_kept_is_what_the_model_makes(module_db: Database, shared_cluster: Cluster | Server) -> None:
    if isinstance(shared_cluster, Server) or SERVER_PYTHONPATH:
        pytest.skip("nothing is kept on this server")
    made, _ = read(module_db.url)
    assert read(module_db.url) == (made, "false")
    marker: Path = shared_cluster.folder / "data" / REAL_MODEL
    marker.touch()
    try:
        assert read(module_db.url) == (made, "true")
    finally:
        marker.unlink()


def test_readings_are_kept_for_the_tests_of_one_run_alone() -> None:
    assert Runtime.readings == "", (
        "bench/load/soak.py and tests/upgrade/freeze.py measure and keep what the model makes"
    )
    own = subprocess.run(["ps", "-o", "etimes=", "-p", str(RUN)], capture_output=True, text=True, check=True).stdout
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    assert abs(uptime - int(READINGS.split("-")[1]) / os.sysconf("SC_CLK_TCK") - int(own)) < 5
