"""Names and nouns of Chinese, and what can be told of other scripts without spaces.

Words and their kinds come from the dictionary of the segmenter that the index uses; its statistical model, which would
guess the kinds of unknown words, costs ten times as much and finds fewer of them than the rules below: single
characters in a row that the dictionary does not know are an unknown word, mostly a name.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from corpusmesh_core.text import normalize
from corpusmesh_core.text.analysis import segmenter

UNSPACED: Final = re.compile(
    r"[\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3005-\u3007\u3041-\u30FF\u3400-\u4DBF\u4E00-\u9FFF]"
)
_RUN: Final = re.compile(r"[\u3005-\u3007\u3400-\u4DBF\u4E00-\u9FFF]+(?:[·‧・•][\u3400-\u4DBF\u4E00-\u9FFF]+)*")
_KATAKANA: Final = re.compile(r"[\u30A1-\u30FA\u30FC]{2,24}(?:[・=＝][\u30A1-\u30FA\u30FC]{1,24}){0,4}")
QUOTED: Final = re.compile(r"[《「『〈“]([^《》「」『』〈〉“”\n]{2,30})[》」』〉”]")
_MAX_COMPOUND_CHARACTERS: Final = 12
_MAX_UNKNOWN_CHARACTERS: Final = 6
_MAX_FOREIGN_CHARACTERS: Final = 10
_DOT: Final = re.compile("[·‧・•]")
_NAME_TAGS: Final = frozenset(("nr", "ns", "nt", "nz", "nrt", "nrfg"))
_NOUN_TAGS: Final = frozenset(("n", "vn", "an", "j", "ng", "g", "s", "l"))
_SURNAMES: Final = frozenset(
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何高林罗郑梁谢宋唐许韩冯邓曹彭曾肖田董袁潘于蒋蔡余杜叶程苏魏吕丁任沈姚卢姜崔钟谭陆汪"
    "范金石廖贾夏韦付方白邹孟熊秦邱江尹薛闫段雷侯龙史陶黎贺顾毛郝龚邵万钱严覃武戴莫孔向汤常温康施文牛樊葛邢安齐易乔伍庞颜倪"
    "庄聂章鲁岳翟殷詹申欧耿关兰焦俞左柳甘祝包宁尚符舒阮柯纪梅童凌毕单季裴霍涂成苗谷盛曲翁冉骆蓝路游辛靳管柴蒙鲍华喻祁房蒲"
    "滕屈饶解牟艾尤阳时穆农司卓古吉缪简车项连芦麦褚娄窦戚岑景党宫费卜冷晏席卫米柏宗瞿桂全佟应臧闵苟邬边卞姬仇栾隋商刁"
)
_FOREIGN: Final = frozenset(
    "阿埃艾爱安奥巴白班邦保鲍贝本比彼宾波伯博布采查茨达戴丹道德登狄迪蒂丁顿多厄恩尔法凡菲费芬佛弗夫福富盖冈戈哥格葛根古瓜圭哈海汉赫黑亨"
    "胡华怀霍基吉季加贾简杰金喀卡凯坎康考柯科可克肯库奎昆拉莱赖兰朗劳勒雷蕾里利丽莉莲列林琳隆卢鲁路伦罗洛吕马玛迈麦曼茅梅门蒙米密明缪摩莫"
    "姆木慕穆娜纳乃奈南内尼涅妮宁纽努诺欧帕潘佩彭皮平珀普契奇恰钱乔切琴丘屈让热仁日茹儒瑞若撒萨塞赛桑瑟森沙莎尚绍舍申圣施什史士舒朔斯丝"
    "司思松苏索塔泰坦汤陶忒特提汀图土托瓦万旺威韦维魏温文翁沃乌伍武西希夏香肖谢辛欣休雅亚延扬耶叶伊依易因英尤约泽扎詹珍兹佐"
)
_SUFFIXES: Final = frozenset(
    "省市县区州镇乡村国岛山河江湖海洋港湾路街桥站寺庙宫塔陵院校所局部厅署社党团军队会厂店馆场园城堡教派族语奖杯赛节战役法案号型"
    "王帝后侯公爵传记剧片曲歌书报刊网科属目纲门病症药素酸胺物机器车船舰炮枪剑"
)
_NO_NAME: Final = frozenset(
    "的了在是我有和就不人都一上也很到说要去你会着没看好这那他她它们与及或而但被把给对从向为以于之其吗呢吧啊谁几多少何由所此该"
    "个种类次年月日时分秒第每各某又再还只仅才已曾将能可使让用做来得着过等内外下后前中里间二三四五六七八九十百千万两亿零○〇半"
    "并且则若因故如像指叫即至自当作成更最较非"
)


@dataclass(frozen=True, slots=True)
class FoundWord:
    """A name or noun at a place.

    Attributes:
        name: As it is written.
        start: First character.
        end: Position behind its last.
        tag: Kind by the dictionary: "nr" person, "ns" place, "nt" organisation, "nz" other name, "n" noun, "" unknown.
        is_name: Whether it is a name rather than a noun.
    """

    name: str
    start: int
    end: int
    tag: str
    is_name: bool


def unspaced_names(text: str, start: int, end: int) -> Iterator[FoundWord]:
    """Find the names and nouns of a sentence.

    Args:
        text: The text.
        start: Where the sentence begins.
        end: Where it ends.

    Yields:
        Names and nouns; those of scripts other than Chinese are runs of katakana and what stands in quotation marks.
    """
    for match in QUOTED.finditer(text, start, end):
        inner = match.group(1).strip()
        if UNSPACED.search(inner):
            yield FoundWord(inner, match.start(1), match.end(1), "nz", True)
    for match in _KATAKANA.finditer(text, start, end):
        yield FoundWord(match.group(), match.start(), match.end(), "nz", True)
    for match in _RUN.finditer(text, start, end):
        run = match.group()
        if _DOT.search(run) is not None:
            yield from _dotted(run, match.start())
        else:
            yield from _of_run(run, match.start())


@cache
def _tags() -> dict[str, str]:
    """Read the kinds of the dictionary's nouns."""
    tags: dict[str, str] = {}
    with segmenter().get_dict_file() as lines:
        for line in lines:
            word, _, tag = line.decode().strip().split(" ")
            if tag in _NAME_TAGS or tag in _NOUN_TAGS:
                tags[word] = tag
    return tags


