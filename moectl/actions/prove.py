"""Compiles the real training step of a job for the real GPU, on a machine that has none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from moectl.actions.plan import Wishes
from moectl.actions.prove_depth import Depths, depths, figures, flat
from moectl.actions.prove_depth import rows as rows_at
from moectl.actions.prove_rules import CHANGED, EXCEEDS, EXCEEDS_POOL, REFUSED
from moectl.actions.render import Rendered, render
from moectl.environments import ensure, recipes
from moectl.errors import BackendError, ValueUsageError
from moectl.estimate.activations import COMPUTE_BYTES, sizes_of
from moectl.estimate.memory import fraction_of, pool
from moectl.evidence import prove_cache
from moectl.evidence.hlo_collectives import tally
from moectl.evidence.prove import Compiled, Request, compile_step
from moectl.evidence.prove_flags import Flag, read_back, sort_flags
from moectl.facts import xla
from moectl.facts.yaml_facts import read
from moectl.findings import Finding
from moectl.job import Job
from moectl.render.config import arguments
from moectl.render.variables import xla_flags_text
from moectl.rules.rule import Fault
from moectl.settings.bundle_names import CONFIG
from moectl.settings.emit import flow
from moectl.values import Origin

FACTS = "prove.yaml"
_OVERRIDE = "override_model_config"


@dataclass(frozen=True, slots=True)
class StandIn:
    """A key whose value cannot be had without a GPU, and what was compiled in its place."""

    key: str
    said: Any
    used: Any
    why: str


@dataclass(frozen=True, slots=True)
class Proof:
    """What a compile proves; bytes are of one device.

    Attributes:
        job: what was compiled.
        target: the plugin's name of the GPU.
        stood_in: keys of Transformer Engine that something stood in for; without any, the
            memory is a verdict.
        opaque_attention: the attention kernel that an opaque call stood in for, or "".
        memory: as `Compiled.memory`, at the whole depth.
        spaces: bytes of every memory space.
        rows: collectives by kind and reach.
        flags: every XLA flag and what became of it.
        compiled: the compile; of the deeper model when two were compiled.
        depths: the two depths, or None when the whole was compiled.
        hbm: visible bytes of the GPU, or None where they are not known.
        pool: bytes of XLA's pool at the job's memory fraction, or None.
        cached: whether it was known already.
        too_flat: why the peak is higher than what two shallow models tell; empty when it is not.
        findings: what was found.
        notes: what the person should know.
    """

    job: Job
    target: str
    stood_in: tuple[StandIn, ...]
    opaque_attention: str
    memory: Mapping[str, int]
    spaces: Mapping[str, int]
    rows: Mapping[tuple[str, ...], Mapping[str, int | bool]]
    flags: tuple[Flag, ...]
    compiled: Compiled
    depths: Depths | None
    hbm: int | None
    pool: int | None
    cached: bool
    too_flat: str = ""
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def peak(self) -> int:
        """Return the bytes at the worst moment, arguments included."""
        return _peak(self.memory)

    @property
    def total(self) -> int:
        """Return what is allocated: arguments, outputs that reuse none of them, temporaries."""
        return _total(self.memory)

    @property
    def fits(self) -> bool | None:
        """Whether the peak is within the GPU's memory; None where that is not known."""
        within = None if self.hbm is None else self.peak <= self.hbm
        return None if within and self.too_flat else within

    @property
    def verdict(self) -> str:
        """Return "fits", "exceeds", "unknown", "information" or "withheld".

        Information is of the Transformer Engine path; it is withheld where two shallow models
        do not tell it.
        """
        if self.stood_in:
            return "information"
        if self.too_flat and self.hbm is not None and self.fits is None:
            return "withheld"
        return {True: "fits", False: "exceeds", None: "unknown"}[self.fits]


