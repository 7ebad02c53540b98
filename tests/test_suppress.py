"""Comments that take findings away: where they hold, and what is said about useless ones."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.findings import Finding
from moectl.suppress import apply, covers, suppressions, unknown

KNOWN = ("XLA101", "XLA102", "MESH101", "MEM101", "SUP101", "SUP102")


def found(code: str, line: int, file: str = "f") -> Finding:
    return Finding(code, "error", "x", "wrong", file=file, line=line, column=1)


def left(text: str, *findings: Finding, name: str = "f") -> tuple[list[str], int, list[str]]:
    """Return codes that stay, how many do not, and codes about the comments."""
    kept, suppressed, extra = apply(findings, {name: text}, KNOWN)
    return [f.code for f in kept], suppressed, [f.code for f in extra]


def test_a_comment_at_the_end_of_the_line_holds_for_that_line() -> None:
    text = "a: 1  # moectl: ignore[MESH101]\nb: 2\n"
    assert left(text, found("MESH101", 1), found("MESH101", 2)) == (["MESH101"], 1, [])


def test_a_comment_of_its_own_holds_for_the_next_line_only() -> None:
    text = "a: 1\n# moectl: ignore[MESH101]\nb: 2\nc: 3\n"
    findings = [found("MESH101", line) for line in (1, 3, 4)]
    kept, suppressed, extra = apply(findings, {"f": text}, KNOWN)
    assert [f.line for f in kept] == [1, 4]
    assert (suppressed, extra) == (1, [])


def test_several_codes_and_comments_stacked_above_a_line() -> None:
    text = "# moectl: ignore[MESH101, XLA]\n# measured twice\n# moectl: ignore[MEM1]\nb: 2\n"
    findings = [found(code, 4) for code in ("MESH101", "XLA102", "MEM101")]
    assert left(text, *findings) == ([], 3, [])


def test_a_blank_line_ends_what_a_comment_above_holds_for() -> None:
    text = "# moectl: ignore[MESH101]\n\nb: 2\n"
    assert left(text, found("MESH101", 3)) == (["MESH101"], 0, ["SUP102"])


def test_a_file_comment_holds_everywhere_and_only_in_the_first_ten_lines() -> None:
    text = "#\n" * 9 + "# moectl: ignore-file[XLA]\na: 1\n"
    assert left(text, found("XLA101", 11), found("MEM101", 11)) == (["MEM101"], 1, [])
    assert left("#\n" + text, found("XLA101", 12)) == (["XLA101"], 0, ["SUP101"])


def test_a_finding_without_a_line_is_taken_away_by_a_file_comment() -> None:
    finding = Finding("MEM101", "error", "", "m", file="f")
    assert left("# moectl: ignore-file[MEM101]\n", finding) == ([], 1, [])
    assert left("# moectl: ignore[MEM101]\na: 1\n", finding)[0] == ["MEM101"]


def test_findings_of_another_checked_file_stay() -> None:
    texts = {"f": "# moectl: ignore-file[MEM101]\n", "other": "a: 1\n"}
    kept, suppressed, extra = apply([found("MEM101", 1, "other")], texts, KNOWN)
    assert (len(kept), suppressed, [f.code for f in extra]) == (1, 0, ["SUP102"])


def test_a_file_comment_holds_for_what_its_preset_or_base_file_says() -> None:
    text = "# moectl: ignore-file[MEM101]\na: 1 # moectl: ignore[XLA101]\n"
    of_preset = Finding("MEM101", "error", "", "m", file="preset x")
    assert left(text, of_preset, found("XLA101", 2, "base.yml")) == (["XLA101"], 1, ["SUP102"])


SCRIPT = """#!/bin/bash
#SBATCH --nodes=2  # moectl: ignore[MESH101]
# moectl: ignore[XLA101]
srun --ntasks=4 \\
  python3 -m train \\
  steps=5
# moectl: ignore[XLA102]
export XLA_FLAGS="--a
  --b"
