"""Parts and relationships of Office packages (ECMA-376 Part 2)."""

import posixpath
import zipfile
from dataclasses import dataclass

from lxml import etree

from corpusmesh_adapters.parsers.packages import read_member, xml_root

R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_STRICT = b"http://purl.oclc.org/ooxml/"
_TRANSITIONAL_OF = (
    (b"http://purl.oclc.org/ooxml/officeDocument/", b"http://schemas.openxmlformats.org/officeDocument/2006/"),
    (b"http://purl.oclc.org/ooxml/wordprocessingml/", b"http://schemas.openxmlformats.org/wordprocessingml/2006/"),
    (b"http://purl.oclc.org/ooxml/drawingml/", b"http://schemas.openxmlformats.org/drawingml/2006/"),
)
_CORE_FIELDS = {
    "{http://purl.org/dc/elements/1.1/}title": "title",
    "{http://purl.org/dc/elements/1.1/}creator": "author",
    "{http://purl.org/dc/elements/1.1/}subject": "subject",
    "{http://schemas.openxmlformats.org/package/2006/metadata/core-properties}keywords": "keywords",
    "{http://purl.org/dc/terms/}created": "created",
    "{http://purl.org/dc/terms/}modified": "modified",
}


@dataclass(frozen=True, slots=True)
class Relation:
    """What a part refers to.

    Attributes:
        kind: Last word of its type: "image", "hyperlink", "package", "oleObject", "aFChunk", …
        target: Name of the member; "" if it lies outside the package.
    """

    kind: str
    target: str


def part_root(package: zipfile.ZipFile, name: str) -> etree._Element:
    """Parse a part; the strict dialect's names are read as the common one's.

    Args:
        package: An open package.
        name: The part's name.

    Returns:
        Its root element.

    Raises:
        DocumentError: DOCUMENT_CORRUPT or DOCUMENT_RESOURCE_LIMIT.
    """
    content = read_member(package, name)
    if _STRICT in content:
        for strict, transitional in _TRANSITIONAL_OF:
            content = content.replace(strict, transitional)
    return xml_root(content)


def relations(package: zipfile.ZipFile, names: frozenset[str], part: str) -> dict[str, Relation]:
    """Read what a part refers to.

    Args:
        package: An open package.
        names: Its members.
        part: The part's name; "" for the package itself.

    Returns:
        Relations by id.
    """
    folder, _, name = part.rpartition("/")
    member = f"{folder}/_rels/{name}.rels" if folder else f"_rels/{name}.rels"
    if member not in names:
        return {}
    found: dict[str, Relation] = {}
    for element in xml_root(read_member(package, member)):
        kind = str(element.get("Type", "")).rpartition("/")[2]
        target = str(element.get("Target", ""))
        if element.get("TargetMode") == "External":
            target = ""
        elif target.startswith("/"):
            target = target[1:]
        else:
            target = posixpath.normpath(posixpath.join(folder, target))
        found[str(element.get("Id", ""))] = Relation(kind, target if target in names else "")
    return found


def core_properties(package: zipfile.ZipFile, names: frozenset[str]) -> dict[str, str]:
    """Read what an Office file says of itself.

    Args:
        package: An open package.
        names: Its members.

    Returns:
        Title, author, subject, keywords, created, modified, as far as they are given.
    """
    if "docProps/core.xml" not in names:
        return {}
    root = xml_root(read_member(package, "docProps/core.xml"))
    return {_CORE_FIELDS[str(element.tag)]: element.text or "" for element in root if str(element.tag) in _CORE_FIELDS}
