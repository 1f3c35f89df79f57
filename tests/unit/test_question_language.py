"""The language of a question: short ones, in scripts, and where the conversation or the corpus must tell."""

import pytest
from pg_graphrag.text import prompts
from pg_graphrag.text.question_language import question_language

# By language, parted by bars.
QUESTIONS = {
    "en": "What is the budget? | Who is Ada? | How many machines? | When was it built? | list all plants | What does "
    "東京都庁 do? | Why? | Budget of Osaka Works? | Kestrel | 42 | RZ-500K? |  | Compare A and B | C language | A | O"
    " | What is São Paulo's budget? | Budget of Champs-Élysées project? | Who is the CEO of Müller GmbH?"
    " | Any discounts?",
    "de": "Wer gründete Siemens? | Was kostet das? | Was macht Siemens? | Wie hoch ist das Budget? | Wann wurde es "
    "gebaut? | Wo liegt Berlin? | Warum? | Wie viele Maschinen? | Welche Themen gibt es? | Was ist die "
    "Hauptstadt? | Wie heißt der Chef? | Umsatz 2023 | Zusammenfassung bitte"
    " | Kosten Projekt Alpha | Darf man rauchen? | Muss ich zahlen? | Passwort vergessen"
    " | Microsoft Teams Kosten pro Monat? | Kündigungsfrist",
    "fr": "Quel est le budget ? | Qui est Ada ? | Combien de machines ? | Où est Paris ? | Pourquoi ? | Quand a-t-il "
    "été construit ? | Quels sont les thèmes principaux ? | Qu'est-ce que c'est ? | Résumé | Y a-t-il des risques"
    " ? | Compare A et B | C'est vrai ?"
    " | Puis-je fumer ? | budget voyage 2024 | Existe-t-il une garantie ?",
    "es": "¿Cuál es el presupuesto? | ¿Quién es Ada? | Cuantas maquinas hay? | ¿Por qué? | Cuando se construyo? | "
    "¿Dónde está Madrid? | Que es esto? | Háblame de Siemens | Es verdad? | Compara A y B | Resumen"
    " | presupuesto de viajes | Puedo fumar? | Existe garantia? | Adobe Creative Cloud precio",
    "it": "Qual è il budget? | Chi è Ada? | Quante macchine? | Dove si trova Roma? | Perché? | Quando è stato "
    "costruito? | Che cos'è? | Temi principali? | Riassunto"
    " | Posso fumare? | Esiste una garanzia?",
    "pt": "Vocês têm desconto? | Qual é o orçamento? | Quem é Ada? | Quantas máquinas há? | Onde fica Lisboa? | Por quê? |"
    " Quando foi construído? | O que é isso? | Temas principais? | Resumo | Compare A e B"
    " | Posso pagar não? | Preciso de seguro? | Quanto custa o contrato?",
    "nl": "Wat is het budget? | Wie is Ada? | Hoeveel machines zijn er? | Waar ligt Amsterdam? | Waarom? | Wanneer werd"
    " het gebouwd? | Welke thema's? | Omzet 2023 | Samenvatting | Vergelijk A en B | Wie bezit Acme?"
    " | Mag ik roken? | Wat kost het contract?",
    "pl": "Jaki jest budżet? | Kto to jest Ada? | Ile maszyn? | Gdzie leży Kraków? | Dlaczego? | Kiedy został "
    "zbudowany? | Czy to działa? | Czy to prawda? | Opowiedz o Siemensie | Kim jest Smith? | Porównaj A i B",
    "ru": "Какой бюджет? | Кто такая Ада? | Почему? | Что делает PostgreSQL? | Кто это? | Когда?",
    "uk": "Хто така Ада і що вона зробила? | Чому це є? | Хто це? | Що це? | Коли? | Чи правда?",
    "ja": "予算はいくらですか？ | エイダとは誰ですか | なぜ？ | PostgreSQLの設定は？"
    " | 東京本社住所 | 会社概要 | 契約期間 | 予算額 | 山田太郎 役職 | 株式会社東京商事 売上高 | 経費精算方法 | 勤務時間",
    "zh": "预算是多少？ | 谁是艾达？ | 为什么？ | PostgreSQL怎么设置？ | 这个项目的预算"
    " | 公司地址 | 合同期限 | 张三是谁 | 销售额",
    "zh-Hant": "這個預算是多少？ | 誰是艾達？ | 為什麼？ | 專案的預算是什麼？"
    " | 公司預算 | 合約期限 | 誰是負責人 | 銷售額",
    "ko": "예산은 얼마입니까? | 왜? | PostgreSQL 설정은?",
    "ar": "ما هي الميزانية؟ | من هي آدا؟ | لماذا؟",
    "tr": "Bütçe nedir? | Ada kimdir? | Kaç makine var? | Neden? | Ne zaman yapıldı? | İstanbul nerede? | Acme kimin? |"
    " Özet",
    "vi": "Ngân sách là gì? | Ada là ai? | Tại sao? | Có bao nhiêu máy? | Hà Nội ở đâu?",
    "sv": "Vad är budgeten? | Vem är Ada? | Varför? | Omsättning 2023 | Sammanfattning"
    " | Finns det rabatt för studenter?"
    " | Får jag arbeta hemifrån på fredagar? | Har vi föräldraledighet? | Var lagras säkerhetskopiorna?"
    " | När går garantin ut? | Hur många anställda har företaget?",
    "no": "Hva er budsjettet? | Hvor mye kostet prosjektet i fjor? | Hvem signerte kontrakten?"
    " | Hvorfor ble broen stengt?"
    " | Hvor lagres sikkerhetskopiene? | Finnes det rabatt for studenter? | Har vi foreldrepermisjon?"
    " | Er det noen rabatt?"
    " | Hvor mange ansatte har selskapet? | Får jeg ta med hunden på kontoret? | Gi meg en oversikt over prosjektet"
    " | Kva er budsjettet? | Kor mykje kosta prosjektet? | Kven skreiv under kontrakten med Acme?"
    " | Kvifor vart brua stengd?"
    " | Kan eg arbeide heimanfrå på fredagar? | Finst det rabatt? | Korleis søkjer eg om ferie?"
    " | Kor er hovudkontoret?",
    "cs": "Mohu v pátek pracovat z domova? | Jaký je rozpočet? | Kdo je Ada? | Proč?",
    "id": "Berapa anggarannya? | Siapa Ada? | Mengapa?",
    "ro": "Care este bugetul? | Cine este Ada?",
    "hu": "Mennyibe kerül? | Mi a költségvetés? | Ki volt Ada?",
    "fi": "Kauanko takuu on voimassa? | Mikä on budjetti? | Kuka on Ada?"
    " | Voinko tehdä etätöitä? | Onko opiskelijoille alennusta?",
    "da": "Hvad er budgettet? | Hvornår blev det bygget? | Kan jeg arbejde hjemmefra om fredagen?"
    " | Findes der en kantine?"
    " | Er der rabat til studerende? | Hvor gemmes sikkerhedskopierne? | Hvem er Robert? | Må jeg tage min hund med?"
    " | Hvor mange ansatte har firmaet? | Hvem er direktør?",
    "el": "Ποιος είναι ο προϋπολογισμός;",
    "he": "מה התקציב?",
    "hi": "बजट क्या है? | निदेशक कौन है? | क्यों?",
    "th": "งบประมาณเท่าไหร่",
    "fa": "بودجه چقدر است؟ چه کسی | مدیر شرکت کیست؟ | قرارداد چند ساله است؟",
    "ur": "بجٹ کتنا ہے؟ | کمپنی کا مالک کون ہے؟ | کیوں؟",
    "be": "Які бюджэт? | Хто такая Ада? | Калі гэта пабудавалі?",
    "bg": "Какъв е бюджетът? | Коя е Ада? | Защо? | Кога е построен мостът? | Къде е София? | Има ли отстъпка?",
    "sr": "Колики је буџет? | Ко је Ада? | Зашто? | Где је Београд?",
    "mk": "Колкав е буџетот? | Кој е Ада? | Зошто? | Каде е Скопје? | Дали има попуст?",
    "kk": "Бюджет қандай? | Директор кім?",
    "hr": "Imamo li rodiljni dopust? | Mogu li raditi od kuće? | Koliki je proračun? | Tko je Ada? | Zašto?"
    " | Gdje je Zagreb? | Šta je budžet? | Ko je direktor? | Gde je Beograd?"
    " | Da li postoji popust? | Kada je izgrađen most?",
    "sl": "Kakšen je proračun? | Kdo in kje? | Zakaj? | Kdaj je bil zgrajen most? | Kje je Ljubljana?"
    " | Kolikšen je potni proračun za leto 2025?",
    "sk": "Aký je rozpočet? | Kto je Ada? | Prečo? | Kedy bol postavený most? | Koľko to stojí?",
    "ca": "Quin és el pressupost? | Qui és Ada? | Per què? | Quan es va construir? | On és Girona?"
    " | Quants empleats hi ha?",
    "lt": "Koks yra biudžetas? | Kas yra Ada? | Kodėl? | Kada buvo pastatytas tiltas? | Kur yra Vilnius?",
    "lv": "Kāds ir budžets? | Kas ir Ada? | Kāpēc? | Kad ir uzcelts tilts? | Kur ir Rīga? | Cik maksā?",
    "et": "Kus asub peakontor? | Kas ma tohin kodus töötada?"
    " | Milline on eelarve? | Kes on Ada? | Millal sild ehitati? | Kui palju see maksab?",
    "bn": "বাজেট কত? | আডা কে? | PostgreSQL কী করে?",
    "ka": "რა არის ბიუჯეტი? | ვინ არის ადა? | რატომ?",
    "hy": "Ո՞րն է բյուջեն։",
    "ta": "பட்ஜெட் என்ன? | அடா யார்?",
    "te": "బడ్జెట్ ఎంత?",
    "gu": "બજેટ કેટલું છે?",
    "pa": "ਬਜਟ ਕਿੰਨਾ ਹੈ?",
    "kn": "ಬಜೆಟ್ ಎಷ್ಟು?",
    "ml": "ബജറ്റ് എത്രയാണ്?",
    "mr": "बजेट किती आहे? | संचालक कोण आहे?",
    "ne": "बजेट कति छ? | निर्देशक को हो?",
}

