"""The text of a compiled HLO module."""

from __future__ import annotations

import pytest

from moectl.evidence.hlo_text import HloError, attribute, module, shape_bytes

TEXT = """HloModule jit_step, is_scheduled=true

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum.1 = f32[] add(%a, %b)
}

%body.2 (arg: (s32[], bf16[8,4])) -> (s32[], bf16[8,4]) {
  %arg = (s32[], bf16[8,4]{1,0:T(8,128)(2,1)S(1)}) parameter(0)
  ROOT %tuple.3 = (s32[], /*index=1*/bf16[8,4]{1,0}) tuple(%arg, f32[2]{0} %named)
}

ENTRY %main.9 (p: bf16[8,4]) -> bf16[8,4] {
  %p = bf16[8,4]{1,0} parameter(0), metadata={op_name="a = b(c)"}
  %while.1 = (s32[], bf16[8,4]{1,0}) while(%p), condition=%cond.1, body=%body.2, \
backend_config={"known_trip_count":{"n":"58"},"known_init_step":{"init":"0","step":"1"}}
  %switch = f32[] conditional(%p, %p), branch_computations={%add, %body.2}
  ROOT %all-reduce.4 = bf16[8,4]{1,0} all-reduce(%p), replica_groups=[2,4]<=[8], to_apply=%add
}
"""


def test_computations_and_their_entry_are_found() -> None:
    read = module(TEXT)
    assert read.entry == "main.9"
    assert list(read.computations) == ["add", "body.2", "main.9"]
    assert list(read.computations["add"]) == ["a", "b", "sum.1"]


def test_shape_opcode_and_operands_are_taken_apart() -> None:
    found = module(TEXT).computations["body.2"]["tuple.3"]
    assert (found.opcode, found.operands) == ("tuple", ("arg", "named"))
    assert found.shape.startswith("(s32[]")


def test_a_loop_tells_its_trips_and_what_it_runs() -> None:
    loop = module(TEXT).computations["main.9"]["while.1"]
    assert loop.trips == 58
    assert loop.callees == ("cond.1", "body.2")


def test_a_choice_tells_all_that_it_may_run() -> None:
    assert module(TEXT).computations["main.9"]["switch"].callees == ("add", "body.2")


def test_a_loop_may_not_know_its_trips() -> None:
    read = module(TEXT.replace("known_trip_count", "something_else"))
    assert read.computations["main.9"]["while.1"].trips is None


def test_a_text_without_an_entry_is_refused() -> None:
    with pytest.raises(HloError, match="no entry computation"):
        module("HloModule x\n\n%a (b: f32[]) -> f32[] {\n}\n")


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ("f32[]", 4),
        ("bf16[8,4]{1,0:T(8,128)(2,1)S(1)}", 64),
        ("pred[3]", 3),
        ("f8e4m3fn[16]", 16),
        ("s4[3]", 2),
        ("f4e2m1fn[4]", 2),
        ("c128[2]", 32),
        ("(s32[2], /*index=1*/(u8[3], f16[1]), token[])", 13),
        ("token[]", 0),
        ("f32[0,4]", 0),
        ("f32[<=8,2]", 64),
    ],
)
def test_bytes_of_a_shape(shape: str, size: int) -> None:
    assert shape_bytes(shape) == size


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (", channel_id=1, replica_groups={{0,1},{2,3}}, dimensions={0}", "{{0,1},{2,3}}"),
        (", replica_groups=[4,2]<=[2,4]T(1,0), use=true", "[4,2]<=[2,4]T(1,0)"),
        (", replica_groups=mesh['a'=2,'b'=4] {'a','b'}, x=1", "mesh['a'=2,'b'=4] {'a','b'}"),
        (
            ", replica_groups=mesh['a'=4], device_ids=([2,2]T(1,0)) {'a'}, x=1",
            "mesh['a'=4], device_ids=([2,2]T(1,0)) {'a'}",
        ),
        (", frontend_attributes={replica_groups={{0}}}", "{{0}}"),
        (", other_replica_groups={{0}}", ""),
    ],
)
def test_an_attribute_is_taken_whole(text: str, value: str) -> None:
    assert attribute(text, "replica_groups") == value
