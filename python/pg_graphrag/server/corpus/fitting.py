"""The local embedding model that fits a corpus whose options name none: by the languages of the first texts."""

from collections.abc import Iterable

from pg_graphrag.server.corpus.corpora import Corpus
from pg_graphrag.server.corpus.options import ENGLISH_MODEL, MULTILINGUAL_MODEL, Embedding, local_embedding
from pg_graphrag.text.languages import is_english

# The English model fits as long as at most this share of the characters is of texts in other languages.
MAX_FOREIGN_SHARE = 0.1


def embedding_of(corpus: Corpus, texts: Iterable[str]) -> Embedding | None:
    """Return the embedding of a corpus; where its first `texts` choose it, the model that fits them: without any, None."""
    if not corpus.chooses_embedding:
        return corpus.options.embedding
    foreign = total = 0
    for text in texts:
        total += len(text)
        foreign += 0 if is_english(text) else len(text)
    if not total:
        return None
    return local_embedding(MULTILINGUAL_MODEL if foreign > MAX_FOREIGN_SHARE * total else ENGLISH_MODEL)
