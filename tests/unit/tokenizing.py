"""What tests of texts share: the tokenizers of the runtime."""

import pytest
from pg_graphrag.ground.asset_paths import MODELS
from pg_graphrag.text.tokenizers import Tokenizer, names, tokenizer


def load(name: str) -> Tokenizer:
    """A tokenizer; its file comes with the runtime, which pytest by itself, without ./test, may not know."""
    if name not in names():
        pytest.skip(f"no tokenizer {name} under {MODELS}: set PG_GRAPHRAG_HOME, as ./test does")
    return tokenizer(name)
