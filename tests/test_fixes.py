"""Safe remedies: exactly the old text is replaced, everything else stays, all or nothing."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.errors import LocalFilesError
from moectl.findings import Finding
from moectl.fixes import FileFix, Fixes, diff, fixed, planned, write, write_file


def fault(
    old: str, new: str, line: int | None = 1, column: int | None = 1, file: str = "f"
) -> Finding:
    return Finding("A1", "error", "", "m", "h", file, line, column, fix=(old, new))


def made(content: bytes, *findings: Finding) -> tuple[bytes, int, int]:
    after, done, left = fixed(content, list(findings))
    return after, len(done), len(left)


def test_the_old_text_at_the_place_is_replaced_and_comments_stay() -> None:
    content = b"a: off  # why\nb: off\n"
    assert made(content, fault("off", "false", 2, 4)) == (b"a: off  # why\nb: false\n", 1, 0)


@pytest.mark.parametrize(
    "finding",
    [
        fault("off", "false", 1, 3),
        fault("of", "", 2, 1),
        fault("off", "false", 9, 1),
        fault("off", "false", 0, 4),
        fault("off", "false", 1, 0),
        fault("off", "false", 1, 99),
        fault("off", "false", None, 4),
        fault("off", "false", 1, None),
        fault("", "inserted", 1, 1),
        fault("off", "off", 1, 4),
        fault("Off", "false", 1, 4),
        fault("b", "c", 1, 8),
    ],
)
def test_text_that_is_not_the_old_one_is_never_touched(finding: Finding) -> None:
    assert made(b"a: off\nb: on\n", finding) == (b"a: off\nb: on\n", 0, 1)


def test_columns_count_characters_and_byte_order_mark_and_line_ends_stay() -> None:
    content = "\ufeffx: 1\r\né日: off\r\nlast".encode()
    after, done, left = made(content, fault("off", "a\nb", 2, 5), fault("x", "y", 1, 1))
    assert after == "\ufeffy: 1\r\né日: a\r\nb\r\nlast".encode()
    assert (done, left) == (2, 0)


def test_of_overlapping_remedies_the_first_is_made() -> None:
    content = b"abcdef"
    assert made(content, fault("abc", "X"), fault("cde", "Y", column=3)) == (b"Xdef", 1, 1)
    assert made(content, fault("abc", "X"), fault("abcd", "Y")) == (b"Xdef", 1, 1)
    assert made(content, fault("abc", "X"), fault("def", "Y", column=4)) == (b"XY", 2, 0)


def test_the_same_remedy_asked_for_by_two_rules_is_made_once() -> None:
    assert made(b"abc", fault("ab", "X"), fault("ab", "X")) == (b"Xc", 2, 0)


@pytest.mark.parametrize("letter", ["\r", "\x85", "\u2028", "\u2029"])
def test_a_file_whose_lines_may_be_counted_in_two_ways_stays(letter: str) -> None:
    content = f"# a{letter}b\nx: off\nx: off\n".encode()
    assert made(content, fault("off", "on", 2, 4)) == (content, 0, 1)


def test_a_file_that_is_no_text_stays() -> None:
    assert made(b"\xff\xfeab", fault("ab", "x", 1, 3)) == (b"\xff\xfeab", 0, 1)


@given(
    st.text(st.sampled_from("ab \n\té日"), max_size=40),
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 9), st.sampled_from("ab \té")), max_size=6
    ),
)
def test_what_is_made_is_what_the_old_texts_allow(
    text: str, places: list[tuple[int, int, str]]
) -> None:
    findings = [fault(old, "<>", line, column) for line, column, old in places]
    after, done, left = fixed(text.encode(), findings)
    assert len(done) + len(left) == len(findings)
    spots = {(f.line, f.column) for f in done}
    lines = [
        "".join(
            "<>" if (number, column) in spots else letter
            for column, letter in enumerate(line, start=1)
        )
        for number, line in enumerate(text.split("\n"), start=1)
    ]
    assert after.decode() == "\n".join(lines)


def test_a_diff_can_be_applied_by_patch(tmp_path: Path) -> None:
    for name, before, after in (
        ("a", b"x\ny\n", b"x\nz\n"),
        ("b", b"x\r\ny", b"x\r\nz"),
        ("c", b"\xef\xbb\xbfx\n", b"\xef\xbb\xbfy"),
    ):
        (tmp_path / name).write_bytes(before)
        change = FileFix(name, before, after, ())
        text = diff(change)
        subprocess.run(
            ["git", "apply", "--unsafe-paths", "-"], cwd=tmp_path, input=text.encode(), check=True
        )
        assert (tmp_path / name).read_bytes() == after


def test_a_hostile_name_in_a_diff_is_one_line() -> None:
    text = diff(FileFix("a\n+++ b/x\x1b\udcff", b"a\n", b"b\n", ()))
    assert text.splitlines()[0] == "--- a/a\\n+++ b/x\\x1b\\xff"
    text.encode()


def test_only_named_files_are_planned_for(tmp_path: Path) -> None:
    name = str(tmp_path / "a.yml")
    Path(name).write_text("off\n")
    other = fault("x", "y", file="base.yml")
    plain = Finding("A2", "error", "", "m", file=name)
    fixes = planned([fault("off", "false", file=name), other, plain, other], {name})
    assert [(one.name, one.after) for one in fixes.files] == [(name, b"false\n")]
    assert (fixes.made, fixes.left) == (1, (other,))
    assert Path(name).read_text() == "off\n"


def test_a_file_that_is_gone_is_one_sentence(tmp_path: Path) -> None:
    name = str(tmp_path / "gone\n.yml")
    with pytest.raises(LocalFilesError, match=r"gone\\n.yml: No such file"):
        planned([fault("a", "b", file=name)], {name})


def fixes_of(*changes: tuple[Path, bytes, bytes]) -> Fixes:
    return Fixes(tuple(FileFix(str(path), before, after, ()) for path, before, after in changes))


def test_writing_keeps_permissions_and_links(tmp_path: Path) -> None:
    real, link = tmp_path / "real.sh", tmp_path / "link.sh"
    real.write_bytes(b"a")
    real.chmod(0o750)
    link.symlink_to("real.sh")
    write(fixes_of((link, b"a", b"b")))
    assert link.is_symlink()
    assert real.read_bytes() == b"b"
    assert stat.S_IMODE(real.stat().st_mode) == 0o750
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.sh", "real.sh"]


def test_a_file_changed_meanwhile_stops_all_writing(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"a")
    two.write_bytes(b"changed")
    with pytest.raises(LocalFilesError, match="changed meanwhile"):
        write(fixes_of((one, b"a", b"b"), (two, b"a", b"b")))
    assert one.read_bytes() == b"a"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_a_rename_that_fails_takes_back_those_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for path in (one, two):
        path.write_bytes(b"a")
    replace = Path.replace

    def failing(self: Path, target: Path) -> Path:
        if target == two:
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(LocalFilesError, match="No space left"):
        write(fixes_of((one, b"a", b"b"), (two, b"a", b"b")))
    assert (one.read_bytes(), two.read_bytes()) == (b"a", b"a")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_a_report_is_written_whole_with_the_permissions_of_a_new_file(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    write_file(str(target), b"{}")
    mask = os.umask(0)
    os.umask(mask)
    assert target.read_bytes() == b"{}"
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~mask
    write_file(str(target), b"[]")
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
    assert target.read_bytes() == b"[]"


def test_a_device_is_written_into_and_a_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_file("/dev/null", b"x")
    assert not Path("/dev/null").is_file()
    for name in (str(tmp_path), str(tmp_path / "no" / "file"), "a\0b"):
        with pytest.raises(LocalFilesError, match="nothing was written"):
            write_file(name, b"x")
    assert list(tmp_path.iterdir()) == []
