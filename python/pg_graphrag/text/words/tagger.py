"""HanTa's models of the words of a language.

HanTa: C. Wartena, "A Probabilistic Morphology Model for German Lemmatization", KONVENS 2019.

Half of HanTa's own files are sequences of words, which only `tag_sent` asks for. So extension/install-package writes them beside
this module without these, and words and morphemes so that they can be mapped into memory that all sessions share: a session
reads the rest in 5 ms (20 before, and 11 MB of its own).
"""

import gc
import gzip
import pickle
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import Any

from pg_graphrag.text.extras import load_library
from pg_graphrag.text.packed_words import PackedWords, packed

MODELS = ("morphmodel_en", "morphmodel_ger")
# The parts of a model stand in the order of HanoverTagger.__init__.
PARTS, MORPHEMES, STEMS, WORD_SEQUENCES, WORDS = 16, 7, 8, 9, 15
# Stems of this model are not needed: they take a third of a megabyte.
STEMLESS = "morphmodel_en"


def read_tagger(model: str) -> Any:
    """Return the tagger of a model that comes with HanTa; `tag_word` works, of German `analyze` too, `tag_sent` does not."""
    # HanTa imports numpy; inside a server numpy must come in our way first.
    import_module("pg_graphrag.ground.numeric")
    hanta = load_library("HanTa.HanoverTagger", "server")
    parts, words, morphemes = _model(model)
    known = _by_tag(morphemes)
    parts[MORPHEMES] = {tag: _OfTag(tag, known) for tag in parts[MORPHEMES]}
    parts[WORDS] = words
    tagger = _with_reachable(hanta.HanoverTagger)(None, parts)
    # Without a name of a file it refuses words that it does not know.
    tagger.strict = False
    unknown = _UnknownWords(tagger, morphemes, (hanta.EMPTY, hanta.START), hanta.UNKNOWN, hanta.logaddexp)
    tagger.analyze_forward = unknown.tags
    return tagger


def _with_reachable(tagger: Any) -> Any:
    """Return HanTa's class with its `reachable` in a tenth of the time: it goes through all pairs of tags for each one found."""

    class Tagger(tagger):  # type: ignore[misc]
        def reachable(self) -> None:
            before: dict[int, set[int]] = {}
            for (_, tag), followers in self.LP_trans.items():
                for follower in followers:
                    before.setdefault(follower, set()).add(tag)
            self.reachability = {}
            for end in (tag for tag in self.int2tag if tag < 0):
                reached: set[int] = set()
                new = before.get(end, set())
                while new:
                    reached |= new
                    new = set().union(*(before.get(tag, set()) for tag in new)) - reached
                self.reachability[end] = frozenset(reached)

    return Tagger


# From a morpheme to the logarithm of its probability, by tag.
_Known = Callable[[str], Mapping[int, float]]
_NOTHING: Mapping[int, float] = {}


def _by_tag(morphemes: PackedWords) -> _Known:
    # Each run of a word's letters is asked for by all tags.
    @lru_cache(1000)
    def known(morpheme: str) -> Mapping[int, float]:
        pairs = morphemes.pairs(morpheme)
        return _NOTHING if pairs is None else dict(pairs)

    return known


class _OfTag:
    """The morphemes of a tag: what HanTa asks of a dictionary of them."""

    def __init__(self, tag: int, known: _Known) -> None:
        self._tag, self._known = tag, known

    def __contains__(self, morpheme: str) -> bool:
        return self._tag in self._known(morpheme)

    def __getitem__(self, morpheme: str) -> float:
        return self._known(morpheme)[self._tag]


# HanTa's own limits: anything less likely is impossible; a word that is one unknown morpheme is less likely by this; so
# many of the best paths to a place are followed, and any hardly worse than the next; longer morphemes count as so long;
# a shorter word may have unknown morphemes of any length, any other none that is shorter than the last.
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


