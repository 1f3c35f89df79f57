"""The local embedder against onnxruntime running the same weights: python bench/embedding.py

Needs the model below PG_GRAPHRAG_HOME, ../shared/data, and `pip install onnx onnxruntime` for the comparison. Every
figure is of one thread in a fresh process. Private memory is Private_Clean + Private_Dirty of /proc/self/smaps_rollup
while a second process has the same model open, as in a server with two sessions.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
DATA = PROJECT.parent / "shared" / "data"
sys.path.insert(0, str(PROJECT / "python"))
QUERY = "Who painted the ceiling of the chapel?"
ENGINES = ("numpy", "onnxruntime", "onnxruntime-nopack")  # the last does not keep repacked weights


def windows(count: int) -> list[str]:
    """100-word stretches of the MuSiQue passages."""
    lines = (DATA / "musique" / "docs.jsonl").read_text(encoding="utf-8").splitlines()
    words = " ".join(json.loads(line)["text"] for line in lines).split()
    return [" ".join(words[start : start + 100]) for start in range(0, 100 * count, 100)]


def names(count: int) -> list[str]:
    """Entity names of two to four words."""
    lines = (DATA / "musique" / "openie.jsonl").read_text(encoding="utf-8").splitlines()
    found = sorted({name for line in lines for name in json.loads(line)["entities"] if 2 <= len(name.split()) <= 4})
    return found[:: len(found) // count][:count]


def write_graph(path: Path) -> None:
    """Write the model as an ONNX graph of onnxruntime's fused operators, weights in a file of their own."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from pg_graphrag.embedding.bert import map_tensors
    from pg_graphrag.paths import MODELS

    tensors = map_tensors(MODELS / "all-MiniLM-L6-v2" / "model.safetensors")
    weights: list[Any] = []
    nodes: list[Any] = []

    def weight(*parts: str, transpose: bool = False) -> str:
        array = np.concatenate([tensors[part].T if transpose else tensors[part] for part in parts], axis=-1)
        weights.append(numpy_helper.from_array(np.ascontiguousarray(array), parts[0]))
        return parts[0]

    def node(kind: str, inputs: list[str], *outputs: str, **attributes: Any) -> None:
        domain = "" if kind == "MatMul" else "com.microsoft"
        nodes.append(helper.make_node(kind, inputs, list(outputs), domain=domain, **attributes))

    tables = [weight(f"embeddings.{name}_embeddings.weight") for name in ("word", "position", "token_type")]
    norm = [weight("embeddings.LayerNorm.weight"), weight("embeddings.LayerNorm.bias")]
    node("EmbedLayerNormalization", ["ids", "segments", *tables, *norm, "mask"], "x0", "lengths", epsilon=1e-12)
    for number in range(6):
        prefix, x, y = f"encoder.layer.{number}.", f"x{number}", f"y{number}"
        parts = [f"{prefix}attention.self.{name}" for name in ("query", "key", "value")]
        packed = [weight(*(f"{p}.weight" for p in parts), transpose=True), weight(*(f"{p}.bias" for p in parts))]
        node("Attention", [x, *packed, "lengths"], f"a{number}", num_heads=12)
        for block, inputs, skip, out in (
            ("attention.output", f"a{number}", x, y),
            ("output", f"g{number}", y, f"x{number + 1}"),
        ):
            if block == "output":
                node("MatMul", [y, weight(f"{prefix}intermediate.dense.weight", transpose=True)], f"h{number}")
                node("BiasGelu", [f"h{number}", weight(f"{prefix}intermediate.dense.bias")], f"g{number}")
            node("MatMul", [inputs, weight(f"{prefix}{block}.dense.weight", transpose=True)], f"{out}_dense")
            scale = [weight(f"{prefix}{block}.{name}") for name in ("LayerNorm.weight", "LayerNorm.bias", "dense.bias")]
            node("SkipLayerNormalization", [f"{out}_dense", skip, *scale], out, epsilon=1e-12)
    ports = [helper.make_tensor_value_info(n, TensorProto.INT32, ["b", "l"]) for n in ("ids", "segments", "mask")]
    vectors = helper.make_tensor_value_info("x6", TensorProto.FLOAT, ["b", "l", 384])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph(nodes, "minilm", ports, [vectors], weights), opset_imports=opsets)
    model.ir_version = 8
    onnx.save_model(model, path, save_as_external_data=True, location="weights.bin", size_threshold=1024)


