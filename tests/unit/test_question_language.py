"""The language of a question: short ones, in scripts, and where the conversation or the corpus must tell."""

from __future__ import annotations

import pytest
from pg_graphrag.model_access import fixed_sentences
from pg_graphrag.text.question_language import question_language

# A language and a question on each line.
QUESTIONS = [
    line.partition(" ")[::2]
    for line in """
en What is the budget?
en Who is Ada?
en How many machines?
en When was it built?
en list all plants
en What does 東京都庁 do?
en Why?
en Budget of Osaka Works?
en Kestrel
en 42
en RZ-500K?
en
en Compare A and B
en C language
en A
en O
de Wer gründete Siemens?
de Was kostet das?
de Was macht Siemens?
de Wie hoch ist das Budget?
de Wann wurde es gebaut?
de Wo liegt Berlin?
de Warum?
de Wie viele Maschinen?
de Welche Themen gibt es?
de Was ist die Hauptstadt?
de Wie heißt der Chef?
de Umsatz 2023
de Zusammenfassung bitte
fr Quel est le budget ?
fr Qui est Ada ?
fr Combien de machines ?
fr Où est Paris ?
fr Pourquoi ?
fr Quand a-t-il été construit ?
fr Quels sont les thèmes principaux ?
fr Qu'est-ce que c'est ?
fr Résumé
fr Y a-t-il des risques ?
fr Compare A et B
fr C'est vrai ?
es ¿Cuál es el presupuesto?
es ¿Quién es Ada?
es Cuantas maquinas hay?
es ¿Por qué?
es Cuando se construyo?
es ¿Dónde está Madrid?
es Que es esto?
es Háblame de Siemens
es Es verdad?
es Compara A y B
es Resumen
it Qual è il budget?
it Chi è Ada?
it Quante macchine?
it Dove si trova Roma?
it Perché?
it Quando è stato costruito?
it Che cos'è?
it Temi principali?
it Riassunto
pt Qual é o orçamento?
pt Quem é Ada?
pt Quantas máquinas há?
pt Onde fica Lisboa?
pt Por quê?
pt Quando foi construído?
pt O que é isso?
pt Temas principais?
pt Resumo
pt Compare A e B
nl Wat is het budget?
nl Wie is Ada?
nl Hoeveel machines zijn er?
nl Waar ligt Amsterdam?
nl Waarom?
nl Wanneer werd het gebouwd?
nl Welke thema's?
nl Omzet 2023
nl Samenvatting
nl Vergelijk A en B
nl Wie bezit Acme?
pl Jaki jest budżet?
pl Kto to jest Ada?
pl Ile maszyn?
pl Gdzie leży Kraków?
pl Dlaczego?
pl Kiedy został zbudowany?
pl Czy to działa?
pl Czy to prawda?
pl Opowiedz o Siemensie
pl Kim jest Smith?
pl Porównaj A i B
ru Какой бюджет?
ru Кто такая Ада?
ru Почему?
ru Что делает PostgreSQL?
ru Кто это?
ru Когда?
uk Хто така Ада і що вона зробила?
uk Чому це є?
uk Хто це?
uk Що це?
uk Коли?
uk Чи правда?
ja 予算はいくらですか？
ja エイダとは誰ですか
ja なぜ？
ja PostgreSQLの設定は？
zh 预算是多少？
zh 谁是艾达？
zh 为什么？
zh PostgreSQL怎么设置？
zh 这个项目的预算
zh-Hant 這個預算是多少？
zh-Hant 誰是艾達？
zh-Hant 為什麼？
zh-Hant 專案的預算是什麼？
ko 예산은 얼마입니까?
ko 왜?
ko PostgreSQL 설정은?
ar ما هي الميزانية؟
ar من هي آدا؟
ar لماذا؟
tr Bütçe nedir?
tr Ada kimdir?
tr Kaç makine var?
tr Neden?
tr Ne zaman yapıldı?
tr İstanbul nerede?
tr Acme kimin?
tr Özet
vi Ngân sách là gì?
vi Ada là ai?
vi Tại sao?
vi Có bao nhiêu máy?
vi Hà Nội ở đâu?
sv Vad är budgeten?
sv Vem är Ada?
sv Varför?
sv Omsättning 2023
sv Sammanfattning
cs Jaký je rozpočet?
cs Kdo je Ada?
cs Proč?
id Berapa anggarannya?
id Siapa Ada?
id Mengapa?
ro Care este bugetul?
ro Cine este Ada?
hu Mi a költségvetés?
hu Ki volt Ada?
fi Mikä on budjetti?
fi Kuka on Ada?
da Hvad er budgettet?
da Hvornår blev det bygget?
el Ποιος είναι ο προϋπολογισμός;
he מה התקציב?
hi बजट क्या है?
th งบประมาณเท่าไหร่
fa بودجه چقدر است؟ چه کسی
""".strip().splitlines()
]


@pytest.mark.parametrize(("language", "question"), QUESTIONS)
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
    ],
)
def test_what_a_question_leaves_open_others_tell(
    questions: list[str], known: str | None, context: str, language: str
) -> None:
    assert question_language(questions, known, context) == language


@pytest.mark.parametrize("language", sorted({language for language, _ in QUESTIONS}))
def test_each_language_has_sentences_of_its_own(language: str) -> None:
    assert (fixed_sentences.not_found(language) == fixed_sentences.not_found("en")) == (language == "en")
    assert (fixed_sentences.extracts_heading(language) == fixed_sentences.extracts_heading("en")) == (language == "en")
