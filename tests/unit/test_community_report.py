"""Reports that are put together without a model."""

import random

from pg_graphrag.index.community.report import MAX_SENTENCES, MIN_SENTENCES, Input, Member, Pair, extract


def source(statements: list[tuple[str, str, str]]) -> Input:
    """Return the input of a community whose relationships are (source, target, sentence), the strongest first."""
    names = list(dict.fromkeys(name for *ends, _ in statements for name in ends))
    ids = {name: number for number, name in enumerate(names, 1)}
    entities = [Member(ids[name], name, "NAME", "", 1.0) for name in names]
    relationships = [
        Pair(number, ids[a], ids[b], a, b, 1.0, sentence, number)
        for number, (a, b, sentence) in enumerate(statements, 1)
    ]
    return Input(1, 0, len(names), "1", entities, relationships, len(relationships))


def sentences(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_no_sentence_comes_twice_and_the_summary_is_no_finding() -> None:
    statements = [(f"E{a}", f"E{b}", f"E{a} and E{b} met.") for a in range(6) for b in range(a)]
    stated = sentences(extract(source(statements + statements)).content)
    assert MIN_SENTENCES <= len(stated) <= MAX_SENTENCES
    assert len(stated) == len(set(stated))


def test_a_report_says_something_of_as_many_members_as_its_sentences_can() -> None:
    hub = [
        ("Hub", f"E{number}", f"The hub and E{number} met {time}.")
        for number in (1, 2)
        for time in ("once", "twice", "again")
    ]
    others = [(f"A{number}", f"B{number}", f"A{number} met B{number}.") for number in range(4)]
    stated = sentences(extract(source(hub + others)).content)
    assert {f"A{number} met B{number}." for number in range(4)} <= set(stated)


def test_a_report_has_one_language() -> None:
    statements = [
        ("京都", "金閣寺", "金閣寺は京都にある。"),
        ("京都", "奈良", "京都と奈良は古都だ。"),
        ("京都", "Kyoto", "Kyoto is old."),
    ]
    assert sentences(extract(source(statements)).content) == ["金閣寺は京都にある。", "京都と奈良は古都だ。"]


def test_a_title_names_the_longer_of_two_names_and_none_of_which_nothing_is_said() -> None:
    report = extract(source([("Kestrel", "methane", "It burns."), ("Kestrel engine", "Bob", "He designed it.")]))
    assert report.title == "Kestrel engine, methane, Bob"


def test_what_the_summary_rests_on_is_evidence() -> None:
    report = extract(source([("A", "B", "A met B."), ("C", "D", "C met D.")]))
    (finding,) = report.findings
    assert (finding.relationship_ids, finding.chunk_ids) == ([1, 2], [1, 2])
    (finding,) = extract(source([("A", "B", "A met B.")])).findings
    assert (finding.relationship_ids, finding.explanation) == ([1], "")


def test_a_community_without_sentences_names_its_members() -> None:
    report = extract(source([("A", "B", "")]))
    assert (report.title, report.summary) == ("A, B", "A (NAME)\nB (NAME)")


def test_names_of_numbers_alone_do_not_stop_a_report() -> None:
    random.seed(0)
    statements = [(str(random.randrange(90)), str(random.randrange(90, 99)), f"Line {number}") for number in range(60)]
    assert len(sentences(extract(source(statements)).content)) <= MAX_SENTENCES


def test_sentences_are_without_the_marks_of_markdown() -> None:
    statements = [
        ("Ada", "Charles", "- **Authors**: Ada and __Charles__"),
        ("Ada", "engine", "| Ada | engine | 1843 |"),
        ("Ada", "loom", "2. Ada wrote of a_b__c and 2 ** 3 on the loom."),
    ]
    assert sentences(extract(source(statements)).content) == [
        "Authors: Ada and Charles",
        "Ada; engine; 1843",
        "Ada wrote of a_b__c and 2 ** 3 on the loom.",
    ]
