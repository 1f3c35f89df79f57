"""What of a stream waits, because it may become the sentence that says that the documents have no answer."""

import pytest
from pg_graphrag.search.answer.grounded import AskRequest
from pg_graphrag.text import prompts

ENGLISH = prompts.sentence("not_found", "en")


class German(AskRequest):
    """A question in German; nothing else of it is asked for here."""

    def __init__(self) -> None:
        pass

    @property
    def language(self) -> str:
        return "de"


def waits(text: str) -> int:
    """Return how many characters of a text that comes one by one wait."""
    request = German()
    return next((end - 1 for end in range(1, len(text) + 1) if not request.may_be_not_found(text[:end])), len(text))


@pytest.mark.parametrize(
    "label",
    [
        *(
            "",
            "Answer: ",
            "**Answer**: ",
            "Answer:\n\n",
            "Final answer: ",
            "**Final Answer:** ",
            "1. ",
            "1) ",
            "- ",
            "[1] ",
        ),
        *("Antwort: ", "Réponse finale : ", "最终答案：", "2. Answer: "),
    ],
)
@pytest.mark.parametrize("sentence", [ENGLISH, prompts.sentence("not_found", "de")])
def test_the_sentence_waits_whatever_label_it_has(label: str, sentence: str) -> None:
    assert waits(label + sentence) == len(label + sentence)
    assert German().in_its_language(label + sentence) == prompts.sentence("not_found", "de")


@pytest.mark.parametrize(
    ("answer", "waiting"),
    [
        ("The answer is 5 [1].", "The answer "),
        ("Ada Lovelace wrote it [1].", "Ada Lovelace "),
        ("Ada: she wrote it [1].", "Ada: "),
        ("Answer: Ada wrote it [1].", "Answer: "),
        ("The documents name Ada [1].", "The documents "),
        ("1. Ada wrote notes [1].", "1. Ada wrote "),
        ("1843, in London [1].", "1843"),
        ("Dampfschifffahrtsgesellschaften gab es [1].", "Dampfschifff"),
        ("Oslo. It is there [1].", "Oslo"),
    ],
)
def test_another_answer_waits_for_two_words_at_most(answer: str, waiting: str) -> None:
    assert waits(answer) == len(waiting)
