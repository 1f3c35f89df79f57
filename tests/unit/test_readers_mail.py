"""E-mail: what a message is read as, and what breaks its rules."""

import base64
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote_from_bytes

import pytest

pytest.importorskip("lxml")

from pg_graphrag.beside.client import Document
from pg_graphrag.beside.readers import ReadWarning, read

from tests.unit import files
from tests.unit.files import the_document, the_error, write


def test_e_mail_has_its_subject_as_title_and_attachments_as_documents(tmp_path: Path) -> None:
    attachments = {"notes.md": b"# Notes\n\nOn the engine.", "picture.png": b"\x89PNG"}
    path = write(tmp_path / "a.eml", files.message("Grüße aus London.\n\n-- \nAda\n", "Über Maschinen", attachments))
    mail, attachment, warning = read(path, "a.eml")
    assert isinstance(mail, Document)
    assert (mail.title, mail.content) == ("Über Maschinen", "Grüße aus London.\n")
    assert mail.metadata["from"] == "Ada <ada@example.org>"
    assert mail.valid_from == datetime(2024, 5, 6, 7, 10, 11, tzinfo=UTC)
    assert isinstance(attachment, Document)
    assert (attachment.source_key, attachment.title) == ("a.eml/notes.md", "Notes")
    assert (attachment.metadata["attachment_of"], attachment.valid_from) == ("a.eml", mail.valid_from)
    assert "picture.png" in str(warning)


def test_mails_within_mails_are_read_to_a_depth(tmp_path: Path) -> None:
    data = files.message("innermost")
    for depth in range(9):
        data = files.message(f"depth {depth}", attachments={"m.eml": data})
    items = list(read(write(tmp_path / "a.eml", data), "a.eml"))
    assert 3 <= sum(isinstance(item, Document) for item in items) <= 8
    assert isinstance(items[-1], ReadWarning)


def test_messages_of_a_digest_and_forwarded_ones_are_documents(tmp_path: Path) -> None:
    inner = "Subject: {}\n\nText {}.\n"
    digest = (
        "Subject: Digest\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=A\n\n--A\n\nTwo messages.\n"
        "--A\nContent-Type: multipart/digest; boundary=B\n\n"
        + "".join(f"--B\n\n{inner.format(number, number)}" for number in ("one", "two"))
        + "--B--\n--A--\n"
    )
    documents = [item for item in read(write(tmp_path / "a.eml", digest), "a.eml") if isinstance(item, Document)]
    assert [document.title for document in documents] == ["Digest", "one", "two"]
    assert documents[2].content == "Text two.\n"
    forwarded = "Subject: Fwd\nMIME-Version: 1.0\nContent-Type: message/rfc822\n\n" + inner.format("three", "three")
    _, message = read(write(tmp_path / "b.eml", forwarded), "b.eml")
    assert isinstance(message, Document)
    assert (message.source_key, message.content) == ("b.eml/three.eml", "Text three.\n")


def test_a_body_that_says_no_charset_is_read_with_other_parts(tmp_path: Path) -> None:
    parts = "".join(f"--A\nContent-Type: text/plain\n\n{text}\n" for text in ("Plain words.", "More words."))
    data = f"Subject: x\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=A\n\n{parts}--A--\n"
    body, attachment = read(write(tmp_path / "a.eml", data), "a.eml")
    assert isinstance(body, Document)
    assert isinstance(attachment, Document)
    assert (body.content, attachment.content) == ("Plain words.\n", "More words.")


def test_an_empty_plain_form_of_a_mail_does_not_hide_its_text(tmp_path: Path) -> None:
    mail = (
        b"Subject: x\nContent-Type: multipart/alternative; boundary=X\n\n--X\nContent-Type: text/plain\n\n \n"
        b"--X\nContent-Type: text/html\n\n<p>It weaves.</p>\n--X--\n"
    )
    assert the_document(write(tmp_path / "a.eml", mail)).content.strip() == "It weaves."