echo done; echo "${#x}" # moectl: ignore[MEM101]
"""


def test_in_a_script_a_comment_above_holds_for_the_whole_continued_command() -> None:
    findings = [found("XLA101", line) for line in (4, 5, 6)]
    findings += [found("XLA102", 8), found("XLA102", 9), found("MESH101", 2), found("MEM101", 10)]
    assert left(SCRIPT, *findings) == ([], 7, [])


def test_in_a_script_a_comment_above_ends_with_the_command() -> None:
    kept, _, _ = apply([found("XLA101", 7), found("XLA102", 10)], {"f": SCRIPT}, KNOWN)
    assert len(kept) == 2


def test_a_comment_may_stand_above_a_directive() -> None:
    text = "#!/bin/bash\n# moectl: ignore[MESH101]\n#SBATCH --nodes=2\nsrun x\n"
    assert left(text, found("MESH101", 3)) == ([], 1, [])
    assert left(text, found("MESH101", 4)) == (["MESH101"], 0, ["SUP102"])


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/bash\necho '# moectl: ignore-file[XLA101]'\n",
        '#!/bin/bash\necho "\n# moectl: ignore-file[XLA101]\n"\n',
        "#!/bin/bash\ncat > x <<'EOF'\n# moectl: ignore-file[XLA101]\nEOF\n",
        "#!/bin/bash\ncat <<-EOF | tee \\\n  x\n# moectl: ignore-file[XLA101]\n\tEOF\n",
        "#!/bin/bash\necho a#moectl: ignore-file[XLA101]\n",
        'a: "# moectl: ignore-file[XLA101]"\n',
        "a: 'it''s\n  # moectl: ignore-file[XLA101]'\n",
        "a: |\n  text\n\n  # moectl: ignore-file[XLA101]\nb: 1\n",
        "- >-\n  # moectl: ignore-file[XLA101]\n",
        "a: x#moectl: ignore-file[XLA101]\n",
    ],
)
def test_what_the_reader_sees_as_content_is_no_comment(text: str) -> None:
    assert suppressions(text) == []
    assert left(text, found("XLA101", 3)) == (["XLA101"], 0, [])


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/bash\necho it\\'s # moectl: ignore-file[XLA101]\n",
        "#!/bin/bash\ncat <<A\nA\n# moectl: ignore-file[XLA101]\n",
        "#!/bin/bash\n# don't\n# moectl: ignore-file[XLA101]\n",
        "#!/bin/bash\r\n# moectl: ignore-file[XLA101]\r\n",
        "a: it's\nb: 1 # moectl: ignore-file[XLA101]\n",
        'a: "x\\""   # moectl: ignore-file[XLA101]\n',
        "a: |\n  text\nb: 1 # moectl: ignore-file[XLA101]\n",
        "#moectl:ignore-file[ XLA101 ]",
        "# why, see # moectl: ignore-file[xla101] because\n",
    ],
)
def test_a_comment_is_found_behind_quotes_and_blocks_that_ended(text: str) -> None:
    assert left(text, found("XLA101", 1)) == ([], 1, [])


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("ignore[XLA999]", "no rule has the code 'XLA999'"),
        ("ignore[XL]", "no rule has the code 'XL'"),
        ("ignore[nonsense!]", "no rule has the code 'NONSENSE!'"),
        ("ignore", "names no code"),
        ("ignore[]", "names no code"),
        ("ignore[XLA101", "names no code"),
        ("ingore[XLA101]", "is no suppression"),
        ("noqa[XLA101]", "is no suppression"),
    ],
)
def test_a_comment_that_takes_nothing_away_is_warned_of(comment: str, said: str) -> None:
    _, _, extra = apply([found("XLA101", 1)], {"f": f"a: 1 # moectl: {comment}\n"}, KNOWN)
    assert [(f.code, f.severity, f.line) for f in extra] == [("SUP101", "warning", 1)]
    assert said in extra[0].message


def test_an_unknown_code_is_pointed_at_and_the_nearest_is_named() -> None:
    _, _, extra = apply([], {"f": "a: 1 # moectl: ignore[MESH101, XLA10l]\n"}, KNOWN)
    [warning] = [f for f in extra if f.code == "SUP101"]
    assert warning.column == "a: 1 # moectl: ignore[MESH101, XLA10l]".index("XLA10l") + 1
    assert "XLA101" in warning.hint


def test_a_comment_about_moectl_is_no_suppression() -> None:
    said = "made by version 1", "see README", "file 3 of 4", "skip this", "allow 5 minutes"
    assert suppressions("".join(f"# moectl: {words}\n" for words in said)) == []


def test_useless_comments_may_be_kept_by_a_comment() -> None:
    text = "# moectl: ignore-file[SUP102]\na: 1 # moectl: ignore[XLA101]\n"
    assert left(text) == ([], 1, [])


@pytest.mark.parametrize(
    ("chosen", "code", "expected"),
    [
        ("XLA", "XLA101", True), ("XLA1", "XLA101", True), ("xla101", "XLA101", True),
        ("XLA101", "XLA1012", True), ("X", "XLA101", False), ("XLA", "XLAX101", False),
        ("XLA2", "XLA101", False), ("", "XLA101", False), ("101", "XLA101", False),
    ],
)  # fmt: skip
def test_a_family_or_beginning_stands_for_its_codes(chosen: str, code: str, expected: bool) -> None:
    assert covers(chosen, code) is expected


def test_an_unknown_family_gets_the_nearest_names() -> None:
    assert unknown("XLA1", KNOWN) is None
    near = unknown("MEHS101", KNOWN)
    assert near is not None
    assert near[0] == "MESH101"


def test_a_file_full_of_comments_is_read_in_a_moment() -> None:
    started = time.process_time()
    text = "#!/bin/sh\n" + "# moectl: ignore[XLA101]\n" * 5000 + "a \\\n" * 5000
    findings = [found("XLA101", line) for line in range(1, 10_001)]
    kept, suppressed, extra = apply(findings, {"f": text}, KNOWN)
    assert (len(kept), suppressed, extra) == (5001, 4999, [])
    text = f"# moectl: ignore[{'NO1,' * 5000}]\n"
    assert len(apply([], {"f": text}, KNOWN)[2]) == 5000
    assert time.process_time() - started < 5


PIECES = st.sampled_from(
    ["# moectl: ignore[XLA101]", "# moectl: ignore-file[", "]", "\n", "'", '"', "\\", "<<EOF",
     "EOF", "a: |", "  ", "#SBATCH", "\r", "#!/bin/sh", "\x00", "é"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=30).map("".join), st.integers(1, 9))
def test_no_text_breaks_the_reading_and_nothing_is_lost(text: str, line: int) -> None:
    findings = [found("XLA101", line), found("MEM101", line)]
    kept, suppressed, extra = apply(findings, {"f": text}, KNOWN)
    assert len(kept) + suppressed - sum(f.code not in {"SUP101", "SUP102"} for f in extra) == 2
    assert found("MEM101", line) in kept
    count = text.count("\n") + 1
    for one in suppressions(text):
        assert 1 <= one.line <= count