@dataclass(slots=True)
class _Work:
    """What is needed to compile one depth of a job."""

    request: Request
    facts: Mapping[str, Any]
    fresh: bool
    seconds: float
    say: Callable[[str], None]
    notes: list[str] = field(default_factory=list)

    def compiled(self, extra: Mapping[str, Any]) -> tuple[Compiled, list[Flag], bool]:
        """Return the compile with some keys set, its flags, and whether it was known."""
        request = replace(self.request, arguments=_with(self.request.arguments, extra))
        recipe = recipes()[self.facts["environment"]]
        name = prove_cache.key(request, self.facts, recipe.requirements)
        if not self.fresh and (kept := prove_cache.load(name)):
            return *kept, True
        python = ensure(recipe.name, recipe.requirements, recipe.python, say=self.say).python
        text, flags = sort_flags(request.xla_flags, python, self.facts)
        found = compile_step(
            replace(request, xla_flags=text), python, seconds=self.seconds, say=self.say
        )
        catalogue = xla.load(xla.closest(found.versions["jaxlib"]))
        fields = {
            flag.name: known.writes
            for flag in flags
            if (known := catalogue.flag(flag.name)) and known.writes not in {"", flag.name}
        }
        flags = read_back(flags, found.options, fields)
        if trouble := prove_cache.save(name, found, flags):
            self.notes.append(f"the result could not be kept: {trouble}")
        return found, flags, False


def prove(
    target: str,
    wishes: Wishes | None = None,
    *,
    layers: int | None = None,
    fresh: bool = False,
    seconds: float | None = None,
    say: Callable[[str], None] | None = None,
) -> Proof:
    """Compile the training step of a preset, run file or bundle for its GPUs.

    Args:
        target: preset name, path of a run or lock file, or a bundle's folder.
        wishes: what was asked for beside it.
        layers: compile two shallow models of this many layers, and twice as many, and
            extrapolate; None compiles the whole.
        fresh: compile again what is known already.
        seconds: the time a compile may take; None is the fact file's.
        say: called with one sentence before work that takes seconds.

    Raises:
        FindingsError: error findings remain that nobody allowed.
        CompileError: MaxText or the compiler refuses the step.
        BackendError: no description of that GPU; the environment cannot be built; or the
            compile was killed, died, or took too long.
        MoectlError: what was typed cannot be meant.
    """
    rendered = render(target, wishes)
    job, facts = rendered.job, read(FACTS)
    if seconds is not None and not 0 < seconds < 1e6:
        raise ValueUsageError("--timeout", seconds, "a number of seconds, e.g. 3600")
    at = None if layers is None else depths(job.effective, layers, facts["depth"])
    stood_in = stand_ins(job, facts)
    work = _Work(
        request_of(rendered, stood_in, facts),
        facts,
        fresh,
        facts["seconds"] if seconds is None else seconds,
        say or (lambda _: None),
    )
    shallow = ""
    if layers is not None and at is None:
        shallow = (
            f"two models of {layers} and {2 * layers} layers are no shallower than the model's "
            f"{job.effective.get(facts['depth']['key'])}, so all of it is compiled"
        )
        work.say(shallow)
        work.notes.append(shallow)
    too_flat = ""
    found, flags, cached = work.compiled({at.key: at.high, _OVERRIDE: True} if at else {})
    memory, spaces, rows = found.memory, found.spaces, tally(found.collectives)
    if at:
        low, _, low_cached = work.compiled({at.key: at.low, _OVERRIDE: True})
        cached = cached and low_cached
        peaks = _peak(low.memory), _peak(memory)
        too_flat = flat(at, low.memory, memory, peaks, _kept(job))
        memory, spaces = figures(at, low.memory, memory), figures(at, low.spaces, spaces)
        rows = rows_at(at, tally(low.collectives), rows)
        work.notes += [at.sentence, *([too_flat] if too_flat else [])]
    work.notes += _releases(job, found)
    kernel = str(job.effective.get("attention", ""))
    proof = Proof(
        job=job,
        target=work.request.target,
        stood_in=stood_in,
        opaque_attention=kernel if kernel in facts["opaque_attention"] else "",
        memory=memory,
        spaces=spaces,
        rows=rows,
        flags=tuple(flags),
        compiled=found,
        depths=at,
        hbm=job.hardware.figures.get("hbm_visible_bytes"),
        pool=_pool(job),
        cached=cached,
        too_flat=too_flat,
        notes=tuple(work.notes),
    )
    return replace(proof, findings=tuple(_findings(proof)))


def stand_ins(job: Job, facts: Mapping[str, Any]) -> tuple[StandIn, ...]:
    """Return the keys of a job whose values cannot be had without a GPU, with what is used."""
    found = []
    for row in facts["stand_ins"]:
        said = job.effective.get(row["key"])
        begins = row.get("begins")
        if said in row.get("when", ()) or (begins and str(said).startswith(begins)):
            found.append(StandIn(row["key"], said, row["use"], row["why"]))
    return tuple(found)


