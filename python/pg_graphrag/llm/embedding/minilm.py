"""sentence-transformers/all-MiniLM-L6-v2: tokenise, encode, mean-pool, normalise, as sentence-transformers does."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from pg_graphrag.ground.asset_paths import MODELS
from pg_graphrag.llm.embedding import word_pieces
from pg_graphrag.llm.embedding.head import TextHead
from pg_graphrag.llm.embedding.local_model import WEIGHTS, Encoder, LocalModel, check_files, numpy_encoder
from pg_graphrag.text.languages import LANGUAGES
from pg_graphrag.text.packed_words import PackedWords


class MiniLM(LocalModel):
    """The local `pg_graphrag.llm.embedding.Embedder` of English."""

    model = "all-MiniLM-L6-v2"
    dimensions = 384
    max_tokens = 256  # sentence_bert_config.json: max_seq_length
    languages = LANGUAGES[model]
    digests: ClassVar = {
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    }
    weights_bytes = 90_868_376
    header_digest = "a1621c79b67c1aa27f5784108b97e010fa884e26b187ba5c351328d9125e10a7"

    def __init__(self, directory: Path, encoder: Callable[[Path, dict[str, Any]], Encoder] = numpy_encoder) -> None:
        super().__init__(directory, encoder)
        # Who embeds much has time and memory for the library's tokenizer, which is faster with long texts.
        is_for_questions = encoder is numpy_encoder and word_pieces.PATH.exists()
        self._encode = self._of_pieces() if is_for_questions else self._of_library(directory)

    def tokens(self, text: str) -> list[int]:
        return self._encode(text)

    def _of_pieces(self) -> Callable[[str], list[int]]:
        return word_pieces.WordPieces(PackedWords.mapped(word_pieces.PATH), self.max_tokens).encode

    def _of_library(self, directory: Path) -> Callable[[str], list[int]]:
        from tokenizers import Tokenizer  # questions do without

        tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(self.max_tokens)
        head = TextHead(tokenizer, self.max_tokens)
        return lambda text: tokenizer.encode(head(text)).ids


if __name__ == "__main__":
    if (folder := MODELS / MiniLM.model).exists():
        check_files(folder, MiniLM)
        word_pieces.write_packed(folder / "tokenizer.json", word_pieces.PATH)
