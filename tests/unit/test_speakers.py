"""Which sentences of a conversation are said by whom a question names first."""

import pytest
from pg_graphrag.search.contexts.sentences_in_order import Sentence, _says_whom_it_names


@pytest.mark.parametrize(
    ("question", "speakers", "expected"),
    [
        ("What did Dr. Jones prescribe?", ["Dr. Smith", "Dr. Jones"], "Dr. Jones"),
        ("Where does Li Wei live?", ["Li Hua", "Li Wei"], "Li Wei"),
        ("When will the party begin, and what did Niamh say?", ["Will", "Niamh"], "Niamh"),
        ("what did niamh say to orion?", ["Orion", "Niamh"], "Niamh"),
        ("What will Merrick bring?", ["Will Grant", "Merrick Stone"], "Merrick Stone"),
        ("What did Niamh say?\nAnd Orion?", ["Orion", "Niamh"], "Orion"),
        ("Who won?", ["Orion", "Niamh"], ""),
    ],
)
def test_the_speaker_is_whom_the_question_names_first(question: str, speakers: list[str], expected: str) -> None:
    candidates = [Sentence("Yes.", number, number, speaker=name) for number, name in enumerate(speakers)]
    said = [name for name, is_said in zip(speakers, _says_whom_it_names(question, candidates), strict=True) if is_said]
    assert said == [expected] * bool(expected)
