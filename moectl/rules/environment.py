"""Environment variables: names that nobody reads, texts that mean something else, secrets.

Types, ranges and names are those of `moectl.facts.environment`. What several variables do
together are rows of `facts/data/environment_combinations.txt`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from moectl.errors import is_token, shown
from moectl.facts.environment import load
from moectl.findings import Severity
from moectl.rules.rule import Fault, rules
from moectl.rules.xla_combinations import combinations
from moectl.workload import Text, Workload

if TYPE_CHECKING:
    from moectl.facts.environment import Variable

RULES = rules()
_TABLE: Final = "table of variables (facts/data/environment.tsv), a source for each"
_FEWEST_PERCENT: Final = 10  # below, a number above 1 is no share in percent that anybody means
_UNIFIED: Final = "TF_FORCE_UNIFIED_MEMORY"  # openxla/xla xla/pjrt/gpu/gpu_helpers.cc
_COUNTS_OF_NODES: Final = ("NNODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
_INTERFACES: Final = "NCCL_SOCKET_IFNAME"  # NVIDIA/nccl v2.30.7 src/misc/socket.cc


def _texts(w: Workload) -> Iterator[tuple[str, str, Text, Variable | None]]:
    """Yield the variables with a known text that is not empty: name, text, where, row."""
    catalogue = load()
    for name, text in w.environment.items():
        if text.known and text.text:
            yield name, text.text, text, catalogue.variable(name)


def _severity(variable: Variable) -> Severity:
    return "error" if variable.stops else "warning"


@RULES.rule(
    "ENV107",
    "value that the reader of a variable does not take",
    reason="Some readers die of it, some fall back to the default, and some take it for another "
    "value; none of them names the variable in a way that is easy to find.",
    remedy="write a value that the message calls legal",
    source=_TABLE,
    stage="silent",
)
def bad_value(w: Workload) -> Iterator[Fault]:
    """A text outside the type or range of its variable."""
    for name, text, where, variable in _texts(w):
        if variable is None or variable.status in {"ignored", "absent"} or variable.share:
            continue
        if _means_on(variable) or variable.read_as(text) is not None:
            continue
        if clause := variable.fault(text, w.jaxlib):
            message = f"{name}={shown(text)[1:-1]}: it {clause}"
            legal = variable.says or ""
            hint = f"write {legal}" if legal else ""
            yield Fault(name, message, where.origin, hint, _severity(variable))


def _means_on(variable: Variable) -> bool:
    """Whether any other text turns the switch on."""
    return variable.kind == "bool" and variable.otherwise.startswith("means")


@RULES.rule(
    "ENV129",
    "memory fraction outside 0 to 1",
    reason="The client takes any number: 88 asks for 88 times the memory of the GPU. More than 1 "
    "has a meaning only with unified memory.",
    remedy="write a share such as 0.88",
    source="jaxlib 0.8.3 to 0.12.0.1 xla_client.generate_pjrt_gpu_plugin_options; openxla/xla "
    "xla/pjrt/gpu/gpu_helpers.cc",
)
def fraction(w: Workload) -> Iterator[Fault]:
    """A share that is none."""
    for name, text, where, variable in _texts(w):
        if variable is None or not variable.share:
            continue
        clause = variable.fault(text)
        unified = _UNIFIED in w.environment and w.variable(_UNIFIED) not in {"false", "0"}
        if clause is None or (_number(text) > 1 and unified):
            continue
        number = _number(text)
        percent = _FEWEST_PERCENT <= number <= 100
        hint = f"write {number / 100:g}" if percent else "a share above 0 and at most 1, e.g. 0.9"
        message = f"{name}={shown(text)[1:-1]}: it {clause}"
        yield Fault(name, message, where.origin, hint)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


@RULES.rule(
    "ENV130",
    "word that leaves a switch on",
    reason="Only the spellings of the message turn it off; every other text, no and off among "
    "them, means on.",
    remedy="write false",
    source="jaxlib 0.8.3 to 0.12.0.1 xla_client.generate_pjrt_gpu_plugin_options",
    severity="warning",
    stage="silent",
)
def left_on(w: Workload) -> Iterator[Fault]:
    """`XLA_PYTHON_CLIENT_PREALLOCATE=no`."""
    for name, text, where, variable in _texts(w):
        if variable is not None and _means_on(variable) and variable.fault(text):
            off = variable.legal.partition("/")[2].replace(",", ", ")
            message = f"{name}={shown(text)[1:-1]} means on; only {off} turn it off"
            yield Fault(name, message, where.origin)


@RULES.rule(
    "ENV144",
    "number with a unit or a word",
    reason="NCCL reads numbers as C does and stops at the first character that is none: 1MiB is "
    "1, and on is 0, without a message.",
    remedy="write the number out in digits",
    source="NVIDIA/nccl v2.30.7 (5067397) src/misc/param.cc",
    severity="warning",
    stage="silent",
)
def unit(w: Workload) -> Iterator[Fault]:
    """A number of NCCL that is read as another one."""
    for name, text, where, variable in _texts(w):
        read = None if variable is None else variable.read_as(text)
        if read is not None:
            message = f"{name}={shown(text)[1:-1]} is read as {read}"
            yield Fault(name, message, where.origin)


@RULES.rule(
    "ENV102",
    "deprecated variable",
    reason="It still works, under a name that goes away.",
    remedy="use the newer name",
    source=_TABLE,
    severity="note",
    stage="advice",
)
def deprecated(w: Workload) -> Iterator[Fault]:
    """The old name of a variable."""
    yield from _by_status(w, "deprecated", "is an older name")


@RULES.rule(
    "ENV103",
    "variable that nothing reads",
    reason="It appears in scripts, but the programs of a training job do not read it.",
    remedy="remove it",
    source=_TABLE,
    severity="note",
    stage="silent",
)
def ignored(w: Workload) -> Iterator[Fault]:
    """A name that looks right and has no reader."""
    yield from _by_status(w, "ignored", "is read by nothing here")


@RULES.rule(
    "ENV104",
    "variable that no catalogued release has",
    reason="The releases catalogued do not know the name, so it does nothing.",
    remedy="remove it, or take an image that has it",
    source=_TABLE,
    severity="warning",
    stage="silent",
)
def absent(w: Workload) -> Iterator[Fault]:
    """A name of a newer XLA."""
    yield from _by_status(w, "absent", "does nothing")


def _by_status(w: Workload, status: str, words: str) -> Iterator[Fault]:
    catalogue = load()
    for name, text in w.environment.items():
        variable = catalogue.variables.get(name)
        if variable is None or variable.status != status:
            continue
        hint = f"use {variable.instead}" if variable.instead else ""
        note = f": {variable.note}" if variable.note and status != "deprecated" else ""
        yield Fault(name, f"{name} {words}{note}", text.origin, hint)


@RULES.rule(
    "ENV105",
    "misspelt variable",
    reason="No program reports a name it does not know, so a slip changes nothing and says "
    "nothing.",
    remedy="write the name that was meant",
    source=f"{_TABLE}; names read by NCCL, JAX and Transformer Engine (environment_names.tsv)",
    severity="warning",
    stage="silent",
)
def misspelt(w: Workload) -> Iterator[Fault]:
    """A name one or two letters off."""
    catalogue = load()
    for name, text in w.environment.items():
        if (meant := catalogue.misspelt(name)) and not _read_by_the_file(w, name):
            yield Fault(name, f"no program reads {name}", text.origin, f"did you mean {meant}?")


def _read_by_the_file(w: Workload, name: str) -> bool:
    """Whether the script or the manifest itself uses a variable."""
    uses = (f"${name}", f"${{{name}", f"$({name})")
    texts = [w.batch.text] if w.batch is not None else []
    if w.manifest is not None:
        texts.append(str(w.manifest.data))
    return any(use in text for use in uses for text in texts)


_PLACEHOLDERS: Final = ("<", ">", "your", "xxx", "***", "...", "changeme", "replace", "todo", "{")
_SHORTEST_SECRET: Final = 8


@RULES.rule(
    "ENV106",
    "secret written out",
    reason="Whoever can read the file, the batch script that the scheduler keeps, or the log of "
    "the job can use it.",
    remedy="set it in the submitting shell or in a Kubernetes secret, and name it in `secrets`",
    source=_TABLE,
    severity="warning",
    stage="advice",
)
def secret(w: Workload) -> Iterator[Fault]:
    """A token or password in plain text. The message does not repeat it."""
    if w.manifest is not None:
        return  # K8S115 tells it where the manifest says it
    catalogue = load()
    for name, text in w.environment.items():
        if not text.known or not (catalogue.secret(name) or is_token(text.text)):
            continue
        value = text.text.lower()
        told = len(value) >= _SHORTEST_SECRET and not value.startswith(("/", "file:", "~"))
        if told and not any(word in value for word in _PLACEHOLDERS):
            message = f"{name} holds a secret of {len(value)} characters in plain text"
            # What moectl renders would carry it into the script and the lock.
            own: Severity | None = "error" if w.kind == "run file" else None
            yield Fault(name, message, text.origin, severity=own, hides=True)


def _nodes(w: Workload) -> int | None:
    """Return the nodes; in a file of variables alone, what those say that count them."""
    said = w.layout.nodes
    if said is not None:
        return said.value if isinstance(said.value, int) else None
    if w.kind == "variables":
        for name in _COUNTS_OF_NODES:
            text = (w.variable(name) or "").strip()
            if text.isascii() and text.isdigit() and len(text) < 7:
                return int(text)
    return None


@RULES.rule(
    "ENV110",
    "loopback interface between nodes",
    reason="NCCL listens on the interface for other nodes; on the loopback they never arrive, "
    "and start-up hangs or fails.",
    remedy="name the interface that has the node's address, e.g. eth0, or leave it to NCCL",
    source="NVIDIA/nccl issue 286; NVIDIA/nccl v2.30.7 src/misc/socket.cc",
)
def loopback(w: Workload) -> Iterator[Fault]:
    """`NCCL_SOCKET_IFNAME=lo` with more than one node."""
    text = w.variable(_INTERFACES)
    if text is None or text.startswith("^"):
        return
    names = [name for name in text.removeprefix("=").split(",") if name]
    nodes = _nodes(w)
    if not names or nodes == 1 or any(name not in {"lo", "lo0"} for name in names):
        return
    if nodes is None:
        message = f"{_INTERFACES}={text} works on one node only, and how many there are is not said"
        yield Fault(_INTERFACES, message, w.where(_INTERFACES), severity="warning")
    else:
        message = f"{_INTERFACES}={text} is the loopback, and {nodes} nodes take part"
        yield Fault(_INTERFACES, message, w.where(_INTERFACES))


@RULES.rule(
    "ENV111",
    "exact name of an interface",
    reason="With = in front NCCL takes only an interface of exactly this name. Nodes that name "
    "it otherwise end with 'no socket interface found', and so did builds that did not honour "
    "the sign.",
    remedy="see on the nodes that the interface exists and has their address; a prefix is laxer",
    source="marin-community/marin issue 6940; NVIDIA/nccl v2.30.7 src/misc/socket.cc",
    severity="note",
    stage="later",
)
def exact_interface(w: Workload) -> Iterator[Fault]:
    """`NCCL_SOCKET_IFNAME==enp90s0np0`."""
    text = w.variable(_INTERFACES)
    if text is not None and text.startswith("="):
        message = f"only an interface called {shown(text[1:])[1:-1]} is taken"
        yield Fault(_INTERFACES, message, w.where(_INTERFACES))


RULES.all.extend(combinations("environment_combinations.txt"))
