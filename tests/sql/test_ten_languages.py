"""No mode comes back empty because of a language."""

import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import keys, put, search, searched_corpus, value, work
from tests.sql.test_paging import MODES

# By language: a text without names that capitals tell, another, and a question on the first in ordinary words.
TEXTS = {
    "ko": (
        "지하철 요금이 백오십 원 올랐다. 시민들은 버스를 더 많이 탄다.",
        "빵은 밀가루로 만든다.",
        "요금이 얼마나 올랐어요?",
    ),
    "th": ("ส้มตำทำจากมะละกอ รสเผ็ดและเปรี้ยว", "ขนมปังทำจากแป้ง", "อาหารอะไรทำจากมะละกอ"),
    "ar": ("ارتفعت أسعار الخبز هذا العام بسبب نقص القمح.", "يجري النهر إلى البحر.", "لماذا ارتفعت أسعار الخبز؟"),
    "hi": ("इस साल बारिश कम हुई, इसलिए फसल खराब हो गई।", "नदी समुद्र में मिलती है।", "फसल क्यों खराब हुई?"),
    "he": ("מחיר הלחם עלה בגלל מחסור בקמח.", "הנהר זורם אל הים.", "למה עלה מחיר הלחם?"),
    "ru": ("Цены на хлеб выросли из-за неурожая пшеницы.", "Река течёт в море.", "Почему цены на хлеб выросли?"),
    "zh": ("费用减少了三成。", "河流入海。", "费用减少了多少？"),
    "de": (
        "Der Fluss mündet bei der alten Stadt ins Meer und ist dort breit.",
        "Die Bücherei öffnet um neun und wird am Abend geschlossen.",
        "Wohin fließt der Fluss und wie breit ist er?",
    ),
    "fr": (
        "Le prix du pain a augmenté à cause de la mauvaise récolte.",
        "Le fleuve se jette dans la mer.",
        "Pourquoi le prix du pain a-t-il augmenté ?",
    ),
    "tr": ("Buğday hasadı kötü olduğu için ekmek pahalandı.", "Nehir denize dökülür.", "Ekmek neden pahalandı?"),
    "symbols": ("🚀 at dawn, 5 €.", "🎉 at noon.", "🚀"),
    "el": (
        "Η τιμή του ψωμιού ανέβηκε λόγω της κακής σοδειάς.",
        "Το ποτάμι χύνεται.",
        "Γιατί ανέβηκε η τιμή του ψωμιού;",
    ),
}


@pytest.fixture(scope="module")
def corpora(module_db: Database) -> dict[str, str]:
    names = {}
    for language, (text, other, _) in TEXTS.items():
        names[language] = searched_corpus(module_db, communities=True)
        put(module_db, names[language], "asked", text)
        put(module_db, names[language], "other", other)
    work(module_db)
    return names


@pytest.mark.sample(48)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("language", TEXTS)
def test_a_question_in_ordinary_words_finds_its_text(
    module_db: Database, corpora: dict[str, str], language: str, mode: str
) -> None:
    question, corpus = TEXTS[language][2], corpora[language]
    results = search(module_db, question, corpus, mode)
    # Vectors know nothing of symbols: an order by them is any.
    asked = keys(results) if language == "symbols" and mode in ("naive", "mix") else keys(results[:1])
    assert "asked" in asked
    context = value(module_db, "SELECT graphrag.context(%s, %s, %s)", question, corpus, mode)
    assert TEXTS[language][0] in [chunk["content"] for chunk in context["chunks"][: len(asked)]]


def test_what_stands_in_for_the_graph_says_so(module_db: Database, corpora: dict[str, str]) -> None:
    notices: list[str] = []
    module_db.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
    note = "hybrid: the graph knows nothing of this query (ko)"
    first = search(module_db, TEXTS["ko"][2], corpora["ko"], "local")[0]
    assert first["explain"]["instead"] == note
    assert notices == ['mode "local" found nothing by the graph; the chunks are those of mode hybrid']
    context = value(module_db, "SELECT graphrag.context(%s, %s, 'local')", TEXTS["ko"][2], corpora["ko"])
    assert context["explain"]["instead"] == note
    assert "instead" not in search(module_db, TEXTS["ko"][2], corpora["ko"], "hybrid")[0]["explain"]


def test_an_english_question_is_left_to_the_graph(module_db: Database, corpora: dict[str, str]) -> None:
    assert search(module_db, "Where is the lighthouse?", corpora["ko"], "local") == []
