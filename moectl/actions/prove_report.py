"""A proof as plain data, for JSON and for people."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from moectl.actions.prove import FACTS, Proof
from moectl.facts.yaml_facts import read


def as_dict(proof: Proof) -> dict[str, Any]:
    """Return the JSON form of a proof."""
    job, memory = proof.job, proof.memory
    crossing = {
        reach: sum(int(row["bytes"]) for (_, far), row in proof.rows.items() if far == reach)
        for reach in ("domain", "domains", "slices")
    }
    return {
        "name": job.name,
        "preset": job.preset,
        "gpus": job.gpus,
        "hardware": job.hardware.name,
        "target": proof.target,
        "mesh": dict(proof.compiled.mesh),
        "slices": job.mesh.slices,
        "path": "transformer-engine" if proof.stood_in else "native",
        "stood_in": [asdict(one) for one in proof.stood_in],
        "opaque_attention": {
            "kernel": proof.opaque_attention,
            "calls": proof.compiled.opaque_calls,
        },
        "bytes_per_device": {
            "argument": memory["argument_size"],
            "output": memory["output_size"],
            "alias": memory["alias_size"],
            "temp": memory["temp_size"],
            "total": proof.total,
            "peak": proof.peak,
            "hbm": proof.hbm,
            "pool": proof.pool,
        },
        "host_bytes_per_device": {
            "argument": memory["host_argument_size"],
            "temp": memory["host_temp_size"],
        },
        "memory_spaces": dict(proof.spaces),
        "largest_buffers": [dict(one) for one in proof.compiled.buffers],
        "fits": proof.fits,
        "verdict": proof.verdict,
        "too_flat": proof.too_flat,
        "collectives": [
            {"kind": kind, "reach": reach, **row} for (kind, reach), row in proof.rows.items()
        ],
        "collective_bytes": crossing,
        "xla_flags": [asdict(flag) for flag in proof.flags],
        "compiler_options": dict(proof.compiled.options),
        "depths": asdict(proof.depths) if proof.depths else None,
        "versions": dict(proof.compiled.versions),
        "seconds": proof.compiled.seconds,
        "cached": proof.cached,
        "not_covered": list(read(FACTS)["not_covered"]),
        "findings": [finding.as_dict() for finding in (*job.findings, *proof.findings)],
        "notes": list(proof.notes),
    }
