"""Error rates and time of recognised pages, by kind of page: rapidocr, or Tesseract with ``--engine tesseract``.

Pages of A4 at 300 dots per inch are made of known texts: printed, photographed (tilt, blur, noise, shadow), faxed (1 bit, 200
dots), in two columns, tables, columns of Japanese, and scripts that only Tesseract reads. The rates count edits of letters and
of words against the text in reading order; white space is one space, and none beside Han and kana.
Needs fonts: Debian's fonts-liberation, fonts-noto-cjk and fonts-noto-core.
"""

from __future__ import annotations

import argparse
import os
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pg_graphrag.beside.readers.layout.text import text_of
from pg_graphrag.beside.readers.ocr.recognise import LEAST_CONFIDENCE, recognise
from PIL import Image, ImageDraw, ImageFilter, ImageFont

_FONTS = Path("/usr/share/fonts")
_LATIN = _FONTS / "truetype/liberation/LiberationSerif-Regular.ttf"
_CJK = _FONTS / "opentype/noto/NotoSerifCJK-Regular.ttc"
_WIDTH, _HEIGHT, _MARGIN = 2480, 3508, 280
_WIDE = "[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]"

TEXTS = {
    "en": """The supplier shall deliver the Kestrel engines to the works at Osaka within thirty (30) days after receipt.
Risk passes to the buyer when the goods are handed over to the carrier; title passes when the price of USD 48,250.75 is paid.
If a party is prevented by force majeure from performing its duties, it shall inform the other within 5 working days.
Neither party is liable for loss of profit, save where the damage was caused wilfully (see section 14.2).
Notices are sent by registered letter to the addresses above, or by e-mail to legal@acme-rockets.example and are deemed received.
This agreement is governed by the laws of Japan, and disputes are settled by the Osaka District Court in the first instance.""",
    "de": """Der Lieferant liefert die Triebwerke binnen dreißig (30) Tagen nach Eingang der Bestellung an das Werk in Düsseldorf.
Die Gefahr geht mit der Übergabe an den Frachtführer über; das Eigentum erst mit vollständiger Zahlung von 48.250,75 €.
Höhere Gewalt befreit die Parteien für ihre Dauer von den Pflichten, sofern dies unverzüglich schriftlich angezeigt wird.
Für entgangenen Gewinn wird nicht gehaftet, außer bei Vorsatz oder grober Fahrlässigkeit gemäß § 14 Abs. 2 dieses Vertrages.
Änderungen bedürfen der Schriftform; mündliche Nebenabreden bestehen nicht. Gerichtsstand ist Köln, es gilt deutsches Recht.""",
    "ja": """甲は乙に対し、本契約に基づき、エンジン十二基を大阪工場に納入するものとする。納期は三十日以内とする。
危険負担は、商品が運送人に引き渡された時に乙に移転する。所有権は、代金四千八百二十五万円の全額が支払われた時に移転する。
天災その他の不可抗力により義務を履行できないときは、当事者は五営業日以内に相手方に書面で通知しなければならない。
本契約に関する一切の紛争については、大阪地方裁判所を第一審の専属的合意管轄裁判所とする。""",
    "zh": """供货方应在收到订单后三十日内将发动机交付至大阪工厂。货物交付承运人时风险转移给买方，全部价款付清时所有权转移。
任何一方因不可抗力不能履行义务的，应当在五个工作日内书面通知对方，并提供有关证明文件。
除故意或者重大过失造成的损失外，双方均不对利润损失承担责任。本合同适用中国法律。
因本合同引起的争议由双方协商解决；协商不成的，提交合同签订地人民法院诉讼解决。""",
}
# What rapidocr does not read.
SCRIPTS = {
    "ru": """Поставщик обязуется доставить двигатели на завод в Осаке в течение тридцати (30) дней после получения заказа.
Риск переходит к покупателю при передаче товара перевозчику; право собственности — после оплаты 48 250,75 долл. США.
Стороны освобождаются от ответственности при непреодолимой силе, если о ней сообщено в течение 5 рабочих дней.""",
    "el": """Ο προμηθευτής παραδίδει τους κινητήρες στο εργοστάσιο της Οσάκα εντός τριάντα (30) ημερών από την παραγγελία.
Ο κίνδυνος μεταβαίνει στον αγοραστή με την παράδοση των εμπορευμάτων στον μεταφορέα.
Η παρούσα σύμβαση διέπεται από το ελληνικό δίκαιο και οι διαφορές επιλύονται από τα δικαστήρια της Αθήνας.""",
    "ar": """يلتزم المورد بتسليم المحركات إلى المصنع في أوساكا خلال ثلاثين يوما من استلام الطلب.
تنتقل المخاطر إلى المشتري عند تسليم البضاعة إلى الناقل وتنتقل الملكية بعد سداد الثمن كاملا.
يخضع هذا العقد لقوانين البلاد وتختص المحاكم بالنظر في أي نزاع ينشأ عنه.""",
    "he": """הספק ימסור את המנועים למפעל באוסקה בתוך שלושים ימים מיום קבלת ההזמנה.
הסיכון עובר לקונה עם מסירת הסחורה למוביל, והבעלות עוברת לאחר תשלום מלוא המחיר.
על הסכם זה יחולו דיני המדינה, וסמכות השיפוט נתונה לבית המשפט המחוזי.""",
    "hi": """आपूर्तिकर्ता आदेश मिलने के तीस दिनों के भीतर ओसाका के कारखाने में इंजन पहुँचाएगा।
माल वाहक को सौंपे जाने पर जोखिम खरीदार का हो जाता है और पूरा मूल्य चुकाने पर स्वामित्व भी।
इस अनुबंध पर भारत का कानून लागू होगा और विवादों का निर्णय दिल्ली का न्यायालय करेगा।""",
    "th": """ผู้ขายจะส่งมอบเครื่องยนต์ให้แก่โรงงานที่โอซากาภายในสามสิบวันนับจากวันที่ได้รับคำสั่งซื้อ
ความเสี่ยงตกแก่ผู้ซื้อเมื่อส่งมอบสินค้าให้ผู้ขนส่งแล้ว
สัญญานี้อยู่ภายใต้บังคับของกฎหมายไทย""",
    "ko": """공급자는 주문을 받은 날부터 삼십 일 안에 엔진을 오사카 공장에 납품한다.
물품을 운송인에게 인도한 때에 위험은 매수인에게 이전하며 소유권은 대금을 모두 지급한 때에 이전한다.
이 계약에는 대한민국 법을 적용하고 분쟁은 서울중앙지방법원이 관할한다.""",
    "ru, en": """Компания Acme Rockets Ltd. поставляет двигатели Kestrel на завод в Осаке.
Invoices are sent to legal@acme-rockets.example; оплата в течение 30 дней.
Договор подписан в двух экземплярах, на русском и английском языках (Russian and English).""",
    "ar, en": """تورد شركة Acme Rockets محركات Kestrel إلى المصنع في أوساكا خلال 30 يوما.
يسدد المشتري مبلغ 48250 دولارا إلى حساب الشركة في البنك.""",
}
_NOTO = {"ar": "NaskhArabic", "he": "SansHebrew", "hi": "SansDevanagari", "th": "SansThai"}
_ROWS = [["Part", "Quantity", "Price", "Delivery"]] + [
    [f"{name} {number}", str(3 * number + 2), f"{number * 117.5:,.2f}", f"2026-0{number}-15"]
    for number, name in enumerate(("Valve", "Pump", "Nozzle", "Injector", "Turbine", "Gimbal", "Igniter", "Tank"), 1)
]


