"""What an agent remembers of conversations: recall of the turns, or sessions, that answer, by kind of question, without a model.

    python -m bench memory [--data FOLDER] [--modes NAME …]
    python -m bench memory --longmemeval FILE [--questions 500]

LoCoMo (fetched from its repository; `--data` names a clone): ten conversations of two people over months, each a corpus of its
own. A turn is a document as docs/memory.md has it: "Caroline: …", with the caption of the picture that she shares; its speaker
and session are metadata, `valid_from` the moment of its session and a second for each turn before it; the corpus' option
`conversation` names the session. Asked are the 1,536 questions of the kinds 1 to 4 that name turns as
evidence; those of the fifth have no answer. Recall is the share of a question's turns among the first 5, 10 and 20.

LongMemEval, where a file of it is at hand (longmemeval_s.json or longmemeval_oracle.json, MIT; no repository has it): each
question has sessions of its own, which are a corpus, a session a document, its date `valid_from`. Recall is of the sessions that
answer; questions without an answer (`_abs`) are left out, as its authors do.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pg_graphrag import GraphRAG

from bench.data.corpora import made_once, spread
from bench.data.fetched import Repository, fetched_json
from bench.retrieval.unseen import rows, scored

LOCOMO = Repository(
    "https://github.com/snap-research/LoCoMo", "3eb6f2c585f5e1699204e3c3bdf7adc5c28cb376", ("data/locomo10.json",)
)
KINDS = {1: "several turns", 2: "time", 3: "open-domain", 4: "one turn"}
DEPTHS = (5, 10, 20)
MODES = ("hybrid", "mix", "bm25", "naive")


class Memory(NamedTuple):
    """What is remembered, as documents, and what is asked of it: question, evidence, kind."""

    name: str
    documents: list[dict[str, Any]]
    asked: list[dict[str, Any]]


def locomo(data: Path | None) -> Iterator[Memory]:
    """Yield the conversations of LoCoMo."""
    (samples,) = fetched_json(LOCOMO, data)
    for sample in samples:
        documents = list(_turns(sample["conversation"]))
        keys = {document["source_key"] for document in documents}
        asked = [
            {
                "question": item["question"],
                # Some evidence has two turns in one string, or "D:11:26" and "D30:05".
                "evidence": sorted(
                    keys.intersection(
                        f"D{session}:{int(turn)}"
                        for session, turn in re.findall(r"D:?(\d+):(\d+)", " ".join(item["evidence"]))
                    )
                ),
                "kind": KINDS[item["category"]],
            }
            for item in sample["qa"]
            if item["category"] in KINDS
        ]
        yield Memory(sample["sample_id"], documents, [each for each in asked if each["evidence"]])


def _turns(conversation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name, turns in conversation.items():
        if not isinstance(turns, list):
            continue
        said_at = datetime.strptime(conversation[f"{name}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for second, turn in enumerate(turns):
            caption = f" [{turn['blip_caption']}]" if "blip_caption" in turn else ""
            yield {
                "source_key": turn["dia_id"],
                "content": f"{turn['speaker']}: {turn['text']}{caption}",
                "metadata": {"speaker": turn["speaker"], "session": name},
                "valid_from": (said_at + timedelta(seconds=second)).isoformat(),
            }


def longmemeval(file: Path, most: int) -> Iterator[Memory]:
    """Yield the questions of LongMemEval, each with its sessions."""
    items = [item for item in json.loads(file.read_text(encoding="utf-8")) if "_abs" not in item["question_id"]]
    for item in spread(items, most):
        sessions = zip(item["haystack_session_ids"], item["haystack_dates"], item["haystack_sessions"], strict=True)
        documents = {
            key: {
                "source_key": key,
                "content": "\n".join(f"{turn['role']}: {turn['content']}" for turn in turns),
                "valid_from": datetime.strptime(date, "%Y/%m/%d (%a) %H:%M").replace(tzinfo=UTC).isoformat(),
            }
            for key, date, turns in sessions
        }
        asked = {"question": item["question"], "evidence": item["answer_session_ids"], "kind": item["question_type"]}
        yield Memory(item["question_id"], list(documents.values()), [asked])


def tables(url: str, title: str, memories: Iterator[Memory], modes: Sequence[str]) -> Iterator[str]:
    """Yield the table of a benchmark: recall and nDCG of all its questions, and of each kind."""
    by_mode: dict[str, list[Any]] = {mode: [] for mode in modes}
    groups: list[tuple[str]] = []
    for memory in memories:
        asked = [{name: each[name] for name in ("question", "evidence")} for each in memory.asked]
        options = {"conversation": "session"}
        with GraphRAG(url, made_once(url, f"bench-memory-{memory.name}-", memory.documents, [], options)) as rag:
            for mode in modes:
                by_mode[mode].append(scored(rag, asked, mode, DEPTHS))
        groups += [(each["kind"],) for each in memory.asked]
        print(f"{memory.name}: {len(memory.documents)} documents, {len(asked)} questions", file=sys.stderr, flush=True)
    yield f"| set | mode | questions | {' | '.join(f'R@{depth}' for depth in DEPTHS)} | nDCG@{DEPTHS[-1]} |"
    yield "|---|---|---|---|---|---|---|"
    yield from rows(title, groups, {mode: np.concatenate(values) for mode, values in by_mode.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="a superuser of a database with the extension")
    parser.add_argument("--data", type=Path, help="a clone of LoCoMo's repository, or a folder that has it")
    parser.add_argument("--longmemeval", type=Path, metavar="FILE", help="ask LongMemEval, which is in this file")
    parser.add_argument(
        "--questions", type=int, default=500, help="at most so many of LongMemEval, evenly spread (500)"
    )
    parser.add_argument("--modes", nargs="+", default=list(MODES))
    options = parser.parse_args()
    if options.longmemeval:
        memories, title = longmemeval(options.longmemeval, options.questions), "LongMemEval"
    else:
        memories, title = locomo(options.data), "LoCoMo"
    for line in tables(options.url, title, memories, options.modes):
        print(line, flush=True)


if __name__ == "__main__":
    main()
