"""The extension in other frameworks: LlamaIndex and LangChain. Each module needs the extra of its name."""
