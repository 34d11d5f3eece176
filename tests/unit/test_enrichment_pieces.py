"""Tags, propositions, captions and the plain form of derived records."""

from dataclasses import replace

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmesh_core.documents import Block, BlockKind, Box, Chunk, ChunkRole
from corpusmesh_core.enrichment import (
    DERIVED_KINDS,
    IMAGE_CAPTION_PREFIX,
    Derived,
    TagExample,
    derived_from_plain,
    derived_to_plain,
)
from corpusmesh_core.enrichment.captions import caption_pictures
from corpusmesh_core.enrichment.propositions import extract_propositions
from corpusmesh_core.enrichment.tags import TagMatcher, merge_tags, weigh_tags
from corpusmesh_core.errors import InvalidArgumentError
from corpusmesh_core.records import RecordKind

EXAMPLES = (
    TagExample("手机的屏幕、电池、摄像头和处理器", {"手机": 1.0}),
    TagExample("手机的贴膜、耳机、保护壳和充电器", {"手机配件": 1.0}),
    TagExample("浙江省人民政府发布的管理办法", {"省级": 1.0}),
    TagExample("市、县、乡镇人民政府的实施细则", {"市县": 1.0}),
    TagExample("How do I return goods and get my money back?", {"refund": 1.0, "orders": 0.5}),
    TagExample("Where is my parcel? Track the delivery of an order.", {"delivery": 1.0, "orders": 0.5}),
    TagExample("", {"empty": 1.0}),
)
SAMPLE = (
    ("华为新款手机采用更大的电池和更亮的屏幕，摄像头支持长焦。", "手机"),
    ("这款保护壳附送钢化贴膜，可与耳机一起购买。", "手机配件"),
    ("浙江省人民政府今日印发公共数据管理办法。", "省级"),
    ("各县和乡镇应当在三十日内制定实施细则。", "市县"),
    ("Goods can be returned within 14 days; we send the money back at once.", "refund"),
    ("The parcel is on its way, and you can track its delivery online.", "delivery"),
    ("今天天气晴朗，适合出门散步。", ""),
    ("Photosynthesis needs light.", ""),
)


def chunk(text: str, *path: str, **changes: object) -> Chunk:
    return Chunk(0, text, path, 0, (), 1, **changes)  # type: ignore[arg-type]


def test_texts_get_the_tag_of_the_example_that_they_resemble_and_strangers_none() -> None:
    matcher = TagMatcher(EXAMPLES)
    found = [(text, next(iter(matcher.tags(text, max_tags=1, threshold=0.2)), "")) for text, _ in SAMPLE]
    assert found == list(SAMPLE)


def test_what_else_a_long_text_speaks_of_does_not_take_it_away_from_an_example() -> None:
    matcher = TagMatcher(EXAMPLES)
    alone = matcher.similarities(SAMPLE[0][0])[0]
    among = matcher.similarities(SAMPLE[0][0] + "今天天气晴朗，适合出门散步。" * 50)[0]
    assert among == pytest.approx(alone)


def test_weights_add_up_slowly_and_ties_go_by_name() -> None:
    examples = [TagExample("x", {"b": 1.0, "a": 1.0}), TagExample("y", {"b": 1.0}), TagExample("z", {"c": 0.5})]
    tags = weigh_tags(np.array([0.6, 0.4, 0.9]), examples, max_tags=3, threshold=0.3)
    assert list(tags.items()) == [("b", 0.8), ("a", 0.6), ("c", 0.45)]
    assert list(weigh_tags(np.array([0.6, 0.6, 0.0]), examples[:1] * 2 + examples[2:], max_tags=1, threshold=0.3)) == [
        "a"
    ]
    assert weigh_tags(np.array([0.2, 0.2, 0.2]), examples, max_tags=3, threshold=0.3) == {}
    with pytest.raises(InvalidArgumentError):
        weigh_tags(np.array([0.2]), examples, max_tags=3, threshold=0.3)


def test_own_tags_stay_and_an_empty_set_tags_nothing() -> None:
    assert merge_tags({"own": 0.1}, {"own": 0.9, "new": 0.8, "third": 0.7}, max_tags=2) == {"own": 0.1, "new": 0.8}
    assert TagMatcher(()).tags("anything", max_tags=3, threshold=0.1) == {}
    assert TagMatcher(EXAMPLES).tags("", max_tags=3, threshold=0.1) == {}


