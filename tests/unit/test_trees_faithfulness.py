"""Names and numbers of a summary that its children do not have."""

from collections.abc import Callable
from typing import Any

import pytest

from corpusmesh_core.trees import faithfulness
from corpusmesh_core.trees.faithfulness import unsupported
from corpusmesh_core.trees.numerals import chinese_value, english_value

SOURCE = [
    "In May 2021 revenue of the group rose by 35 % to $1.2 million, said Dr. Anna Smith of NASA to the press.",
    "公司成立于二〇〇八年，拥有三万五千名员工。《红楼梦》由曹雪芹所著。产量为一百二十吨，使用 iPhone 和 GB-4706 标准。",
    "She was born on 1956-03-07 in Austria. The house has 1,204 rooms and 12 floors. It is twenty-three miles to Linz.",
    "Cars cost 5 billion euros in 1995. The valve XR-200 weighs 2.50 kg.",
]


@pytest.mark.parametrize(
    "summary",
    [
        "Revenue of the group rose by 35 percent to 1,200,000 dollars in May 2021.",
        "In May, revenue rose 35% to $1.2 million.",
        "公司成立于2008年，有35000名员工。",
        "公司有3.5万名员工，产量120吨。",
        "百分之三十五的增长，产量为一百二十吨。",
        "《红楼梦》的作者是曹雪芹。",
        "She was born on 7 March 1956 in Austria and is an Austrian.",
        "The house has 1204 rooms on twelve floors, and Linz is 23 miles away.",
        "In the 1990s cars cost 5 billion euros; it was the 20th century.",
        "Anna Smith's words were those of the NASAs of this world.",
        "The XR-200 valve weighs 2.5 kilograms.",
        "三个方面的情况，用户使用 iPhone，标准为 GB-4706。",
        "There are two things that ten people say of the house.",
        "",
    ],
)
def test_what_the_children_say_in_other_spelling_is_supported(summary: str) -> None:
    assert not list(unsupported(summary, SOURCE))


@pytest.mark.parametrize(
    ("summary", "missing"),
    [
        ("Revenue of the group rose by 36 percent.", "36"),
        ("Revenue of the group was 1.2 billion dollars.", "1.2"),
        ("Linz is 35 km away from the house.", "35"),
        ("It was in June 2021 that revenue rose.", "June"),
        ("She was born on 8 March 1956.", "8"),
        ("公司有4万名员工。", "4"),
        ("公司成立于二〇〇九年。", "二〇〇九"),
        ("《水浒传》是名著。", "水浒传"),
        ("用户使用 Android 手机。", "Android"),
        ("标准为 GB-4707。", "GB-4707"),
        ("The press heard of it from Dr. Miller.", "miller"),
        ("Bob Miller said so to the press.", "Bob"),
        ("The ESA said so to the press.", "ESA"),
        ("In the 1980s the cars were cheap.", "1980"),
        ("The valve XR-300 is used.", "XR-300"),
    ],
)
def test_what_no_child_says_is_named(summary: str, missing: str) -> None:
    assert missing in unsupported(summary, SOURCE)


def test_a_short_acronym_is_no_word_in_small_letters() -> None:
    assert list(unsupported("The US sent it to the people.", ["They sent it to us, the people of the town."])) == ["US"]
    for held in ("The US sent it to the people of the town.", "4US", "the US's", "two USs"):
        assert not list(unsupported("The US sent it to the people.", [held])), held


def test_names_are_read_where_a_sentence_is_only_a_list_of_them() -> None:
    source = ["The guests were John Adams, John Hancock, and the mayor of the town; it was in the summer of the year."]
    assert list(unsupported("Guests: John Adams, Ban Moon.", source)) == ["ban", "moon"]


class Looks:
    """Counts what is looked up in the source."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for name in ("_holds", "_holds_code"):
            monkeypatch.setattr(faithfulness, name, self._counted(getattr(faithfulness, name)))

    def _counted(self, look: Callable[..., bool]) -> Callable[..., bool]:
        def counted(*args: Any) -> bool:
            self.count += 1
            return look(*args)

        return counted


def test_a_name_that_is_said_again_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)
    assert not list(unsupported("The NASA of Smith said so. " * 500, SOURCE))
    assert looks.count == 3, "NASA as a name and as a code, and Smith"


def test_nothing_is_looked_up_behind_the_first_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)
    codes = ", ".join(f"{one}{other}{third}" for one in "ABCDEF" for other in "XYZ" for third in "KLMNPQ")
    assert next(unsupported(f"It is about {codes}.", SOURCE))
    assert looks.count == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("十", 10),
        ("三十五", 35),
        ("一百零五", 105),
        ("二〇二四", 2024),
        ("一万二千", 12_000),
        ("三亿五千万", 350_000_000),
        ("千万", 10_000_000),
        ("两百", 200),
        ("零", 0),
        ("百" * 30, None),
    ],
)
def test_chinese_numerals_have_their_value(text: str, value: int | None) -> None:
    assert chinese_value(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("seven", 7), ("twenty-three", 23), ("two hundred and five", 205), ("hundred", 100), ("many", None)],
)
def test_english_numerals_have_their_value(text: str, value: int | None) -> None:
    assert english_value(text) == value
