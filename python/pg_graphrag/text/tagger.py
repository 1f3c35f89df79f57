"""HanTa's models of the words of a language.

HanTa: C. Wartena, "A Probabilistic Morphology Model for German Lemmatization", KONVENS 2019.

Half of HanTa's own files are sequences of words, which only `tag_sent` asks for, and equal values stand in them many times. So
extension/install-package writes them beside this module without these, and each value once: a session reads that in a third of
the time and memory (20 ms, 11 MB).
"""

import gc
import gzip
import pickle
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pg_graphrag.text.extras import load

MODELS = ("morphmodel_en", "morphmodel_ger")
# The parts of a model stand in the order of HanoverTagger.__init__.
PARTS, WORD_SEQUENCES = 16, 9


def read_tagger(model: str) -> Any:
    """Return the tagger of a model that comes with HanTa; its `tag_word` and `analyze` work, `tag_sent` does not."""
    # HanTa imports numpy; inside a server numpy must come in our way first.
    import_module("pg_graphrag.numeric")
    tagger_class = load("HanTa.HanoverTagger", "server").HanoverTagger
    tagger = tagger_class(None, _model(model))
    # Without a name of a file it refuses words that it does not know.
    tagger.strict = False
    return tagger


def write_packed(folder: Path) -> None:
    """Write the models into a folder, in the form that is read fastest."""
    for model in MODELS:
        parts = _each_once(_hanta_model(model), {})
        (folder / f"{model}.pickle").write_bytes(pickle.dumps(parts, pickle.HIGHEST_PROTOCOL))


def _model(name: str) -> tuple[Any, ...]:
    packed = Path(__file__).with_name(f"{name}.pickle")
    # Nothing that is unpickled is garbage, and looking for some takes as long as unpickling.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        model: tuple[Any, ...] = pickle.loads(packed.read_bytes()) if packed.exists() else _hanta_model(name)
    finally:
        if was_enabled:
            gc.enable()
    return model


def _hanta() -> Path | None:
    """Return the folder of HanTa, or None where it is not installed."""
    spec = find_spec("HanTa.HanoverTagger") if find_spec("HanTa") else None
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _hanta_model(name: str) -> tuple[Any, ...]:
    """Return the parts of a model as HanTa has it, without sequences of words."""
    folder = _hanta()
    assert folder is not None
    with gzip.open(folder / f"{name}.pgz") as file:
        parts = list(pickle.load(file))
    assert len(parts) == PARTS
    parts[WORD_SEQUENCES] = {}
    return tuple(parts)


def _each_once(value: Any, cached: dict[Any, Any]) -> Any:
    """Return the value with one object for all equal strings, numbers, tuples and lists inside, which nobody changes."""
    kind = type(value)
    if kind is dict:
        return {_each_once(name, cached): _each_once(item, cached) for name, item in value.items()}
    if kind in (list, tuple):
        value = kind(_each_once(item, cached) for item in value)
    try:
        return cached.setdefault((kind, tuple(value) if kind is list else value), value)
    except TypeError:  # what holds a dict or a set
        return value


if __name__ == "__main__":
    if _hanta() is not None:
        write_packed(Path(__file__).parent)
    else:
        print("HanTa is not in this venv: sessions read its models as it has them.", file=sys.stderr)