@given(st.text(max_size=120))
@settings(max_examples=200, deadline=None)
def test_similarities_are_shares_for_any_text(text: str) -> None:
    similarities = TagMatcher(EXAMPLES).similarities(text)
    assert similarities.shape == (len(EXAMPLES),)
    assert np.all((similarities >= 0) & (similarities <= 1))


@given(st.sampled_from([example for example in EXAMPLES if example.text]))
def test_an_example_is_wholly_similar_to_itself(example: TagExample) -> None:
    assert TagMatcher(EXAMPLES).similarities(example.text)[EXAMPLES.index(example)] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("sentence", "statement"),
    [
        ("ACME was founded by Jane Doe in 1999.", "ACME was founded by Jane Doe in 1999."),
        ("However, the clustered index stores whole rows.", "The clustered index stores whole rows."),
        ("For example, InnoDB splits a full page.", "InnoDB splits a full page."),
        ("It was founded by Jane Doe in 1999.", ""),
        ("These indexes store the whole row.", ""),
        ("The former stores the whole row.", ""),
        ("Jane Doe said that she founded ACME.", ""),
        ("此外，聚簇索引把整行数据存放在叶子节点。", "聚簇索引把整行数据存放在叶子节点。"),
        ("该公司由张三于1999年在北京创立。", ""),
        ("张三表示，他们将在北京设立公司。", ""),
        ("其他人员应当按照规定缴纳保险费。", ""),
        ("外国人在中国境内就业的，依法参加社会保险。", "外国人在中国境内就业的，依法参加社会保险。"),
    ],
)
def test_only_sentences_that_stand_alone_are_statements(sentence: str, statement: str) -> None:
    assert extract_propositions(chunk(sentence)) == ((statement,) if statement else ())


def test_a_statement_without_a_word_of_its_heading_is_led_by_it() -> None:
    assert extract_propositions(chunk("Rows are stored in the leaf pages.", "2.1 Clustered index")) == (
        "Clustered index: Rows are stored in the leaf pages.",
    )
    assert extract_propositions(chunk("Every index has leaf pages.", "2.1 Clustered index")) == (
        "Every index has leaf pages.",
    )
    assert extract_propositions(chunk("整行数据存放在叶子节点。", "第二节 聚簇索引")) == (
        "聚簇索引：整行数据存放在叶子节点。",
    )
    assert extract_propositions(chunk("Rows are stored in the leaf pages.", "Introduction")) == (
        "Rows are stored in the leaf pages.",
    )
    many = " ".join(f"Engine number{number} stores whole rows." for number in range(60))
    assert len(extract_propositions(chunk(many + " " + many))) == 40


def figure(text: str, picture: str, *path: str, page: int = 1) -> Block:
    return Block(BlockKind.FIGURE, text, page=page, heading_path=path, picture=picture, boxes=(Box(page, 1, 2, 3, 4),))


def block(kind: BlockKind, text: str, *path: str, page: int = 1) -> Block:
    return Block(kind, text, page=page, heading_path=path)


def test_a_picture_that_no_chunk_shows_gets_a_chunk_where_it_stands() -> None:
    blocks = (
        block(BlockKind.PARAGRAPH, "The first paragraph stands before the figure.", "Results"),
        figure("A bar chart", "figure-1-1", "Results"),
        block(BlockKind.CAPTION, "Figure 1: BLEU scores of both models", "Results"),
        block(BlockKind.PARAGRAPH, "The second paragraph stands behind it.", "Results", page=2),
    )
    chunks = (
        Chunk(0, blocks[0].text, ("Results",), 1, (), 8),
        Chunk(1, blocks[3].text, ("Results",), 2, (), 7),
        Chunk(0, "parent", ("Results",), 1, (), 1, role=ChunkRole.PARENT),
    )
    made = caption_pictures(blocks, chunks)
    assert [(entry.role.value, entry.position) for entry in made] == [
        ("text", 0),
        ("text", 1),
        ("text", 2),
        ("parent", 0),
    ]
    described = made[1]
    assert described.text == f"{IMAGE_CAPTION_PREFIX} Figure 1: BLEU scores of both models — A bar chart — Results"
    assert described.picture == "figure-1-1"
    assert described.block_kind is BlockKind.FIGURE
    assert described.boxes == blocks[1].boxes
    assert made[2].text == blocks[3].text
    assert caption_pictures(blocks, made) == made


