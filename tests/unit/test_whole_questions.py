"""Which questions ask for a whole collection, and which name something in it."""

from __future__ import annotations

import pytest
from pg_graphrag.text.whole_questions import asks_for_the_whole, speaks_of_a_whole

WHOLE = """
What are the main themes?
Give me an overview
What is this about?
Summarize everything
Summarise the documents.
What topics are covered?
What do these documents cover?
Provide a high-level summary
Can you give me a quick overview of the collection?
What are the key takeaways?
TL;DR
What is the corpus about?
Tell me what all of this is about
Which themes recur across the documents?
What are the main ideas of the text?
List the main topics
What does the data say overall?
Please summarize.
What is the gist?
In a few sentences, what is the content of the archive?
Worum geht es hier?
Worum geht es in den Dokumenten?
Was sind die wichtigsten Themen?
Gib mir einen Überblick
Fasse alles zusammen
Wovon handeln die Texte?
Zusammenfassung bitte
Welche Themen werden behandelt?
Was steht in den Dokumenten?
Um was geht es insgesamt?
Kannst du die Dokumente kurz zusammenfassen?
Was sind die Hauptthemen der Sammlung?
Quels sont les thèmes principaux ?
De quoi parlent ces documents ?
De quoi s'agit-il ?
Donne-moi un aperçu
Fais un résumé de l'ensemble
Résume tout
Quels sujets sont abordés ?
Donnez une vue d'ensemble des documents.
Quelles sont les grandes lignes ?
¿Cuáles son los temas principales?
¿De qué tratan los documentos?
Haz un resumen
Resume todo
Dame una visión general
Quali sono i temi principali?
Di cosa parlano i documenti?
Fammi un riassunto
Quais são os principais temas?
Sobre o que são os documentos?
Faça um resumo
Каковы основные темы?
О чём эти документы?
Дай краткий обзор
Wat zijn de belangrijkste onderwerpen?
Geef een samenvatting
主なテーマは
主なテーマは何ですか？
この文書は何について書かれていますか
全体を要約してください
概要を教えて
これらの資料の要点は？
何についての文書ですか
全体像を簡単に説明してください
どんなトピックが扱われていますか
要約して
文書全体の内容をまとめてください
这些文档讲了什么
这些文档讲了什么？
主要主题是什么？
总结一下所有内容
给我一个概述
请概括这些文件的主要内容
这个语料库是关于什么的？
有哪些主题？
主要讲了什么
這些文件說了什麼？
全文大意
请给我做个摘要
主要议题有哪些
"""
NAMED = """
Who broke the Enigma?
What is a topic?
What are topics?
How do I list topics?
How do I write a summary?
What is the primary key?
What are the main data types?
How to create an overview page
Explain the main idea of quantum mechanics
What is a theme park?
What does the document say about whales?
Who are the main characters?
What is the overview effect?
When is a GIN index better?
What is this tool about?
Which story is about Captain Nemo?
List all topics of Kafka
What is said about the travel budget?
What is an index?
How does it work?
What do I do?
Where is it?
What is the main server?
give me the password
What is in the Nautilus?
How do I summarize a table?
What is a document?
Was ist ein Thema?
Wie schreibe ich eine Zusammenfassung?
Was steht im Vertrag über Miete?
Wer schrieb die Dokumente?
Wie geht das?
Worum geht es bei Enigma?
Was ist der Inhalt von Paket 3?
Qui a écrit le résumé ?
Quel est le thème de la pièce Hamlet ?
De quoi parle Hamlet ?
Comment faire un résumé ?
¿De qué trata Don Quijote?
京都の主な産業は
ナウティルス号とは何ですか
東京の概要を教えて
日本国憲法の要点は？
猫は何について話しましたか
彼は何を書いたか
何ですか
これは何ですか
北京的主要景点是什么？
孔子讲了什么？
什么是主题？
红楼梦的主题是什么
他说了什么
第三章讲了什么
怎么写摘要
合同的主要内容是什么
"""


@pytest.mark.parametrize("question", WHOLE.strip().splitlines())
def test_a_question_of_the_whole_is_known_in_other_words(question: str) -> None:
    assert asks_for_the_whole(question)


@pytest.mark.parametrize("question", NAMED.strip().splitlines())
def test_a_plain_question_is_none_of_the_whole(question: str) -> None:
    assert not asks_for_the_whole(question)


@pytest.mark.parametrize(
    ("question", "speaks"),
    [
        ("What threads run through these stories?", True),
        ("Who cracked the cipher device of Germany?", False),
        ("Wer knackte die deutsche Chiffre?", False),
        ("誰が暗号を破ったか", False),
        ("この物語を貫くものは", True),
        # Of these languages nothing is known here.
        ("Vilka huvudteman finns?", True),
        ("주요 주제는 무엇인가요?", True),
    ],
)
def test_what_else_may_ask_for_the_whole_speaks_of_it(question: str, speaks: bool) -> None:
    assert speaks_of_a_whole(question) is speaks
    assert not asks_for_the_whole("overview " * 100)
