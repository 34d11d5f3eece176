"""Resource names: made from identifiers and taken apart."""

import re

from corpusmesh_core.errors import InvalidArgumentError

_ID = re.compile(r"[a-z0-9-]{1,63}")


def is_identifier(text: str) -> bool:
    """Tell whether a text can be the identifier of a resource.

    Args:
        text: Any text.

    Returns:
        True if it is `[a-z0-9-]{1,63}`.
    """
    return _ID.fullmatch(text) is not None


def resource_name(collection: str, text: str) -> str:
    """Give the name of a resource that is named by its identifier or by its name.

    Args:
        collection: Collection, such as "users" or "knowledgeBases/handbook/runs".
        text: Identifier or full name.

    Returns:
        The full name.

    Raises:
        InvalidArgumentError: If the text is neither.
    """
    prefix = f"{collection}/"
    identifier = text.removeprefix(prefix)
    if not is_identifier(identifier):
        raise InvalidArgumentError(
            "NAME_INVALID",
            f"{text!r} is not a name in {collection}; identifiers are 1 to 63 of a-z, 0-9 and -",
            field="name",
            name=text,
            collection=collection,
        )
    return prefix + identifier


def identifier_of(name: str) -> str:
    """Take the last identifier out of a resource name.

    Args:
        name: A name such as `knowledgeBases/handbook/documents/manual`.

    Returns:
        What stands after the last slash; "" for "".
    """
    return name.rsplit("/", 1)[-1]


def knowledge_base_of(name: str) -> str:
    """Take the knowledge base out of the name of something in it.

    Args:
        name: A name that begins with `knowledgeBases/{knowledge_base}`.

    Returns:
        `knowledgeBases/{knowledge_base}`.
    """
    return "/".join(name.split("/")[:2])


def document_of(version_name: str) -> str:
    """Take the document out of the name of a version.

    Args:
        version_name: `knowledgeBases/*/documents/*/versions/*`.

    Returns:
        `knowledgeBases/*/documents/*`; "" for "".
    """
    return "/".join(version_name.split("/")[:4])
