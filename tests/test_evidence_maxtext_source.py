"""The reader of a whole MaxText: a small one built here, and the real one when it is there."""

from __future__ import annotations

import os
import sys
import time
import zipfile
from pathlib import Path

import pytest

from moectl.errors import SourceError
from moectl.evidence.maxtext_source import read_source
from moectl.facts.maxtext import MeshAxis
from tests.support import components

TREE = {
    "version.py": '"""Version."""\n__version__ = "9.1.0"\n',
    "common/common_types.py": (
        "import enum\nclass Block(enum.Enum):\n  LLAMA = 'llama2'\n  DEEPSEEK = 'deepseek'\n"
    ),
    "configs/types.py": """
import copy
from enum import Enum
from typing import Any, Literal, Optional
from maxtext.common.common_types import Block
from pydantic.fields import Field
from pydantic.config import ConfigDict
from pydantic.main import BaseModel
from pydantic.types import NonNegativeInt
raise RuntimeError("a reader that imports this has failed")

DEFAULT_AXES = ["data", "fsdp"]

class Quant(str, Enum):
  NONE = ""
  FP8 = "fp8"

class Deep(BaseModel):
  deepest: int = 1

class LoRA(BaseModel):
  model_config = ConfigDict(extra="forbid")
  lora_rank: NonNegativeInt = Field(0, description="UPSTREAM HELP")
  below: Deep = Field(default_factory=Deep)

class Run(BaseModel):
  steps: int = Field(10, ge=1, description="UPSTREAM HELP")
  run_name: str = ""
  block: Block = Field(Block.LLAMA)
  quantization: None | Quant = Quant.NONE
  columns: list[str] = Field(default_factory=list)
  tokenizer: Optional[str] = None
  period: int | None = None
  mesh_axes: list[str] = Field(default_factory=lambda: copy.deepcopy(DEFAULT_AXES))
  logical_axis_rules: Any = Field(default_factory=list)
  ici_data_parallelism: int = 1
  ici_fsdp_parallelism: int = -1
  dcn_data_parallelism: int = -1
  dcn_fsdp_parallelism: int = 1

class DerivedValues(BaseModel):
  emb_dim: None | int = None

class MaxTextConfig(Run, DerivedValues):
  steps: int = Field(20, ge=0)
  lora: LoRA = Field(default_factory=LoRA)

  def finish(self):
    ici_map = {"data": self.ici_data_parallelism, "fsdp": self.ici_fsdp_parallelism,
               "model": self.ici_fsdp_parallelism, "dcp": (1)}
    dcn_map = {"data": self.dcn_data_parallelism, "fsdp": self.dcn_fsdp_parallelism, "dcp": 1}
    other = {"data": self.steps}
""",
    "configs/pyconfig.py": """
def _prepare_for_pydantic(raw_keys):
  for key, value in raw_keys.items():
    if isinstance(new_value, str) and new_value.lower() == "none":
      new_value = None
    if key in ("columns",):
      new_value = _coerce_to_list(new_value)
    if (key in ("tokenizer", "other") and new_value == ""):
      new_value = None
    if key == "run_name" and new_value is None:
      new_value = ""
    if key == "steps" and new_value is None:
      new_value = compute()
""",
    "configs/base.yml": (
        "# UPSTREAM COMMENT\nrun_name: none\nsteps: 1_000\nperiod: None\ntokenizer: ''\n"
        "columns: text\nmesh_axes: [data, fsdp]\nlogical_axis_rules: [[embed, [fsdp]]]\n"
    ),
    "configs/models/moe-b.yml": "block: deepseek\nsteps: 3e2\nstray: 1\n",
    "configs/models/moe-b-2.yml": "period: none\n",
    "configs/models/README.md": "no model",
}


def tree(folder: Path, **changed: str | None) -> Path:
    """Write the small MaxText; `changed` replaces files by their last name, None drops one."""
    for name, text in TREE.items():
        replaced = changed.get(Path(name).stem, text)
        if replaced is not None:
            (folder / "maxtext" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "maxtext" / name).write_text(replaced, encoding="utf-8")
    return folder


def test_every_key_is_read_with_its_parent_class_default_and_line(tmp_path: Path) -> None:
    tables = read_source(tree(tmp_path))
    assert tables.release == "9.1.0"
    assert list(tables.keys)[:2] == ["emb_dim", "steps"]
    assert len(tables.keys) == 15
    steps = tables.keys["steps"]
    assert (steps.type, steps.ge, steps.default, steps.group) == ("int", 0, 20, "MaxTextConfig")
    line = TREE["configs/types.py"].splitlines().index("  steps: int = Field(20, ge=0)") + 1
    assert steps.where == f"configs/types.py:{line}"
    assert tables.keys["block"].choices == ("llama2", "deepseek")
    assert tables.keys["quantization"].choices == ("", "fp8")
    assert tables.keys["quantization"].nullable
    assert tables.keys["mesh_axes"].default == ["data", "fsdp"]
    assert [key.name for key in tables.keys.values() if key.derived] == ["emb_dim"]


