"""Maximum lengths of a question and of texts in requests to models."""

# Understanding looks at this much of a question, in characters, and takes phrases from it; BM25 takes all.
MAX_UNDERSTOOD = 4000
# Passages that a model may select.
MAX_SELECTED = 20
# Sub-questions into which a question is taken apart, and concepts of each.
MAX_PARTS, MAX_CONCEPTS_EACH = 5, 10
# Texts of one rerank: what cross-encoders are served in one request.
MAX_RERANKED = 200
# Texts that are graded at once, and characters of each that are looked at.
MAX_GRADED = 8
MAX_GRADED_CHARACTERS = 2000