# With words that are small words of a rare language, too.
OF_ANOTHER = {
    "ru": "Доход от продаж | Штраф за просрочку | Ответственность за нарушение договора | Скидка от объёма"
    " | Защита от пожара"
    " | Да | Доступ ко всем файлам | Кому дали скидку? | Бар на крыше | Расскажи про договор | Где та печать?",
    "hi": "हाँ या नहीं? | दिल्ली या मुंबई? | किन कंपनियों को छूट मिली? | Ada के बारे | दाम कम हो तो",
    "fr": "Qui va payer ? | Qui va signer le contrat ? | Ta réponse ?",
    "fa": "مدیر من | شرکت ما | هزینه‌های ما | حقوق کارکنان من",
    "pt": "Vai chover? | Vai haver desconto?",
    "ro": "Va plăti Acme?",
    "it": "Per quando va consegnato? | Quanto costa pro capite?",
    "sv": "Vad kostar pro?",
    "en": "Sam? | Ali? | Kari Nordmann | Tom Hansen's contract? | Hi | Hi, total budget? | CAL license cost"
    " | NAV calculation method | Dynamics NAV license | MIS report"
    " | KES exchange rate | KAM responsibilities | high res images | KO criteria | Saldo kas | Kur riski"
    " | Principals meeting | Is there a pro plan? | Do pro users pay? | Kas Ltd address?",
    "cs": "Kam jede vlak?",
    "de": "IT Kosten | Was kostet das pro Kurs?",
}