def test_headers_and_dates_that_break_the_rules_are_read(tmp_path: Path) -> None:
    headers = "Subject: 東京の会議について\nDate: 2021-03-02T10:00:00Z\nContent-Type: text/plain"
    document = the_document(write(tmp_path / "a.eml", f"{headers}\n\n会議は火曜日です。\n".encode("cp932")))
    assert (document.title, document.content) == ("東京の会議について", "会議は火曜日です。\n")
    assert document.valid_from == datetime(2021, 3, 2, 10, tzinfo=UTC)


def test_a_mailbox_has_a_document_for_each_message(tmp_path: Path) -> None:
    messages = (files.message("First.\n\n>From now on.", "One"), files.message("Second.", "Two", {"n.md": b"# Notes"}))
    data = b"".join(b"From ada@example.org Mon May  6 09:10:11 2024\n" + message + b"\n" for message in messages)
    documents = [item for item in read(write(tmp_path / "a.mbox", data), "a.mbox") if isinstance(item, Document)]
    assert [(document.source_key, document.title) for document in documents] == [
        ("a.mbox/1.eml", "One"),
        ("a.mbox/2.eml", "Two"),
        ("a.mbox/2.eml/n.md", "Notes"),
    ]
    assert documents[0].content == "First.\n\nFrom now on.\n"
    assert {document.metadata["mailbox"] for document in documents} == {"a.mbox"}
    assert "no mailbox" in the_error(write(tmp_path / "b.mbox", files.message("No line before it.")))


def test_html_mail_and_unknown_charsets_are_decoded(tmp_path: Path) -> None:
    html = (
        b"Subject: x\nContent-Type: text/html; charset=klingon\n\n<p>caf\xe9 cr\xe8me br\xfbl\xe9e d\xe9j\xe0 servi</p>"
    )
    assert the_document(write(tmp_path / "a.eml", html)).content == "café crème brûlée déjà servi"


def test_the_text_of_a_mail_is_what_comes_first(tmp_path: Path) -> None:
    mail = (
        "Subject: x\nContent-Type: multipart/mixed; boundary=A\n\n--A\nContent-Type: multipart/related; boundary=B\n\n"
        "--B\nContent-Type: text/html\n\n<p>It weaves.</p>\n--B--\n--A\nContent-Type: text/plain\n\nTo leave the list\n--A--\n"
    )
    body, footer = read(write(tmp_path / "a.eml", mail), "a.eml")
    assert isinstance(body, Document)
    assert isinstance(footer, Document)
    assert (body.content.strip(), footer.content.strip()) == ("It weaves.", "To leave the list")


@pytest.mark.parametrize(
    ("declared", "encoding"), [("us-ascii", "iso8859-2"), ("iso-8859-1", "cp1250"), ("iso-8859-1", "koi8-r")]
)
def test_a_charset_that_makes_no_words_is_not_believed(tmp_path: Path, declared: str, encoding: str) -> None:
    text = "Příliš žluťoučký kůň pěl ďábelské ódy; to je český text, který někdo poslal bez správného kódování.\n"
    if encoding == "koi8-r":
        text = "Когда пришла весна, старик вышел во двор и смотрел на яблони.\n"
    head = f"Subject: x\nContent-Type: text/plain; charset={declared}\nContent-Transfer-Encoding: 8bit\n\n"
    assert the_document(write(tmp_path / "a.eml", head.encode() + text.encode(encoding))).content == text