@dataclass(frozen=True)
class Sample:
    """A page and what is written on it."""

    kind: str
    image: Image.Image
    text: str


def samples() -> list[Sample]:
    """Return a page of each kind."""
    samples = [Sample(f"printed {language}", _printed(language), TEXTS[language]) for language in TEXTS]
    samples += [
        Sample(f"photographed {language}", _photographed(_printed(language)), TEXTS[language])
        for language in ("en", "ja")
    ]
    samples.append(Sample("faxed en", _faxed(_printed("en")), TEXTS["en"]))
    columns, text = _columns()
    samples.append(Sample("two columns en", columns, text))
    samples.append(Sample("table en", _table(), " ".join(cell for row in _ROWS for cell in row)))
    samples.append(Sample("in columns ja", _vertical(), TEXTS["ja"].replace("\n", "")))
    return samples + [Sample(f"printed {language}", _printed(language), SCRIPTS[language]) for language in SCRIPTS]


def _font(language: str) -> ImageFont.FreeTypeFont:
    if language in ("ja", "zh", "ko"):
        return ImageFont.truetype(_CJK, 46, index=("ja", "ko", "zh").index(language))
    if language in _NOTO:
        return ImageFont.truetype(_FONTS / f"truetype/noto/Noto{_NOTO[language]}-Regular.ttf", 46)
    if language == "ar, en":
        return ImageFont.truetype(_FONTS / "truetype/dejavu/DejaVuSans.ttf", 42)
    return ImageFont.truetype(_LATIN, 46)


