"""Models behind OpenAI-compatible endpoints: chat, embeddings and rerank, with limits, cache and accounting."""
