"""The ways in which a document cannot be read, each with what to do about it."""

import errno
from collections.abc import Sequence
from typing import Final

from corpusmesh_core.errors import DocumentError

SUPPORTED = (
    "PDF, DOCX, DOC, RTF, ODT, PPTX, PPT, ODP, XLSX, XLS, ODS, EPUB, HTML, Markdown, CSV, TSV, plain text, EML, MSG, "
    "JSON, JSON Lines, PNG, JPEG, TIFF, GIF, BMP, WebP, and ZIP archives of these"
)
"""The formats of this build, as text for a person."""

_NATIVE: Final = (ImportError, OSError, RuntimeError, SystemError)
"""What want of memory becomes where a library cannot be mapped, a thread cannot be made, or C++ throws."""

_SHORTAGE: Final = (
    "bad_alloc",
    "cannot allocate",
    "unable to allocate",
    "failed to allocate",
    "allocation failed",
    "out of memory",
    "not enough memory",
    "failed to map segment",
    "start new thread",
    "pthread_create failed",
    "resource temporarily unavailable",
)
"""How dynamic loaders, allocators and thread libraries say that there is no more."""

_MAX_CAUSES: Final = 8


def encrypted(detail: str = "", *, password_helps: bool = True) -> DocumentError:
    """Make the error of a document that needs a password.

    Args:
        detail: What kind of protection, or why the given password did not help.
        password_helps: Whether documents with this protection are read where their password is given.

    Returns:
        DOCUMENT_ENCRYPTED.
    """
    advice = "with its password, or without the protection" if password_helps else "without the protection"
    return DocumentError(
        "DOCUMENT_ENCRYPTED",
        f"The document is encrypted{f' ({detail})' if detail else ''}. Upload it again {advice}.",
        detail=detail,
    )


def corrupt(detail: str) -> DocumentError:
    """Make the error of a damaged document.

    Args:
        detail: What is damaged, without document text.

    Returns:
        DOCUMENT_CORRUPT.
    """
    return DocumentError(
        "DOCUMENT_CORRUPT",
        f"The document is damaged: {detail}. Open and save it again in the program that made it, and upload that copy.",
        detail=detail,
    )


def empty(detail: str) -> DocumentError:
    """Make the error of a document without text.

    Args:
        detail: What it holds instead.

    Returns:
        DOCUMENT_EMPTY.
    """
    return DocumentError("DOCUMENT_EMPTY", f"The document holds no text: {detail}.", detail=detail)


def unsupported(media_type: str) -> DocumentError:
    """Make the error of a format that this build does not read.

    Args:
        media_type: What the content is.

    Returns:
        DOCUMENT_UNSUPPORTED.
    """
    return DocumentError(
        "DOCUMENT_UNSUPPORTED",
        f"Documents of type {media_type} are not read. Convert it to one of: {SUPPORTED}.",
        media_type=media_type,
    )


def over_limit(limit: str, allowed: int, what: str) -> DocumentError:
    """Make the error of a document that goes beyond a limit.

    Args:
        limit: Name of the setting in `ParseLimits`.
        allowed: Its value.
        what: What was too much, as in "it has 5,000 pages".

    Returns:
        DOCUMENT_RESOURCE_LIMIT.
    """
    return DocumentError(
        "DOCUMENT_RESOURCE_LIMIT",
        f"The document is beyond the parse limit {limit}={allowed}: {what}. "
        f"Split or simplify it, or have an administrator raise {limit}.",
        limit=limit,
        allowed=allowed,
        detail=what,
    )


def is_out_of_memory(error: BaseException, *, native: tuple[type[BaseException], ...] = _NATIVE) -> bool:
    """Say whether an exception, or one that it came from, means that memory ran out.

    Args:
        error: It.
        native: The classes whose words are believed; of others, the words may be a document's.

    Returns:
        True for MemoryError, the error number ENOMEM, and what native code says when it gets no memory.
    """
    each: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if each is None:
            return False
        if isinstance(each, MemoryError) or (isinstance(each, OSError) and each.errno == errno.ENOMEM):
            return True
        if isinstance(each, native) and any(words in str(each).lower() for words in _SHORTAGE):
            return True
        each = each.__cause__ or each.__context__
    return False


def page_list(pages: Sequence[int]) -> str:
    """Write page numbers for a person, as in "1, 3-5".

    Args:
        pages: Page numbers, ascending.

    Returns:
        At most twelve ranges; the rest is counted.
    """
    ranges: list[list[int]] = []
    for page in pages:
        if ranges and page == ranges[-1][1] + 1:
            ranges[-1][1] = page
        else:
            ranges.append([page, page])
    shown = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges[:12])
    hidden = sum(last - first + 1 for first, last in ranges[12:])
    return f"{shown} and {hidden} more" if hidden else shown