def request_of(
    rendered: Rendered, stood_in: tuple[StandIn, ...], facts: Mapping[str, Any]
) -> Request:
    """Return what is compiled of a job.

    Raises:
        BackendError: the compiler has no description of its GPU.
    """
    job = rendered.job
    target = facts["targets"].get(job.hardware.name)
    if target is None:
        raise BackendError(
            f"there is no description of {job.hardware.name} to compile for; there are those of "
            f"{', '.join(facts['targets'])}"
        )
    keys = {**facts["neutral"], **{one.key: one.used for one in stood_in}}
    return Request(
        target=target,
        slices=job.mesh.slices,
        nodes_per_slice=job.nodes_per_slice,
        gpus_per_node=job.processes_per_node,
        per_domain=job.hardware.usable_domain_gpus,
        config=rendered.files[CONFIG],
        arguments=_with(tuple(arguments(job)), keys),
        xla_flags=xla_flags_text(job),
        packages=facts["packages"],
    )


def _peak(memory: Mapping[str, int]) -> int:
    return memory["peak_memory"] or _total(memory)


def _total(memory: Mapping[str, int]) -> int:
    outputs = memory["output_size"] - memory["alias_size"]
    return memory["argument_size"] + outputs + memory["temp_size"]


def _kept(job: Job) -> float:
    """Return the least bytes of a device that a layer keeps: its input, cut over all devices."""
    sizes = sizes_of(job.effective, {})
    return 0.0 if sizes is None else sizes.tokens * sizes.emb * COMPUTE_BYTES


def _with(words: tuple[str, ...], keys: Mapping[str, Any]) -> tuple[str, ...]:
    """Return `key=value` words with some keys set; each key is said once."""
    kept = tuple(word for word in words if word.partition("=")[0] not in keys)
    return kept + tuple(f"{key}={flow(value)}" for key, value in keys.items())


def _releases(job: Job, found: Compiled) -> list[str]:
    """Return where the releases that compiled are not those of the job's image."""
    image = {"maxtext": job.container.image.maxtext, "jaxlib": job.container.image.jaxlib}
    return [
        f"{name} {found.versions[name]} compiled it, and the image is checked against {release}"
        for name, release in image.items()
        if found.versions.get(name, release) != release
    ]


def _pool(job: Job) -> int | None:
    visible = job.hardware.figures.get("hbm_visible_bytes")
    said = {name: value.value for name, value in job.environment.items()}
    return None if visible is None else pool(visible, fraction_of(said))


def _findings(proof: Proof) -> list[Finding]:
    """Return what a proof finds: flags first, then the memory."""
    found = []
    for flag in proof.flags:
        value = proof.job.xla_flags.get(flag.name)
        origin = value.origin if value else Origin("XLA_FLAGS")
        if flag.outcome == "refused":
            found.append(REFUSED.finding(Fault(f"xla_flags.{flag.name}", flag.why, origin)))
        elif flag.outcome == "changed":
            sentence = f"said {flag.said}, and the compiler holds {flag.held}"
            found.append(CHANGED.finding(Fault(f"xla_flags.{flag.name}", sentence, origin)))
    gib, where = 1 << 30, Origin(f"compile for {proof.target}")
    subject = "batch.per_device"
    if proof.fits is False and proof.hbm is not None:
        sentence = (
            f"at its worst moment the step holds {proof.peak / gib:.2f} GiB, and "
            f"{proof.job.hardware.name} has {proof.hbm / gib:.2f} GiB"
        )
        if proof.stood_in:
            sentence += "; this run is on the Transformer Engine path, so that is no verdict on it"
        fault = Fault(subject, sentence, where, severity="note" if proof.stood_in else None)
        found.append(EXCEEDS.finding(fault))
    elif proof.pool is not None and proof.peak > proof.pool and not proof.stood_in:
        sentence = (
            f"the step holds {proof.peak / gib:.2f} GiB, and XLA's pool has "
            f"{proof.pool / gib:.2f} GiB"
        )
        found.append(EXCEEDS_POOL.finding(Fault(subject, sentence, where)))
    return found
