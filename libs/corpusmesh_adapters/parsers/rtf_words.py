"""What RTF control words stand for (RTF specification 1.9.1)."""

MARKS = {
    "tab": "\t",
    "line": "\n",
    "lbr": "\n",
    "emdash": "\u2014",
    "endash": "\u2013",
    "bullet": "\u2022",
    "lquote": "\u2018",
    "rquote": "\u2019",
    "ldblquote": "\u201c",
    "rdblquote": "\u201d",
    "emspace": " ",
    "enspace": " ",
    "qmspace": " ",
    "zwnj": "\u200c",
    "zwj": "\u200d",
}
"""Characters that have a word of their own."""

SKIPPED = frozenset(
    [
        "colortbl",
        "fldinst",
        "flddata",
        "datafield",
        "objdata",
        "objclass",
        "objname",
        "nonshppict",
        "nonesttables",
        "shprslt",
        "sp",
        "atnid",
        "atnauthor",
        "annotation",
        "xe",
        "tc",
        "tcn",
        "bkmkstart",
        "bkmkend",
        "listtable",
        "listoverridetable",
        "revtbl",
        "rsidtbl",
        "filetbl",
        "pnseclvl",
        "pntxta",
        "pntxtb",
        "themedata",
        "colorschememapping",
        "latentstyles",
        "datastore",
        "keycode",
        "falt",
        "panose",
        "fontemb",
        "template",
        "private",
        "do",
        "mmathPr",
        "ftnsep",
        "ftnsepc",
        "aftnsep",
        "aftnsepc",
        "background",
        "creatim",
        "revtim",
        "printim",
        "buptim",
    ]
)
"""Destinations that hold no text of the document."""

TRANSPARENT = frozenset(
    [
        "shppict",
        "shpinst",
        "shptxt",
        "shp",
        "nesttableprops",
        "moMath",
        "moMathPara",
        "mmath",
        "cs",
        "ds",
        "ts",
        "pn",
        "fldrslt",
        "result",
        "htmltag",
    ]
)
"""Destinations that a reader may skip, and whose text is the document's all the same."""

STORIES = {
    "footnote": "footnote",
    "header": "header",
    "headerl": "header",
    "headerr": "header",
    "headerf": "header",
    "footer": "footer",
    "footerl": "footer",
    "footerr": "footer",
    "footerf": "footer",
}
"""Destinations with text of their own beside the body."""

INFO_FIELDS = {
    "title": "title",
    "author": "author",
    "subject": "subject",
    "keywords": "keywords",
    "company": "company",
}
"""Entries of the information group that are kept."""

CODECS_OF_CHARSETS = {
    77: "mac_roman",
    128: "cp932",
    129: "cp949",
    130: "johab",
    134: "gb18030",
    136: "cp950",
    161: "cp1253",
    162: "cp1254",
    163: "cp1258",
    177: "cp1255",
    178: "cp1256",
    186: "cp1257",
    204: "cp1251",
    222: "cp874",
    238: "cp1250",
    254: "cp437",
    255: "cp850",
}
"""Python's codecs of the character sets that a font may have; others use the document's code page."""


def codec_of_page(page: int) -> str:
    """Name Python's codec of a Windows code page.

    Args:
        page: Its number.

    Returns:
        The codec, "cp1252" for an unknown one.
    """
    special = {936: "gb18030", 54936: "gb18030", 950: "cp950", 65001: "utf-8", 10000: "mac_roman", 20932: "euc_jp"}
    name = special.get(page, f"cp{page}")
    try:
        b"".decode(name)
    except LookupError:
        return "cp1252"
    return name