@pytest.mark.parametrize(
    ("language", "question"),
    [
        (name, text)
        for texts_of in (QUESTIONS, OF_ANOTHER)
        for name, texts in texts_of.items()
        for text in texts.split(" | ")
    ],
)
def test_a_short_question_tells_its_language(language: str, question: str) -> None:
    assert question_language([question]) == language


@pytest.mark.parametrize(
    ("questions", "known", "context", "language"),
    [
        (["Budget?", "Wer ist der Chef?"], None, "", "de"),
        (["Budget 2021?"], "de", "", "de"),
        (["Was Siemens?"], "de", "", "de"),
        (["Was Siemens?"], "fr", "", "en"),
        (["Who is it?"], "de", "Die Dokumente sind auf der Bank.", "en"),
        (["Budget?"], None, "El presupuesto de la casa es alto.", "es"),
        (["東京駅"], None, "これは文書です。", "ja"),
        (["東京駅"], "ja", "", "ja"),
        (["Kde je Brno?"], "sk", "", "sk"),
        (["Да", "Кто директор?"], None, "", "ru"),
        (["Qui va payer ?"], "fr", "", "fr"),
        (["CAL license cost"], "en", "", "en"),
        (["high res images"], "en", "", "en"),
        (["Miks?"], "et", "", "et"),
        (["Miks sild suleti?"], "et", "", "et"),
        (["Kes allkirjastas lepingu Acmega?"], None, "Leping on allkirjastatud ja see kehtib kolm aastat.", "et"),
        (["Je sleva pro studenty?"], "cs", "", "cs"),
        (["Mis facturas?"], None, "El presupuesto de la casa es alto.", "es"),
        (["Kas Ltd address?"], "en", "", "en"),
        (["Teilnehmer pro Kurs?"], "de", "", "de"),
        (["Reddito pro capite?"], None, "Il reddito della casa è alto.", "it"),
        (["Miks?", "Kus on Tallinn?"], None, "", "et"),
        (["Чаму?"], None, "Гэта дакумент, які напісала Ада.", "be"),
        (["कुठे?"], "mr", "", "mr"),
        (["Бюджет?"], "bg", "", "bg"),
        (["Kdo je Ada?"], None, "Dokument opisuje, kdo je bila Ada in kaj je naredila.", "sl"),
    ],
)
def test_what_a_question_leaves_open_others_tell(
    questions: list[str], known: str | None, context: str, language: str
) -> None:
    assert question_language(questions, known, context) == language


@pytest.mark.parametrize("language", sorted(QUESTIONS))
def test_each_language_has_sentences_of_its_own(language: str) -> None:
    for name in ("not_found", "extracts_heading", "no_model_heading"):
        assert (prompts.sentence(name, language) == prompts.sentence(name, "en")) == (language == "en")
