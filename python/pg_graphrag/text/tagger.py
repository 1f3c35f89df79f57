"""HanTa's models of the words of a language.

HanTa: C. Wartena, "A Probabilistic Morphology Model for German Lemmatization", KONVENS 2019.
"""

import gc
from importlib import import_module
from typing import Any

from pg_graphrag.text.extras import load


def read_tagger(model: str) -> Any:
    """Return the tagger of a model that comes with HanTa; its `tag_word` and `analyze` work, `tag_sent` does not."""
    # HanTa imports numpy; inside a server numpy must come in our way first.
    import_module("pg_graphrag.numeric")
    tagger_class = load("HanTa.HanoverTagger", "server").HanoverTagger
    # Nothing that is unpickled is garbage, and looking for some takes as long as unpickling.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        tagger = tagger_class(model)
    finally:
        if was_enabled:
            gc.enable()
    # Sequences of words are asked for by `tag_sent` alone, and are the half of the model.
    tagger.LP_trans_word = {}
    return tagger
