"""Answers where a corpus has no model: sentences of the documents, in every mode, and what the documents do not answer."""

from typing import Any

import pytest
from pg_graphrag.search import modes

from tests.runtime.cluster import Database
from tests.sql.asking import as_reader, ask, stream, warnings
from tests.sql.ingest import index_all, put, refused, searched_corpus, work

HEADING = "No model wrote this. These sentences of the documents are nearest to the question:"
NOT_FOUND = "The documents do not answer this question."
ROCKETS = {
    "ann": "Ann Lee founded Acme Rockets in Osaka in 1999. Acme Rockets builds small launchers.",
    "bob": "Bob Stone is the chief engineer of Acme Rockets. He designed the Kestrel engine.",
    "kes": "The Kestrel engine burns methane. It first flew on the Heron launcher in 2011.",
}
TITLES = {"ann": "Ann Lee", "bob": "Bob Stone", "kes": "Kestrel"}
MODES = [mode.name for mode in modes.all_modes()]
QUESTION = "Who designed the Kestrel engine?"


def titled(db: Database, texts: dict[str, str], titles: dict[str, str], **options: Any) -> str:
    corpus = searched_corpus(db, **options)
    for key, text in texts.items():
        put(db, corpus, key, text, titles.get(key))
    work(db)
    return corpus


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    return titled(module_db, ROCKETS, TITLES, communities=True)


def said(answer: str, heading: str = HEADING) -> list[str]:
    """The sentences of an answer, without their numbers."""
    first, empty, *lines = answer.splitlines()
    assert (first, empty) == (heading, "")
    return [line.removeprefix("- ").rpartition(" [")[0] for line in lines]


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_answers(module_db: Database, corpus: str, mode: str) -> None:
    with warnings(module_db) as messages:
        answer, citations, usage, context = ask(module_db, QUESTION, corpus, mode=mode)
    assert any(line.endswith("He designed the Kestrel engine.") for line in said(answer)[:3])
    assert "bob" in {citation["source_key"] for citation in citations}
    assert {citation["number"] for citation in citations} <= {each["number"] for each in context["references"]}
    assert (usage["answer"], usage["reason"], usage["calls"], messages) == ("extracts", "no model", 0, [])
    assert "".join(stream(module_db, QUESTION, corpus, mode=mode)) == answer


def test_a_question_of_two_steps_has_both_in_order(module_db: Database, corpus: str) -> None:
    answer, *_ = ask(module_db, "Which company does the designer of the Kestrel engine work for?", corpus)
    first, *others = said(answer)
    assert first == "He designed the Kestrel engine."
    assert "Bob Stone is the chief engineer of Acme Rockets." in others[:2]


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("What is the population of the state that Dodge Airport lies in?", "Some 2,913,123 live in the state today."),
        ("Who governs the state that Dodge Airport lies in?", "Laura Kelly leads the state today."),
        ("When was the state that Dodge Airport lies in founded?", "By 1861 the state had a parliament."),
    ],
)
def test_after_the_first_what_the_question_asks_for_comes_first(module_db: Database, question: str, found: str) -> None:
    kansas = (
        "Wheat and oil made the state rich. Plains cover the state from end to end. Laura Kelly leads the state today. "
        "Some 2,913,123 live in the state today. By 1861 the state had a parliament."
    )
    texts = {"dodge": "Dodge Airport lies in Kansas.", "kansas": kansas}
    corpus = titled(module_db, texts, {"dodge": "Dodge Airport", "kansas": "Kansas"})
    answer, *_ = ask(module_db, question, corpus)
    assert said(answer)[:2] == ["Dodge Airport lies in Kansas.", found]


def test_what_a_follow_up_asks_for_counts_and_not_what_was_asked_before(module_db: Database) -> None:
    kansas = (
        "Wheat and oil made the state rich. Some 2,913,123 live in the state today. Laura Kelly leads the state today."
    )
    texts = {"dodge": "Dodge Airport lies in Kansas.", "kansas": kansas}
    corpus = titled(module_db, texts, {"dodge": "Dodge Airport", "kansas": "Kansas"})
    history = [
        {"role": "user", "content": "How many planes are there?"},
        {"role": "assistant", "content": "The documents do not say."},
    ]
    answer, *_ = ask(module_db, "Who governs the state that Dodge Airport lies in?", corpus, history=history)
    assert said(answer)[:2] == ["Dodge Airport lies in Kansas.", "Laura Kelly leads the state today."]