@pytest.mark.parametrize(
    ("charset", "encoding", "name"),
    [
        ("gb2312", "gb18030", "朱镕基在北京"),
        ("shift_jis", "cp932", "①髙橋さんの計画"),
        ("x-sjis", "cp932", "①髙橋さんの計画"),
        ("euc-jp", "euc_jp", "日本語の計画"),
        ("iso-2022-jp", "iso2022_jp", "日本語の計画"),
        ("ks_c_5601-1987", "cp949", "똠방각하의 계획"),
        ("big5", "big5hkscs", "粵語嘅計劃"),
        ("iso-8859-1", "cp1252", "Käthe’s “loom”"),
        ("iso-8859-1", "utf-8", "Käthe’s loom"),
        ("us-ascii", "cp1252", "Käthe’s loom"),
        ("x-windows-1251", "cp1251", "Аналитическая машина"),
        ("utf-8", "utf-8", "東京の計画"),
    ],
)
def test_headers_are_decoded_as_bodies_are(tmp_path: Path, charset: str, encoding: str, name: str) -> None:
    def word(data: bytes) -> bytes:
        return b"=?%b?B?%b?=" % (charset.encode(), base64.b64encode(data))

    data = name.encode(encoding)
    middle = 5 if encoding.startswith("iso2022") else 3
    # Cut within a character, as some do.
    words = word(data[:middle]) + b"\n " + word(data[middle:])
    value = b"%b''%b" % (charset.encode(), quote_from_bytes(data).encode())
    cut = len(value) // 2
    names = [
        b"filename*=" + value,
        b"filename*0*=" + value[:cut] + b";\n filename*1*=" + value[cut:],
        b'filename="' + words + b'"',
        *([] if encoding.startswith("iso2022") else [b'filename="' + data + b'"']),
    ]
    attached = b"".join(
        b"--x\nContent-Type: text/plain\nContent-Disposition: attachment; %b\n\nattached\n" % name for name in names
    )
    path = write(
        tmp_path / "a.eml",
        b"Subject: %b\nFrom: %b <a@b.c>\nTo: %b, Bob <b@b.c>\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n"
        b"--x\nContent-Type: text/plain; charset=%b\n\ntext\n%b--x--\n"
        % (words, words, data if b"\x1b" not in data else words, charset.encode(), attached),
    )
    document = next(read(path, "a.eml"))
    assert isinstance(document, Document)
    assert document.title == name
    assert document.metadata["from"] == f"{name} <a@b.c>"
    assert document.metadata["to"].replace('"', "") == f"{name}, Bob <b@b.c>"
    assert {
        read_name.removesuffix(f" ({number})") for number, read_name in enumerate(document.metadata["attachments"], 1)
    } == {name}


def test_bytes_lost_from_headers_are_counted(tmp_path: Path) -> None:
    mail = b"Subject: =?utf-8?Q?Z=C3rich?=\nFrom: K\xc3the <a@b.c>\nContent-Type: text/plain; charset=utf-8\n\ntext\n"
    document, warning = read(write(tmp_path / "a.eml", mail), "a.eml")
    assert isinstance(document, Document)
    assert (document.title, document.metadata["from"]) == ("Z\ufffdrich", "K\ufffdthe <a@b.c>")
    assert "2 invalid places of UTF-8" in str(warning)


@pytest.mark.parametrize(
    ("subject", "title"),
    [
        # Characters that Windows added to Japanese of mail.
        (b"=?iso-2022-jp?B?GyRCLSEbKEI=?=", "①"),
        (b"=?utf-8?Q?Plan_=E6=9D?= =?utf-8?Q?=B1?= of =?gb2312?B?1uzpRg==?=", "Plan 東 of 朱镕"),
        (b"=?utf-8?B?not base64 at all?= and =?nobody?Q?knows?=", None),
        ("Größe".encode("cp1252") + b" =?utf-8?B?w6Q=?= x", "Größe ä x"),
    ],
)
def test_words_of_headers_that_are_written_oddly(tmp_path: Path, subject: bytes, title: str | None) -> None:
    document = next(read(write(tmp_path / "a.eml", b"Subject: " + subject + b"\n\ntext\n"), "a.eml"))
    assert isinstance(document, Document)
    assert document.title == title or (title is None and "knows" in (document.title or ""))
