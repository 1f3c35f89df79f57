"""Sentences that take the place of a model's answer, in the language of the question where we have it, else in English."""

# Lines of a language (ISO 639-1, or zh-Hant) and its sentence.
_NOT_FOUND = """
en The documents do not answer this question.
ar لا تجيب المستندات عن هذا السؤال.
cs Dokumenty na tuto otázku neodpovídají.
da Dokumenterne besvarer ikke dette spørgsmål.
de Die Dokumente beantworten diese Frage nicht.
el Τα έγγραφα δεν απαντούν σε αυτή την ερώτηση.
es Los documentos no responden a esta pregunta.
fa اسناد به این پرسش پاسخ نمی‌دهند.
fi Asiakirjat eivät vastaa tähän kysymykseen.
fr Les documents ne répondent pas à cette question.
he המסמכים אינם עונים על שאלה זו.
hi दस्तावेज़ इस प्रश्न का उत्तर नहीं देते।
hu A dokumentumok nem adnak választ erre a kérdésre.
id Dokumen tidak menjawab pertanyaan ini.
it I documenti non rispondono a questa domanda.
ja 文書にはこの質問への答えがありません。
ko 문서에 이 질문에 대한 답이 없습니다.
nl De documenten beantwoorden deze vraag niet.
no Dokumentene besvarer ikke dette spørsmålet.
pl Dokumenty nie odpowiadają na to pytanie.
pt Os documentos não respondem a esta pergunta.
ro Documentele nu răspund la această întrebare.
ru В документах нет ответа на этот вопрос.
sv Dokumenten besvarar inte den här frågan.
th เอกสารไม่มีคำตอบสำหรับคำถามนี้
tr Belgeler bu soruyu yanıtlamıyor.
uk У документах немає відповіді на це запитання.
vi Các tài liệu không trả lời câu hỏi này.
zh 文档中没有这个问题的答案。
zh-Hant 文件中沒有這個問題的答案。
"""
_EXTRACTS_HEADING = """
en The model gave no answer that the documents bear out. These of their sentences are nearest to the question:
ar لم يقدّم النموذج إجابة تستند إلى المستندات. فيما يلي أقرب جملها إلى السؤال:
cs Model nedal odpověď, kterou by dokumenty dokládaly. Otázce jsou nejblíže tyto jejich věty:
da Modellen gav intet svar, som dokumenterne støtter. Disse af deres sætninger er nærmest spørgsmålet:
de Das Modell gab keine Antwort, die die Dokumente belegen. Diese ihrer Sätze kommen der Frage am nächsten:
el Το μοντέλο δεν έδωσε απάντηση που να στηρίζεται στα έγγραφα. Οι πλησιέστερες προτάσεις τους στην ερώτηση:
es El modelo no dio una respuesta respaldada por los documentos. Estas son sus frases más cercanas a la pregunta:
fa مدل پاسخی مستند به اسناد نداد. نزدیک‌ترین جمله‌های آن‌ها به پرسش:
fi Malli ei antanut vastausta, jota asiakirjat tukevat. Nämä niiden lauseet ovat lähimpänä kysymystä:
fr Le modèle n'a donné aucune réponse étayée par les documents. Voici leurs phrases les plus proches de la question :
he המודל לא נתן תשובה המבוססת על המסמכים. אלה משפטיהם הקרובים ביותר לשאלה:
hi मॉडल ने दस्तावेज़ों पर आधारित कोई उत्तर नहीं दिया। प्रश्न के सबसे निकट उनके ये वाक्य हैं:
hu A modell nem adott a dokumentumokkal alátámasztott választ. A kérdéshez legközelebbi mondataik:
id Model tidak memberikan jawaban yang didukung dokumen. Kalimat dokumen yang paling dekat dengan pertanyaan:
it Il modello non ha dato una risposta sostenuta dai documenti. Queste sono le loro frasi più vicine alla domanda:
ja モデルは根拠のある回答を返しませんでした。質問に最も近い文書の文です。
ko 모델이 문서에 근거한 답을 내놓지 않았습니다. 질문에 가장 가까운 문서의 문장입니다:
nl Het model gaf geen antwoord dat de documenten staven. Deze zinnen ervan liggen het dichtst bij de vraag:
no Modellen ga ikke noe svar som dokumentene støtter. Disse setningene i dem er nærmest spørsmålet:
pl Model nie dał odpowiedzi, którą potwierdzają dokumenty. Oto ich zdania najbliższe pytaniu:
pt O modelo não deu uma resposta sustentada pelos documentos. Estas são as frases deles mais próximas da pergunta:
ro Modelul nu a dat un răspuns susținut de documente. Acestea sunt propozițiile lor cele mai apropiate de întrebare:
ru Модель не дала ответа, который подтверждают документы. Вот их предложения, ближайшие к вопросу:
sv Modellen gav inget svar som dokumenten stöder. Dessa av deras meningar ligger närmast frågan:
th แบบจำลองไม่ได้ให้คำตอบที่เอกสารรองรับ ประโยคในเอกสารที่ใกล้กับคำถามที่สุดมีดังนี้:
tr Model, belgelerin desteklediği bir yanıt vermedi. Belgelerin soruya en yakın cümleleri:
uk Модель не дала відповіді, яку підтверджують документи. Ось їхні речення, найближчі до запитання:
vi Mô hình không đưa ra câu trả lời có căn cứ trong tài liệu. Đây là những câu gần với câu hỏi nhất:
zh 模型没有给出有依据的答案。以下是文档中与问题最接近的句子：
zh-Hant 模型沒有給出有依據的答案。以下是文件中與問題最接近的句子：
"""


def _by_language(lines: str) -> dict[str, str]:
    return {language: sentence for language, _, sentence in (line.partition(" ") for line in lines.strip().split("\n"))}


_not_found, _extracts_heading = _by_language(_NOT_FOUND), _by_language(_EXTRACTS_HEADING)
ALL_NOT_FOUND = frozenset(_not_found.values())


def not_found(language: str) -> str:
    """Return the sentence that says that the documents have no answer."""
    return _not_found.get(language, _not_found["en"])


def extracts_heading(language: str) -> str:
    """Return the line that says that no answer of a model held, and that sentences of the documents follow."""
    return _extracts_heading.get(language, _extracts_heading["en"])