@pytest.mark.parametrize("mode", ["hybrid", "bm25", "graph_global", "lazy"])
def test_what_the_documents_do_not_answer_is_said(module_db: Database, corpus: str, mode: str) -> None:
    answer, citations, usage, _ = ask(module_db, "Who won the match on Sunday?", corpus, mode=mode)
    assert (answer, citations) == (NOT_FOUND, [])
    assert "".join(stream(module_db, "Who won the match on Sunday?", corpus, mode=mode)) == NOT_FOUND
    assert usage["calls"] == 0


@pytest.mark.parametrize("model", ["all-MiniLM-L6-v2", "multilingual-e5-small"])
def test_small_words_of_its_language_do_not_make_a_question_strange(module_db: Database, model: str) -> None:
    texts = {
        "T-1": "Im März wurde die Telefonanlage auf VoIP umgestellt.",
        "T-2": "Der Drucker im zweiten Stock druckt leere Seiten.",
        "T-3": "Das VPN bricht alle zehn Minuten ab.",
    }
    corpus = index_all(module_db, searched_corpus(module_db, embedding={"model": model}), texts)
    _, (first, *_), *_ = ask(module_db, "Was hat sich im März geändert?", corpus)
    assert first["source_key"] == "T-1"
    not_found = "Die Dokumente beantworten diese Frage nicht."
    assert ask(module_db, "Wie wird das Wetter morgen in Rom?", corpus)[0] == not_found


@pytest.mark.parametrize(
    ("texts", "question", "other", "elsewhere"),
    [
        (
            "Das VPN bricht ab.|Der Drucker druckt leere Seiten.|Herr Weber zog in den zweiten Stock.|Frau Nowak hat Urlaub."
            "|Die Kantine schließt früher.|Toner wurde bestellt.",
            "Was hat sich im März geändert?",
            "Wer hat im März das Spiel gewonnen?",
            "Was hat sich im Juli geändert?",
        ),
        (
            "The VPN is down.|The printer prints empty pages.|Mr Weber moved to the second floor.|Ann Nowak is on leave."
            "|The canteen closes at two.|Toner was ordered.",
            "What happened in March?",
            "Who won the match in March?",
            "What happened in July?",
        ),
        (
            "VPNが切れる。|プリンターが白紙を出す。|山田さんが二階へ移った。|伊藤さんは休暇を取る。|食堂は二時に閉まる。|トナーを注文した。",
            "3月に何がありましたか？",
            "3月の試合は誰が勝ちましたか？",
            "7月に何がありましたか？",
        ),
    ],
)
def test_a_month_is_answered_by_documents_of_it(
    module_db: Database, texts: str, question: str, other: str, elsewhere: str
) -> None:
    corpus = searched_corpus(module_db)
    for month, text in enumerate(texts.split("|"), 1):
        sql = "INSERT INTO graphrag.documents (corpus, source_key, content, valid_from) VALUES (%s, %s, %s, %s)"
        module_db.execute(sql, [corpus, str(month), text, f"2024-{month:02}-10"])
    work(module_db)
    line = ask(module_db, question, corpus)[0].splitlines()[2]
    assert texts.split("|")[2] in line
    assert [ask(module_db, each, corpus)[1] for each in (other, elsewhere)] == [[], []]


COMPANY = (
    "星河科技有限公司于2005年6月在深圳市南山区注册成立，注册资本五千万元，现有员工三百二十人，其中研发人员占百分之四十。"
    "董事长为陈建国，总经理由王伟担任，财务总监为李娜。公司的主要产品包括智能手表以及面向养老机构的健康监测系统。"
)


@pytest.mark.parametrize(
    ("question", "word"), [("总经理是谁?", "王伟"), ("公司在哪里？", "深圳"), ("財務總監是誰？", "李娜")]
)
def test_a_short_question_is_answered_by_a_clause_of_a_long_text(module_db: Database, question: str, word: str) -> None:
    corpus = titled(module_db, {"company": COMPANY, "room": "会议室由行政部统一管理，使用前须在系统中预约。"}, {})
    answer, citations, *_ = ask(module_db, question, corpus)
    assert word in answer and "company" in {citation["source_key"] for citation in citations}
    assert ask(module_db, "厨师是谁？", corpus)[1] == []


