"""Which languages the local embedding models were made for."""

from pg_graphrag.text.languages import DETECTED, detect

# ISO 639-1 codes, by model.
LANGUAGES = {
    "all-MiniLM-L6-v2": frozenset({"en"}),
    # Those of XLM-RoBERTa, as the model's card lists them.
    "multilingual-e5-small": frozenset(
        "af am ar as az be bg bn br bs ca cs cy da de el en eo es et eu fa fi fr fy ga gd gl gu ha he hi hr hu hy id is it"
        " ja jv ka kk km kn ko ku ky la lo lt lv mg mk ml mn mr ms my ne nl no om or pa pl ps pt ro ru sa sd si sk sl so sq"
        " sr su sv sw ta te th tl tr ug uk ur uz vi xh yi zh".split()
    ),
}


def knows(model: str, text: str) -> bool:
    """Return whether a local model was made for the language of a text, as far as its script tells."""
    return LANGUAGES[model] >= DETECTED or detect(text) in LANGUAGES[model]
