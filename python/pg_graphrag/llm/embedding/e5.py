"""intfloat/multilingual-e5-small, of weights of four bits: tokenise, encode, mean-pool, centre, normalise.

Wang et al., "Multilingual E5 Text Embeddings" (arXiv 2402.05672). All its vectors lie close together (cosines of .7 and more), so
what compares cosines with 0 or with BM25 could not use them as they are. They are taken from their mean, over texts and titles in
English, Japanese and both kinds of Chinese in equal parts (e5_mean.json; `python -m bench e5_mean` makes it). The order of
paragraphs for a question hardly changes by it.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pg_graphrag.ground.asset_paths import MODELS
from pg_graphrag.ground.numeric import NDArray, Vectors, np
from pg_graphrag.llm.embedding.bert import map_tensors
from pg_graphrag.llm.embedding.local_model import WEIGHTS, Encoder, LocalModel, check_files, numpy_encoder
from pg_graphrag.llm.embedding.unigram import UnigramTokenizer
from pg_graphrag.text.languages import LANGUAGES

# The model wants this before both texts where they are of one kind, and a corpus compares names, questions and passages alike.
_PREFIX = "query: "


class E5(LocalModel):
    """The local `pg_graphrag.llm.embedding.Embedder` of many languages."""

    model = "multilingual-e5-small"
    dimensions = 384
    max_tokens = 512
    languages = LANGUAGES[model]
    # As docker/fetch-models makes them.
    digests: ClassVar = {
        "config.json": "fac70205cace89745c985123c4ac70a0117b274bee75c701b0965d517cd48468",
        "characters.json": "41349278f866e87012aabc530192916d0cf85860b59e6389c7252db203ed3c74",
        "pieces.marisa": "6435dac904fbd609b3c21d747954f6856b0f79e289900973a4fa53c32e0a141b",
        WEIGHTS: "850f5ccdc72bd5cde79dc0d5cbfff83357222326c855f52bc3ebed8f48a5c378",
    }
    weights_bytes = 280_017_688
    header_digest = "504d1f4b180aba29e58ee05b4d6ca34f999ca45963715d0dffb282b66dfadf24"

    def __init__(self, directory: Path, encoder: Callable[[Path, dict[str, Any]], Encoder] = numpy_encoder) -> None:
        super().__init__(directory, encoder)
        self._tokenizer = _tokenizer(directory, map_tensors(directory / WEIGHTS), self.config)
        self._start, self._end = self.config["bos_token_id"], self.config["eos_token_id"]
        mean = json.loads(Path(__file__).with_name("e5_mean.json").read_text(encoding="ascii"))
        self._mean = np.array(mean, np.float32)

    def tokens(self, text: str) -> list[int]:
        return [self._start, *self._tokenizer.encode(_PREFIX + text, self.max_tokens - 2), self._end]

    def finish(self, vectors: Vectors) -> Vectors:
        centred: Vectors = vectors - self._mean
        centred /= np.linalg.norm(centred, axis=1, keepdims=True)
        return centred


class PieceTable(NamedTuple):
    """What the model has of word pieces, without its layers.

    Attributes
    ----------
    tokenizer : UnigramTokenizer
    embeddings : array of float16, (pieces, 384)
        What the layers get of each piece; mapped, pages are read on first use.
    """

    tokenizer: UnigramTokenizer
    embeddings: NDArray[np.float16]


def piece_table() -> PieceTable:
    """Return the word pieces of the model beside the package.

    Raises
    ------
    GraphRAGError
        58P01 (missing or unreadable) or XX001 (other content).
    """
    directory = MODELS / E5.model
    check_files(directory, E5)
    config = json.loads((directory / "config.json").read_bytes())
    tensors = map_tensors(directory / WEIGHTS)
    return PieceTable(_tokenizer(directory, tensors, config), tensors["embeddings.word_embeddings.weight"])


def _tokenizer(directory: Path, tensors: dict[str, Any], config: dict[str, Any]) -> UnigramTokenizer:
    return UnigramTokenizer(directory, tensors["pieces.ids"], tensors["pieces.scores"], config["unk_token_id"])
