"""What SmolLM2-135M said to prompts of this project, on the README's documents: recorded, and what repeats cut short.

`python -m tests.runtime.real_model` is that model.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

# By the task that the first words of a prompt name: (how a reply began, what it went on to repeat without end).
_LOOPS = {
    "You read a text and write down its knowledge graph": (
        '{"entities": [{"name": "Bob Stone", "type": "Engineer", "description": "The chief engineer of Acme Rockets"},',
        ' {"name": "Acme Rockets", "type": "Engineer", "description": "The chief engineer of Acme Rockets"},',
    ),
    "You prepare a question for retrieval": (
        '{\n  "low_level_keywords": [\n    "JetBrains",\n    "JetBrains",\n',
        '    "JetBrains Engine",\n',
    ),
    "You read reports on parts": (
        '{\n  "answer": "The Kestrel engine was designed by the Kestrel engine team, which is a part of the Heron engine team.',
        " The Heron engine is a rocket engine that uses methane as a fuel.",
    ),
    "You judge": ("The answer is: <text-6e726e59e7a02b5e>", "\n\nThe answer is: <text-6e726e59e7a02b5e>"),
    "": (
        "The document contains a list of references that are not part of the document.",
        " The document contains a list of references that are not part of the document.",
    ),
}
# A type of one entity, which never ends.
_STAMMER = ('{\n  "entities": [{\n    "name": "Ann Lee",\n    "type": "Ace-Laser-Ace', "-Ace")
# Complete JSON of good form, whose names and facts the text has not.
INVENTED = """{
"entities": [{"name": "Kestrel Engine", "type": "light aircraft",
  "description": "A light aircraft designed by Acme Rockets in 1999"},
 {"name": "Adelejonne A. Leffler", "type": "Friend",
  "description": "CEO at the time of the founding, but has since left the company"},
 {"name": "Osaka Airlines 2210", "type": "aircraft", "description": "The most iconic aircraft of the Osaka airport"}],
"relationships": [{"source": "Osaka Airlines 2210", "target": "Kestrel Engine", "keywords": ["The Kestrel engine"],
 "description": "A German aerospace company that has been flying Kestrel engines for the past 20 years", "strength": 5}]}"""


def looped(messages: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the words of a reply that repeats itself without end."""
    beginning, again = next(text for task, text in _LOOPS.items() if str(messages[0]["content"]).startswith(task))
    return _without_end(beginning, again)


def stammered() -> Iterator[str]:
    """Yield the pieces of a reply whose last word never ends."""
    return itertools.chain([_STAMMER[0]], itertools.repeat(_STAMMER[1]))


def rambled() -> Iterator[str]:
    """Yield the words of a reply that never repeats itself and never ends; recorded of no model."""
    return (f"{' ' if number else ''}word{number}" for number in itertools.count())


def repeated_prompt(messages: Sequence[dict[str, Any]]) -> str:
    """Return what was asked, as if it were the answer."""
    last = str(messages[-1]["content"])
    return f"The text is:\n\n{last}\n\nThe text is:\n\n{last}"


def _without_end(beginning: str, again: str) -> Iterator[str]:
    yield from _words(beginning)
    while True:
        yield from _words(again)


def _words(text: str) -> Iterator[str]:
    first, *others = text.split(" ")
    if first:
        yield first
    yield from (f" {word}" for word in others)
