"""What an entity is: a person, an organization, a place, a product, a work, an event, a law, another NAME, or a CONCEPT."""

from collections import Counter
from collections.abc import Iterable, Sequence

from pg_graphrag.text.concept import Concept, key

PERSON, CONCEPT = "PERSON", "CONCEPT"
# The tagger's probability, in hundredths, from which it takes a name for one.
_SURE = 50


def entity_types(concepts: Sequence[Concept], persons: Iterable[str] = (), *, is_read: bool = True) -> dict[str, str]:
    """Return {key: type} of a document's concepts: the type that the tagger gives it most often there.

    Where the tagger reads, what it takes for no name is a CONCEPT: terms (VPN), roles, identifiers.

    Parameters
    ----------
    concepts : sequence of Concept
        By their full names, each as often as it is mentioned.
    persons : iterable of str
        Names that are persons', by what else is known.
    is_read : bool
        Whether a tagger has read the document.
    """
    votes: dict[str, Counter[str]] = {}
    for concept in concepts:
        of_key = votes.setdefault(key(concept.name), Counter())
        if concept.probability >= _SURE:
            of_key[concept.tag] += concept.probability
    types = {entity_key: min(tags, key=lambda tag: (-tags[tag], tag)) for entity_key, tags in votes.items() if tags}
    terms = dict.fromkeys(votes, CONCEPT) if is_read else {}
    return terms | types | dict.fromkeys(map(key, persons), PERSON)
