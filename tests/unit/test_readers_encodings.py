"""Bytes to text: by marks, by what is said or declared, else by what they look like."""

import unicodedata
from itertools import takewhile
from pathlib import Path

import pytest

pytest.importorskip("lxml")

from pg_graphrag.beside.client import Document
from pg_graphrag.beside.readers import ReadOptions, ReadWarning, read
from pg_graphrag.beside.readers.decode import _read, encoding_of

from tests.unit.files import the_document, the_error, write


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "utf-32-be"])
def test_byte_order_marks_decide_the_encoding(tmp_path: Path, encoding: str) -> None:
    mark = {"utf-16-be": "\ufeff", "utf-32-be": "\ufeff"}.get(encoding, "")
    assert the_document(write(tmp_path / "a.txt", f"{mark}héllo 知識 😀".encode(encoding))).content == "héllo 知識 😀"


def test_bytes_that_are_no_text_are_an_error_with_their_place(tmp_path: Path) -> None:
    reason = the_error(write(tmp_path / "a.txt", b"good \xe4\xb8\xad then \xff\x01\x02\x03\x04\x05 bad"))
    assert "invalid UTF-8 at byte 14 (0xff); name its encoding by --encoding" in reason


JAPANESE = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。"
CHINESE = "学而时习之，不亦说乎？有朋自远方来，不亦乐乎？人不知而不愠，不亦君子乎？"


CZECH = "Když přišlo jaro, vyšel stařec před dům a díval se, jak kvetou třešně. Žluťoučký kůň."


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("shift_jis", JAPANESE * 5),
        ("euc_jp", JAPANESE * 5),
        ("gb18030", CHINESE * 5),
        ("iso2022_jp", JAPANESE),
        ("iso2022_kr", "나라의 말이 중국과 달라"),
        # Longer than what is looked at: half a character at its end is no text of any encoding.
        *(("gbk", f"{' ' * spaces}{CHINESE * 2_000}") for spaces in range(2)),
        ("latin-1", "Käthe Größer wohnt in München. Ça va très bien à l'hôtel."),
        ("cp1252", "“Smart” quotes – and a café for 5 €."),
        ("cp1251", "Аналитическая машина ткёт алгебраические узоры." * 3),
        ("cp1256", "القاهرة هي عاصمة جمهورية مصر العربية وأكبر مدنها. أسسها القائد جوهر الصقلي."),
        ("cp1255", "ירושלים היא בירת מדינת ישראל והעיר הגדולה ביותר בה."),
        ("cp874", "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย ตั้งอยู่บนฝั่งแม่น้ำเจ้าพระยา"),
        ("iso8859_2", "Zażółć gęślą jaźń. Warszawa jest stolicą Polski i największym miastem."),
        ("cp866", "Аналитическая машина ткёт алгебраические узоры." * 3),
        ("cp1250", CZECH),
        ("iso8859_2", CZECH),
        ("cp852", CZECH),
        ("cp1250", "A kocsi elé fogott ló megállt a főutcán, és többé nem mozdult. Ő volt az első."),
        ("iso8859_2", "Când a sosit primăvara, bătrânul ieşea în faţa casei şi îşi făcea cruce."),
        ("cp1254", "Şehrin ışıkları söndüğünde çocuklar uyuyordu; gökyüzünde bir yıldız parladı."),
        ("iso8859_9", "Şehrin ışıkları söndüğünde çocuklar uyuyordu; gökyüzünde bir yıldız parladı."),
        ("cp1257", "Kai atėjo pavasaris, senis išėjo į kiemą ir žiūrėjo, kaip žydi obelys."),
        ("iso8859_7", "Όταν ήρθε η άνοιξη, ο γέρος βγήκε στην αυλή και κοίταζε τα δέντρα."),
        ("iso8859_5", "Когда пришла весна, старик вышел во двор и смотрел на яблони."),
        ("koi8_u", "Коли прийшла весна, старий вийшов на подвір'я і дивився, як цвітуть яблуні її саду."),
        ("iso8859_6", "عندما جاء الربيع خرج الشيخ إلى ساحة الدار ونظر إلى الأشجار."),
        ("iso8859_8", "כאשר בא האביב יצא הזקן אל החצר והביט בעצים הפורחים."),
        ("cp850", "Als der Frühling kam, ging der alte Mann hinaus und grüßte die Vögel."),
        ("hz", CHINESE),
        ("big5", "學而時習之，不亦說乎？有朋自遠方來，不亦樂乎？"),
        ("cp949", "봄이 오자 노인은 마당에 나가 꽃이 핀 나무를 바라보았다. 똠방각하"),
        # Short ones, whose letters could be of many encodings.
        ("cp1252", "café crème brûlée déjà servi"),
        ("cp1251", "Весна пришла"),
        # Without its mark.
        ("utf-16-le", "Name;Größe\nAda;3\n"),
        ("utf-16-be", "Name;Größe\nAda;3\n"),
    ],
)
def test_encodings_are_found_by_the_bytes(tmp_path: Path, encoding: str, text: str) -> None:
    assert the_document(write(tmp_path / "a.txt", text.encode(encoding))).content == text


