"""The text of XLA_FLAGS: one way to write it, and XLA's own way of reading it."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.errors import SeveralUsageErrors, ValueUsageError
from moectl.xla_text import FlagValue, emit, parse, value_text

LHS = "--xla_gpu_enable_latency_hiding_scheduler=true"
BUFFER = "xla_gpu_enable_command_buffer"

NAMES = st.from_regex(r"xla_[a-z0-9_]{1,30}", fullmatch=True)
# What may stand in a value: everything that prints, but no blank and no quote.
PLAIN = st.text(
    st.characters(blacklist_categories=("Z", "C"), blacklist_characters="'\""), max_size=20
)
VALUES: st.SearchStrategy[FlagValue] = st.one_of(
    st.booleans(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False),
    PLAIN,
    st.lists(PLAIN.filter(lambda text: "," not in text), max_size=4),
)
# Texts made of what matters to the tokenizer.
NOISE = st.lists(
    st.sampled_from(
        [
            LHS,
            "--xla_a=1",
            "-x",
            "--",
            "--xla_dump_to=",
            "word",
            "'",
            '"',
            "\\",
            " ",
            "\n",
            ",",
            "=",
        ]
    ),
    max_size=12,
).map("".join)


@given(st.dictionaries(NAMES, VALUES, max_size=6))
def test_what_is_written_is_read_back_and_nothing_is_dropped(flags: dict[str, FlagValue]) -> None:
    read = parse(emit(flags))
    assert read.values == {name: value_text(value) for name, value in flags.items()}
    assert [token.name for token in read.kept] == list(flags)
    assert (read.dropped, read.stop, read.file, read.fatal) == ((), None, None, False)


@given(st.one_of(NOISE, st.text(alphabet=string.printable, max_size=60), st.text(max_size=40)))
def test_any_text_is_read_and_every_token_stands_where_it_says(text: str) -> None:
    read = parse(text)
    for token in (*read.kept, *read.dropped, *((read.stop,) if read.stop else ())):
        assert text[token.offset :].startswith(token.source)
    offsets = [token.offset for token in read.kept]
    assert offsets == sorted(set(offsets))
    assert all(0 <= fault.offset < len(text) for fault in read.faults)
    if read.stop:
        assert all(token.offset < read.stop.offset for token in read.kept)
        assert all(token.offset >= read.stop.offset for token in read.dropped)


@given(NOISE)
def test_reading_what_was_kept_again_drops_nothing(text: str) -> None:
    kept = parse(text).kept
    again = parse(" ".join(token.source for token in kept[:-1]))
    assert again.kept == () or again.stop is None
    assert [token.name for token in again.kept] == [token.name for token in kept[:-1]]


@pytest.mark.parametrize(
    "stray", ["word", "\\", "#comment", "CUBLAS", "=true", "'--xla_gpu_autotune_level=0'"]
)
def test_a_word_without_dash_ends_the_reading_and_drops_what_follows(stray: str) -> None:
    text = f"--xla_gpu_autotune_level=4 {stray} {LHS}"
    read = parse(text)
    assert [token.name for token in read.kept] == ["xla_gpu_autotune_level"]
    assert read.dropped[-1].name == "xla_gpu_enable_latency_hiding_scheduler"
    assert read.stop is not None
    assert (read.stop.source, read.stop.offset) == (stray, text.index(stray))
    assert [fault.kind for fault in read.faults] == ["stray"]
    assert not read.fatal


def test_a_blank_after_a_comma_cuts_the_list_and_drops_the_rest() -> None:
    read = parse(f"--{BUFFER}=FUSION, CUBLAS {LHS}")
    assert read.values == {BUFFER: "FUSION,"}
    assert [token.name for token in read.dropped] == ["xla_gpu_enable_latency_hiding_scheduler"]


def test_a_quoted_flag_later_in_the_text_counts_among_the_dropped_ones() -> None:
    read = parse(f"{LHS} '--xla_gpu_autotune_level=0'")
    assert [(token.name, token.value) for token in read.dropped] == [
        ("xla_gpu_autotune_level", "0")
    ]


@pytest.mark.parametrize("text", ["garbage", "/data/flags", "xla_a=1", f"'{LHS}'"])
def test_a_text_that_does_not_begin_with_a_dash_is_a_file_name(text: str) -> None:
    read = parse(text)
    assert (read.file, read.kept, read.fatal) == (text, (), False)


@pytest.mark.parametrize("text", [" /data/flags", "   ", "\n"])
def test_a_file_name_that_begins_with_a_blank_cannot_be_opened(text: str) -> None:
    assert parse(text).fatal


def test_blanks_before_the_first_flag_do_no_harm() -> None:
    assert parse(f" \n\t{LHS}").values == {"xla_gpu_enable_latency_hiding_scheduler": "true"}


def test_a_comment_in_a_file_of_flags_drops_what_follows() -> None:
    read = parse(f"--xla_a=1\n# tuned\n{LHS}\n", content=True)
    assert list(read.values) == ["xla_a"]
    assert len(read.dropped) == 1
    commented = parse(f"# tuned\n{LHS}\n", content=True)
    assert (commented.kept, commented.file, len(commented.dropped)) == ((), None, 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'FUSION,CUBLAS'", "FUSION,CUBLAS"),
        ('"FUSION,CUBLAS"', "FUSION,CUBLAS"),
        ("'a b'", "a b"),
        (r'"a\"b"', 'a"b'),
        (r"'a\b'", r"a\b"),
        ("''", ""),
        ("a'b", "a'b"),
    ],
)
def test_quotes_count_only_right_after_the_equals_sign(text: str, value: str) -> None:
    assert parse(f"--xla_dump_to={text} {LHS}").values == {
        "xla_dump_to": value,
        "xla_gpu_enable_latency_hiding_scheduler": "true",
    }


def test_a_quote_that_is_never_closed_swallows_the_rest() -> None:
    read = parse(f"--xla_dump_to='/data/x {LHS}")
    assert read.values == {"xla_dump_to": f"/data/x {LHS}"}
    assert [fault.kind for fault in read.faults] == ["swallowed", "quote"]


def test_text_glued_to_a_closing_quote_ends_the_reading() -> None:
    read = parse(f"--xla_dump_to='/data/x'y {LHS}")
    assert read.stop is not None
    assert (read.stop.source, len(read.dropped)) == ("y", 1)


@pytest.mark.parametrize("blank", [" ", "\n", "\t", "\r\n", "   "])
def test_flags_are_separated_by_any_blank_of_xla(blank: str) -> None:
    assert len(parse(f"--xla_a=1{blank}--xla_b=2").kept) == 2


def test_other_spaces_are_part_of_a_value() -> None:
    assert parse("--xla_a=1\u00a0--xla_b=2").values == {"xla_a": "1\u00a0--xla_b=2"}


def test_flags_joined_by_a_comma_are_one_value() -> None:
    read = parse(f"{LHS},--xla_gpu_enable_pipelined_p2p=true")
    assert len(read.kept) == 1
    assert [fault.kind for fault in read.faults] == ["swallowed"]


def test_the_last_of_two_flags_counts_and_both_are_shown() -> None:
    read = parse("--xla_a=1 --xla_b=2 --xla_a=3")
    assert read.values == {"xla_a": "3", "xla_b": "2"}
    assert [token.value for token in read.repeated["xla_a"]] == ["1", "3"]


def test_a_bare_flag_has_no_value_and_means_true() -> None:
    read = parse("--xla_a")
    assert read.kept[0].value is None
    assert read.values == {"xla_a": "true"}


@pytest.mark.parametrize("word", ["-xla_a=1", "---xla_a=1", "--=1", "-"])
def test_a_flag_has_two_dashes_and_a_name(word: str) -> None:
    read = parse(f"{LHS} {word}")
    assert [fault.kind for fault in read.faults] == ["dashes"]
    assert read.fatal


def test_two_dashes_alone_make_the_rest_unknown() -> None:
    read = parse(f"{LHS} -- --xla_a=1")
    assert [fault.kind for fault in read.faults] == ["separator"]
    assert read.fatal


def test_nothing_is_read_from_an_empty_text() -> None:
    read = parse("")
    assert (read.kept, read.faults, read.fatal) == ((), (), False)


def test_values_are_written_as_xla_wants_them() -> None:
    flags: dict[str, FlagValue] = {
        "xla_a": True, "xla_b": 6442450944, "xla_c": 0.5, "xla_d": ["FUSION", "CUBLAS"],
        "xla_e": "'FUSION,CUBLAS'", "xla_f": "",
    }  # fmt: skip
    assert emit(flags) == (
        "--xla_a=true --xla_b=6442450944 --xla_c=0.5 --xla_d=FUSION,CUBLAS "
        "--xla_e=FUSION,CUBLAS --xla_f="
    )


@pytest.mark.parametrize(
    "value",
    ["a b", "FUSION, CUBLAS", "a\nb", "'a", "a'b", '"a b"', "'a' 'b'", "a\0b", "a\u00a0b", "\x1b"],
)
def test_a_value_that_cannot_stand_in_the_text_is_refused(value: str) -> None:
    with pytest.raises(ValueUsageError, match="xla_dump_to cannot be"):
        emit({"xla_dump_to": value})


@pytest.mark.parametrize("name", ["--xla_a", "", "xla a", "xla_a=1", "1xla", "xla_ä", "xla\n"])
def test_a_name_that_cannot_be_one_is_refused(name: str) -> None:
    with pytest.raises(ValueUsageError, match="name of an XLA flag"):
        emit({name: True})


def test_every_fault_is_told_at_once() -> None:
    with pytest.raises(SeveralUsageErrors) as caught:
        emit({"xla_a": "x y", "--xla_b": 1, "xla_c": 1, "xla_d": "'"})
    assert len(caught.value.errors) == 3


def test_a_caller_may_decide_the_spelling() -> None:
    assert emit({"xla_a": "x"}, spell=lambda name, value: f"{name}/{value}") == "--xla_a=xla_a/x"
