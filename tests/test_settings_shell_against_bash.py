"""The reader against a real bash: what it says is certain must be what bash does."""

from __future__ import annotations

import random
import re
import shutil
import subprocess

import pytest

from moectl.settings.shell import read
from moectl.workload import MARK, Step

BASH = shutil.which("bash")
NAMES = ("A", "B", "C1", "_d")
LITERALS = (
    "x", "--flag=1", "a b", "  lead", "tail ", "", "é", "q\"q", "it's", "$5", "a\\b", "#no", "k=v",
    "tab\there", "two\nlines", "~", "-n", "=", "a;b", "a&b", "(p)", "`t`", "!",
)  # fmt: skip


def quoted(draw: random.Random, text: str) -> str:
    """Write a text so that bash reads it back, in one of several ways."""
    single = "'" + text.replace("'", "'\\''") + "'"
    double = '"' + re.sub(r'([\\"$`])', r"\\\1", text) + '"'
    ansi = (
        "$'"
        + "".join({"\n": "\\n", "\t": "\\t", "'": "\\'", "\\": "\\\\"}.get(c, c) for c in text)
        + "'"
    )
    bare = "".join(c if c.isalnum() or c in "-=/" else f"\\{c}" for c in text if c != "\n")
    ways = [single, double, ansi, *([bare] if bare and "\n" not in text else [])]
    return draw.choice(ways)


def expansion(draw: random.Random) -> str:
    name = draw.choice(NAMES)
    return draw.choice(
        [
            f"${name}", f"${{{name}}}", f'"${name}"', f'"${{{name}}}"', f'"${{{name}:-d e}}"',
            f"${{{name}:-d e}}", f'"${{{name}:+s}}"', f"${{{name}-x}}", f'"pre ${name} post"',
            '"${ARR[@]}"', "${ARR[@]}", '"${ARR[*]}"', '"${ARR[1]}"', "$((2*3+1))",
            f'"$(echo {name})"', "$(echo one two)", '"$@"', '"$1"', "${UNSEEN}", '"$UNSEEN"',
            f"${{{name}#x}}", f'"${{{name}%e}}"', f'"${{{name}//a/_}}"', f"${{{name}/ /-}}",
            f'"${{{name}%%=*}}"', f"${{{name}##* }}", f'"${{{name}:1:3}}"', f"${{{name}:2}}",
            f'"$(echo "${name}" | tr a _)"', f"$(echo k=v-{name} | tr - ' ')",
            "{p,q}", "x{1,2}y", "pre$A.post", '"$A"\'$A\'', f"--o=${name}", f'--o="${name}"',
        ]
    )  # fmt: skip


def word(draw: random.Random) -> str:
    return quoted(draw, draw.choice(LITERALS)) if draw.random() < 0.5 else expansion(draw)


def value(draw: random.Random) -> str:
    parts = [word(draw) for _ in range(draw.choice([1, 1, 2]))]
    joined = "".join(parts)
    return joined if not re.search(r"ARR|\"\$@\"|\{p|\{1", joined) else '"v w"'


def command(draw: random.Random, tags: list[str], depth: int = 0) -> str:
    kind = draw.randrange(16 if depth < 3 else 9)

    def inner(below: int = depth + 1) -> str:
        return "\n".join(command(draw, tags, below) for _ in range(draw.choice([1, 2])))

    name = draw.choice(NAMES)
    if kind < 3:
        tags.append(f"tag{len(tags)}")
        return f"srun {tags[-1]} " + " ".join(word(draw) for _ in range(draw.choice([1, 2, 3])))
    if kind == 3:
        return f"export {name}={value(draw)}"
    if kind == 4:
        return f"{name}{draw.choice(['', '+'])}={value(draw)}"
    if kind == 5:
        return f"ARR{draw.choice(['', '+'])}=({word(draw)} {word(draw)} # note\n  {word(draw)})"
    if kind == 6:
        return draw.choice([f"unset {name}", f"export {name}", f"read {name} <<< 'in put'"])
    if kind == 7:
        return f"set -- {word(draw)} {word(draw)}"
    if kind == 8:
        return draw.choice(["fun a 'b c'", "fun", ": $A", "true", "shift"])
    if kind == 9:
        test = draw.choice(
            ["true", "false", f'[ "${name}" = x ]', f'[[ -z "${name}" ]]', "test -e /nowhere",
             '[ -n "$UNSEEN" ]', f'[[ "${name}" == "k=v" && 1 == 1 ]]', "! true", "(( 1 > 2 ))"]
        )  # fmt: skip
        other = f"else\n{inner()}\n" if draw.random() < 0.5 else ""
        return f"if {test}; then\n{inner()}\n{other}fi"
    if kind == 10:
        return f"for {name} in {word(draw)} {word(draw)}; do\n{inner()}\ndone"
    if kind == 11:
        return f"( {inner()}\n)"
    if kind == 12:
        joint = draw.choice(["&&", "||"])
        return f"{draw.choice(['true', 'false', '[ 1 = 2 ]'])} {joint} {{ {inner()}\n}}"
    if kind == 13:
        return (
            f'case "${name}" in\n x|k=v) {inner()};;\n "a b") {inner()} ;;\n'
            f" {draw.choice(['*', 'z*', 'q'])}) {inner()};;\nesac"
        )
    if kind == 14 and depth == 0:
        # A function that calls itself for ever is no script.
        body = inner().replace("fun", ":")
        return f"fun() {{ local {name}={value(draw)}\n{body}\n{draw.choice(['', 'return'])}\n}}"
    return f"while false; do {inner()}\ndone"