def test_vietnamese_letters_are_whole(tmp_path: Path) -> None:
    text = "Khi mùa xuân đến, ông già ra sân nhìn những cây hoa nở"
    parts = unicodedata.normalize("NFD", text)
    for whole, by_parts in (
        ("â", "a\u0302"),
        ("ư", "u\u031b"),
        ("ơ", "o\u031b"),
        ("ê", "e\u0302"),
        ("ô", "o\u0302"),
        ("ă", "a\u0306"),
    ):
        parts = parts.replace(by_parts, whole)
    data = parts.replace("\u0302\u0301", "\u0301").encode("cp1258")
    assert the_document(write(tmp_path / "a.txt", data)).content == text


def test_letters_and_their_marks_are_whole(tmp_path: Path) -> None:
    """What is copied from macOS has them apart."""
    text = "Die Behörde gibt ガス, 가나다 각 và Việt. 神 and Å stay."
    data = unicodedata.normalize("NFD", text[:-15]) + text[-15:]
    assert the_document(write(tmp_path / "a.md", data)).content == text


def test_an_escape_sequence_is_not_taken_for_japanese(tmp_path: Path) -> None:
    text = "\x1b[1mbold\x1b[0m and \x1b$B that ends nowhere: é"
    assert the_document(write(tmp_path / "a.txt", text)).content == text


def test_a_named_encoding_is_taken(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "ÿþ".encode("cp850"))
    assert the_document(path, ReadOptions(encoding="cp850")).content == "ÿþ"
    (error,) = read(path, "a.txt", ReadOptions(encoding="ascii"))
    assert "invalid ASCII at byte 0" in str(error)


RUSSIAN = "Аналитическая машина ткёт алгебраические узоры; как станок Жаккара ткёт цветы и листья. "
GERMAN = "Zürich liegt an der Limmat; Käthe wohnt in Großhöchstetten. "
KOREAN = "봄이 오자 노인은 마당에 나가 꽃이 핀 나무를 바라보았다. "


def damaged(path: Path, data: bytes) -> tuple[str, str]:
    """Return the text of a file and what is said of its bytes."""
    document, warning = read(write(path, data), path.name)
    assert isinstance(document, Document)
    assert isinstance(warning, ReadWarning)
    return document.content, warning.reason


