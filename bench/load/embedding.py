"""The engines that embed: numpy for questions, OpenVINO in float32, bfloat16 and int8 for documents.

Needs the model below PG_GRAPHRAG_HOME and ../shared/data. Every figure is of one thread in a fresh process; rates are of
CPU time, the best of the rounds, which the engines take in turns. Private memory is Private_Clean + Private_Dirty of
/proc/self/smaps_rollup while a second process has the same model open, as in a server with two sessions.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
DATA = PROJECT.parent / "shared" / "data"
QUERY = "Who painted the ceiling of the chapel?"
ENGINES = ("numpy", "float32", "bfloat16", "int8")
# The first has reference vectors of sentence-transformers.
MODELS = ("all-MiniLM-L6-v2", "multilingual-e5-small")


def windows(count: int) -> list[str]:
    """100-word stretches of the MuSiQue passages."""
    lines = (DATA / "musique" / "docs.jsonl").read_text(encoding="utf-8").splitlines()
    words = " ".join(json.loads(line)["text"] for line in lines).split()
    return [" ".join(words[start : start + 100]) for start in range(0, 100 * count, 100)]


def names(count: int) -> list[str]:
    """Entity names of two to four words."""
    lines = (DATA / "musique" / "openie.jsonl").read_text(encoding="utf-8").splitlines()
    loaded = sorted({name for line in lines for name in json.loads(line)["entities"] if 2 <= len(name.split()) <= 4})
    return loaded[:: len(loaded) // count][:count]


def embedder_of(model: str, engine: str) -> Callable[[Sequence[str]], Any]:
    """Return embed(texts) of a local model by an engine."""
    from pg_graphrag.llm.embedding.document_embedder import _embedder

    return _embedder(model, engine).embed


def memory(kind: str = "Private") -> float:
    """MB of this process by /proc/self/smaps_rollup."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    return sum(int(line.split()[1]) for line in lines if line.startswith(kind)) / 1024


def peak() -> float:
    """MB of the largest resident set (shared pages too)."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def rate(embed: Callable[[Sequence[str]], Any], batches: Sequence[Sequence[str]]) -> float:
    """Texts per second of CPU time (one thread, so others' load counts little), the better of two rounds."""

    def once() -> float:
        start = time.process_time()
        for batch in batches:
            embed(batch)
        return sum(map(len, batches)) / (time.process_time() - start)

    return max(once(), once())


def measure(model: str, engine: str) -> dict[str, float]:
    """Every figure of a model by one engine; the process is fresh."""
    before, start, spent = memory(), time.perf_counter(), time.process_time()
    embed = embedder_of(model, engine)
    result = {"ready, ms": 1e3 * (time.perf_counter() - start)}
    embed([QUERY])
    result["first call, ms"] = 1e3 * (time.perf_counter() - start)
    result["first call, CPU ms"] = 1e3 * (time.process_time() - spent)
    result["private MB, 1 text"] = memory() - before
    texts, short = windows(256), names(1000)
    embed(texts)
    embed(short)
    result |= {"private MB, windows and names": memory() - before, "resident MB, peak": peak()}
    result["windows/s, batch"] = rate(embed, [texts[:100]])
    result["windows/s, single"] = rate(embed, [[text] for text in texts[:50]])
    result["names/s, batch"] = rate(embed, [short])
    result["names/s, single"] = rate(embed, [[name] for name in short[:200]])
    result["query, ms"] = 1e3 / rate(embed, [[QUERY]] * 50)
    if model != MODELS[0]:
        return result
    import numpy as np

    lines = (DATA / "minilm" / "reference.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    expected = np.array([row["embedding"] for row in rows])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    result["1 - lowest cosine"] = 1 - float((embed([row["text"] for row in rows]) * expected).sum(axis=1).min())
    return result


def hold(model: str, engine: str) -> None:
    """Be the second session: load, embed once, say so, stay until standard input closes."""
    embedder_of(model, engine)([QUERY])
    print("ready", flush=True)
    sys.stdin.read()


def best(figure: str, values: Sequence[float]) -> float:
    """Return the value least disturbed by others."""
    return max(values) if "/s" in figure else min(values)


def main() -> None:
    """Measure every engine and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, action="append", help="default: all")
    parser.add_argument("--model", choices=MODELS, default=MODELS[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--child", choices=("measure", "hold"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child == "hold":
        hold(arguments.model, arguments.engine[0])
        return
    if arguments.child == "measure":
        print(json.dumps(measure(arguments.model, arguments.engine[0])))
        return
    if not DATA.is_dir():
        sys.exit(f"no benchmark data in {DATA}")
    engines = arguments.engine or ENGINES
    results: dict[str, list[dict[str, float]]] = {engine: [] for engine in engines}
    for _ in range(arguments.rounds):
        for engine in engines:
            command = [sys.executable, __file__, "--model", arguments.model, "--engine", engine, "--child"]
            with subprocess.Popen([*command, "hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as session:
                assert session.stdin and session.stdout
                session.stdout.readline()
                measured = subprocess.run([*command, "measure"], stdout=subprocess.PIPE, check=True)
                session.stdin.close()
            results[engine].append(json.loads(measured.stdout))
    print(f"{'':30}" + "".join(f"{engine:>12}" for engine in engines))
    for figure in results[engines[0]][0]:
        values = (best(figure, [result[figure] for result in results[engine]]) for engine in engines)
        print(f"{figure:30}" + "".join(f"{value:>12.3g}" for value in values))


if __name__ == "__main__":
    main()
