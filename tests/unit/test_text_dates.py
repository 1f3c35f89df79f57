"""Dates of questions: every usual way of writing a day is read, and what is no day is left alone."""

import pytest
from pg_graphrag.text.dates import Date, dates, periods

DAY = Date(2026, 1, 6)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "20260106",
            "20260106_13:00",
            "2026-01-06",
            "2026/1/6",
            "2026.01.06",
            "２０２６０１０６",
            "2026-01-06T13:00Z",
        ),
        *("January 6, 2026", "january 6th 2026", "Jan. 6, 2026", "6 January 2026", "the 6th of January, 2026"),
        *("2026年1月6日", "2026年 1月 6日"),
    ],
)
def test_a_day_is_read_however_it_is_written(text: str) -> None:
    detected_dates, rest = dates(f"What did Adam report ({text})?")
    assert detected_dates == [DAY]
    assert "2026" not in rest and "6th" not in rest


@pytest.mark.parametrize("text", ["January 6th", "6 January", "1月6日"])
def test_a_day_without_a_year_may_be_of_any(text: str) -> None:
    assert dates(f"on {text}?")[0] == [Date(None, 1, 6)]
    words = Date(None, 1, 6).in_one_word()
    assert words[0] == "19000106" and "20260106" in words and words[-1] == "20990106"
    assert all("-" not in written for written in Date(None, 1, 6).in_words())


@pytest.mark.parametrize(
    "text",
    [
        *("12345678", "120260106", "2026010612", "20261306", "2026-13-01", "January 2026", "in May 2026", "May 32"),
        *("version 17.2", "10-20", "it may 5: no", "marching 5", "1/6", ""),
    ],
)
def test_what_is_no_day_is_left_as_it_is(text: str) -> None:
    assert dates(text) == ([], text)


def test_days_come_in_order_and_once() -> None:
    detected_dates, rest = dates("from 5 May 2026 to 2026-05-04, that is until May 4, 2026, room 1204")
    assert detected_dates == [Date(2026, 5, 5), Date(2026, 5, 4)]
    assert "room 1204" in rest


def test_a_day_is_written_as_documents_do() -> None:
    assert DAY.in_one_word() == ["20260106"]
    assert DAY.in_words() == ["January 6 2026", "January 6th 2026", "2026-01-06"]
    ordinals = [Date(2026, 3, day).in_words()[1] for day in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 31)]
    statement = ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "23rd", "31st"]
    assert ordinals == [f"March {day} 2026" for day in statement]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        *(
            (text, ["2023-05-08"])
            for text in ("8 May 2023", "May 8th, 2023", "2023-05-08", "8. Mai 2023", "8 mai 2023")
        ),
        *((text, ["2023-05-08"]) for text in ("8 de mayo de 2023", "2023年5月8日", "8. MAI 2023")),
        *(
            (text, ["2023-05-*"])
            for text in ("in May 2023", "im Mai 2023", "en mai 2023", "en mayo de 2023", "2023年5月")
        ),
        *(
            ("le 1er août 2023", ["2023-08-01"]),
            ("last week of August 2023", ["2023-08-*"]),
            ("am 8. März", ["*-03-08"]),
        ),
        *(("from 8 May to 9 May 2023", ["*-05-08", "2023-05-09"]), ("May 2023 and May 2023", ["2023-05-*"])),
        *(
            (text, ["*-05-*"])
            for text in ("in May", "im Mai", "seit Mai", "in mei", "en mayo", "em maio", "5月", "五月")
        ),
        *(
            (text, ["2023-05-*"])
            for text in ("2023-05", "05/2023", "5.2023", "2023/05", "in mei 2023", "em maio de 2023")
        ),
        *((text, ["2023-05-08"]) for text in ("8.5.2023", "08.05.2023", "8. 5. 2023", "le 8 mai 2023")),
        ("8/5/2023", ["2023-05-08", "2023-08-05"]),
        *((text, ["2023-05-18"]) for text in ("18/5/2023", "5/18/2023")),
        *((text, ["*-12-*"]) for text in ("end of December", "Ende Dezember", "十二月", "12月")),
        *((text, []) for text in ("in 2023", "step 5 may fail", "in 2010-12", "they may", "", "version 8.2", "3ヶ月")),
        *(
            (text, [])
            for text in ("What did April say?", "may I march?", "1.8.2023.4", "13/13/2023", "12.2023-1", "三个月")
        ),
        *(("May 20๒๓", ["2023-05-*"]), ("5 de mayo del 20๒๓", ["2023-05-05"]), ("on 99999-99-99 or 0 May", [])),
    ],
)
def test_days_and_months_are_named_in_several_languages(text: str, named: list[str]) -> None:
    assert periods(text)[0] == named
