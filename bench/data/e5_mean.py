"""Where the vectors of multilingual-e5-small lie: prints their mean (llm/embedding/e5_mean.json).

The mean of the means of 120 texts, and of their titles, of each of MuSiQue, JSQuAD, DRCD and CMRC (../shared/data), so that
English, Japanese, traditional and simplified Chinese count alike. Needs no server.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

from pg_graphrag.ground.asset_paths import MODELS
from pg_graphrag.ground.numeric import Vectors, np
from pg_graphrag.llm.embedding.e5 import E5

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SETS = ("musique", "jsquad", "drcd", "cmrc")
TEXTS, CHARACTERS, TITLE_CHARACTERS = 120, 300, 6


class Uncentred(E5):
    """The model as it is."""

    def finish(self, vectors: Vectors) -> Vectors:
        return vectors


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    embedder = Uncentred(MODELS / E5.model)
    means = []
    for name in SETS:
        documents = [json.loads(line) for line in (DATA / name / "docs.jsonl").read_text(encoding="utf-8").splitlines()]
        random.Random(3).shuffle(documents)
        documents = documents[:TEXTS]
        texts = [document["text"] for document in documents]
        titles = [
            document.get("title") or text[:TITLE_CHARACTERS] for document, text in zip(documents, texts, strict=True)
        ]
        means += [
            embedder.embed([text[:CHARACTERS] for text in texts]).mean(axis=0),
            embedder.embed(titles).mean(axis=0),
        ]
    mean = np.mean(means, axis=0)
    print(json.dumps([round(float(value), 6) for value in mean]))


if __name__ == "__main__":
    main()
