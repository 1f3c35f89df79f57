"""sentence-transformers/all-MiniLM-L6-v2: tokenise, encode, mean-pool, normalise, as sentence-transformers does."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from tokenizers import Tokenizer

from pg_graphrag.embedding.head import TextHead
from pg_graphrag.embedding.model import WEIGHTS, Encoder, LocalModel, numpy_encoder


class MiniLM(LocalModel):
    """The local `pg_graphrag.embedding.Embedder` of English."""

    model = "all-MiniLM-L6-v2"
    dimensions = 384
    max_tokens = 256  # sentence_bert_config.json: max_seq_length
    languages = frozenset({"en"})
    digests: ClassVar = {
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    }
    weights_bytes = 90_868_376
    header_digest = "a1621c79b67c1aa27f5784108b97e010fa884e26b187ba5c351328d9125e10a7"

    def __init__(self, directory: Path, encoder: Callable[[Path, dict[str, Any]], Encoder] = numpy_encoder) -> None:
        super().__init__(directory, encoder)
        self._tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.max_tokens)
        self._head = TextHead(self._tokenizer, self.max_tokens)

    def tokens(self, text: str) -> list[int]:
        return self._tokenizer.encode(self._head(text)).ids
