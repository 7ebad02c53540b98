"""Reads a GPU platform from a YAML file of a person, for estimates of what is not catalogued."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moectl.errors import SourceError, UsageError, nearest, shown
from moectl.facts import hardware
from moectl.settings.flatten import raise_all
from moectl.settings.text_file import read_text
from moectl.settings.yaml_source import read_mapping
from moectl.values import Hardware

_TEXTS = ("name", "architecture")
_COUNTS = ("gpus_per_node", "domain_gpus")
_OPTIONAL = ("usable_domain_gpus", "title")
_FIGURES = ("hbm_visible_bytes", "hbm_gbs", "nvlink_gbs", "nic_gbps", "host_link_gbs")
_PEAKS = ("bf16", "fp8", "mxfp8", "nvfp4")
_MOST = 1e15


def hardware_file(path: Path) -> Hardware:
    """Return the platform that a file describes, and let it be found by its name from now on.

    Its keys are those of the catalogue (`moectl hardware show NAME --format json`): name,
    architecture, gpus_per_node, domain_gpus, perhaps usable_domain_gpus and title, and figures:
    hbm_visible_bytes, hbm_gbs, dense_tflops (bf16, perhaps fp8, mxfp8, nvfp4), nvlink_gbs,
    nic_gbps, perhaps host_link_gbs.

    Raises:
        SourceError: it is no such file; SeveralUsageErrors with all its faults.
        LocalFilesError: it cannot be read.
    """
    document = read_mapping(read_text(path), str(path))
    data = document.data
    faults: list[UsageError] = []

    def fault(keys: tuple[str, ...], sentence: str) -> None:
        spot = document.place(*keys)
        faults.append(SourceError(str(path), spot.line if spot else None, sentence))

    figures = data.get("figures")
    peaks = figures.get("dense_tflops") if isinstance(figures, Mapping) else None
    for key in set(data) - {*_TEXTS, *_COUNTS, *_OPTIONAL, "figures"}:
        fault((key,), f"no key of a platform is {shown(key)}{_near(key)}")
    for key in _TEXTS:
        if not isinstance(data.get(key), str) or not data[key]:
            fault((key,), f"{key} must be a text, e.g. {key}: my-gpu")
    for key in (*_COUNTS, *(k for k in _OPTIONAL[:1] if k in data)):
        if not _positive(data.get(key), whole=True):
            fault((key,), f"{key} must be a whole number above zero")
    name, node, domain = (data.get(key) for key in ("name", *_COUNTS))
    if isinstance(name, str) and name.casefold() in hardware.known():
        fault(("name",), f"{shown(name)} is a platform of the catalogue; give it a name of its own")
    kinds = sorted({hardware.platform(one).architecture for one in hardware.names()})
    kind = data.get("architecture")
    if isinstance(kind, str) and kind and kind not in kinds:
        fault(
            ("architecture",), f"architecture cannot be {shown(kind)}; it may be {', '.join(kinds)}"
        )
    sound_counts = _positive(node, whole=True) and _positive(domain, whole=True)
    if sound_counts and int(str(domain)) % int(str(node)):
        fault(
            ("domain_gpus",),
            f"domain_gpus {domain} must be a multiple of gpus_per_node {node}: a domain is whole "
            "nodes",
        )
    if not isinstance(figures, Mapping):
        fault(("figures",), "figures must hold hbm_visible_bytes, hbm_gbs, dense_tflops and so on")
    else:
        for key in _FIGURES:
            if key not in figures:
                if key != "host_link_gbs":
                    fault(("figures",), f"figures.{key} is missing; it must be a number above zero")
            elif not _positive(figures.get(key), whole=key == "hbm_visible_bytes"):
                fault(("figures", key), f"figures.{key} must be a number above zero")
        legal = {*_FIGURES, "dense_tflops", *_catalogued()}
        for key in set(figures) - legal:
            close = nearest(str(key), sorted(legal))
            hint = f"; did you mean {' or '.join(close)}?" if close else ""
            fault(("figures", key), f"no figure of a platform is {shown(key)}{hint}")
        sound = isinstance(peaks, Mapping) and "bf16" in peaks
        if not sound or not all(
            name in _PEAKS and _positive(value) for name, value in (peaks or {}).items()
        ):
            fault(
                ("figures", "dense_tflops"),
                "figures.dense_tflops must hold the dense peak of bf16, and perhaps of "
                f"{', '.join(_PEAKS[1:])}, in TFLOP/s",
            )
    raise_all(faults)
    return hardware.adopt(_made(data))


def _made(data: Mapping[str, Any]) -> Hardware:
    return Hardware(
        name=data["name"],
        title=str(data.get("title") or data["name"]),
        architecture=data["architecture"],
        compute_capability=None,
        gpus_per_node=data["gpus_per_node"],
        domain_gpus=data["domain_gpus"],
        usable_domain_gpus=data.get("usable_domain_gpus", data["domain_gpus"]),
        cpu_cores_per_node=None,
        cpu_architecture=None,
        gres_type=data["name"],
        figures=data["figures"],
    )


def _catalogued() -> set[str]:
    """Return every figure that the catalogue has of any platform."""
    return {key for name in hardware.names() for key in hardware.platform(name).figures}


def _near(key: str) -> str:
    found = nearest(str(key), (*_TEXTS, *_COUNTS, *_OPTIONAL, "figures"))
    return f"; did you mean {' or '.join(found)}?" if found else ""


def _positive(value: object, *, whole: bool = False) -> bool:
    kinds = int if whole else (int, float)
    sound = isinstance(value, kinds) and not isinstance(value, bool)
    return sound and 0 < float(str(value)) < _MOST