def test_before_a_worker_has_run_it_is_said_that_nothing_is_indexed(module_db: Database) -> None:
    corpus = searched_corpus(module_db)
    put(module_db, corpus, "ann", ROCKETS["ann"])
    with warnings(module_db) as messages:
        ask(module_db, QUESTION, corpus)
    assert ["there is no indexed text to search" in message for message in messages] == [True]


def test_a_question_about_the_whole_has_a_sentence_of_each_theme(module_db: Database, corpus: str) -> None:
    answer, citations, _, context = ask(module_db, "What are the main themes?", corpus, mode="graph_global")
    lines = said(answer)
    assert len(lines) == len(context["reports"]) == 3
    assert {citation["source_key"] for citation in citations} == set(ROCKETS)
    assert any(line.endswith(": Ann Lee founded Acme Rockets in Osaka in 1999.") for line in lines)


def test_themes_are_named_in_answers_about_the_whole_alone(module_db: Database, corpus: str) -> None:
    answer, *_ = ask(module_db, "Who founded Acme Rockets?", corpus, mode="graph_global")
    assert said(answer)[0] == ROCKETS["ann"].partition(". ")[0] + "."


def test_a_conversation_is_given_by_what_is_said_at_a_time(module_db: Database) -> None:
    corpus = searched_corpus(module_db)
    chat = "\n".join(
        [
            "Time: 20260206_16:00",
            "LiHua: Hey Jennifer! Do you have any tips for muscle soreness?",
            "JenniferMoore: Hey Li Hua! Stay hydrated, and stretch. Foam rolling helps, too!",
            "LiHua: Thanks! I will try that tonight.",
            "JenniferMoore: Great! Tell me how it goes.",
        ]
    )
    index_all(module_db, corpus, {"chat": chat})
    answer, *_ = ask(module_db, "What tips does Jennifer Moore give for muscle soreness?", corpus)
    assert "JenniferMoore: Hey Li Hua! Stay hydrated, and stretch. Foam rolling helps, too!" in said(answer)[:3]


def test_what_one_says_at_a_time_may_have_several_lines(module_db: Database) -> None:
    corpus = searched_corpus(module_db)
    chat = "\n".join(
        [
            "Time: 20260106_09:00",
            "LiHua: Hey Adam! Are there any house rules that I should know about?",
            "AdamSmith: Sure! The Wi-Fi password is on the fridge.",
            "",
            "Please keep noise to a minimum during late hours.",
            "LiHua: Got it, thanks! I will keep it down.",
        ]
    )
    index_all(module_db, corpus, {"chat": chat})
    answer, *_ = ask(module_db, "Which house rules does Adam Smith have for late hours?", corpus)
    rules = "AdamSmith: Sure! The Wi-Fi password is on the fridge. Please keep noise to a minimum during late hours."
    assert rules in said(answer)


VOTES = "\n".join(
    [
        "Emily: Who do you think is the most hateable character in Game of Thrones? Vote away!",
        "Niamh: I always found Joffrey the most hateable character in Game of Thrones by far.",
        "Orion: Ramsay is the most hateable character in Game of Thrones in my opinion.",
        "MerrickStone: Cersei is the most hateable character in Game of Thrones, with her manipulative ways.",
    ]
)


@pytest.mark.parametrize(
    ("names", "first"),
    [
        ("Niamh, and not for Orion", "Niamh: "),
        ("Orion, and not for Niamh", "Orion: "),
        ("Merrick Stone, and not for Niamh", "MerrickStone: "),
    ],
)
@pytest.mark.parametrize("before", ["", "What did Emily say?\n"])
def test_whom_the_question_names_first_is_heard_first(module_db: Database, names: str, first: str, before: str) -> None:
    corpus = index_all(module_db, searched_corpus(module_db), {"votes": VOTES})
    answer, *_ = ask(module_db, f"{before}Who is the most hateable character in Game of Thrones for {names}?", corpus)
    assert said(answer)[0].startswith(first)


