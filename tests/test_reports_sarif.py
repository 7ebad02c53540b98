"""SARIF logs: the shape the standard asks for, places, rules, and URIs of hostile names."""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.actions.validate import Checked, Report
from moectl.findings import Finding
from moectl.reports import Look, rendered
from moectl.reports.sarif import uri
from moectl.rules.rule import Rule

RULE = Rule(
    "XLA101",
    "stray word",
    "Everything behind it is lost.",
    "remove the word",
    "openxla/xla parse_flags.cc; see https://github.com/openxla/xla/pull/1, jaxlib 0.12",
    "error",
    "silent",
)
FINDING = Finding(
    "XLA101", "error", "XLA_FLAGS", "a word", "remove it", "sub/run.sh", 2, 3, fix=("word", "")
)
CHECKED = Checked("sub/run.sh", "script", "#!\n  word\n", ("no image",))


def log(*findings: Finding, checked: tuple[Checked, ...] = (CHECKED,), root: str = "") -> Any:
    text = rendered(Report(findings, checked, 0), "sarif", Look(root=root), {"XLA101": RULE})
    return check(json.loads(text))


def check(log: Any) -> Any:
    """Assert what the standard asks of a log (SARIF 2.1.0, sections 3.13 to 3.55)."""
    assert log["version"] == "2.1.0"
    assert set(log) == {"$schema", "version", "runs"}
    [run] = log["runs"]
    assert set(run) == {"tool", "invocations", "artifacts", "results", "columnKind"}
    assert run["columnKind"] in {"utf16CodeUnits", "unicodeCodePoints"}
    driver = run["tool"]["driver"]
    assert driver["name"]
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    for rule in driver["rules"]:
        assert all(rule[name]["text"] for name in ("shortDescription", "help") if name in rule)
        assert urlsplit(rule.get("helpUri", "https://x")).scheme in {"http", "https"}
        assert rule.get("defaultConfiguration", {}).get("level", "none") in LEVELS
    uris = [artifact["location"]["uri"] for artifact in run["artifacts"]]
    assert len(set(uris)) == len(uris)
    notes = run["invocations"][0]["toolExecutionNotifications"]
    for result in [*run["results"], *notes]:
        assert result["level"] in LEVELS
        assert result["message"]["text"]
        if "ruleId" in result:
            assert ids[result["ruleIndex"]] == result["ruleId"]
        assert len(result["locations"]) == 1
        for location in result["locations"]:
            check_location(location, uris)
        for fix in result.get("fixes", ()):
            [change] = fix["artifactChanges"]
            [replacement] = change["replacements"]
            region = replacement["deletedRegion"]
            assert region["endColumn"] > region["startColumn"] >= 1
            assert isinstance(replacement["insertedContent"]["text"], str)
    return log


LEVELS = {"none", "note", "warning", "error"}


def check_location(location: Any, uris: list[str]) -> None:
    assert set(location) in ({"physicalLocation"}, {"logicalLocations"})
    if "logicalLocations" in location:
        assert location["logicalLocations"][0]["fullyQualifiedName"]
        return
    physical = location["physicalLocation"]
    artifact = physical["artifactLocation"]
    assert uris[artifact["index"]] == artifact["uri"]
    assert artifact["uri"].isascii()
    assert not set(artifact["uri"]) & set(' "<>\\^`{|}\n\r\t')
    if "region" in physical:
        assert physical["region"]["startLine"] >= 1
        assert physical["region"].get("startColumn", 1) >= 1


def test_a_finding_is_a_result_at_its_place_with_its_fix() -> None:
    [run] = log(FINDING, FINDING)["runs"]
    artifact = {"uri": "sub/run.sh", "index": 0}
    assert run["results"] == [
        {
            "ruleId": "XLA101",
            "ruleIndex": 0,
            "level": "error",
            "message": {"text": "XLA_FLAGS: a word. Help: remove it"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": artifact,
                        "region": {
                            "startLine": 2,
                            "startColumn": 3,
                            "snippet": {"text": "  word"},
                        },
                    }
                }
            ],
            "fixes": [
                {
                    "description": {"text": "remove it"},
                    "artifactChanges": [
                        {
                            "artifactLocation": artifact,
                            "replacements": [
                                {
                                    "deletedRegion": {
                                        "startLine": 2,
                                        "startColumn": 3,
                                        "endColumn": 7,
                                    },
                                    "insertedContent": {"text": ""},
                                }
                            ],
                        }
                    ],
                }
            ],
        }
    ]


def test_a_broken_rule_is_told_about_with_help_and_link() -> None:
    [rule] = log(FINDING)["runs"][0]["tool"]["driver"]["rules"]
    assert rule["shortDescription"]["text"] == "stray word"
    assert rule["helpUri"] == "https://github.com/openxla/xla/pull/1"
    assert "remove the word" in rule["help"]["text"]
    assert rule["properties"]["tags"] == ["XLA", "silent"]


def test_a_code_without_a_rule_is_still_listed() -> None:
    other = Finding("ODD1", "note", "", "m", file="sub/run.sh", line=1)
    rules = log(other, FINDING)["runs"][0]["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["ODD1", "XLA101"]


def test_what_could_not_be_read_is_a_notification() -> None:
    [note] = log()["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"] == "no image"
    assert log()["runs"][0]["results"] == []


@pytest.mark.parametrize("file", ["-", "--xla-flags", "preset kimi", ""])
def test_what_is_no_file_has_a_name_in_place_of_a_uri(file: str) -> None:
    line = 3 if file.startswith("-") else None
    [result] = log(Finding("A1", "error", "", "m", file=file, line=line))["runs"][0]["results"]
    assert result["locations"] == [{"logicalLocations": [{"fullyQualifiedName": file or "-"}]}]


def test_a_file_that_a_checked_one_builds_on_becomes_an_artifact() -> None:
    finding = Finding("A1", "error", "", "m", file="base.yml", line=3)
    [run] = log(finding)["runs"]
    assert [a["location"]["uri"] for a in run["artifacts"]] == ["sub/run.sh", "base.yml"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("./a/../b.yml", "b.yml"),
        ("a b%.yml", "a%20b%25.yml"),
        ("a:b.yml", "a%3Ab.yml"),
        ("a\nb\x1b\udcff.yml", "a%0Ab%1B%FF.yml"),
        ("é?#.yml", "%C3%A9%3F%23.yml"),
        ("/r/x.yml", "x.yml"),
        ("/other/x.yml", "file:///other/x.yml"),
        ("/rx/x.yml", "file:///rx/x.yml"),
        ("../x.yml", "../x.yml"),
    ],
)
def test_a_path_becomes_a_uri(name: str, expected: str) -> None:
    assert uri(name, "/r") == expected


@given(st.binary(min_size=1, max_size=30).filter(lambda raw: b"\0" not in raw))
def test_a_uri_says_every_byte_of_a_name(raw: bytes) -> None:
    name = os.fsdecode(raw)
    said = uri(name)
    assert said.isascii()
    assert unquote_to_bytes(said.removeprefix("file://")) == os.fsencode(os.path.normpath(name))


def test_hostile_names_and_texts_keep_the_log_readable() -> None:
    name = "a\x1b[m\n\udcff \"'.yml"
    finding = Finding("XLA101", "error", name, name, name, name, 1, 1, fix=("x", name))
    text = rendered(Report((finding,), (Checked(name, "script", "x\x1b[2J\udcff"),), 0), "sarif")
    text.encode()
    assert all(line.isprintable() for line in text.split("\n"))
    check(json.loads(text))
