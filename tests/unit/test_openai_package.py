"""The openai package as sessions load it: without its types until one is asked for, and then as it is."""

from __future__ import annotations

import subprocess
import sys

LOAD = """
import sys
from pg_graphrag.llm.openai_package import openai as load
openai = load()
def types():
    return sum(name.startswith("openai.types.") for name in sys.modules)
"""


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", LOAD + code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_a_call_loads_few_of_the_types() -> None:
    code = """
import asyncio
async def call():
    client = openai.AsyncOpenAI(base_url="http://127.0.0.1:1/v1", api_key="none", max_retries=0)
    try:
        await client.post("/embeddings", body={"input": "text"}, cast_to=object)
    except openai.APIConnectionError:
        print("called")
asyncio.run(call())
print(types() < 150)
"""
    assert run(code).split() == ["called", "True"]


def test_who_asks_for_a_type_gets_it() -> None:
    code = """
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
import openai.types.shared as shared
from openai.types import *
message = {"role": "assistant", "content": "Yes."}
choice = {"index": 0, "finish_reason": "stop", "message": message}
made = {"id": "1", "created": 1, "model": "m", "object": "chat.completion", "choices": [choice]}
print(ChatCompletion.model_validate(made).choices[0].message.content)
print(Response.__module__, shared.Metadata is Metadata, Embedding.__name__)
print(types() > 300, type(openai.types) is type(sys), hasattr(openai.types, "unheard_of"))
print(openai.AsyncOpenAI(api_key="none").embeddings.create.__name__)
"""
    assert run(code).split() == [
        *("Yes.", "openai.types.responses.response", "True", "Embedding", "True", "True", "False", "create"),
    ]