def _dotted(run: str, offset: int) -> Iterator[FoundWord]:
    """Take a name with dots, as foreign names are written, off the words around it."""
    parts = _DOT.split(run)
    first, last = _folded(parts[0]), _folded(parts[-1])
    head = len(first) - _foreign_length(list(segmenter().cut(first, HMM=False))[::-1])
    end = len(run) - len(last) + _foreign_length(list(segmenter().cut(last, HMM=False)))
    yield FoundWord(run[head:end], offset + head, offset + end, "nr", True)
    yield from _of_run(run[:head], offset)
    yield from _of_run(run[end:], offset + end)


def _foreign_length(words: list[str]) -> int:
    """Say how many characters belong to a foreign name: whole words of characters that such names are written in."""
    length = 0
    for word in words:
        if not _FOREIGN.issuperset(word) or length + len(word) > _MAX_FOREIGN_CHARACTERS:
            break
        length += len(word)
    return length or min(3, sum(map(len, words)))


def _folded(run: str) -> str:
    """Fold the script, where that keeps places."""
    folded = normalize(run)
    return folded if len(folded) == len(run) else run


@dataclass(frozen=True, slots=True)
class _Token:
    start: int
    end: int
    tag: str


def _of_run(run: str, offset: int) -> Iterator[FoundWord]:
    folded = _folded(run)
    tokens = list(_tokens(folded))
    place = 0
    while place < len(tokens):
        last = place
        while last < len(tokens) and _goes_on(tokens, place, last):
            last += 1
        if last == place:
            place += 1
            continue
        yield from _compound(run, folded, tokens[place:last], offset)
        place = last


def _goes_on(tokens: list[_Token], first: int, place: int) -> bool:
    token = tokens[place]
    if not token.tag or token.end - tokens[first].start > _MAX_COMPOUND_CHARACTERS:
        return False
    # 高畑勋|毕业: what a person does is no part of the name.
    return place == first or not (token.tag == "vn" and tokens[place - 1].tag in ("nr", "nrt", "nrfg"))


def _compound(run: str, folded: str, tokens: list[_Token], offset: int) -> Iterator[FoundWord]:
    """Give a row of nouns as one, and the names in it."""
    start, end = tokens[0].start, tokens[-1].end
    names = [token for token in tokens if token.tag in _NAME_TAGS or token.tag == "x"]
    if end - start >= 2:
        is_name = bool(names) or (len(tokens) > 1 and folded[end - 1] in _SUFFIXES)
        yield FoundWord(run[start:end], offset + start, offset + end, _tag_of(tokens, folded[end - 1]), is_name)
    for token in tokens if len(tokens) > 1 else ():
        if token.end - token.start >= 2:
            tag = "" if token.tag == "x" else token.tag
            word = run[token.start : token.end]
            yield FoundWord(word, offset + token.start, offset + token.end, tag, token in names)


def _tag_of(tokens: list[_Token], ending: str) -> str:
    if len(tokens) == 1:
        return "" if tokens[0].tag == "x" else tokens[0].tag
    last = tokens[-1].tag
    if ending in "省市县区州镇乡村国岛山河江湖海洋港湾路街桥城":
        return "ns"
    if ending in "院校所局部厅署社党团军队会厂司学":
        return "nt"
    return last if last in _NAME_TAGS else "nz"


def _tokens(folded: str) -> Iterator[_Token]:
    """Cut a run into words with their kinds: "x" for what is unknown and maybe a name, "" for what is no noun."""
    tags = _tags()
    unknown = begin = position = 0
    for word in segmenter().cut(folded, HMM=False):
        end = position + len(word)
        tag = tags.get(word, "")
        is_loose = len(word) == 1 and word not in _NO_NAME
        if is_loose and unknown:
            unknown += 1
        elif is_loose:
            unknown, begin = 1, position
        else:
            if unknown:
                yield from _unknown(folded, begin, position)
            # A foreign name goes on in a word of its characters, as in 沙|舍|夫斯基.
            unknown = 0
            yield _Token(position, end, tag)
        position = end
    if unknown:
        yield from _unknown(folded, begin, position)


def _unknown(folded: str, begin: int, end: int) -> Iterator[_Token]:
    """Judge single characters in a row."""
    length = end - begin
    if length == 1:
        char = folded[begin]
        yield _Token(begin, end, "ng" if char in _SUFFIXES else "")
        return
    piece = folded[begin:end]
    if piece[0] in _SURNAMES and length <= 3:
        yield _Token(begin, end, "nr")
    elif length <= _MAX_UNKNOWN_CHARACTERS:
        yield _Token(begin, end, "x")
    else:
        yield _Token(begin, end, "")
