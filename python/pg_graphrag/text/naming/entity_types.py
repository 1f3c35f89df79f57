"""What a name is: a person, an organization, a place, a product, a work, an event, a law; of a name of no such kind a NAME."""

from collections import Counter
from collections.abc import Iterable, Sequence

from pg_graphrag.text.concept import Concept, key


def entity_types(concepts: Sequence[Concept], persons: Iterable[str] = ()) -> dict[str, str]:
    """Return {key of a name: its type}, of names that the tagger reads in a document: the type that it has most often there.

    Parameters
    ----------
    concepts : sequence of Concept
        By their full names, each as often as it is mentioned.
    persons : iterable of str
        Names that are persons', by what else is known.
    """
    votes: dict[str, Counter[str]] = {}
    for concept in concepts:
        if concept.tag:
            votes.setdefault(key(concept.name), Counter())[concept.tag] += concept.probability
    types = {entity_key: min(tags, key=lambda tag: (-tags[tag], tag)) for entity_key, tags in votes.items()}
    return types | dict.fromkeys(map(key, persons), PERSON)


PERSON = "PERSON"
