"""What is read of headers: of e-mail, and of pages that are saved as such."""

from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import EmailPolicy
from typing import cast

# Characters of a header, and of one that describes a part. To read one takes time by the square of its length. There is room for
# a thousand addresses, and for any file's name.
MAX_HEADER, MAX_CONTENT_HEADER = 32_000, 4_000


class BoundedHeaders(EmailPolicy):
    """The standard library's reading of headers, of the beginning of each."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        """Return name and value of a header, as its lines say it."""
        name, value = super().header_source_parse(sourcelines)
        return name, value[: MAX_CONTENT_HEADER if name.lower().startswith("content-") else MAX_HEADER]


BOUNDED = BoundedHeaders()


def parsed(data: bytes) -> EmailMessage:
    """Return a message; `ValueError` and its like where it is damaged."""
    return cast(EmailMessage, BytesParser(policy=BOUNDED).parsebytes(data))
