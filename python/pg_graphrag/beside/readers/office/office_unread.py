"""Parts of an Office file that have no text: videos, sounds, old formulas, linked pictures."""

import re
import zipfile
from collections import Counter

from lxml import etree

from pg_graphrag.beside.readers.archive import RELATIONSHIPS, related_parts

_MEDIA = {
    "video": re.compile(r"(?i)/media/[^/]+\.(?:mp4|m4v|mov|avi|wmv|mpe?g|webm)\Z"),
    "sound": re.compile(r"(?i)/media/[^/]+\.(?:mp3|m4a|wav|wma|aac|ogg|mid)\Z"),
}
_SHOWN_PART = re.compile(r"\A(?:word/document|ppt/slides/[^/]+)\.xml\Z")
_OLD_EQUATION = re.compile(rb"""(?i)progid=["']Equation\.""")
LOST_PICTURE = "picture that is not in the file"
_PICTURE = ("{http://schemas.openxmlformats.org/drawingml/2006/main}blip", "{urn:schemas-microsoft-com:vml}imagedata")


def unread_of(archive: zipfile.ZipFile) -> Counter[str]:
    """Return {description: count} of media and formulas of the old equation editor, which are neither text nor files."""
    names = archive.namelist()
    unread = Counter(
        {kind: sum(pattern.search(f"/{name}") is not None for name in names) for kind, pattern in _MEDIA.items()}
    )
    for name in names:
        if _SHOWN_PART.search(name):
            unread["formula of the old equation editor"] += len(_OLD_EQUATION.findall(archive.read(name)))
    return unread


def take_out_lost_pictures(root: etree._Element, archive: zipfile.ZipFile, name: str) -> int:
    """Remove references to pictures that the file does not hold from a part of a Word document; return how many.

    mammoth would read no text after one.
    """
    parts, names = related_parts(archive, name), set(archive.namelist())
    lost = 0
    for element in list(root.iter(*_PICTURE)):
        key = "embed" if element.tag == _PICTURE[0] else "id"
        part = element.get(f"{RELATIONSHIPS}{key}")
        if part is not None and parts.get(part) not in names and element.getparent() is not None:
            element.getparent().remove(element)
            lost += 1
    return lost
