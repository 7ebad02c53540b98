"""The mutation check itself: what is a fault, and what the tally says."""

from __future__ import annotations

from tests.mutation import plugin
from tests.mutation.copy import LEFT_OUT
from tests.mutation.faults import Fault, meaning
from tests.mutation.page import page, reasons
from tests.mutation.plugin import KEPT
from tests.support.components import COMPONENTS
from tests.support.packaging import ROOT

PLAIN = 'def f(x: int | None) -> int | None:\n    """Say."""\n    return x\n'


def _fault(module: str, after: str = "b") -> Fault:
    return Fault(module, "core/AddNot", 0, 3, "a", after)


def test_what_never_runs_is_no_fault() -> None:
    assert meaning(PLAIN) == meaning(PLAIN.replace("int | None", "int & None"))
    assert meaning(PLAIN) == meaning(PLAIN.replace("Say.", "Say not."))


def test_what_runs_otherwise_is_a_fault() -> None:
    assert meaning(PLAIN) != meaning(PLAIN.replace("return x", "return not x"))
    assert meaning("X: int = 1\n") != meaning("X: int = 2\n")


def test_a_tally_counts_by_room_and_lists_what_survived() -> None:
    done = [
        (_fault("moectl/rules/x.py"), "caught"),
        (_fault("moectl/rules/y.py"), "slow"),
        (_fault("moectl/launch/z.py"), "survived"),
    ]
    text, good = page(done, 3, 1, {})
    assert "2 of 3 faults were caught, 66.7%" in text
    assert "| rules | 2 | 2 | 2 | 100% |" in text
    assert "| launch | 1 | 1 | 0 | 0% |" in text
    assert "- a\n+ b\n" in text
    assert "No reason is known." in text
    assert not good


def test_enough_is_caught_when_every_survivor_has_a_reason() -> None:
    many = [(_fault("moectl/rules/x.py", f"b{number}"), "caught") for number in range(9)]
    left = _fault("moectl/launch/z.py")
    assert page([*many, (left, "survived")], 10, 1, {left.name: "Nobody sees it."})[1]
    assert not page([*many, (left, "survived")], 10, 1, {})[1]


def test_reasons_are_of_rooms_that_are_tried_and_say_something() -> None:
    assert all(name.startswith("moectl/") and reason for name, reason in reasons().items())


def test_what_the_check_leaves_out_and_keeps_is_there() -> None:
    assert all((ROOT / name).is_file() for name in LEFT_OUT)
    assert set(KEPT) <= set(COMPONENTS)


def test_importing_the_plugin_leaves_every_component_to_the_other_tests() -> None:
    assert all(found is not plugin._left_out for found in COMPONENTS.values())
