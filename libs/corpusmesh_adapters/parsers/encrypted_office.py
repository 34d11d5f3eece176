"""Opens password-protected Office files."""

import io

import msoffcrypto
from msoffcrypto.exceptions import DecryptionError, FileFormatError, InvalidKeyError, ParseError

from corpusmesh_adapters.parsers.builder import Source
from corpusmesh_adapters.parsers.failures import encrypted


def decrypt_office(source: Source) -> Source:
    """Decrypt a protected OOXML package or XLS workbook with the given password.

    Args:
        source: The document.

    Returns:
        The same document in the clear.

    Raises:
        DocumentError: DOCUMENT_ENCRYPTED if there is no password, or it does not open the document.
    """
    if source.options.password is None:
        raise encrypted("an Office password")
    opened = io.BytesIO()
    try:
        office = msoffcrypto.OfficeFile(io.BytesIO(source.content))
        office.load_key(password=source.options.password)
        office.decrypt(opened)
    except InvalidKeyError as error:
        raise encrypted("the given password does not open it") from error
    except (DecryptionError, FileFormatError, ParseError, ValueError, NotImplementedError, OSError, KeyError) as error:
        raise encrypted(
            "with an algorithm or key length that is not read here, so no password opens it", password_helps=False
        ) from error
    return source.replaced(opened.getvalue())