def test_keys_under_a_key_are_kept_apart(tmp_path: Path) -> None:
    tables = read_source(tree(tmp_path))
    assert tables.keys["lora"].nested == ("lora_rank", "below")
    assert tables.keys["lora"].closed
    assert tables.keys["lora"].default == {"lora_rank": 0, "below": {"deepest": 1}}
    rank = tables.nested["lora"]["lora_rank"]
    assert (rank.path, rank.ge, rank.opaque) == ("lora.lora_rank", 0, False)
    assert tables.nested["lora"]["below"].opaque
    assert "lora_rank" not in tables.keys


def test_what_the_loader_does_to_single_keys_is_found(tmp_path: Path) -> None:
    tables = read_source(tree(tmp_path))
    prepared = {name: key.prepared for name, key in tables.keys.items() if key.prepared}
    assert prepared == {
        "run_name": ("none_is_empty",),
        "columns": ("text_is_list",),
        "tokenizer": ("empty_is_none",),
    }


def test_yaml_values_are_those_that_maxtext_uses(tmp_path: Path) -> None:
    tables = read_source(tree(tmp_path))
    assert tables.base == {
        "run_name": "",
        "steps": 1000,
        "period": None,
        "tokenizer": None,
        "columns": ["text"],
        "mesh_axes": ["data", "fsdp"],
        "logical_axis_rules": [["embed", ["fsdp"]]],
    }
    assert tables.models == {
        "moe-b": {"block": "deepseek", "steps": 300.0, "stray": 1},
        "moe-b-2": {"period": None},
    }
    assert tables.strays == ("moe-b: stray",)


def test_each_mesh_axis_knows_the_keys_that_size_it(tmp_path: Path) -> None:
    assert read_source(tree(tmp_path)).axes == {
        "data": MeshAxis("data", "ici_data_parallelism", "dcn_data_parallelism"),
        "fsdp": MeshAxis("fsdp", "ici_fsdp_parallelism", "dcn_fsdp_parallelism"),
        "model": MeshAxis("model", "ici_fsdp_parallelism"),
        "dcp": MeshAxis("dcp"),
    }


def test_a_wheel_reads_as_its_folder_does(tmp_path: Path) -> None:
    folder = tree(tmp_path / "unpacked")
    wheel = tmp_path / "maxtext-9.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder).as_posix())
    assert read_source(wheel) == read_source(folder)


def test_the_source_is_never_run(tmp_path: Path) -> None:
    before = set(sys.modules)
    read_source(tree(tmp_path))
    assert not [name for name in set(sys.modules) - before if name.startswith("maxtext")]


def test_the_release_can_be_named_and_must_be_when_the_source_is_silent(tmp_path: Path) -> None:
    for number, text in enumerate([None, "__version__ = make()\n", "other = 1\n"]):
        folder = tree(tmp_path / str(number), version=text)
        assert read_source(folder, "9.2").release == "9.2"
        with pytest.raises(SourceError, match="does not say which release it is: name it"):
            read_source(folder)


def test_a_maxtext_without_a_loader_or_models_still_has_keys(tmp_path: Path) -> None:
    changed = {"pyconfig": None, "moe-b": None, "moe-b-2": None, "README": None}
    tables = read_source(tree(tmp_path, **changed))
    assert len(tables.keys) == 15
    assert tables.models == {}
    assert tables.base["run_name"] is None


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("types", "class Other: pass\n", "declares no class MaxTextConfig"),
        ("types", "class MaxTextConfig(\n", r"types\.py:1: is no Python"),
        ("types", "class MaxTextConfig(make()): pass\n", r"types\.py:1: the base classes"),
        ("types", "class MaxTextConfig(MaxTextConfig): pass\n", "the base classes have no order"),
        ("base", None, r"configs/base\.yml: is missing"),
        ("base", "a: 1\na: 2\n", r"configs/base\.yml:2: .*twice"),
        ("moe-b", "- 1\n", r"moe-b\.yml:1: a mapping of keys is wanted here"),
        ("pyconfig", "def (\n", r"pyconfig\.py:1: is no Python"),
        ("common_types", "\0", r"common_types\.py: "),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, name: str, text: str | None, sentence: str
) -> None:
    with pytest.raises(SourceError, match=sentence):
        read_source(tree(tmp_path, **{name: text}))


def real() -> Path:
    """Return a real MaxText: MOECTL_TEST_MAXTEXT, or the environment of the judge."""
    named = os.environ.get("MOECTL_TEST_MAXTEXT")
    return Path(named) if named else components.require("maxtext").parent.parent


def test_a_real_maxtext_is_read_in_about_a_second() -> None:
    source = real()
    started = time.perf_counter()
    tables = read_source(source)
    seconds = time.perf_counter() - started
    assert tables.strays == ()
    assert len(tables.keys) > 700
    # It takes 0.8 s on one idle core; the bound only catches a change of kind.
    assert seconds < 6
