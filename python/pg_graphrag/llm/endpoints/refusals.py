"""How endpoints word their refusals: one table of phrases for each meaning.

The phrases are from endpoints' documentation and from public reports of their users.
"""

import re
from collections.abc import Container


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE | re.DOTALL)


# The prompt, or the text to embed, is longer than the model reads.
TOO_LONG = _any(
    # Codes: OpenAI, LiteLLM, Zhipu, Cohere, Anthropic.
    r"context_?(?:length|window)_?exceed|string_above_max_length|request_too_large|\b1261\b",
    # OpenAI, Azure, vLLM, DeepSeek, Fireworks, OpenRouter, xAI, Mistral: its limit.
    r"maximum (?:context|prompt|input|sequence|model) (?:length|size|window)",
    # OpenAI, MiniMax, LM Studio, llama.cpp, Ollama, SGLang: words for the limit.
    r"(?:exceed|longer than|greater than|larger than|overflow).{0,40}(?:context (?:length|size|window)|model length)",
    r"context (?:length|size|window).{0,20}(?:exceed|overflow)|context.{0,10}overflow",
    # Anthropic, Bedrock, Cohere, Fireworks, Kimi: words for the thing that is too long.
    r"(?:prompt|inputs?|messages|context|request|text|sequence|content|documents?)\b.{0,40}\btoo (?:long|large|big)",
    r"too many (?:input |prompt |total )?tokens|token (?:count|limit).{0,30}exceed|exceed\w*.{0,20}token limit",
    # Bedrock, Gemini, Vertex, GitHub Models, Voyage, Anthropic with the output's limit.
    r"max(?:imum)? (?:allowed |input |number of )*tokens.{0,60}(?:request|input|batch|reduce|allowed|submitted)",
    r"(?:token count|input length|prompt).{0,60}exceeds?\b|(?:token count|input length).{0,60}exceeded\b",
    # Zhipu, Volcengine, Groq, OpenAI by its minute's tokens.
    r"exceeds? max(?:imum)? (?:length|message tokens)|reduce the length of|input or output tokens must be reduced",
    # SiliconFlow, TGI and Together, TEI, DashScope.
    r"must be less than (?:or equal to )?max_seq_len|`?inputs`?(?: tokens)? (?:\+|must have less than)|range of input length",
    # watsonx, MLC, Baidu, TabbyAPI, SambaNova.
    r"exceed the total tokens limit|input length limit|max input characters|greater than max_seq_len"
    r"|maximum supported sequence length",
    # DashScope, Zhipu, Baidu, Hunyuan, in Chinese.
    r"超长|(?:输入|长度|上下文|tokens?).{0,15}(?:超过|超出|过长)|(?:超过|超出).{0,15}(?:长度|上下文|tokens?)",
)
# Words that mean the same only where the status blames the request.
TOO_LONG_PERHAPS = _any(
    r"too (?:long|large|many (?:tokens|characters))",
    r"maximum.{0,30}tokens|max tokens of \d+ exceeded|context limit",
    r"\b(?:tokens?|prompt|input|query|sequence)\b(?! per\b).{0,30}\b(?:exceeds?|over|at most)\b.{0,40}(?:\blimit|\d{3,} token)",
    r"sequence length \d+ must be at most",
    "(?:トークン|コンテキスト長|入力).{0,15}超え|(?:토큰|컨텍스트 길이|입력).{0,15}초과",
)
# More than the tokens of a minute: it would never go.
TOO_LONG_EVER = _any(r"request too large|tokens must be reduced")
# More output than a model gives, not a longer prompt than it reads: OpenAI, Anthropic, DeepSeek, DashScope, Groq, Volcengine.
TOO_MUCH_OUTPUT = _any(
    r"max_(?:completion_|output_|new_)?tokens\W{0,3}.{0,60}"
    r"(?:too large|at most|less than|exceed|<=|above (?:the )?max|> \d+|range of|should be (?:\[|between))",
    r"range of max_(?:completion_)?tokens",
)
# Both together mean a prompt that is too long.
_BOTH = _any(r"input length and `?max_tokens|`?inputs`? tokens \+|max_seq_len")
# The model is still loaded: llama.cpp, LM Studio, Ollama, TGI, KoboldCpp.
LOADING = _any(r"\bload(?:ing|s)\b.{0,20}\bmodel", r"model.{0,40}\b(?:is|still) (?:currently |being )?load(?:ing|ed)")
# One text has no vector that could be sent: Ollama, Infinity, TEI, LM Studio.
NO_VECTOR = _any(r"\bNaN\b|not JSON compliant|unsupported value|out of range float|\binfinity\b|non-?finite|\+Inf\b")

# A text that a policy forbids, with the status of a key or account that is refused: OpenRouter, Azure.
FORBIDDEN = _any(
    r"\A(?!.*\b(?:account|organi[sz]ation|project|key|access|permission|endpoint)s?\b).*"
    r"(?:\bflagged\b|\bmoderation\b|content.?(?:policy|filter|management)|inappropriate content)"
)

# Optional parts that some models refuse: the field, or the part of it to leave out, and their words for it.
SCHEMA_BOUNDS = "schema_bounds"
SCHEMA_FIELDS = (SCHEMA_BOUNDS, "response_format")
_SCHEMA = (
    # OpenAI, LM Studio, DeepSeek, Groq, DashScope; Gemini, Vertex; xgrammar, llguidance, outlines, llama.cpp; Anthropic, Bedrock.
    r"response.?(?:format|schema|mime)|json.?(?:schema|object|mode)|structured.?output|grammar|unrecognized type|guided"
    r"|\bschemas?\b|too many states|additional_?Properties|number of repetitions|output_config|unimplemented keys"
    # Gemini names nothing where a schema bounds its lists.
    r"|\ARequest contains an invalid argument\.?\Z"
)
OPTIONAL = (
    (
        SCHEMA_BOUNDS,
        _any(
            r"max_?items|max_?length['\"`\\ ]|number of repetitions|too many states|xgrammar|(?:schema|grammar).{0,40}too"
            r"|\ARequest contains an invalid argument"
        ),
    ),
    ("response_format", _any(_SCHEMA)),
    ("temperature", _any("temperature")),
    ("max_tokens", _any("max_tokens")),
    ("max_completion_tokens", _any("max_completion_tokens")),
    ("presence_penalty", _any("presence.?penalty")),
    ("frequency_penalty", _any("penalty")),
    ("seed", _any(r"\bseed\b")),
    ("top_p", _any(r"top_p\b")),
    ("reasoning_effort", _any("reasoning.?effort")),
    ("chat_template_kwargs", _any("chat_template_kwargs|enable_thinking")),
    ("dimensions", _any("dimensions|matryoshka|dimensionality")),
    ("encoding_format", _any("encoding_format")),
    ("stream_options", _any("stream_options|include_usage")),
    ("stream", _any(r"\bstream(?:ing)?\b")),
)


def is_too_long(words: str, *, is_blamed: bool = True) -> bool:
    """Whether a prompt or text is too long; `is_blamed`: whether the status says that the request is wrong."""
    return bool(TOO_LONG.search(words) or (is_blamed and TOO_LONG_PERHAPS.search(words)))


def refused_limit(words: str, fields: Container[str]) -> str | None:
    """Return the field that limits the output, where it allows more than the model gives."""
    if not TOO_MUCH_OUTPUT.search(words) or _BOTH.search(words):
        return None
    return next((field for field in ("max_tokens", "max_completion_tokens") if field in fields), None)
