"""Questions about a whole collection, which name nothing in it: "What is this about?", "主なテーマは"."""

import re
import unicodedata
from functools import cache
from typing import NamedTuple

from pg_graphrag.text.languages import HAN, KANA
from pg_graphrag.text.words.search_terms import stop_words_of

# What texts are about; who asks for that in one word; the texts; what they do; what stands beside these. Words are beginnings.
_SUBJECT = (
    "theme thema themen topic subject idea point message takeaway motif strand gist essence content hauptth hauptaussag"
    " kernaussag kernpunkt kernthem schwerpunkt inhalt leitmotiv leitgedank gegenstand hauptinhalt thème sujet idée contenu"
    " propos fil grandes tema temi asunto contenido argomenti argomento contenut assunto conteúdo ideia тема темы темах"
    " содержани мысл иде onderwerp inhoud"
)
_SUMMARY = (
    "overview summar recap synopsis digest tldr überblick übersicht zusammenfass fasse fass gesamtbild aperçu résum synthès"
    " survol ensemble resum visión panoram síntesis panoramica riassu sintesi sintetizza visão síntese sintetize обзор резюм"
    " обобщ overzicht samenvat"
)
_TEXTS = (
    "document text corpus collection dataset data material file archive article page story stories everything all entire"
    " whole this these dokument sammlung korpus datei unterlagen artikel alles allem ganze gesamt hier ceci tout ensemble"
    " fichier recueil insgesamt documento texto todo todos toda colección archivo documenti testo testi tutto raccolta tudo"
    " coleção документ текст все это этих здесь эти documenten teksten alle dit"
)
_SAYS = (
    "about cover discuss deal contain say tell address describe include geht handel behandel steht enthält enthalten drin"
    " parle traite abord agit trata tratan contiene contienen habla hablan parla parlano tratta trattano fala falam contém"
    " gaat говор расск сказ идет посвящ речь"
)
_BESIDE = (
    "main key major principal central common overall general big important high level broad brief short quick top recurring"
    " overarching primary dominant chief core give show list outline explain present wichtig zentral wesentlich kurz grob"
    " allgemein haupt groß gib zeig nenne liste beschreib principa général grand donne fais faire montre court bref brève"
    " importante clave da dame muestra lista breve haz principali importanti dammi fammi chiave principais faça dê geral"
    " основн главн важн кратк общ дай покажи belangrijk geef kort hoofd please bitte quoi que worum wovon di cosa você vue"
    " lignes gros zusammen provide could sentence word few recur across quel quelle cuál qual kannst können peux pouvez"
    " puedes principaux quais são quali sono каков каки сделай чем"
)


class _Words(NamedTuple):
    """Which kinds of words a question has; `others`: whether it has any besides."""

    subject: bool
    summary: bool
    texts: bool
    says: bool
    beside: bool
    others: bool


# Of a question that asks how to make one, or what such a thing is, the whole is not asked.
_HOW = re.compile(
    r"(?:how|why|when|where|who|wie|warum|wann|wo|wer|comment|pourquoi|quand|où|qui|cómo|come|como|как)\b"
)
_WHAT_IS_A = re.compile(
    r"(?:(?:what is|was ist|qu'est-ce qu'?|qué es|che cos'?è|o que é) ?(?:an?|eine?|une?|una|uno|um|uma)(?: \w+)?"
    r"|what are|was sind|что такое) \w+\W*|(?:什么是|什麼是|何为).*|.*とは(?:何|なん).*"
)
# These ask for it with a word for the texts, or for what they do, alone.
_OF_WHAT = re.compile(r"(?:worum|wovon|um was|de quoi|¿?de qué|di (?:che )?cosa|do que|sobre o que|о чем|waar)\b")
_THE = re.compile(r"\b(?:the|das|die|der|le|la|les|el|los|las|il|i|gli|o|os|as|this|these|dieses?r?|its?) \w*$")

_WORD = re.compile(r"[^\W_]+")
# Characters of a question that names nothing.
_LONGEST = 300

