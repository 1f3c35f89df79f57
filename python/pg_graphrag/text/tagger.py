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
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from operator import itemgetter
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
    hanta = load("HanTa.HanoverTagger", "server")
    tagger = hanta.HanoverTagger(None, _model(model))
    # Without a name of a file it refuses words that it does not know.
    tagger.strict = False
    tagger.analyze_forward = _UnknownWords(tagger, (hanta.EMPTY, hanta.START), hanta.UNKNOWN, hanta.logaddexp).tags
    return tagger


# HanTa's own: what is less likely than this is impossible; a word that is one unknown morpheme is less likely by this; of the
# best so many ways to a place, and what is hardly worse than the next, others are followed; longer morphemes count as so long;
# a shorter word may have unknown morphemes of any length, another none that is shorter than the last.
_IMPOSSIBLE = -1e6
_WHOLE_WORD_PENALTY = 4.6
_FOLLOWED_WAYS, _NEARLY = 3, 1
_LONGEST_MORPHEME = 24
_SHORT_WORD, _SHORTEST_UNKNOWN = 4, 3
_LONGEST_SUFFIX = 4
# The tag before the last, and the last.
_State = tuple[int, int]
# (logarithm for any unknown morpheme, by its length, by its ending)
_Guess = tuple[float, Any, dict[str, float]]
_Guessed = tuple[int, int, float, dict[str, float], _Guess]


class _UnknownWords:
    """Parts of speech of words that the lexicon does not have, by their morphemes: HanTa's `analyze_forward`, in half the time.

    The numbers are the same to the last bit. Half of a text's words are names, which the lexicon does not have.
    """

    def __init__(self, tagger: Any, start: _State, unknown: int, log_of_sum: Callable[[float, float], float]) -> None:
        self._start, self._unknown, self._log_of_sum = start, unknown, log_of_sum
        self._final: dict[_State, list[tuple[int, float]]] = tagger.LP_trans_final
        guesses = {
            tag: (tagger.Int_t + log_hapax, tagger.LP_len_t[tag], tagger.LP_s_t[tag])
            for tag, log_hapax in tagger.LP_hapax_t.items()
            if tag in tagger.LP_s_t
        }
        # By state what may follow, in HanTa's order, of which sums of floats depend: tags whose unknown morphemes are guessed, as
        # (place, tag, logarithm of that, logarithms of its morphemes, how others are guessed), and by morpheme the other tags,
        # most of which have few, as (place, tag, logarithm of both).
        self._followers: dict[_State, tuple[list[_Guessed], dict[str, list[tuple[int, int, float, float]]]]] = {}
        for state, followers in tagger.LP_trans_nonfinal.items():
            guessed_tags: list[_Guessed] = []
            by_morpheme: dict[str, list[tuple[int, int, float, float]]] = {}
            for place, (tag, log_transition) in enumerate(followers):
                morphemes = tagger.LP_m_t[tag]
                if tag in guesses:
                    guessed_tags.append((place, tag, log_transition, morphemes, guesses[tag]))
                    continue
                for morpheme, log_morpheme in morphemes.items():
                    by_morpheme.setdefault(morpheme, []).append((place, tag, log_transition, log_morpheme))
            if followers:
                self._followers[state] = guessed_tags, by_morpheme

    def tags(self, word: str) -> list[tuple[int, float]]:
        """Return (number of a part of speech, logarithm of its probability), the likeliest first."""
        length = len(word)
        ways: list[dict[_State, float]] = [{} for _ in range(length + 1)]
        ways[0][self._start] = 0
        for start in range(length):
            self._extend(word, start, ways)
        found: dict[_State, float] = {}
        for state, logarithm in ways[length].items():
            for tag, log_transition in self._final.get(state, ()):
                total = logarithm + log_transition
                last_state = (state[1], tag)
                if total > _IMPOSSIBLE and (last_state not in found or total > found[last_state]):
                    found[last_state] = total
        sums: dict[int, float] = {}
        for (_, tag), total in found.items():
            sums[-tag] = self._log_of_sum(sums[-tag], total) if -tag in sums else total
        return sorted(sums.items(), key=itemgetter(1), reverse=True) or [(self._unknown, 0)]

    def _extend(self, word: str, start: int, ways: list[dict[_State, float]]) -> None:
        """Extend the likeliest ways to a place in a word by a morpheme that begins there."""
        length, here = len(word), ways[start]
        least = _IMPOSSIBLE
        if len(here) > _FOLLOWED_WAYS:
            least = sorted(here.values(), reverse=True)[_FOLLOWED_WAYS] - _NEARLY
        guessed: dict[tuple[int, int], float] = {}
        for state, logarithm in here.items():
            followers = self._followers.get(state)
            if followers is None or logarithm < least:
                continue
            guessed_tags, by_morpheme = followers
            for end in range(start + 1, length + 1):
                morpheme, there = word[start:end], ways[end]
                may_guess = length < _SHORT_WORD or end - start >= _SHORTEST_UNKNOWN
                following = by_morpheme.get(morpheme, ())
                if guessed_tags:
                    following = list(following)
                    for place, tag, log_transition, morphemes, guess in guessed_tags:
                        log_morpheme = morphemes.get(morpheme)
                        if log_morpheme is None:
                            if not may_guess:
                                continue
                            log_morpheme = guessed.get((end, tag))
                            if log_morpheme is None:
                                log_morpheme = guessed[end, tag] = _log_of_unknown(morpheme, length, guess)
                        following.append((place, tag, log_transition, log_morpheme))
                    following.sort()
                for _, tag, log_transition, log_morpheme in following:
                    total = logarithm + log_transition + log_morpheme
                    if total > _IMPOSSIBLE:
                        next_state = (state[1], tag)
                        if next_state not in there or total > there[next_state]:
                            there[next_state] = total


def _log_of_unknown(morpheme: str, word_length: int, guess: _Guess) -> float:
    """Return the logarithm of the probability of an unknown morpheme of a tag, by its length and its ending."""
    log_unknown, by_length, by_suffix = guess
    length = len(morpheme)
    size = min(length - 1, _LONGEST_SUFFIX)
    while size and morpheme[-size:] not in by_suffix:
        size -= 1
    log_suffix = by_suffix[morpheme[-size:] if size else ""]
    logarithm: float = log_unknown + by_length[min(length, _LONGEST_MORPHEME)] + log_suffix
    return logarithm - _WHOLE_WORD_PENALTY if length == word_length else logarithm


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
