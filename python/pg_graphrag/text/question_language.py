"""The language of a question, by its small words and letters: enough to choose the language of a fixed sentence."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import cache

from pg_graphrag.text.languages import CAPITALS, HAN, LETTER_OF_A_WORD, detect, letter_count, letters_of

# Characters that are looked at.
_SAMPLE = 2000

# Question words and the most frequent others; then what people type who type no sentence, and words that begin a request.
_WORDS = {
    "en": "what which who whom whose when where why how is are was were does do did the of and to in for with from that"
    " this it there can should has have many much by on at an about tell list explain summary summarize summarise compare"
    " describe revenue sales themes true show"
    " any give does i my we our you your would could must not or hi",
    "de": "was welche welcher welches welchen welchem wer wen wem wessen wann wo woher wohin warum wieso weshalb wie ist"
    " sind war wurde wurden wird hat haben gibt der die das den dem des ein eine einen einem einer und zu im in mit von"
    " für auf nicht kann viel viele macht heißt kostet bedeutet steht liegt über nach bei aus als am zum zur es umsatz"
    " zusammenfassung fasse zusammen vergleiche vergleich nenne nennen liste themen hauptthemen wichtigsten erkläre"
    " beschreibe bitte sagt stimmt wahr gehört unterschied überblick gewinn ergebnis risiken"
    " darf muss soll sollte kannst können man bin bist ich wir mein meine unser kosten preis vertrag firma passwort",
    "fr": "que quoi quel quelle quels quelles qui quand où pourquoi comment combien est sont était ont le la les un une"
    " des du de et au aux dans pour avec sur par ce cette ces en il elle on peut fait résumé résume résumer résumez"
    " compare comparer comparez parle parlez moi thèmes principaux principales explique expliquez décris liste revenus"
    " chiffre affaires vrai risques"
    " puis je tu ta nous vous existe faut prix voyage coûte habite dirige va",
    "es": "qué que cuál cual cuáles quién quien quiénes cuándo cuando dónde donde cómo como cuánto cuanto cuántos cuántas"
    " cuánta por es son era fue el la los las un una de del y al en para con se su está están hay tiene resumen resume"
    " compara comparar háblame dime cuéntame explica describe temas principales ingresos ventas verdad lista sobre"
    " riesgos"
    " puedo puede existe precio presupuesto necesito tengo quiero cuesta vive dirige garantia va",
    "it": "che cosa cos quale quali chi quando dove perché perche come quanto quanti quanta quante è sono era fu ha hanno"
    " il lo la gli le un uno una di del della dei delle dal nel nella per con si c e i riassunto riepilogo riassumi"
    " sintesi confronta elenca descrivi spiega parlami dimmi temi tema principali principale ricavi fatturato vero"
    " possiede rischi"
    " posso può esiste prezzo devo voglio costa abita dirige garanzia va parla",
    "pt": "que quê qual quais quem quando onde porque porquê como quanto quantos quanta quantas é são era foi o os as um"
    " uma de do da dos das em no na para com se está há tem não e resumo resuma compare compara fale diga liste explique"
    " descreva temas principais receita receitas faturamento verdade vendas sobre riscos"
    " posso pode existe preço preciso tenho quero mora custa orçamento dirige garantia vai têm vocês você",
    "nl": "wat welke wie wiens wanneer waar waarom hoe hoeveel is zijn was werd heeft hebben de het een en van in op voor"
    " met niet kan er aan bij naar om te dit dat wordt samenvatting vergelijk samen noem beschrijf omzet belangrijkste"
    " thema bezit vertel verschil"
    " mag ik je moet mogen kost woont prijs korting",
    "pl": "co jaki jaka jakie jakich jakim który która które kto kogo komu kiedy gdzie dlaczego czemu jak ile czy jest są"
    " był była było w we na z ze do nie się o od za przez ma i podsumowanie podsumuj streść porównaj opowiedz opisz"
    " wyjaśnij wymień przychody główne tematy prawda to kim czym",
    "cs": "co jaký jaká jaké jakou který která které kdo koho kdy kde proč jak kolik je jsou byl byla bylo v ve na z ze"
    " do se o od za má a shrnutí shrň porovnej popiš vysvětli vyjmenuj tržby hlavní témata pravda řekni kam odkud či"
    " mohu můžu můžeme máme existuje musím",
    "sv": "vad vilken vilket vilka vem när var varför hur är och en ett den det de i på av för med som till många mycket"
    " har kan sammanfattning sammanfatta jämför beskriv förklara lista omsättning intäkter viktigaste teman berätta sant"
    " jag får ska skall måste inte någon något några från finns efter utan mellan blir blev mig ta sista ge"
    " översikt om",
    "da": "hvad hvilken hvilket hvilke hvem hvornår hvor hvorfor hvordan er var og en et den det de i på af for med som"
    " til mange har sammenfatning resumé opsummer sammenlign beskriv forklar omsætning vigtigste temaer fortæl sandt"
    " jeg kan må skal får om fra meget ikke nogen noget blev bliver findes der efter uden mellem sidste mig giv"
    " oversigt tage sammenfat",
    "no": "hva hvilken hvilket hvilke hvem når hvor hvorfor hvordan er var og en et den det de i på av for med som til"
    " mange har sammendrag oppsummer sammenlign beskriv forklar omsetning inntekter viktigste temaer fortell sant"
    " jeg kan må skal får om fra mye ikke noen noe ble blir finnes etter uten mellom siste meg gi oversikt ta fjor"
    " dere kva kven kor kvar kvifor korleis eg ikkje ein eit frå mykje noko nokon vart vert blei finst utan"
    " samandrag",
    "fi": "mikä mitä mitkä kuka ketkä milloin missä mistä mihin miksi miten kuinka paljonko on ovat oli ja ei se tämä"
    " että yhteenveto tiivistä vertaa kuvaile selitä luettele liikevaihto tärkeimmät teemat kerro totta"
    " voinko voiko onko saako saanko meillä minun pitääkö kauanko voimassa",
    "hu": "mi mit mik ki kit kik mikor hol hová miért hogyan hány mennyi melyik milyen van volt a az egy és nem"
    " összefoglaló összefoglalás foglald hasonlítsd össze sorold árbevétel bevétel fő témák mondd igaz ez mennyibe kerül",
    "ro": "ce care cine când cand unde cum cât câți câte este sunt era au și un o în pe la cu din al ale nu pentru de"
    " rezumat compară descrie explică enumeră venituri teme principale adevărat spune va",
    "tr": "ne nedir hangi hangisi kim kimdir kime nerede nereye zaman neden niçin niye nasıl kaç mi mı mu mü ve bir bu"
    " için ile var yok olan olarak kadar özet özetle karşılaştır açıkla anlat listele gelir ciro temalar doğru kimin kimi"
    " müdür sözleşme ücret",
    "vi": "gì nào ai đâu sao thế bao nhiêu là của và có được các những trong cho với không như ở từ này khi tóm tắt sánh"
    " liệt kê mô tả giải thích doanh thu chủ đề",
    "id": "apa apakah siapa kapan mana dimana mengapa kenapa bagaimana berapa yang dan adalah dari untuk dengan ini itu"
    " di ke pada ringkasan ringkas bandingkan jelaskan sebutkan uraikan pendapatan tema utama benar ceritakan",
    "sk": "čo aký aká aké akú ktorý ktorá ktoré ktorí kto koho komu kde kedy prečo ako koľko je sú bol bola bolo boli v vo na"
    " z zo do sa o od za má a či alebo nie zhrnutie zhrň porovnaj opíš vysvetli vymenuj tržby hlavné témy pravda povedz"
    " môžem môžeme máme existuje musím",
    # Croatian, Bosnian, and Serbian in Latin script: what we say is the same in them.
    "hr": "što šta tko ko koga čija čiji koji koja koje kojeg kada kad gdje gde zašto kako koliko koliki kolika kakav"
    " kakva kakvo je su bio bila bilo bili u na iz do se o od za ima i li ili nije nisu ne da sažetak sažmi usporedi"
    " uporedi opiši objasni nabroji prihodi glavne teme istina reci"
    " imamo imaju imate mogu može možemo moram treba trebam postoji postoje",
    "sl": "kaj kdo koga čigav kateri katera katero kje kam kdaj zakaj kako koliko kakšen kakšna kakšno je so bil bila bilo v na"
    " iz do se o od za ima in ali ni ki povzetek povzemi primerjaj opiši pojasni naštej prihodki glavne teme res povej"
    " kolikšen kolikšna kolikšno"
    " lahko imamo obstaja moram",
    "ca": "què qui quin quina quins quines quan on per perquè com quants quanta quantes és són era va el la els les un"
    " una de del dels al als en i amb que es ha té resum resumeix compara explica descriu llista temes"
    " ingressos pressupost preu puc cal qual parla digue veritat",
    "lt": "kas ką ko kam kur kada kodėl kaip kiek koks kokia kokie kokios kokį kuris kuri kurie ar yra buvo į iš su dėl"
    " apie ne santrauka apibendrink palygink aprašyk paaiškink išvardyk pajamos pagrindinės temos tiesa"
    " galiu galima turime",
    "lv": "kas ko kam kur kad kāpēc kā cik kāds kāda kādi kādas kurš kura kuri vai ir bija un no uz ar par nav"
    " kopsavilkums apkopo salīdzini apraksti paskaidro uzskaiti ieņēmumi galvenās tēmas tiesa pastāsti"
    " drīkstu varu mums",
    "et": "mis mida mille kes keda kelle kus kuhu kust millal miks kuidas kui palju mitu milline millised kas on oli ja ei see"
    " et või kokkuvõte võrdle kirjelda selgita loetle tulud peamised teemad tõsi räägi"
    " ma meil saab saan tohin võib võin pean asub tee",
    "ru": "что кто кого кому чей чья какой какая какое какие каков какова когда где куда откуда почему зачем как сколько"
    " чем такое такая такой это эта этот есть был была было были и в на с по для из к у о об не ли или"
    " от за до при ко да нет во со под над между то та те тот про дали био",
    "uk": "що хто кого кому чого чий як який яка яке які якого якому коли де куди звідки чому навіщо скільки чи це цей ця"
    " є був була було були і й та в у на з по для про не навколо за від до або при",
    "be": "што хто каго каму чый як які якая якое якія калі дзе куды адкуль чаму навошта колькі ці такая такое гэта гэты ёсць"
    " быў была было былі і ў у на з па для не",
    "bg": "какво кой коя кое кои кого чий кога къде защо как колко какъв каква какви е са беше бяха ли и в с за от по не"
    " да се на това този има",
    "sr": "шта што ко кога чији који која које када кад где гдје зашто како колико какав каква какво је су био била било и у на"
    " са за од не да ли се ово ова има",
    "mk": "што кој која кое кои кого чиј кога каде зошто како колку колкав каков каква какво дали е се беше биле и во на со"
    " за од не да ова има",
    "kk": "не кім кімнің қашан қайда қайдан неге қалай қанша қандай қай мен және бұл үшін туралы жоқ",
    "ar": "ما ماذا من متى أين لماذا كيف كم هل أي هو هي في على إلى عن التي الذي",
    "fa": "چه چی چیست کیست کجا کجاست کی چرا چگونه چطور چند چقدر است آیا را از به در با که این آن شد ما من",
    "ur": "کیا کون کہاں کب کیوں کیسے کتنا کتنے کتنی کس ہے ہیں کا کی کے میں سے کو اور نے پر تھا تھی یہ وہ",
    "hi": "क्या कौन कहाँ कहां कब क्यों कैसे कितना कितने कितनी किस किसने है हैं का की के में से को और ने पर था थी यह वह"
    " या किन बारे हाँ नहीं ही होता होती होते",
    "mr": "काय कोण कोणी कोणता कोणती कोणते कुठे केव्हा कधी का कसे कसा कशी किती आहे आहेत आणि होता होती होते या हे ही हा चे ची चा",
    "ne": "के को कसले कहाँ कहिले किन कसरी कति कुन छ छन् हो थियो र यो त्यो मा ले लाई बारे",
}
# Languages whose script others share, which `detect` takes for them.
_BY_SCRIPT = {"ru": "ru uk be bg sr mk kk".split(), "ar": "ar fa ur".split(), "hi": "hi mr ne".split()}
# Scripts of one language each, as far as we answer in it, which `detect` does not tell.
_MORE_SCRIPTS = {
    "bn": "\u0980-\u09ff",
    "pa": "\u0a00-\u0a7f",
    "gu": "\u0a80-\u0aff",
    "te": "\u0c00-\u0c7f",
    "kn": "\u0c80-\u0cff",
    "ml": "\u0d00-\u0d7f",
    "ka": "\u10a0-\u10ff",
}
_LATIN_LANGUAGES = _WORDS.keys() - {language for languages in _BY_SCRIPT.values() for language in languages}
# Rarely asked languages; their words often are words of others, abbreviations or names: "res", "kas", "дали".
_RARE, _MARKS_OF_RARE, _SHORT = frozenset("sk hr sl ca lt lv et be bg sr mk kk mr ne".split()), 2, 4
# If small words leave Danish, Norwegian and Swedish: how each spells common words.
_NORDIC_SPELLINGS = {
    "da": re.compile(r"\w{3}(?:hed|skab|tion|erede|eret|erne)"),
    "no": re.compile(r"\w{3}(?:het|skap|sjon|erte|tt\b)|kj|gj|øy|ei"),
    "sv": re.compile(r"\w{3}(?:het|skap|tion|erade|erat|tt\b)|ä|ö"),
}
# Letters and signs that few languages have.
_LETTERS = {
    "de": "ßäöü", "fr": "œêèéàùûîïëç", "es": "ñ¿¡áéíóú", "it": "èàìòù", "pt": "ãõçêáéíóú", "nl": "ĳ",
    "pl": "łąęśźżćń", "cs": "ěřůčšžýťáéí", "sv": "åäö", "da": "æøå", "no": "æøå", "fi": "äö", "hu": "őűáéíóöü",
    "ro": "șțăâîşţ", "tr": "ğışçöü", "vi": "đơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹăâêô",
    "sk": "ľĺŕôäčšžťňďýáéíú", "hr": "đćčšž", "sl": "čšž", "ca": "çàèòéíïóúü", "lt": "ąčęėįšųūž", "lv": "āčēģīķļņšūž",
    "et": "õäöüšž", "ru": "ыэёщъ", "uk": "іїєґщ", "be": "іўыэё", "bg": "щъ", "sr": "ђћјљњџ", "mk": "ѓќѕјљњџ",
    "kk": "әғқңөұүһіыэ", "fa": "پچژگکی", "ur": "ٹڈڑںےہھپچگکی", "mr": "ळ",
}  # fmt: skip
# Encodings tell which Han characters each language writes; if all write them, words that one alone uses.
_HAN_ENCODINGS = {"zh": "gb2312", "ja": "shift_jis", "zh-Hant": "big5"}
_JAPANESE_WORDS = re.compile(
    "会社|株式|契約|予算|売上|経費|住所|番号|役職|社員|担当|連絡先|手続|請求書|見積|支払|給与|給料|残業|有給|休暇|料金|値段|最寄|一覧|解約"
    "|本社|支店|年齢|天気|営業|駅|[都道府県]庁|勤務|就業|[社部課]長|振込|締切|割引|納期|取引"
)
_CHINESE_WORDS = re.compile(
    "公司|[是谁誰哪吗嗎么麼們们這这個个你您]|多少|什[么麼]|怎[么麼样樣]|合[约約同]|地址|项目|項目|專案"
)
_LETTER_RUN = re.compile(rf"(?:(?!\d){LETTER_OF_A_WORD})+")
# Not at the beginning.
_CAPITALISED = re.compile(rf"(?<=\w)([\W_]+)[{CAPITALS}]\w*")
_LATIN_LETTERS = re.compile("[a-z\u00aa\u00ba\u00df-\u024f\u1e00-\u1eff]+")
# Small words that show in what language a sentence about names in another script is.
_SENTENCE = 2


def question_language(questions: Iterable[str], known: str | None = None, context: str = "") -> str:
    """Return the language of the first of some questions that tells one: ISO 639-1, or zh-Hant.

    Where its words leave several, or none, the further questions decide, then the language that the corpus is `known` to have,
    then its `context`, then English.
    """
    left: list[str] = []
    corpus = [known] if known else []
    around = _languages(context, corpus)
    expected = corpus + around
    for languages in (*(_languages(question, expected) for question in questions), corpus, around, ["en"]):
        left = [language for language in left if language in languages] or left or languages
        if len(left) == 1:
            break
    return left[0]


def _languages(text: str, expected: Collection[str]) -> list[str]:
    """Return the equally likely languages of a text; none if nothing indicates one.

    A rare language counts if it is `expected`, or if the text has two words or letters of it, or a long word.
    """
    written = unicodedata.normalize("NFKC", text[:_SAMPLE])
    text = written.lower()
    words, scores = _scored(written, _LATIN_LANGUAGES, expected)
    beyond = _LATIN_LETTERS.sub("", text)
    others = sum(map(len, _LETTER_RUN.findall(beyond)))
    if not others or (words >= _SENTENCE and len(text) - len(beyond) >= others):
        return _by_spelling(text, _best(scores))
    script = next((name for name, ranges in _MORE_SCRIPTS.items() if 2 * letter_count(ranges, beyond) > others), "")
    script = script or detect(beyond)
    if script == "zh":
        return _han_languages(beyond)
    among = _BY_SCRIPT.get(script, [script])
    return _best(_scored(beyond, among, expected)[1]) or among


def _by_spelling(text: str, languages: list[str]) -> list[str]:
    """Return those of some languages, as likely by their words, in which a text is by its spelling, where that tells."""
    spellings = {
        language: len(_NORDIC_SPELLINGS[language].findall(text))
        for language in languages
        if language in _NORDIC_SPELLINGS
    }
    return languages if len(spellings) < 2 or not any(spellings.values()) else _best(spellings)


def _best(scores: Mapping[str, float]) -> list[str]:
    best = max(scores.values(), default=0.0)
    return [language for language in _WORDS if language in scores and scores[language] > best - 1e-9]


def _han_languages(text: str) -> list[str]:
    """Return the languages that Han without kana may be in: those that write most of its characters, unless a word tells."""
    han = set(letters_of(HAN).findall(text))
    written = {
        language: sum(len(run.encode(encoding, "ignore").decode(encoding)) for run in han)
        for language, encoding in _HAN_ENCODINGS.items()
    }
    languages = [language for language, size in written.items() if size == max(written.values())]
    if len(languages) > 1 and "ja" in languages:
        if _CHINESE_WORDS.search(text):
            languages.remove("ja")
        elif _JAPANESE_WORDS.search(text):
            return ["ja"]
    # Chinese comes first.
    return sorted(languages, key=lambda language: language == "ja" and "zh" not in languages)


def _scored(text: str, of: Collection[str], expected: Collection[str]) -> tuple[int, dict[str, float]]:
    """Return (how many small words a text has, a score for each language of some by words and letters)."""
    of_word, of_letter = _tables()
    scores: dict[str, float] = defaultdict(float)
    marks: Counter[str] = Counter()
    words = 0

    def count(languages: list[str], of_rare: int = 1) -> None:
        marks.update(languages * of_rare)
        for language in languages:
            scores[language] += 1 / len(languages)

    # A letter may be a name: it is a word beside others of its language. Capitals amid small letters are an abbreviation.
    for word in sorted(_LETTER_RUN.findall(text), key=len, reverse=True):
        if len(word) > 1 and word.isupper() and not text.isupper():
            continue
        languages = [name for name in of_word.get(word.lower(), ()) if name in of and (len(word) > 1 or name in scores)]
        words += bool(languages)
        # Long words are hardly those of others.
        count(languages, 2 if len(word) > _SHORT else 1)
    # Letters of names tell where no word does.
    letters = _CAPITALISED.sub("", text) if words else text
    for letter in frozenset(letters.lower()) & of_letter.keys():
        count([name for name in of_letter[letter] if name in of])
    return words, {
        name: score
        for name, score in scores.items()
        if name not in _RARE or name in expected or marks[name] >= _MARKS_OF_RARE
    }


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