def onnx_embedder(path: Path, *, nopack: bool) -> Callable[[Sequence[str]], Any]:
    """Return embed(texts) by onnxruntime, batches of about 512 tokens of like length."""
    import numpy as np
    import onnxruntime
    from pg_graphrag.paths import MODELS
    from tokenizers import Tokenizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if nopack:
        options.add_session_config_entry("session.disable_prepacking", "1")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(MODELS / "all-MiniLM-L6-v2" / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)

    def embed(texts: Sequence[str]) -> Any:
        ids = [tokenizer.encode(text).ids for text in texts]
        vectors = np.empty((len(ids), 384), np.float32)
        for step in steps(ids):
            padded = np.zeros((len(step), len(ids[step[-1]])), np.int32)
            mask = np.zeros_like(padded)
            for row, index in enumerate(step):
                padded[row, : len(ids[index])] = ids[index]
                mask[row, : len(ids[index])] = 1
            states = session.run(None, {"ids": padded, "segments": np.zeros_like(padded), "mask": mask})[0]
            sums = (states * mask[:, :, None]).sum(axis=1)
            vectors[step] = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        return vectors

    return embed


def steps(ids: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Indices by length, in runs that take at most 512 tokens when padded to their longest."""
    step: list[int] = []
    for index in sorted(range(len(ids)), key=lambda index: len(ids[index])):
        if (len(step) + 1) * len(ids[index]) > 512:
            yield step
            step = []
        step.append(index)
    yield step


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


def measure(engine: str, graph: Path) -> dict[str, float]:
    """Every figure of one engine; the process is fresh."""
    before, dirty_before = memory(), memory("Private_Dirty")
    start = time.perf_counter()
    if engine == "numpy":
        from pg_graphrag.embedding import local_embedder

        embed: Callable[[Sequence[str]], Any] = local_embedder().embed
    else:
        import pg_graphrag.numeric  # noqa: F401

        embed = onnx_embedder(graph, nopack=engine.endswith("nopack"))
    embed([QUERY])
    result = {"first call, ms": 1e3 * (time.perf_counter() - start), "private MB, 1 text": memory() - before}
    texts, short = windows(256), names(1000)
    embed(texts)
    result |= {"private MB, 256 windows": memory() - before, "of it dirty": memory("Private_Dirty") - dirty_before}
    result["resident MB, peak"] = peak()
    result["windows/s, batch"] = rate(embed, [texts[:100]])
    result["windows/s, single"] = rate(embed, [[text] for text in texts[:50]])
    result["names/s, batch"] = rate(embed, [short])
    result["names/s, single"] = rate(embed, [[name] for name in short[:200]])
    result["query, ms"] = 1e3 / rate(embed, [[QUERY]] * 50)
    import numpy as np

    lines = (DATA / "minilm" / "reference.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    expected = np.array([row["embedding"] for row in rows])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    result["1 - lowest cosine"] = 1 - float((embed([row["text"] for row in rows]) * expected).sum(axis=1).min())
    return result


def hold(engine: str, graph: Path) -> None:
    """Be the second session: load, embed once, say so, stay until standard input closes."""
    if engine == "numpy":
        from pg_graphrag.embedding import local_embedder

        local_embedder().embed([QUERY])
    else:
        onnx_embedder(graph, nopack=engine.endswith("nopack"))([QUERY])
    print("ready", flush=True)
    sys.stdin.read()


def main() -> None:
    """Measure every engine and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, action="append", help="default: all")
    parser.add_argument("--child", choices=("measure", "hold"), help=argparse.SUPPRESS)
    parser.add_argument("--graph", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child == "hold":
        hold(arguments.engine[0], arguments.graph)
        return
    if arguments.child == "measure":
        print(json.dumps(measure(arguments.engine[0], arguments.graph)))
        return
    if not DATA.is_dir():
        sys.exit(f"no benchmark data in {DATA}")
    engines = arguments.engine or ENGINES
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder) / "minilm.onnx"
        if any(engine != "numpy" for engine in engines):
            write_graph(graph)
        for engine in engines:
            command = [sys.executable, __file__, "--engine", engine, "--graph", str(graph), "--child"]
            with subprocess.Popen([*command, "hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as session:
                assert session.stdin and session.stdout
                session.stdout.readline()
                measured = subprocess.run([*command, "measure"], stdout=subprocess.PIPE, check=True)
                session.stdin.close()
            results[engine] = json.loads(measured.stdout)
    print(f"{'':28}" + "".join(f"{engine:>20}" for engine in engines))
    for figure in results[engines[0]]:
        print(f"{figure:28}" + "".join(f"{results[engine][figure]:>20.3g}" for engine in engines))


if __name__ == "__main__":
    main()
