from time import process_time

import pytest

from cudnn_sweep.analysis.results.short_texts import _shorter, short_names, short_sentence

NAMES = [
    "Darknet53 inference fixed amp_bf16 channels_last",
    "Darknet53 inference fixed tf32",
    "Darknet53 training fixed amp_bf16 channels_last",
    "resnet50_conv4_3x3 forward fixed bf16 channels_last",
    "resnet50_conv4_3x3 forward_backward fixed bf16 channels_last",
]


@pytest.mark.parametrize("width", [26, 34, 38, 46, 60])
def test_names_fit_stay_apart_and_begin_as_they_did(width: int) -> None:
    short = short_names(NAMES * 2, width)
    assert short[:5] == short[5:] and len(set(short)) == len(NAMES)
    assert max(map(len, short)) <= width
    for name, text in zip(NAMES, short, strict=False):
        assert text == name if len(name) <= width else text[:3] == name[:3]


def test_of_its_parameters_a_word_keeps_those_that_tell_it() -> None:
    names = [
        f"Speech {step} lengths(buckets={most},draws=20,seed=0) tf32"
        for step in "ab"
        for most in (0, 4)
    ]
    assert short_names(names, 60) == names
    assert short_names(names, 40)[:2] == [
        "Speech a lengths(buckets=0) tf32",
        "Speech a lengths(buckets=4) tf32",
    ]
    assert short_names(names[:1], 40) == ["Speech a lengths tf32"]
    cut = short_names(names, 20)
    assert len(set(cut)) == 4 and max(map(len, cut)) <= 20


def test_a_sentence_loses_its_end() -> None:
    assert short_sentence("no block met the warm cache", 13) == "no block met…"
    assert short_sentence("no block", 8) == "no block"


def test_a_module_a_folder_and_sizes_go_first_unless_they_tell_names_apart() -> None:
    net, block = (
        "nets.py:Net training 8x3x64x64 fixed tf32",
        "networks/block forward 4x4 fresh tf32",
    )
    assert short_names([net, block], 30) == ["Net training fixed tf32", "block forward fresh tf32"]
    larger = net.replace("8x3x64x64", "8x3x96x96")
    assert short_names([net, larger], 33) == [
        "Net training 8x3x64x64 fixed tf32",
        "Net training 8x3x96x96 fixed tf32",
    ]
    other = net.replace("nets.py:", "more.py:")
    assert short_names([net, other], 33) == [
        "nets.py:Net training fixed tf32",
        "more.py:Net training fixed tf32",
    ]


def test_thousands_of_names_are_shortened_in_seconds() -> None:
    names = [
        f"mine.layers:Block{number} training {size}x64x56x56 {regime} tf32"
        for number in range(250)
        for size in (8, 16, 32, 64)
        for regime in ("fixed", "cycle(sizes=4)")
    ]
    began = process_time()
    short = short_names(names, 24)
    assert process_time() - began < 5, "0.25 s; 12 s if each name is compared with all others"
    assert len(set(short)) == len(names)


@pytest.mark.parametrize(
    ("word", "size", "short"),
    [
        ("channels_last", 13, "channels_last"),
        ("channels_last", 12, "channels_last"[:6] + "_" + "last"[:5]),
        ("channels_last", 6, "cha_la"),
        ("channels_last", 5, "ch_la"),
        ("channels_last", 3, "c_l"),
        ("channels_last", 2, "c…"),
        ("amp_bf16", 6, "amp…16"),
        ("amp_bf16", 5, "am…16"),
    ],
)
def test_a_word_is_shortened_to_its_size(word: str, size: int, short: str) -> None:
    text = _shorter(word, size)
    assert text == short
    assert len(text) <= size


@pytest.mark.parametrize(
    ("width", "short"),
    [
        (20, "conv forward fixed …"),
        (19, "conv forward …"),
        (11, "conv fo…d …"),
        (9, "conv forward fixed tf32"),
    ],
)
def test_a_name_loses_its_last_words_first_and_no_more_than_it_must(width: int, short: str) -> None:
    """Words of three characters are not cut: a name that is still too long stays whole."""
    names = ["conv forward fixed tf32", "conv backward fixed tf32"]
    assert short_names(names, width)[0] == short


