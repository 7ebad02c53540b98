"""moectl prove."""

from __future__ import annotations

from typing import Any

from moectl.actions.prove import FACTS, Proof, prove
from moectl.actions.prove_report import as_dict
from moectl.cli.job_options import wishes
from moectl.cli.manner import remark
from moectl.cli.numbers import whole
from moectl.cli.text import say, say_findings, say_json
from moectl.facts.yaml_facts import read

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_REACHES = {
    "domain": "inside an NVLink domain",
    "domains": "across NVLink domains",
    "slices": "across slices",
}
_SHOWN_BUFFERS = 5
_FROM_1 = "a whole number from 1"


def run(
    target: str,
    layers: str | None,
    fresh: bool,
    timeout: str | None,
    format: str,  # noqa: A002 - the option's name
    **values: Any,
) -> int:
    """Compile, and print what that proves."""
    proof = prove(
        target,
        wishes(values),
        layers=None if layers is None else whole("--layers", layers, f"{_FROM_1}, e.g. 2"),
        fresh=fresh,
        seconds=None if timeout is None else whole("--timeout", timeout, f"{_FROM_1}, e.g. 3600"),
        say=remark,
    )
    if format == "json":
        say_json(as_dict(proof))
    else:
        say_findings([*proof.job.findings, *proof.findings])
        _say_proof(proof)
    return 1 if any(finding.stops for finding in proof.findings) else 0


def _say_proof(proof: Proof) -> None:
    job = proof.job
    mesh = " x ".join(f"{axis} {size}" for axis, size in proof.compiled.mesh.items()) or "1 GPU"
    slices = f" in {job.mesh.slices} slices" if job.mesh.slices > 1 else ""
    say(f"{job.name}: compiled for {job.gpus} x {proof.target}{slices}, {mesh}")
    _say_memory(proof)
    _say_collectives(proof)
    _say_flags(proof)
    for one in proof.stood_in:
        say(f"  stood in    {one.key}={one.used!r} for {one.said!r}: {one.why}")
    if proof.opaque_attention:
        say(
            f"  stood in    {proof.compiled.opaque_calls} opaque calls for "
            f"{proof.opaque_attention}: its operands and results, nothing inside"
        )
    for note in proof.notes:
        say(f"  note        {note}")
    for sentence in read(FACTS)["not_covered"]:
        say(f"  not covered {sentence}")
    releases = ", ".join(f"{name} {text}" for name, text in proof.compiled.versions.items())
    known = "known already" if proof.cached else f"{proof.compiled.seconds:.0f} s"
    say(f"  compiled by {releases} ({known})")


def _say_memory(proof: Proof) -> None:
    memory = proof.memory
    say("  memory a GPU")
    rows = {
        "arguments": memory["argument_size"],
        "outputs": memory["output_size"],
        "of them in place": memory["alias_size"],
        "temporary": memory["temp_size"],
        "peak": proof.peak,
    }
    if memory["host_temp_size"] or memory["host_argument_size"]:
        rows["pinned host"] = memory["host_temp_size"] + memory["host_argument_size"]
    if proof.hbm is not None:
        rows["the GPU has"] = proof.hbm
    if proof.pool is not None:
        rows["XLA's pool has"] = proof.pool
    for name, size in rows.items():
        say(f"    {name:<18}{_size(size)}")
    sentences = {
        "fits": "it fits",
        "exceeds": "it does not fit",
        "unknown": "the memory of this GPU is not known here, so nothing is compared",
        "withheld": "no verdict: two models that shallow do not tell the peak of the whole",
        "information": "information, no verdict: this run is on the Transformer Engine path, and "
        "MaxText's own MoE path stood in for it",
    }
    say(f"    {sentences[proof.verdict]}")
    for buffer in proof.compiled.buffers[:_SHOWN_BUFFERS]:
        shapes = ", ".join(buffer["shapes"][:3])
        say(f"      {_size(buffer['bytes'])}  {shapes} ({buffer['space']})")


def _size(size: float) -> str:
    """Return bytes in a column of their own, in the largest unit that shows two digits."""
    name, unit = next((row for row in _UNITS if size >= row[1] / 10), ("B", 1))
    return f"{size / unit:>10.2f} {name:<3}" if unit > 1 else f"{size:>10.0f} {name:<3}"


def _say_collectives(proof: Proof) -> None:
    say("  collectives a step, bytes a GPU")
    if not proof.rows:
        say("    none")
    for (kind, reach), row in proof.rows.items():
        unsure = "" if row["sure"] else ", at least: a loop's trips are not known"
        say(
            f"    {kind:<20}{row['runs']:>7} runs of {row['instructions']:>3}"
            f"{_size(row['bytes'])}  {_REACHES[reach]}{unsure}"
        )


def _say_flags(proof: Proof) -> None:
    say("  XLA flags as the compiler took them")
    for flag in proof.flags:
        held = f" (held: {flag.held})" if flag.held and flag.held != flag.said else ""
        why = f": {flag.why}" if flag.why else ""
        say(f"    {flag.outcome:<9}--{flag.name}={flag.said}{held}{why}")
