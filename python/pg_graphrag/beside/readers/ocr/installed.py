"""Whether an OCR engine is installed; imports none."""

from importlib.util import find_spec

from pg_graphrag.ground.errors import GraphRAGError, missing_package


def ocr_of(choice: str, engine: str) -> str:
    """Return how text is recognised: the choice, or never where the engine is not installed and nobody insists.

    Raises GraphRAGError: 58P01 where it is asked for and cannot be.
    """
    if choice == "never":
        return choice
    if engine == "tesseract":
        from pg_graphrag.beside.readers.ocr.tesseract import languages

        if not languages():
            raise GraphRAGError("Tesseract has no languages", sqlstate="58P01", hint="Install tesseract-ocr-eng.")
        return choice
    missing = next((name for name in ("rapidocr", "openvino", "PIL", "pypdfium2") if find_spec(name) is None), None)
    if missing is None:
        return choice
    if choice == "always":
        raise missing_package("--ocr always needs", missing, "ocr")
    return "never"
