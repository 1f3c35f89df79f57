"""Analysers' concepts and the tagger's names of one text as one list: where they overlap, the tagger's bounds win."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pg_graphrag.text.concept import Concept, key

_AROUND = re.compile(r"^[\W_]+|[\W_]+$")
# RZ-500K, with a digit and a capital.
_CODE = re.compile(r"(?=\S*[A-Z])(?=\S*\d)\S+")


def with_names(concepts: Sequence[Concept], names: Sequence[Concept], kept: Iterable[str] = ()) -> list[Concept]:
    """Return `concepts` and `names` of one text in order of appearance.

    A phrase that holds names whole stays as it is. A name of analysers that joins names, and what lies within one or across its
    bounds, is a piece; where only marks are between their bounds, those of analysers stand (U.S. for U.S). `kept`: keys of names
    that stand as they are written, whatever the tagger says. So do codes: RZ-500K, where the tagger reads RZ-500K press or RZ.
    """
    if not names:
        return list(concepts)
    kept = frozenset(kept)
    starts, ends = [name.start for name in names], [name.end for name in names]
    own = {(name.start, name.end): name for name in names}
    merged: list[Concept] = []
    for concept in concepts:
        span = concept.start, concept.end
        if span in own:
            name = own[span]
            # An analyser's form of a name stays: APIs is API.
            own[span] = replace(name, name=concept.name) if concept.type == "NAME" else name
            continue
        overlapping = names[bisect_right(ends, concept.start) : bisect_left(starts, concept.end)]
        holds = all(concept.start <= name.start and name.end <= concept.end for name in overlapping)
        is_code = _CODE.fullmatch(concept.name) is not None
        if concept.type == "NAME" and (
            [*map(_letters, overlapping)] == [_letters(concept)] or (is_code and holds and overlapping)
        ):
            first = overlapping[0]
            for name in overlapping:
                own.pop((name.start, name.end), None)
            own[first.start, first.end] = replace(first, name=concept.name, start=concept.start, end=concept.end)
        elif not overlapping or (holds and concept.type != "NAME") or key(concept.name) in kept or is_code:
            merged.append(concept)
        else:
            merged.append(replace(concept, is_piece=True))
    return sorted([*merged, *own.values()], key=lambda concept: (concept.start, -concept.end))


def _letters(concept: Concept) -> str:
    return _AROUND.sub("", concept.name)
