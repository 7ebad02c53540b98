"""Rules on Slurm's short form of host lists: cut by hand, or written out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from moectl.errors import ValueUsageError
from moectl.hostlist import expand, is_compact
from moectl.rules.launching import known, line_origin, spoken, whole
from moectl.rules.rule import Fault, rules
from moectl.workload import Workload

RULES = rules()

_SLURM_LISTS = r"SLURM_(?:JOB_|STEP_)?NODELIST"
_TOOLS = "cut|awk|gawk|sed|tr|grep|head"
# A variable that holds the list under another name: hosts=$SLURM_JOB_NODELIST
_ALIAS = re.compile(
    rf"(?:^|[\s;])(\w+)=[\"']?\$\{{?{_SLURM_LISTS}\}}?[\"']?(?=\s|;|$)", re.MULTILINE
)
_COMMENT = re.compile(r"(?:^|\s)#.*")
_COUNTS = re.compile(r"\|\s*(?:wc|grep\s+-[a-zA-Z]*q)\b")
_BRACKET = re.compile(r"\\?\[|\]")
# Variables that take one host.
_ONE_HOST = "JAX_COORDINATOR_IP|JAX_COORDINATOR_ADDRESS|MASTER_ADDR"


@RULES.rule(
    "NET106",
    "a host list cut by hand",
    reason="Slurm writes names in short, gpu[001-004]: cut at a comma or bracket it gives a name "
    "that no host has, on some allocations and not on others.",
    remedy='scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1',
    source="scontrol(1) of Slurm 22.05.8, show hostnames; public reports skypilot pull request "
    "8891 and Megatron-Bridge pull request 3807",
    severity="error",
)
def cut_list(w: Workload) -> Iterator[Fault]:
    """Find node lists that text tools take apart."""
    if w.batch is None or "NODELIST" not in w.batch.text or whole(w.layout.nodes) == 1:
        return
    aliases = set(_ALIAS.findall(w.batch.text)) - set(_ONE_HOST.split("|"))
    names = "|".join([_SLURM_LISTS, *sorted(map(re.escape, aliases))])
    variable = rf"\$(?:(?:{names})\b|\{{(?:{names})\}})"
    cut = re.compile(
        # echo "$LIST" | cut ...
        rf"{variable}[^|;&\n]*\|\s*(?P<tool>{_TOOLS})\b"
        # cut ... <<< "$LIST"
        rf"|\b(?P<other>{_TOOLS}|read)\b[^|;&\n]*<<<\s*\"?{variable}"
        # ${LIST%%,*} and its relatives
        rf"|\$\{{(?:{names})(?:%%?|##?|//?|:(?![-=+?]))"
    )
    one_host = re.compile(rf"\b(?:{_ONE_HOST})=[\"']?{variable}(?=[\"'\s;:]|$)")
    for index, line in enumerate(w.batch.text.split("\n"), start=1):
        if len(line) > _LONGEST_LINE or "scontrol" in (code := _COMMENT.sub("", line)):
            continue
        if (match := cut.search(code)) and not _COUNTS.search(code[match.start() :]):
            tool = match["tool"] or match["other"] or "${...}"
            yield Fault(
                "SLURM_JOB_NODELIST",
                f"{tool} takes a compact host list such as gpu[001-004] for plain names",
                line_origin(w, index, match.start() + 1),
                # a pattern with a bracket in it at least knows of them
                severity="warning" if _BRACKET.search(code[match.start() :]) else None,
            )
        elif match := one_host.search(code):
            yield Fault(
                "SLURM_JOB_NODELIST",
                "the whole host list is taken for the name of one host",
                line_origin(w, index, match.start() + 1),
            )


_LONGEST_LINE = 4096


@RULES.rule(
    "NET107",
    "a host list written out",
    reason="A list of names in brackets is Slurm's short form; only Slurm reads it right.",
    remedy="scontrol show hostnames <list>",
    source="scontrol(1) of Slurm 22.05.8, show hostnames",
    severity="note",
    stage="advice",
)
def written_list(w: Workload) -> Iterator[Fault]:
    """Expand the host lists that options name; a list that cannot be read is an error."""
    for name in ("--nodelist", "--exclude"):
        option = spoken(w, name)
        text = known(option.value) if option is not None else None
        if option is None or text is None or not is_compact(text) or "/" in text:
            continue
        try:
            names = expand(text)
        except ValueUsageError as error:
            yield Fault(name, str(error), option.origin, error.legal, severity="error")
            continue
        listed = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        yield Fault(name, f"{text} is {len(names)} hosts: {listed}", option.origin)
