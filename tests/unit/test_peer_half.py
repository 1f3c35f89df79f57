"""What the peers' halves of benchmarks share: processor time of a server, and questions that are asked twice."""

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from bench.peers.halves import peer_half


def test_of_questions_that_are_asked_twice_the_second_answers_count() -> None:
    asked: list[str] = []

    async def find(question: str, low: list[str], high: list[str]) -> list[str]:
        asked.append(question)
        return [f"{question}{asked.count(question)}", "b", "b"]

    task = {"questions": [("q", ["low"], ["high"]), ("r", [], [])]}
    report = asyncio.run(peer_half.timed(task, find))
    assert [documents for _, documents in report["answers"]] == [["q2", "b"], ["r2", "b"]]
    assert report["cpu"] >= 0


def test_a_servers_processes_count_while_they_live_and_when_they_have_ended() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass\n"
    living = f"import sys, time\n{burn}print('x', flush=True)\nsys.stdin.read()"
    ending = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])\n"
    server = f"{ending}child = subprocess.Popen([sys.executable, '-c', {living!r}], stdin=subprocess.PIPE)\nsys.stdin.read()\n"
    with subprocess.Popen(
        [sys.executable, "-c", server], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "x\n"
        used = peer_half.server_cpu(process.pid)
        assert used is not None
        # Two times 0.3 s; with one of the two it would be half. The kernel counts in ticks.
        assert 0.45 <= used < 3
        process.communicate("")


def test_a_server_elsewhere_has_no_processor_time() -> None:
    assert peer_half.server_cpu(None) is None


def test_a_library_that_is_left_out_has_whatever_is_imported_of_it() -> None:
    peer_half.leave_out("a_gpus_library")
    try:
        from a_gpus_library import Model  # type: ignore[import-not-found]

        assert Model.__name__ == "Model"
    finally:
        del sys.modules["a_gpus_library"]


def test_a_peers_own_processes_count_while_they_live_whichever_thread_began_them() -> None:
    """cognee keeps its databases in such."""
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint('x', flush=True)\ninput()"
    before = peer_half.cpu()
    with ThreadPoolExecutor(1) as pool:
        begun = partial(subprocess.Popen, [sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with pool.submit(begun).result() as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"x\n"
            assert peer_half.cpu() - before >= 0.28
            process.communicate(b"\n")
    assert peer_half.cpu() - before < 3