@pytest.mark.parametrize(
    ("text", "question", "heading", "found"),
    [
        (
            "Die Kestrel ist ein Triebwerk. Sie wurde von Bob Stein in Bremen entworfen. Sie verbrennt Methan.",
            "Wer hat die Kestrel entworfen?",
            "Dies hat kein Modell geschrieben. Diese Sätze der Dokumente kommen der Frage am nächsten:",
            "Sie wurde von Bob Stein in Bremen entworfen.",
        ),
        (
            "ケストレルは大阪の工場で作られたエンジンである。設計したのは田中一郎である。燃料はメタンである。",
            "ケストレルを設計したのは誰ですか。",
            "これはモデルが書いた文章ではありません。質問に最も近い文書の文です。",
            "設計したのは田中一郎である。",
        ),
        (
            "红隼是在大阪工厂制造的发动机。它由王小明设计。它以甲烷为燃料。",
            "红隼发动机是谁设计的？",
            "以下内容并非由模型撰写，而是文档中与问题最接近的句子：",
            "它由王小明设计。",
        ),
    ],
)
def test_other_languages_have_answers(module_db: Database, text: str, question: str, heading: str, found: str) -> None:
    corpus = index_all(module_db, searched_corpus(module_db), {"one": text})
    answer, *_ = ask(module_db, question, corpus)
    assert found in said(answer, heading)[:3]


def test_rows_of_a_table_answer(db: Database) -> None:
    corpus = searched_corpus(db)
    db.execute("CREATE TABLE machines (id text PRIMARY KEY, name text, built date, works text)")
    db.execute(
        "INSERT INTO machines VALUES ('m1', 'Kraken press', '1999-05-01', 'Osaka'), ('m2', 'Heron lathe', '2011-02-03', 'Kobe')"
    )
    db.execute(
        "SELECT graphrag.attach_entities('machines', %s, '{id}', 'name', type => 'machine', attributes => '{built,works}')",
        [corpus],
    )
    work(db)
    answer, citations, *_ = ask(db, "When was the Kraken press built?", corpus)
    assert "1999-05-01" in said(answer)[0]
    assert citations[0]["key"] == "m1"


def test_the_heads_of_a_table_answer_nothing_by_themselves(module_db: Database) -> None:
    prices = "| Name | Price |\n|---|---|\n| Hammer | 12 EUR |\n| Saw | 19 EUR |"
    corpus = titled(module_db, {"prices": prices, "bare": "| Name | Weight |\n|---|---|"}, {"prices": "Price list"})
    for question in ("Name and price?", "What is the price of a saw?"):
        lines = said(ask(module_db, question, corpus)[0])
        assert "Name: Saw; Price: 19 EUR" in lines
        assert not any(line.startswith("Name | Price") for line in lines)
    # Where a table has no rows, its heads are all that it says.
    assert said(ask(module_db, "Name and weight?", corpus)[0])[0].startswith("Name | Weight")


def test_rows_of_a_table_in_a_text_say_their_heads(module_db: Database) -> None:
    table = (
        "# Kunden\n\n| Kunde | Ort | Ansprechpartner |\n| --- | --- | --- |\n"
        "| BASF SE | Ludwigshafen | Sabine Köhler |\n| Siemens AG |  | Klaus Weber |"
    )
    corpus = titled(module_db, {"table": table}, {"table": "Kunden"})
    answer, *_ = ask(module_db, "Wer ist Ansprechpartner der Siemens AG?", corpus)
    assert "- Kunde: Siemens AG; Ansprechpartner: Klaus Weber [1]" in answer.splitlines()


def test_near_copies_are_given_once(module_db: Database) -> None:
    texts = {f"copy{number}": f"Bob Stone designed the Kestrel engine in the year 200{number}." for number in range(4)}
    corpus = titled(module_db, texts, {})
    lines = said(ask(module_db, QUESTION, corpus)[0])
    assert len(lines) == 1


def test_a_reader_has_sentences_of_what_he_may_see(db: Database) -> None:
    corpus = titled(db, ROCKETS, TITLES)
    db.execute("ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY")
    db.execute("CREATE POLICY open ON graphrag.documents FOR SELECT TO graphrag_reader USING (source_key <> 'bob')")
    with as_reader(db):
        answer, *_ = ask(db, QUESTION, corpus)
    assert "He designed" not in answer


def test_a_context_without_references_needs_a_model(module_db: Database, corpus: str) -> None:
    for function in ("ask", "ask_stream"):
        call = f"""SELECT graphrag.{function}('{QUESTION}', %s, options => '{{"include_chunks": false}}')"""
        diag = refused(module_db, call, corpus)
        assert diag.sqlstate == "55000"
        assert "set_provider" in (diag.message_hint or "")
    estimated = module_db.execute("SELECT calls, tokens_in, cost FROM graphrag.estimate_ask('x', %s)", [corpus])
    assert estimated.fetchall() == [(0, 0, 0)]