NETS = ["mod.a:Net(w=1) 8x3 fixed", "mod.b:Net(w=1) 8x3 fixed", "mod.b:Net(w=2) 8x4 fixed"]
PARTS = ["f(a=1) g(b=1) tail", "f(a=2) g(b=1) tail", "f(a=2) g(b=2) tail"]
LONG = [
    "resnet50_conv4_3x3 forward fixed bf16 channels_last",
    "resnet50_conv4_3x3 backward fixed bf16 channels_last",
    "vgg forward fixed bf16 contiguous",
]
COUNTED = ["one two three four five", "one two three four six", "one two seven four five"]
SPOKEN = ["日本語 forward fixed", "日本語 backward fixed"]


@pytest.mark.parametrize(
    ("names", "width", "short"),
    [
        (["conv forward fixed", "conv forward"], 18, ["conv forward fixed", "conv forward"]),
        (["conv forward fixed", "conv forward"], 17, ["conv fixed …", "conv forward"]),
        (["conv forward fixed", "conv forward"], 10, ["conv f…d …", "conv fo…rd"]),
        (NETS, 24, NETS),
        (NETS, 20, ["mod.a:Net(w=1) fixed", "mod.b:Net(w=1) fixed", "Net(w=2) fixed"]),
        (NETS, 19, ["Net fixed", "Net(w=1) fixed", "Net(w=2) fixed"]),
        (NETS, 12, ["Net fixed", "Net(w=1) …", "Net(w=2) …"]),
        (NETS, 8, ["Net …", "Net…=1 …", "Net…=2 …"]),
        (PARTS, 17, ["f(a=1) g(b=1) …", "f(a=2) g(b=1) …", "f(a=2) g(b=2) …"]),
        (PARTS, 14, ["f(a=1) …", "f(a=2) g(…=1 …", "f(a=2) g(…=2 …"]),
        (PARTS, 12, ["f(a=1) …", "f(a=2) g…1 …", "f(a=2) g…2 …"]),
        (PARTS, 8, ["f(a=1) …", *PARTS[1:]]),
        (LONG, 24, ["resnet50_conv4_3x3 f…d …", "resnet50_conv4_3x3 b…d …", "vgg forward fixed bf16 …"]),
        (LONG, 20, ["resnet5…v4_3x3 f…d …", "resnet5…v4_3x3 b…d …", "vgg forward fixed …"]),
        (LONG, 10, ["re…3 f…d …", "re…3 b…d …", "vgg …"]),
        (LONG, 8, [*LONG[:2], "vgg …"]),
        (COUNTED, 20, ["one two three five …", "one two three six …", "one two seven four …"]),
        (COUNTED, 16, ["one three five …", "one two six …", "one two seven …"]),
        (COUNTED, 14, ["one t…e five …", "one two six …", "one seven …"]),
        (COUNTED, 10, [COUNTED[0], "one six …", "one se…n …"]),
        (SPOKEN, 21, SPOKEN),
        (SPOKEN, 20, [SPOKEN[0], "日本語 backward …"]),
        (SPOKEN, 16, ["日本語 forward …", SPOKEN[1]]),
    ],
)  # fmt: skip
def test_each_name_keeps_as_much_as_the_width_allows(
    names: list[str], width: int, short: list[str]
) -> None:
    """Characters of two columns count twice."""
    assert short_names(names, width) == short


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (3, ["c_l", "a…h", "a…6", "a…d", "l…4", "_ab"]),
        (4, ["ch_l", "ab…h", "am…6", "a_…d", "le…4", "_ab"]),
        (5, ["ch_la", "ab…gh", "am…16", "a_…_d", "le…=4", "_ab"]),
        (7, ["cha_las", "abc…fgh", "amp…f16", "a_b_c_d", "len…x=4", "_ab"]),
        (8, ["chan_las", "abcdefgh", "amp_bf16", "a_b_c_d", "leng…x=4", "_ab"]),
    ],
)
def test_words_of_one_size_keep_what_tells_them(size: int, words: list[str]) -> None:
    whole = ("channels_last", "abcdefgh", "amp_bf16", "a_b_c_d", "lengths(x=4)", "_ab")
    assert [_shorter(word, size) for word in whole] == words
