"""The language of a question, by its script, else by its small words and letters: enough for one sentence of ours."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from functools import cache

from pg_graphrag.text.languages import detect

MAX_CHARACTERS = 2000

# Question words and the most frequent others; then what people type who type no sentence, and words that begin a request.
_WORDS = {
    "en": "what which who whom whose when where why how is are was were does do did the of and to in for with from that"
    " this it there can should has have many much by on at an about tell list explain summary summarize summarise compare"
    " describe revenue sales themes true show",
    "de": "was welche welcher welches welchen welchem wer wen wem wessen wann wo woher wohin warum wieso weshalb wie ist"
    " sind war wurde wurden wird hat haben gibt der die das den dem des ein eine einen einem einer und zu im in mit von"
    " für auf nicht kann viel viele macht heißt kostet bedeutet steht liegt über nach bei aus als am zum zur es umsatz"
    " zusammenfassung fasse zusammen vergleiche vergleich nenne nennen liste themen hauptthemen wichtigsten erkläre"
    " beschreibe bitte sagt stimmt wahr gehört unterschied überblick gewinn ergebnis risiken",
    "fr": "que quoi quel quelle quels quelles qui quand où pourquoi comment combien est sont était ont le la les un une"
    " des du de et au aux dans pour avec sur par ce cette ces en il elle on peut fait résumé résume résumer résumez"
    " compare comparer comparez parle parlez moi thèmes principaux principales explique expliquez décris liste revenus"
    " chiffre affaires vrai risques",
    "es": "qué que cuál cual cuáles quién quien quiénes cuándo cuando dónde donde cómo como cuánto cuanto cuántos cuántas"
    " cuánta por es son era fue el la los las un una de del y al en para con se su está están hay tiene resumen resume"
    " compara comparar háblame dime cuéntame explica describe temas principales ingresos ventas verdad lista sobre"
    " riesgos",
    "it": "che cosa cos quale quali chi quando dove perché perche come quanto quanti quanta quante è sono era fu ha hanno"
    " il lo la gli le un uno una di del della dei delle dal nel nella per con si c e i riassunto riepilogo riassumi"
    " sintesi confronta elenca descrivi spiega parlami dimmi temi tema principali principale ricavi fatturato vero"
    " possiede rischi",
    "pt": "que quê qual quais quem quando onde porque porquê como quanto quantos quanta quantas é são era foi o os as um"
    " uma de do da dos das em no na para com se está há tem não e resumo resuma compare compara fale diga liste explique"
    " descreva temas principais receita receitas faturamento verdade vendas sobre riscos",
    "nl": "wat welke wie wiens wanneer waar waarom hoe hoeveel is zijn was werd heeft hebben de het een en van in op voor"
    " met niet kan er aan bij naar om te dit dat wordt samenvatting vergelijk samen noem beschrijf omzet belangrijkste"
    " thema bezit vertel verschil",
    "pl": "co jaki jaka jakie jakich jakim który która które kto kogo komu kiedy gdzie dlaczego czemu jak ile czy jest są"
    " był była było w we na z ze do nie się o od za przez ma i podsumowanie podsumuj streść porównaj opowiedz opisz"
    " wyjaśnij wymień przychody główne tematy prawda to kim czym",
    "cs": "co jaký jaká jaké jakou který která které kdo koho kdy kde proč jak kolik je jsou byl byla bylo v ve na z ze"
    " do se o od za má a shrnutí shrň porovnej popiš vysvětli vyjmenuj tržby hlavní témata pravda řekni",
    "sv": "vad vilken vilket vilka vem när var varför hur är och en ett den det de i på av för med som till många mycket"
    " har kan sammanfattning sammanfatta jämför beskriv förklara lista omsättning intäkter viktigaste teman berätta sant",
    "da": "hvad hvilken hvilket hvilke hvem hvornår hvor hvorfor hvordan er var og en et den det de i på af for med som"
    " til mange har sammenfatning resumé opsummer sammenlign beskriv forklar omsætning vigtigste temaer fortæl sandt",
    "no": "hva hvilken hvilket hvilke hvem når hvor hvorfor hvordan er var og en et den det de i på av for med som til"
    " mange har sammendrag oppsummer sammenlign beskriv forklar omsetning inntekter viktigste temaer fortell sant",
    "fi": "mikä mitä mitkä kuka ketkä milloin missä mistä mihin miksi miten kuinka paljonko on ovat oli ja ei se tämä"
    " että yhteenveto tiivistä vertaa kuvaile selitä luettele liikevaihto tärkeimmät teemat kerro totta",
    "hu": "mi mit mik ki kit kik mikor hol hová miért hogyan hány mennyi melyik milyen van volt a az egy és nem"
    " összefoglaló összefoglalás foglald hasonlítsd össze sorold árbevétel bevétel fő témák mondd igaz ez",
    "ro": "ce care cine când cand unde cum cât câți câte este sunt era au și un o în pe la cu din al ale nu pentru de"
    " rezumat compară descrie explică enumeră venituri teme principale adevărat spune",
    "tr": "ne nedir hangi hangisi kim kimdir kime nerede nereye zaman neden niçin niye nasıl kaç mi mı mu mü ve bir bu"
    " için ile var yok olan olarak kadar özet özetle karşılaştır açıkla anlat listele gelir ciro temalar doğru kimin kimi",
    "vi": "gì nào ai đâu sao thế bao nhiêu là của và có được các những trong cho với không như ở từ này khi tóm tắt sánh"
    " liệt kê mô tả giải thích doanh thu chủ đề",
    "id": "apa apakah siapa kapan mana dimana mengapa kenapa bagaimana berapa yang dan adalah dari untuk dengan ini itu"
    " di ke pada ringkasan ringkas bandingkan jelaskan sebutkan uraikan pendapatan tema utama benar ceritakan",
}
# Letters and signs that few languages have.
_LETTERS = {
    "de": "ßäöü",
    "fr": "œêèéàùûîïëç",
    "es": "ñ¿¡áéíóú",
    "it": "èàìòù",
    "pt": "ãõçêáéíóú",
    "nl": "ĳ",
    "pl": "łąęśźżćń",
    "cs": "ěřůčšžýťáéí",
    "sv": "åäö",
    "da": "æøå",
    "no": "æøå",
    "fi": "äö",
    "hu": "őűáéíóöü",
    "ro": "șțăâîşţ",
    "tr": "ğışçöü",
    "vi": "đơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹăâêô",
}
# Of Chinese; traditional characters that Japanese has as well come second.
_SIMPLIFIED = frozenset(
    "们国这说时为会对发经样学现实开关无与东车见长门问间马龙电书话请谁语认识么吗岁钱买卖个来过还进点题档资检报里"
)
_TRADITIONAL = frozenset("們國這說為會對發經樣學實關與麼嗎歲錢賣個來過還點檔檢裡")
_SHARED_WITH_JAPANESE = frozenset("時現開無東車見長門問間馬龍電書話請誰語認識買進題資報")
_UKRAINIAN, _RUSSIAN, _PERSIAN = frozenset("іїєґ"), frozenset("ыэъё"), frozenset("پچژگکی")
_UKRAINIAN_WORDS = frozenset(
    "хто що коли де чи чому як який яка яке якого якому цей ця це кому чого куди навколо".split()
)
_WORD = re.compile(r"[^\W\d_]+")
_LATIN_LETTERS = re.compile("[a-z\u00aa\u00ba\u00df-\u024f\u1e00-\u1eff]+")
# Small words that show in what language a sentence about names in another script is.
_SENTENCE = 2


def question_language(questions: Iterable[str], known: str | None = None, context: str = "") -> str:
    """Return the language of the first of some questions that tells one: ISO 639-1, or zh-Hant.

    Where its words leave several, or none, the further questions decide, then the language that the corpus is `known` to have,
    then its `context`, then English.
    """
    left: list[str] = []
    for languages in (*map(_languages, questions), [known] if known else [], _languages(context), ["en"]):
        left = [language for language in left if language in languages] or left or languages
        if len(left) == 1:
            break
    return left[0]


def _languages(text: str) -> list[str]:
    """Return the languages that a text may be in, all as likely; none where nothing tells."""
    text = unicodedata.normalize("NFKC", text[:MAX_CHARACTERS]).lower()
    words, scores = _latin(text)
    beyond = _LATIN_LETTERS.sub("", text)
    others = sum(map(len, _WORD.findall(beyond)))
    if not others or (words >= _SENTENCE and len(text) - len(beyond) >= others):
        best = max(scores.values(), default=0.0)
        return [language for language in _WORDS if language in scores and scores[language] > best - 1e-9]
    script, letters = detect(beyond), frozenset(beyond)
    if script == "zh":
        simplified, traditional = len(letters & _SIMPLIFIED), len(letters & _TRADITIONAL)
        if simplified or traditional:
            return ["zh" if simplified >= traditional else "zh-Hant"]
        # Names in Han alone may be Japanese.
        return ["zh-Hant", "ja"] if letters & _SHARED_WITH_JAPANESE else ["zh", "ja", "zh-Hant"]
    is_ukrainian = not letters & _RUSSIAN and _UKRAINIAN_WORDS.intersection(_WORD.findall(beyond))
    if script == "ru" and (letters & _UKRAINIAN or is_ukrainian):
        return ["uk"]
    return ["fa" if script == "ar" and letters & _PERSIAN else script]


def _latin(text: str) -> tuple[int, dict[str, float]]:
    """Return (how many small words a text has, a score for each language in Latin script by words and letters)."""
    of_word, of_letter = _tables()
    scores: dict[str, float] = defaultdict(float)
    words = 0
    # A letter may be a name: it is a word beside others of its language.
    for word in sorted(_WORD.findall(text), key=len, reverse=True):
        languages = [name for name in of_word.get(word, ()) if len(word) > 1 or name in scores]
        words += bool(languages)
        for language in languages:
            scores[language] += 1 / len(languages)
    for letter in frozenset(text) & of_letter.keys():
        for language in of_letter[letter]:
            scores[language] += 1 / len(of_letter[letter])
    return words, scores


@cache
def _tables() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the languages of each small word and of each letter."""
    of_word: dict[str, list[str]] = {}
    of_letter: dict[str, list[str]] = {}
    for language, words in _WORDS.items():
        for word in words.split():
            of_word.setdefault(word, []).append(language)
    for language, letters in _LETTERS.items():
        for letter in letters:
            of_letter.setdefault(letter, []).append(language)
    return of_word, of_letter