# In Han and kana: what asks for the whole, and what may stand beside it.
_ASKS = (
    r"(?:主要な|主要|主な|主|核心|中心|重要な|おもな|全体の|大きな|共通の|几个|哪些|什么|关键)*(?:的|の)?"
    r"(?:テーマ|トピック|話題|論点|主題|要点|内容|主旨|趣旨|主题|主題|议题|議題|话题|話題|观点|觀點|思想|重点|重點|大意|中心思想)"
    r"|概要|要約|要旨|あらまし|あらすじ|サマリー?|まとめ|全体像|概観|俯瞰|概述|概括|概览|概覽|概况|总结|總結|摘要|综述|綜述|归纳|歸納|总览"
    r"|(?:何|なに|なん)(?:について|の話|が書|を扱|に関)"
    r"|(?:讲|講|说|說|谈|談|写|寫|介绍|介紹|涉及|讨论|討論|包含|关于|關於|有关|讲述|講述|叙述|描述|有)(?:了|的|到)?(?:是|些|哪些)*(?:什么|什麼|啥)"
)
_ABOUT_THE_TEXTS = (
    r"文書|文章|ドキュメント|資料|テキスト|コーパス|コレクション|データ|記事|全部|全体|すべて|全て|これら?|この|ここ|それら?"
    r"|文档|文檔|文件|资料|文本|文献|語料|语料|数据|集合|全文|所有|整个|整個|整体|整體|这些?|這些?|一切|本文|这里|這裡|它们|他们|库"
)
_FILLERS = (
    r"[はがをのにでとも、。？！?!・,.\s]|について|には|では|とは|から|する|して|した|され|さ?れて|いる|います|いますか|ますか|です|でしょう|か"
    r"|ください|下さい|くれ|教え|おしえ|挙げ|示し|説明|述べ|書か|書いて|語っ|扱|われ|って|てい|ある|あり|どんな|どのような|どういう|何|なに|なん"
    r"|簡単|簡潔|短く|的に?|一言|主に|大まか|ざっくり|もの|こと|話|た|て|ま|す|し|れ|い|る|ら|り|く|だ|お|ご|願"
    r"|的|是|有|了|个|吗|嗎|呢|吧|啊|一下|一个|個|给|給|我|我们|你|请|請|帮|幫|能|可以|做|下|都|主要|中|里|裡|上|简要|簡要|简单|簡單|大概|大致|到底"
    r"|究竟|哪些|什么|什麼|关于|關於|告诉|告訴|列出|描述|说明|說明|介绍|介紹|对|對|进行|整理|内容|份|篇|批|些"
)


@cache
def _cjk() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return patterns of the script, of what asks, and of all that may stand in such a question; compiled on first use."""
    return (
        re.compile(f"[{HAN}{KANA}]"),
        re.compile(_ASKS),
        re.compile(f"{_ASKS}|{_ABOUT_THE_TEXTS}|{_FILLERS}"),
    )


@cache
def _beginnings() -> tuple[re.Pattern[str], ...]:
    """Return patterns of the kinds of words, in the order of `_Words`."""
    kinds = (_SUBJECT, _SUMMARY, _TEXTS, _SAYS, _BESIDE)
    # A short one is a word by itself.
    return tuple(
        re.compile("|".join(f"{word}\\w{{0,5}}" if len(word) > 3 else rf"{word}s?" for word in words.split()))
        for words in kinds
    )


def _words(question: str) -> _Words:
    kinds = [False] * 6
    for word in _WORD.findall(question):
        are = [pattern.fullmatch(word) is not None for pattern in _beginnings()]
        kinds = [
            before or now for before, now in zip(kinds, (*are, not any(are) and word not in _stop_words()), strict=True)
        ]
    return _Words(*kinds)


@cache
def _stop_words() -> frozenset[str]:
    names = ("english", "german", "french", "spanish", "italian", "portuguese", "russian", "dutch")
    return frozenset().union(*map(stop_words_of, names))


_SAME = str.maketrans({"’": "'", "ё": "е", ";": None})


def _plain(question: str) -> str:
    return unicodedata.normalize("NFKC", question).strip().casefold().translate(_SAME)


def asks_for_the_whole(question: str) -> bool:
    """Whether a question says nothing but that it asks for the whole."""
    text = _plain(question)
    if len(text) > _LONGEST or _WHAT_IS_A.fullmatch(text):
        return False
    script, asks, parts = _cjk()
    if script.search(text):
        return asks.search(text) is not None and not parts.sub("", text)
    words = _words(text)
    if words.others:
        return False
    if _HOW.match(text):
        return words.summary and words.texts
    has_article = any(
        _THE.search(text[: word.start()]) for word in _WORD.finditer(text) if _beginnings()[0].fullmatch(word[0])
    )
    is_of_subject = words.subject and (words.texts or words.beside or words.says or has_article)
    is_of_texts = (words.texts or words.says) and (words.texts is words.says or _OF_WHAT.match(text) is not None)
    return is_of_subject or words.summary or is_of_texts


def speaks_of_a_whole(question: str) -> bool:
    """Whether a question has a word for the texts as a whole or what they are about, or is in a language not known here."""
    text = _plain(question)
    script, asks, _ = _cjk()
    if script.search(text):
        return asks.search(text) is not None or re.search(_ABOUT_THE_TEXTS, text) is not None
    words = _words(text)
    # So what?
    is_empty = not words.others
    return is_empty or words.subject or words.summary or words.texts or _stop_words().isdisjoint(_WORD.findall(text))