def matches(step: Step, words: list[str]) -> bool:
    """Whether bash's words are among those the reader leaves possible."""
    pattern = "\x01".join(word.text for word in step.words)
    # An unknown item of an array may be none, and then no blank joins it.
    pattern = pattern.replace(f" {MARK}", MARK).replace(f"{MARK} ", MARK)
    regex = "".join(".*" if c == MARK else re.escape(c) for c in pattern)
    given = "\x01".join(words)
    if MARK not in pattern:
        return pattern == given
    # An unquoted unknown word may also be no word at all.
    return (
        re.fullmatch(regex, given, re.DOTALL) is not None
        or re.fullmatch(
            regex.replace("\x01.*", "(?:\x01.*)?").replace(re.escape("\x01") + ".*", "(?:\x01.*)?"),
            given,
            re.DOTALL,
        )
        is not None
    )


def run(script: str) -> list[list[str]]:
    assert BASH is not None
    prelude = "srun() { printf '%s\\1' \"$@\"; printf '\\2'; }\n"
    done = subprocess.run(
        [BASH, "--norc", "-c", prelude + script],
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        cwd="/",
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert b"syntax error" not in done.stderr, (script, done.stderr)
    calls = done.stdout.decode().split("\x02")[:-1]
    return [call.split("\x01")[:-1] for call in calls]


def differences(seed: int) -> list[str]:
    draw = random.Random(seed)  # noqa: S311 - a test's own choice
    tags: list[str] = []
    script = "fun() { :; }\n" + "\n".join(command(draw, tags) for _ in range(8)) + "\n"
    ran = run(script)
    reading = read(script, "s.sh")
    found = [f"unread: {reading.unread}"] if reading.unread else []
    steps = reading.batch.steps
    for words in ran:
        like = [step for step in steps if step.words[0].text == words[0]]
        if not any(matches(step, words) for step in like):
            found.append(f"bash ran {words}, the reader has {[s.words for s in like]}")
    executed = {words[0] for words in ran}
    found += [
        f"the reader is certain of {step.words}"
        for step in steps
        if not step.conditional and step.words[0].text not in executed
    ]
    return [f"{line}\n--- seed {seed}\n{script}" for line in found]


@pytest.mark.parametrize("block", range(6))
def test_what_the_reader_is_certain_of_is_what_bash_does(block: int) -> None:
    for seed in range(block * 15, block * 15 + 15):
        assert differences(seed) == []


@pytest.mark.parametrize(
    "options",
    [
        "-euox pipefail", "-euo pipefail", "-eux -o pipefail", "-o pipefail -e", "-eo pipefail x y",
        "-euox pipefail -- a b", "-", "- a b", "--", "-- -o pipefail", "-a -- q", "+x",
        "+o posix z", "-e a", "-eo pipefail -o nounset c",
    ],
)  # fmt: skip
def test_the_options_of_set_leave_the_arguments_that_bash_leaves(options: str) -> None:
    script = f'set -- p1 p2\nset {options}\nsrun x "$@"\n'
    (ran,) = run(script)
    (step,) = read(script, "s.sh").batch.steps
    assert ["x", *ran[1:]] == [word.text for word in step.words], (ran, step.words)