class _UnknownWords:
    """Parts of speech of words that the lexicon does not have, by their morphemes: HanTa's `analyze_forward`, in half the time.

    The numbers are the same to the last bit. Half of a text's words are names, which the lexicon does not have.
    """

    def __init__(
        self,
        tagger: Any,
        morphemes: PackedWords,
        start: _State,
        unknown: int,
        log_of_sum: Callable[[float, float], float],
    ) -> None:
        self._morphemes, self._start, self._unknown, self._log_of_sum = morphemes, start, unknown, log_of_sum
        self._final: dict[_State, list[tuple[int, float]]] = tagger.LP_trans_final
        guesses: dict[int, _Guess] = {
            tag: (tagger.Int_t + log_hapax, tagger.LP_len_t[tag], tagger.LP_s_t[tag])
            for tag, log_hapax in tagger.LP_hapax_t.items()
            if tag in tagger.LP_s_t
        }
        # By state the tags that may follow, with their places in HanTa's order, on which sums of floats depend, and
        # logarithms; and those whose unknown morphemes are guessed, as (place, tag, logarithm, how).
        self._followers: dict[_State, tuple[dict[int, tuple[int, float]], list[tuple[int, int, float, _Guess]]]] = {
            state: (
                {tag: (place, log_transition) for place, (tag, log_transition) in enumerate(followers)},
                [
                    (place, tag, log_transition, guesses[tag])
                    for place, (tag, log_transition) in enumerate(followers)
                    if tag in guesses
                ],
            )
            for state, followers in tagger.LP_trans_nonfinal.items()
            if followers
        }

    def tags(self, word: str) -> list[tuple[int, float]]:
        """Return (number of a part of speech, logarithm of its probability), the likeliest first."""
        length = len(word)
        ways: list[dict[_State, float]] = [{} for _ in range(length + 1)]
        ways[0][self._start] = 0
        suffixes: dict[tuple[int, int, int], float] = {}
        for start in range(length):
            if ways[start]:
                self._extend(word, start, ways, suffixes)
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

    def _extend(
        self, word: str, start: int, ways: list[dict[_State, float]], suffixes: dict[tuple[int, int, int], float]
    ) -> None:
        """Extend the likeliest paths to a place in a word by a morpheme that begins there.

        `suffixes`: logarithms by end, tag and length, which many morphemes share.
        """
        length, here = len(word), ways[start]
        least = _IMPOSSIBLE
        if len(here) > _FOLLOWED_WAYS:
            least = sorted(here.values(), reverse=True)[_FOLLOWED_WAYS] - _NEARLY
        morphemes = {end: dict(pairs) for end, pairs in self._morphemes.begun(word, start).items()}
        guessed: dict[tuple[int, int], float] = {}
        for state, logarithm in here.items():
            followers = self._followers.get(state)
            if followers is None or logarithm < least:
                continue
            all_tags, guessed_tags = followers
            for end in range(start + 1, length + 1) if guessed_tags else morphemes:
                log_of_tag = morphemes.get(end, _NOTHING)
                following = [
                    (*all_tags[tag], tag, log_morpheme) for tag, log_morpheme in log_of_tag.items() if tag in all_tags
                ]
                if guessed_tags and (length < _SHORT_WORD or end - start >= _SHORTEST_UNKNOWN):
                    for place, tag, log_transition, guess in guessed_tags:
                        if tag in log_of_tag:
                            continue
                        log_morpheme = guessed.get((end, tag))
                        if log_morpheme is None:
                            log_unknown, by_length, by_suffix = guess
                            size = min(end - start - 1, _LONGEST_SUFFIX)
                            log_suffix = suffixes.get((end, tag, size))
                            if log_suffix is None:
                                log_suffix = suffixes[end, tag, size] = _log_of_suffix(
                                    word[end - size : end], by_suffix
                                )
                            log_morpheme = log_unknown + by_length[min(end - start, _LONGEST_MORPHEME)] + log_suffix
                            if end - start == length:
                                log_morpheme -= _WHOLE_WORD_PENALTY
                            guessed[end, tag] = log_morpheme
                        following.append((place, log_transition, tag, log_morpheme))
                if len(following) > 1:
                    following.sort()
                there = ways[end]
                for _, log_transition, tag, log_morpheme in following:
                    total = logarithm + log_transition + log_morpheme
                    if total > _IMPOSSIBLE:
                        next_state = (state[1], tag)
                        if next_state not in there or total > there[next_state]:
                            there[next_state] = total


def _log_of_suffix(suffix: str, by_suffix: dict[str, float]) -> float:
    """Return the logarithm of the longest end of a suffix that is known of a tag."""
    while suffix and suffix not in by_suffix:
        suffix = suffix[1:]
    return by_suffix[suffix]


def write_packed(folder: Path) -> None:
    """Write the models into a folder, in the form that is read fastest."""
    for model in MODELS:
        parts, words, morphemes = _apart(_hanta_model(model))
        (folder / f"{model}.words").write_bytes(words)
        (folder / f"{model}.morphemes").write_bytes(morphemes)
        # At last, whole or not at all: where it is, the others are read.
        unfinished = folder / f"{model}.unfinished"
        unfinished.write_bytes(pickle.dumps(parts, pickle.HIGHEST_PROTOCOL))
        unfinished.rename(folder / f"{model}.pickle")


def _model(name: str) -> tuple[list[Any], PackedWords, PackedWords]:
    """Return (the parts of a model without words and morphemes, words, morphemes)."""
    path = Path(__file__).with_name(f"{name}.pickle")
    if not path.exists():
        parts, words, morphemes = _apart(_hanta_model(name))
        return parts, PackedWords(words), PackedWords(morphemes)
    # Nothing that is unpickled is garbage, and looking for some takes as long as unpickling.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        parts = pickle.loads(path.read_bytes())
    finally:
        if was_enabled:
            gc.enable()
    return parts, PackedWords.mapped(path.with_suffix(".words")), PackedWords.mapped(path.with_suffix(".morphemes"))


def _hanta() -> Path | None:
    """Return the folder of HanTa, or None where it is not installed."""
    spec = find_spec("HanTa.HanoverTagger") if find_spec("HanTa") else None
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _hanta_model(name: str) -> list[Any]:
    """Return the parts of a model in HanTa's form, without sequences of words."""
    folder = _hanta()
    assert folder is not None
    with gzip.open(folder / f"{name}.pgz") as file:
        parts = list(pickle.load(file))
    assert len(parts) == PARTS
    parts[WORD_SEQUENCES] = {}
    if name == STEMLESS:
        parts[STEMS] = {}
    return parts


def _apart(parts: list[Any]) -> tuple[list[Any], bytes, bytes]:
    """Return (the parts of a model, of morphemes their tags alone and no words; words; morphemes), the latter packed."""
    by_tag, words = parts[MORPHEMES], parts[WORDS]
    morphemes: dict[str, list[tuple[int, float]]] = {}
    for tag, of_tag in by_tag.items():
        for morpheme, logarithm in of_tag.items():
            morphemes.setdefault(morpheme, []).append((tag, logarithm))
    parts = [*parts]
    parts[MORPHEMES], parts[WORDS] = [*by_tag], None
    return parts, packed(words), packed(morphemes)


if __name__ == "__main__":
    if _hanta() is not None:
        write_packed(Path(__file__).parent)
    else:
        print("HanTa is not in this venv: sessions read its models as it has them.", file=sys.stderr)
