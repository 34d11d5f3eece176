"""Unpacks the RTF of Outlook's mails ([MS-OXRTFCP])."""

import struct

_COMPRESSED, _PLAIN = b"LZFu", b"MELA"
_HEADER_BYTES = 16
_DICTIONARY_BYTES = 4_096
_FIRST_DICTIONARY = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript \fdecor MS Sans Serif"
    rb"SymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0"
    b"\r\n"
    rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)


def decompress_rtf(content: bytes, *, max_bytes: int) -> bytes:
    """Unpack compressed RTF.

    Args:
        content: The property's value.
        max_bytes: How long the text may get; what is beyond is left out.

    Returns:
        RTF; b"" where the value is broken from the start.
    """
    if len(content) < _HEADER_BYTES:
        return b""
    (raw_length,) = struct.unpack_from("<I", content, 4)
    kind, body = content[8:12], content[_HEADER_BYTES:]
    if kind == _PLAIN:
        return body[:raw_length]
    if kind != _COMPRESSED:
        return b""
    dictionary = bytearray(_FIRST_DICTIONARY.ljust(_DICTIONARY_BYTES, b"\0"))
    write = len(_FIRST_DICTIONARY)
    out = bytearray()
    position, limit = 0, min(raw_length, max_bytes)
    while position < len(body) and len(out) < limit:
        control = body[position]
        position += 1
        for bit in range(8):
            if control >> bit & 1:
                if position + 2 > len(body):
                    return bytes(out)
                token = body[position] << 8 | body[position + 1]
                position += 2
                at, length = token >> 4, (token & 0xF) + 2
                if at == write:
                    return bytes(out)
            elif position < len(body):
                at, length = -1, 1
            else:
                return bytes(out)
            for step in range(length):
                byte = body[position] if at < 0 else dictionary[(at + step) % _DICTIONARY_BYTES]
                out.append(byte)
                dictionary[write] = byte
                write = (write + 1) % _DICTIONARY_BYTES
            position += at < 0
    return bytes(out[:limit])