def test_a_chunk_of_a_picture_is_described_with_its_own_words_and_others_stay() -> None:
    blocks = (
        figure("", "figure-1-1", "Results"),
        block(BlockKind.PARAGRAPH, "图 3 各模型的得分", "Results"),
        figure("", "figure-2-1"),
        figure("Alt", "figure-2-2", page=2),
    )
    shown = Chunk(0, "Score 27.3", (), 1, (), 3, block_kind=BlockKind.FIGURE, picture="figure-1-1")
    mixed = Chunk(1, "A slide with words.", (), 2, (), 3, picture="figure-2-2")
    edited = Chunk(2, "Mine.", (), 2, (), 3, block_kind=BlockKind.FIGURE, picture="figure-2-1", is_edited=True)
    made = caption_pictures(blocks, (shown, mixed, edited))
    assert made[0].text == f"{IMAGE_CAPTION_PREFIX} 图 3 各模型的得分 — Results\nScore 27.3"
    assert made[0].token_count == 0
    assert made[1] == mixed
    # Among the words of a slide a picture is not found: it has a chunk of its own.
    assert (made[2].text, made[2].picture) == (f"{IMAGE_CAPTION_PREFIX} Alt", "figure-2-2")
    assert made[3] == replace(edited, position=3)
    assert caption_pictures(blocks, made) == made


def test_a_picture_of_which_nothing_is_said_is_no_chunk() -> None:
    blocks = (figure("", "figure-1-1", "Results"), block(BlockKind.PARAGRAPH, "Figures are fine.", "Results"))
    assert caption_pictures(blocks, (chunk("Figures are fine."),)) == (chunk("Figures are fine."),)
    assert caption_pictures((), ()) == ()


def test_one_caption_belongs_to_one_picture_and_none_to_that_of_another_page() -> None:
    blocks = (
        figure("", "a"),
        block(BlockKind.CAPTION, "Figure 1 One"),
        figure("", "b"),
        block(BlockKind.CAPTION, "Figure 2 Two", page=2),
    )
    assert [entry.text for entry in caption_pictures(blocks, ())] == [f"{IMAGE_CAPTION_PREFIX} Figure 1 One"]


def test_a_picture_stands_behind_no_chunk_of_a_later_page_when_people_changed_the_right_one() -> None:
    blocks = (
        block(BlockKind.PARAGRAPH, "Prices of rooms"),
        figure("A bar chart", "figure-1-1"),
        block(BlockKind.PARAGRAPH, "Rules", page=2),
    )
    changed = Chunk(0, "What a night costs", (), 1, (), 3, is_edited=True)
    later = Chunk(1, "Rules, and again: prices of rooms", (), 2, (), 3)
    made = caption_pictures(blocks, (changed, later))
    assert [entry.page for entry in made] == [1, 1, 2]


RECORDS = st.builds(
    Derived,
    kind=st.sampled_from(sorted(DERIVED_KINDS)),
    key=st.from_regex(r"[a-z0-9-]{1,20}", fullmatch=True),
    text=st.text(max_size=40),
    chunks=st.lists(st.integers(0, 99), max_size=4, unique=True).map(lambda drawn: tuple(sorted(drawn))),
    is_embedded=st.booleans(),
    page=st.integers(0, 9),
    boxes=st.lists(st.builds(Box, *[st.integers(0, 9)] * 5), max_size=2).map(tuple),
    heading_path=st.lists(st.text(max_size=5), max_size=2).map(tuple),
    token_count=st.integers(0, 99),
    attributes=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
)


@given(st.lists(RECORDS, max_size=5))
@settings(max_examples=100, deadline=None)
def test_derived_records_survive_their_plain_form_and_msgpack(records: list[Derived]) -> None:
    packed = msgpack.packb(derived_to_plain(records), use_bin_type=True)
    assert derived_from_plain(msgpack.unpackb(packed, raw=False)) == records


def test_a_foreign_form_is_refused() -> None:
    good = derived_to_plain([Derived(RecordKind.TOC, "0", "x", (0,), is_embedded=False)])
    for bad in (
        {},
        {**good, "format": 99},
        {**good, "derived": [{}]},
        {**good, "derived": [{**good["derived"][0], "kind": "chunk"}]},
        {**good, "derived": [{**good["derived"][0], "boxes": [[1, 2]]}]},
    ):
        with pytest.raises(InvalidArgumentError) as caught:
            derived_from_plain(bad)
        assert caught.value.reason == "ARTEFACT_MALFORMED"


def test_pictures_side_by_side_keep_their_order() -> None:
    text = "All pictures stand behind this paragraph."
    blocks = (block(BlockKind.PARAGRAPH, text), *(figure(f"Alt {name}", name) for name in "abc"))
    made = caption_pictures(blocks, (chunk(text),))
    assert [entry.picture for entry in made] == ["", "a", "b", "c"]