@pytest.mark.parametrize("encoding", ["utf-8", "cp932", "euc_jp", "gb18030", "cp949", "big5hkscs", "utf-16", "cp1251"])
@pytest.mark.parametrize("kind", ["txt", "md", "csv", "html", "rst"])
def test_one_byte_that_is_no_text_is_one_place_and_is_counted(tmp_path: Path, encoding: str, kind: str) -> None:
    texts = {
        "cp932": JAPANESE,
        "euc_jp": JAPANESE,
        "cp949": KOREAN,
        "cp1251": RUSSIAN,
        "big5hkscs": "學而時習之，不亦說乎？",
    }
    text = texts.get(encoding, CHINESE) * 4
    bad = {"utf-16": b"\x00\xd8", "cp1251": b"\x98"}.get(encoding, b"\x81")
    content, reason = damaged(
        tmp_path / f"a.{kind}", (text + "\n").encode(encoding) + bad + b"\n\0"[: 2 - len(bad) % 2]
    )
    assert content.replace("\n", "").startswith(text.strip())
    assert "\ufffd" in content
    assert f"1 invalid place of {encoding.upper().removesuffix('HKSCS')}" in reason


@pytest.mark.parametrize("text", ["東京は日本の首都である。京都も美しい。", RUSSIAN, GERMAN])
@pytest.mark.parametrize("place", [0.0, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("kind", ["txt", "html", "eml", "jsonl"])
def test_utf8_that_lacks_a_byte_is_utf8(tmp_path: Path, text: str, place: float, kind: str) -> None:
    data = text.encode()
    beyond = [index for index, byte in enumerate(data) if byte >= 0x80]
    index = beyond[int(place * (len(beyond) - 1))]
    forms = {
        "html": b"<meta charset=utf-8><p>%b</p>",
        "eml": b"Subject: a\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n%b",
        "jsonl": b'{"content": "%b"}',
    }
    content, reason = damaged(tmp_path / f"a.{kind}", forms.get(kind, b"%b") % (data[:index] + data[index + 1 :]))
    good = content.strip().split("\ufffd")
    assert text.startswith(good[0])
    assert text.strip().endswith(good[-1])
    assert sum(map(len, good)) >= len(text.strip()) - 1
    assert "invalid place" in reason
    assert "UTF-8" in reason


@pytest.mark.parametrize(
    ("declared", "text"), [("windows-1252", GERMAN), ("iso-8859-1", GERMAN), ("windows-1251", RUSSIAN)]
)
def test_utf8_that_lacks_a_byte_is_utf8_whatever_encoding_of_one_byte_a_letter_it_declares(
    tmp_path: Path, declared: str, text: str
) -> None:
    page = b'<meta charset="%b"><p>%b</p>' % (declared.encode(), text.encode().replace("ü".encode(), b"\xc3"))
    content = next(
        item for item in read(write(tmp_path / "a.html", page), "a.html") if isinstance(item, Document)
    ).content
    assert content.strip() == text.strip().replace("ü", "\ufffd")


@pytest.mark.parametrize(
    ("declared", "text"), [("windows-1251", "Ці"), ("windows-1251", "её»"), ("windows-1250", "Šł")]
)
def test_a_word_that_is_utf8_by_chance_is_as_declared(tmp_path: Path, declared: str, text: str) -> None:
    page = b'<meta charset="%b"><p>%b</p>' % (declared.encode(), text.encode(declared))
    assert the_document(write(tmp_path / "a.html", page)).content.strip() == text


@pytest.mark.parametrize(
    ("named", "encoding", "text"),
    [
        ("gb2312", "gb18030", "朱镕基在北京"),
        ("shift_jis", "cp932", "①髙橋"),
        ("iso-8859-1", "cp1252", "Käthe’s “loom”"),
        ("latin-1", "utf-8", "Zürich"),
    ],
)
def test_an_encoding_that_is_named_is_the_wider_one_and_utf8_by_its_name_alone(
    tmp_path: Path, named: str, encoding: str, text: str
) -> None:
    path = write(tmp_path / "a.txt", text.encode(encoding))
    expected = text if encoding != "utf-8" else text.encode().decode("latin-1")
    assert the_document(path, ReadOptions(encoding=named)).content == expected


LOST_BYTES = {
    "euc_jp": JAPANESE + "何でも薄暗いじめじめした所で泣いていた事だけは記憶している。",
    "cp932": JAPANESE + "何でも薄暗いじめじめした所で泣いていた事だけは記憶している。",
    "gb18030": CHINESE + "朱镕基在北京说这是PostgreSQL数据库的文档，2024年发布。",
    "big5hkscs": "學而時習之，不亦說乎？有朋自遠方來，不亦樂乎？這是PostgreSQL資料庫。",
    "cp949": KOREAN + "나라의말이중국과달라문자와로서로사맛디아니할쌔",
}


def _alike(one: str, other: str) -> int:
    """How many characters two texts begin with together."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@pytest.mark.parametrize("encoding", LOST_BYTES)
def test_a_lost_byte_costs_no_more_than_the_characters_beside_it(encoding: str) -> None:
    text = LOST_BYTES[encoding]
    data = text.encode(encoding)
    assert _read(data, encoding) == (text, 0)
    wrong = []
    for place in (place for place, byte in enumerate(data) if byte >= 0x80):
        read_text, _ = _read(data[:place] + data[place + 1 :], encoding)
        wrong.append(len(read_text) - _alike(text, read_text) - _alike(text[::-1], read_text[::-1]))
    assert sum(wrong) / len(wrong) < 3
    assert max(wrong) <= 10


@pytest.mark.parametrize("between", ["", "ab", " x "])
@pytest.mark.parametrize(("encoding", "first", "last"), [("gb18030", 0x4E00, 0x9FFF), ("cp949", 0xAC00, 0xD7A3)])
def test_rare_characters_are_no_damage(encoding: str, first: int, last: int, between: str) -> None:
    text = between.join(map(chr, range(first, last)))
    assert _read(text.encode(encoding), encoding) == (text, 0)


@pytest.mark.parametrize("before", ["", "The report of the first quarter is here. " * 20])
@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1250", "odbyło"),
        ("cp1252", "100 m³ Gas"),
        ("cp1252", "Der Wald hat 5 km², das Haus 90m²."),
        ("iso8859-2", "zarządu."),
        ("cp850", "Die Gebühr"),
        ("cp850", "fünf Euro"),
        ("cp850", "São"),
        ("cp1252", "Größe"),
    ],
)
def test_a_letter_alone_of_another_encoding_is_no_damage(tmp_path: Path, encoding: str, text: str, before: str) -> None:
    assert the_document(write(tmp_path / "a.txt", (before + text).encode(encoding))).content == before + text


@pytest.mark.parametrize("text", ["żółty dom", "Żółty dom.", "kupił dom", "Gdzie są moje klucze?", "źródło"])
def test_a_few_words_of_polish_are_no_others(text: str) -> None:
    assert text.encode("cp1250").decode(encoding_of(text.encode("cp1250")) or "") == text


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("cp1250", "żurek Łódź Šibenik Świnoujście příliš Erdős Ceauşescu"),
        ("iso8859-2", "żurek Łódź Dvořák dziękuję"),
        ("cp1251", "дом спасибо Большой країна"),
        ("koi8-r", "дом спасибо"),
        ("cp1252", "naïve café façade Besançon Ærø Ångström São Þingvellir jalapeño naïveté m² µm"),
        (
            "cp1252",
            "Noël Hélène Initiële Gravità potrà Ucrânia Parâmetros coût Boîte tilføje Målnavn Perú Bogotá José Größe",
        ),
        ("cp850", "für café"),
        ("cp1254", "güneş"),
        ("cp1257", "Rīga Šiauliai ačiū"),
        ("cp1253", "καλημέρα Κρήτη"),
        ("cp1255", "שלום"),
        ("cp932", "東京"),
        ("gb18030", "北京"),
        ("cp949", "서울"),
    ],
)
def test_a_word_of_another_language_amid_english_is_read(encoding: str, words: str) -> None:
    for word in words.split():
        for text in (f"We met near {word} with all of them.", f"The report of the first quarter is here. {word}"):
            data = text.encode(encoding)
            assert data.decode(encoding_of(data) or "", "replace") == text


@pytest.mark.parametrize("before", ["", "The report of the first quarter is here. " * 20])
@pytest.mark.parametrize("data", [b"Z\xbcrich", b"Geb\xc3hr", b"f\xbcnf Euro", b"zarz\x85du."])
def test_a_letter_alone_that_lacks_a_byte_is_utf8(tmp_path: Path, data: bytes, before: str) -> None:
    assert damaged(tmp_path / "a.txt", before.encode() + data)[0] == before + data.decode("utf-8", "replace")


@pytest.mark.parametrize("before", ["", "The report of the first quarter is here. " * 20])
@pytest.mark.parametrize("sign", ["’", "–", "“", "€", "→", "™", "😀"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_sign_alone_that_lacks_a_byte_is_utf8(tmp_path: Path, sign: str, place: int, before: str) -> None:
    data = sign.encode()
    text = damaged(tmp_path / "a.txt", b"%bIt%bs here." % (before.encode(), data[:place] + data[place + 1 :]))[0]
    assert text.replace("\ufffd", "") == f"{before}Its here."


@pytest.mark.parametrize(
    ("data", "content"),
    [
        # Words of another program amid a text, and one that has lost a byte.
        (GERMAN.encode() + b"Caf\xe9", GERMAN + "Caf\ufffd"),
        (b"Z\xc3rich", "Z\ufffdrich"),
        (b"subscri\xc3\xa7\xc3o", "subscriç\ufffdo"),
        (b"Z\xbcrich is a city.", "Z\ufffdrich is a city."),
        # Marks that lie.
        (b"\xef\xbb\xbf" + (CZECH * 2).encode("cp1250"), CZECH * 2),
        (b"\xff\xfeplain text", "plain text"),
        # Half a character at the end, and a byte lost amid UTF-16.
        (b"\xff\xfea\x00b", "a\ufffd"),
        (
            "\ufeff".encode("utf-16-le")
            + (GERMAN * 2).encode("utf-16-le")[:61]
            + (GERMAN * 2).encode("utf-16-le")[62:],
            None,
        ),
    ],
)
def test_text_is_read_as_far_as_it_is_text(tmp_path: Path, data: bytes, content: str | None) -> None:
    items = list(read(write(tmp_path / "a.txt", data), "a.txt"))
    assert isinstance(items[0], Document)
    read_text = items[0].content
    assert read_text == content if content else (read_text[:29] == GERMAN[:29] and read_text.endswith(GERMAN))
    assert len(items) == 1 + ("\ufffd" in read_text)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (
            "a.rtf",
            rb"{\rtf1\ansi\ansicpg936 "
            + CHINESE.encode("gbk").hex(" ").replace(" ", r"\'").encode().join((rb"\'", b"\\'81}")),
        ),
        ("a.docbook", b"<article><title>T</title><para>" + CHINESE.encode() + b"\xff</para></article>"),
        ("a.vcf", b"BEGIN:VCARD\nFN:" + CHINESE.encode() + b"\xff\nEND:VCARD\n"),
    ],
)
def test_other_kinds_count_them_too(tmp_path: Path, name: str, data: bytes) -> None:
    content, reason = damaged(tmp_path / name, data)
    assert f"{CHINESE}\ufffd" in content
    assert reason.startswith("1 invalid place of")


@pytest.mark.parametrize(
    ("word", "read_as"),
    [
        (b"K\xc3the, M\xc3nchen", "K\ufffdthe, M\ufffdnchen"),
        ("café crème brûlée déjà servi".encode("cp1252"), "café crème brûlée déjà servi"),
        (b"Gr\xf6\xdfe", "Größe"),
    ],
)
def test_what_declares_utf8_is_that_unless_its_letters_are_of_windows(
    tmp_path: Path, word: bytes, read_as: str
) -> None:
    page = b"Content-Type: text/html; charset=utf-8\n\n<p>%b</p>" % word
    for name, data in (
        ("a.html", b"<meta charset=utf-8><p>%b</p>" % word),
        ("a.eml", b"Subject: s\n" + page),
        ("a.mhtml", b"Subject: s\n" + page),
    ):
        document = next(read(write(tmp_path / name, data), name))
        assert isinstance(document, Document)
        assert document.content.strip() == read_as


def test_a_line_is_read_as_the_lines_around_it(tmp_path: Path) -> None:
    lines = [f'{{"content": "{text}"}}'.encode() for text in (GERMAN, "Cafe", GERMAN)]
    items = list(read(write(tmp_path / "a.jsonl", b"\n".join((lines[0], b'{"content": "Z\xc3rich"}', lines[2]))), "a"))
    assert [item.content for item in items if isinstance(item, Document)] == [GERMAN, "Z\ufffdrich", GERMAN]
    assert "1 invalid place of UTF-8 at byte" in str(items[-1])


@pytest.mark.parametrize(("data", "byte"), [(b"ab\xc3\xa9\x00c", 4), (b"\xff\xfea\x00\x00\x00", 4)])
def test_a_nul_is_an_error_with_its_byte(tmp_path: Path, data: bytes, byte: int) -> None:
    assert f"NUL character at byte {byte}" in the_error(write(tmp_path / "a.txt", data))


@pytest.mark.parametrize(
    ("declared", "encoding", "text"),
    [
        ("iso-8859-1", "cp1252", "Käthe’s “loom”"),
        ("iso-8859-1", "utf-8", "Käthe’s “loom”"),
        ("gb2312", "gb18030", "朱镕基在北京"),
        ("ks_c_5601-1987", "cp949", "똠방각하"),
        ("shift_jis", "cp932", "①髙橋"),
        ("big5", "big5hkscs", "粵語嘅"),
    ],
)
def test_an_encoding_that_is_declared_is_the_wider_one_that_writers_mean(
    tmp_path: Path, declared: str, encoding: str, text: str
) -> None:
    page = f'<meta charset="{declared}"><p>{text}</p>'.encode(encoding)
    assert the_document(write(tmp_path / "a.html", page)).content.strip() == text


@pytest.mark.parametrize(
    "text", ["Cena: 20 €", "Ár: 20 €", "Er kostet 5 € mehr.", "„Nem” mondta.", "Acme™ won – at last"]
)
@pytest.mark.parametrize("encoding", ["cp1250", "cp1252"])
def test_signs_that_windows_alone_has_are_read_as_such(text: str, encoding: str) -> None:
    assert text.encode(encoding).decode(encoding_of(text.encode(encoding)) or "") == text


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp850", "Malmö liegt im Süden, das ärgert den Förster."),
        ("cp850", "Allô, l'été est là où il pleut."),
        ("cp437", "Çelik 5 Ç. Der Käse ist schön und die Straße ist lang."),
        ("cp866", "Страны СНГ подписали новый договор о торговле."),
        ("cp866", "Ученик 5 А класса живёт в доме 12 А, квартира 7. Сегодня он пошёл в школу."),
        ("mac_cyrillic", "Это УКАЗ президента о СМИ и о том, что будет дальше в стране."),
        ("cp862", "שלום עולם, זה טקסט בעברית 5 א וגם עוד."),
        ("cp737", "Η Αθήνα είναι η πρωτεύουσα της Ελλάδας. Έχει 5 Α τάξη. Η ΕΛΛΑΔΑ"),
    ],
)
def test_letters_of_dos_and_of_macs_are_no_signs_of_windows(encoding: str, text: str) -> None:
    assert text.encode(encoding).decode(encoding_of(text.encode(encoding)) or "") == text


def test_a_price_before_a_dash_is_no_sign_of_utf8() -> None:
    assert encoding_of("Cost: 20€–30 USD".encode("cp1252")) == "cp1252"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"It is 5\xc2 cold.", "It is 5\ufffd cold."),
        (b"\xc2 2020 Acme", "\ufffd 2020 Acme"),
        (b"\xc3ystein works.", "\ufffdystein works."),
        ("l'\xc2ge d'or".encode("latin-1"), "l'Âge d'or"),
    ],
)
def test_half_a_letter_where_no_word_has_a_capital_is_utf_8(data: bytes, text: str) -> None:
    assert data.decode(encoding_of(data) or "", "replace") == text
