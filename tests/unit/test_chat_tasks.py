"""Which messages of chat programs are for the model alone: those about the conversation, and no question of a person."""

import pytest

pytest.importorskip("fastapi")
from pg_graphrag.beside.serve.protocols.chat import Message, _Cut, _is_task, _latest, _parts

OPEN_WEBUI = (
    "### Task:\nSuggest 3 follow-ups.\n### Output:\nJSON\n### Chat History:\n<chat_history>\nUSER: a\n</chat_history>"
)
TASKS = [
    OPEN_WEBUI,
    "Provide a concise, 5-word-or-less title for the conversation, using title case. Only return the title.\n\nConversation:\nx",
    "Please generate a concise title (max 40 characters) for a conversation that starts with:\nUser: x",
    "Analyze this conversation and provide:\n1. The detected language of the conversation\n2. A concise title in it",
    "Please generate a four to five word title summarizing our conversation without any lead-in, punctuation, or symbols.",
    "Based on the chat history, give this conversation a name.\nKeep it short.",
    "Generate a title for this chat in 5 words or less.",
    "Suggest tags for the conversation",
    "### Task:\nSummarize the conversation history that will be compacted out of the active chat context.\n\n-",
    "Your task is to reflect the speaker's likely facial expression through a fitting emoji.\n\nMessage: ```Hi```",
    'You have been provided with a set of responses from various models to the latest user query: "Who?"',
]
QUESTIONS = [
    "What is the title of the conversation between Ann and Bob?",
    "Give the title of the conversation between Ann and Bob in the 2011 archive.",
    "Provide the title of the discussion paper.",
    "Write a summary of the discussion.",
    "Generate a title for a story about the Kestrel.",
    "Based on the documents, who titled the chat log?",
    "Summarize the conversation of Ann with Bob.",
    "Provide a list of the titles discussed in the conversation with the auditors",
    "Give me the title of the chat.py module",
    "### Task:\nRespond to the user query using the provided context.\n<context>a</context>",
    "### Task:\nSummarize the history of the Kestrel engine.",
    "Your task is to name the designer of the Kestrel engine.",
    "You have been provided with an engine. Who designed it?",
    "Who designed the Kestrel engine?",
    "会話のタイトルは何ですか",
]
TITLING = [
    "You are a conversation summarizer. Generate a concise title that captures the essence of the conversation.",
    "You are a chat thread titling assistant.",
    "You generate short, clear titles for new chat sessions.",
    'Available Tools: [{"name": "a"}'
    + ", {}" * 999
    + "]\n\nYour task is to choose and return the correct tool(s) from the list.",
    "你是一名擅长会话的助理，你需要将用户的会话总结为 10 个字以内的标题",
]
TELLING = [
    "You are a helpful assistant.",
    "You answer questions for the chat of Acme. Use titles for headings.",
    "Cite the title of each document in the conversation.",
    "Create a title for each answer in the conversation.",
    "Always write the title of the document that the conversation is about.",
    "Available Tools: none. Your task is to choose the right document.",
]


@pytest.mark.parametrize("text", TASKS)
def test_what_a_program_asks_about_the_conversation_is_a_task(text: str) -> None:
    assert _is_task(Message("user", text), [])


@pytest.mark.parametrize("text", QUESTIONS)
def test_what_a_person_asks_is_a_question(text: str) -> None:
    assert not _is_task(Message("user", text), TELLING)


def test_a_system_message_may_make_a_task_of_it() -> None:
    assert all(_is_task(Message("user", "Hello"), [text]) for text in TITLING)
    assert not any(_is_task(Message("user", "Hello"), [text]) for text in TELLING)
    assert _is_task(Message("system", "Summarize the discussion in 200 words."), [])


def test_of_a_long_conversation_the_latest_turns_are_read() -> None:
    turns = [Message(role, f"{number} " + "x" * 1000) for number in range(100) for role in ("user", "assistant")]
    latest = _latest(turns)
    assert latest[0]["role"] == "user"
    assert latest[-1] == {"role": "assistant", "content": turns[-1].text}
    assert 30_000 < sum(len(turn["content"]) for turn in latest) <= 32_768
    assert [turn["content"][:3] for turn in _latest([Message("user", "b" * 99_999)])] == ["bbb"]
    # Sources below an answer are no part of it.
    assert _latest([Message("assistant", "Ada [1].\n\n---\n[1] [Ada](http://a/#/b)")]) == [
        {"role": "assistant", "content": "Ada [1]."}
    ]


def test_the_text_ends_before_a_word_to_stop_at_however_it_comes() -> None:
    for size in (1, 2, 3, 50):
        cut = _Cut(["STOP", "\n\n"], None)
        text = "One ST two\nSTO STOP three"
        given = "".join(cut.feed(text[place : place + size]) for place in range(0, len(text), size)) + cut.finish()
        assert (given, cut.reason) == ("One ST two\nSTO ", "stop")
    cut = _Cut([], 1)
    assert (cut.feed("héllo wörld") + cut.finish(), cut.reason) == ("héllo w", "length")
    cut = _Cut(["STOP"], 100)
    assert (cut.feed("all ST") + cut.finish(), cut.reason) == ("all ST", None)


def test_a_models_name_has_corpus_mode_and_sources() -> None:
    assert _parts("notes") == _parts("notes:latest") == ("notes", "hybrid", False)
    assert _parts("a:b:bm25:sources") == ("a:b", "bm25", True)
    assert _parts("notes:bypass") == ("notes", "bypass", False)
    assert _parts("notes:other") == ("notes:other", "hybrid", False)