def _page() -> tuple[Image.Image, ImageDraw.ImageDraw]:
    image = Image.new("RGB", (_WIDTH, _HEIGHT), "white")
    return image, ImageDraw.Draw(image)


def _lines(text: str, font: ImageFont.FreeTypeFont, width: int) -> list[str]:
    lines = [""]
    for piece in re.findall(rf"{_WIDE}|[^\s\u3000-\u9fff\uff00-\uffef]+\s?", text):
        if font.getlength(lines[-1] + piece) > width:
            lines.append("")
        lines[-1] += piece
    return lines


def _write(draw: ImageDraw.ImageDraw, text: str, language: str, x: int, y: int, width: int) -> None:
    font = _font(language)
    for paragraph in text.split("\n"):
        for line in _lines(paragraph, font, width):
            if language.startswith(("ar", "he")):
                draw.text((x + width, y), line, font=font, fill="black", anchor="ra", direction="rtl")
            else:
                draw.text((x, y), line, font=font, fill="black")
            y += 64
        y += 40


def _printed(language: str) -> Image.Image:
    image, draw = _page()
    _write(draw, (TEXTS | SCRIPTS)[language], language, _MARGIN, 300, _WIDTH - 2 * _MARGIN)
    return image


def _columns() -> tuple[Image.Image, str]:
    image, draw = _page()
    text = "\n".join([TEXTS["en"]] * 2)
    paragraphs = text.split("\n")
    width = (_WIDTH - 2 * _MARGIN - 120) // 2
    _write(draw, "\n".join(paragraphs[:6]), "en", _MARGIN, 300, width)
    _write(draw, "\n".join(paragraphs[6:]), "en", _MARGIN + width + 120, 300, width)
    return image, text


def _table() -> Image.Image:
    image, draw = _page()
    for row, cells in enumerate(_ROWS):
        for column, cell in enumerate(cells):
            x, y = _MARGIN + column * 480, 300 + row * 90
            draw.rectangle((x - 20, y - 16, x + 460, y + 74), outline="black", width=3)
            draw.text((x, y), cell, font=_font("en"), fill="black")
    return image


def _vertical() -> Image.Image:
    image, draw = _page()
    font, text, down = _font("ja"), TEXTS["ja"].replace("\n", ""), 40
    for column in range(0, len(text), down):
        for row, letter in enumerate(text[column : column + down]):
            x, y = _WIDTH - 400 - column // down * 100, 300 + row * 54
            # These stand in the other corner of their square.
            shift = 26 if letter in "、。" else 0
            draw.text((x + shift, y - shift), letter, font=font, fill="black")
    return image


def _photographed(image: Image.Image) -> Image.Image:
    dice = np.random.default_rng(7)
    image = image.rotate(2.3, expand=True, fillcolor=(120, 110, 100)).resize((1860, 2631))
    image = image.filter(ImageFilter.GaussianBlur(1.2))
    pixels = np.asarray(image, dtype=np.float32)
    shadow = np.linspace(0.55, 1.0, pixels.shape[1], dtype=np.float32)[None, :, None]
    pixels = pixels * shadow + dice.normal(0, 9, pixels.shape).astype(np.float32)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def _faxed(image: Image.Image) -> Image.Image:
    small = image.convert("L").resize((1654, 2339)).filter(ImageFilter.GaussianBlur(0.6))
    grey = np.asarray(small, dtype=np.float32) + np.random.default_rng(7).normal(0, 30, (2339, 1654))
    return Image.fromarray(((grey > 140) * 255).astype(np.uint8)).convert("RGB")


def error_rate(text: str, read: str) -> float:
    """Return edits of letters against a text, by its length."""
    return _edits(bare(text), bare(read))


def word_error_rate(text: str, read: str) -> float:
    """Return edits of words against a text, by their number."""
    return _edits(bare(text).split(), bare(read).split())


def _edits(wanted: Sequence[str], got: Sequence[str]) -> float:
    numbers: dict[str, int] = {}
    codes = np.array([numbers.setdefault(item, len(numbers)) for item in got], np.int64)
    steps = np.arange(len(got) + 1)
    row = steps.copy()
    for count, item in enumerate(wanted, 1):
        below = np.minimum(row[1:] + 1, row[:-1] + (codes != numbers.get(item, -1)))
        row = np.minimum.accumulate(np.concatenate([[count], below]) - steps) + steps
    return float(row[-1]) / max(1, len(wanted))


def bare(text: str) -> str:
    """Return a text as it is compared: without marks of tables and headings, white space as one blank."""
    text = re.sub(r"[|#]|-{3,}", " ", unicodedata.normalize("NFKC", text))
    return re.sub(rf"(?<={_WIDE}) | (?={_WIDE})", "", " ".join(text.split()))


def _ours(engine: str, image: Image.Image) -> tuple[str, float]:
    ((_, recognised),) = recognise(engine, [(1, image)], 1, 1)
    return text_of([recognised.page], {}), recognised.confidence


def _plain() -> Callable[[Image.Image], tuple[str, float]]:
    import rapidocr

    steps = {f"{step}.engine_type": rapidocr.EngineType.OPENVINO for step in ("Det", "Cls", "Rec")}
    engine = rapidocr.RapidOCR(params={**steps, "Global.log_level": "critical"})

    def read(image: Image.Image) -> tuple[str, float]:
        result = engine(np.asarray(image)[:, :, ::-1].copy())
        return "\n".join(result.txts or ()), float(np.mean(result.scores or (0.0,)))

    return read


def main() -> None:
    """Print a line for each kind: error rates, confidence and processor time."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kind", default="", help="only kinds whose name has this in it")
    parser.add_argument("--engine", choices=("rapidocr", "tesseract"), default="rapidocr")
    arguments = parser.parse_args()
    if not (_LATIN.exists() and _CJK.exists()):
        parser.error("needs fonts: apt-get install fonts-liberation fonts-noto-cjk fonts-noto-core")
    plain = _plain()
    warm = Image.new("RGB", (600, 200), "white")
    ImageDraw.Draw(warm).text((20, 60), "warm", font=_font("en"), fill="black")
    _ours(arguments.engine, warm), plain(warm)
    print(f"{'kind':18}{'letters':>9}{'words':>8}{'rapidocr':>10}{'confidence':>12}{'seconds':>9}{'rapidocr':>10}")
    for sample in samples():
        if arguments.kind not in sample.kind:
            continue
        begin = processor_time()
        read, confidence = _ours(arguments.engine, sample.image)
        middle = processor_time()
        other, _ = plain(sample.image)
        end = processor_time()
        rates = f"{error_rate(sample.text, read):9.3f}{word_error_rate(sample.text, read):8.3f}"
        rates += f"{error_rate(sample.text, other):10.3f}"
        mark = "" if confidence >= LEAST_CONFIDENCE else "  left out"
        print(f"{sample.kind:18}{rates}{confidence:12.2f}{middle - begin:9.1f}{end - middle:10.1f}{mark}", flush=True)


def processor_time() -> float:
    """Return seconds of this process and of those that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


if __name__ == "__main__":
    main()
