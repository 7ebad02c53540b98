"""Manifests: every container is a part, templates are read as far as they can be."""

from __future__ import annotations

import pytest

from moectl.settings.sources import Part, Source, read_source
from moectl.settings.sources.templated import HOLE, make_plain
from moectl.workload import MARK, UNKNOWN

HEAD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: t\n"


def read(text: str) -> Source:
    return read_source("d/m.yml", text, lambda _: None, "manifest")


def only(text: str) -> Part:
    (part,) = read(text).parts
    return part


def test_references_are_replaced_by_earlier_entries_only() -> None:
    part = only(
        HEAD + "    env:\n"
        "    - {name: A, value: x}\n"
        "    - {name: B, value: '$(A)-$(C)-$$(A)-$A'}\n"
        "    - {name: C, value: z}\n"
        "    - {name: D, valueFrom: {secretKeyRef: {name: s, key: k}}}\n"
        "    - {name: E, value: 'e$(D)'}\n"
        "    - {name: F}\n"
    )
    assert {name: text.text for name, text in part.environment.items()} == {
        "A": "x", "B": f"x-{MARK}-$(A)-$A", "C": "z", "D": MARK, "E": f"e{MARK}", "F": "",
    }  # fmt: skip
    origin = part.environment["A"].origin
    assert (origin.file, origin.line, origin.column) == ("d/m.yml", 8, 24)


def test_what_env_from_defines_is_unknown() -> None:
    part = only(HEAD + "    envFrom: [{configMapRef: {name: c}}]\n"
                "    env: [{name: B, value: $(A)}]\n")  # fmt: skip
    assert part.environment["B"].text == MARK


def test_references_to_references_do_not_grow_without_end() -> None:
    entries = "".join(
        f"    - {{name: A{n}, value: '$(A{n - 1})$(A{n - 1})'}}\n" for n in range(1, 80)
    )
    part = only(HEAD + "    env:\n    - {name: A0, value: x}\n" + entries)
    assert max(len(text.text) for text in part.environment.values()) < 100_000
    assert not part.environment["A79"].known


@pytest.mark.parametrize("style", [">-", ">", "|"])
def test_every_flag_of_a_block_knows_its_line_and_column(style: str) -> None:
    part = only(
        HEAD + f"    env:\n    - name: XLA_FLAGS\n      value: {style}\n"
        "        --xla_a=1 --xla_b=2\n        --xla_c=3\n"
    )
    assert part.flags is not None
    assert part.flags.text.split() == ["--xla_a=1", "--xla_b=2", "--xla_c=3"]
    places = [part.flags.at(part.flags.text.index(flag)) for flag in part.flags.text.split()]
    assert [(place.line, place.column) for place in places] == [(10, 9), (10, 19), (11, 9)]


COMMANDS = {
    "words": (
        "    command: [python3, -m, maxtext.trainers.pre_train.train]\n"
        "    args: [base.yml, run_name=r, steps=3]\n", (8, 34)),
    "bash": (
        "    command: [/bin/bash, -lc]\n"
        "    args:\n    - |\n      set -e\n"
        "      python3 -m maxtext.trainers.pre_train.train base.yml \\\n"
        "        run_name=r steps=3\n", (12, 20)),
    "one line": (
        "    command: ['sh', '-c', "
        "'python3 -m maxtext.trainers.pre_train.train base.yml run_name=r steps=3']\n", (7, 92)),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_a_maxtext_command_is_read_at_its_place(name: str) -> None:
    text, (line, column) = COMMANDS[name]
    part = only(HEAD + text)
    assert part.is_maxtext
    assert part.config["base_config"].value == "base.yml"
    steps = part.arguments["steps"]
    assert (steps.value, steps.origin.line, steps.origin.column) == (3, line, column)


def test_the_script_stands_above_the_containers_variables() -> None:
    part = only(
        HEAD + "    env: [{name: A, value: a}, {name: B, value: b}]\n"
        "    command: [bash, -c, 'export B=c; python3 -m maxtext.trainers.pre_train.train a.yml']\n"
    )
    assert {name: text.text for name, text in part.environment.items()} == {"A": "a", "B": "c"}


JOBSET = """apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: j}
spec:
  replicatedJobs:
  - name: w
    replicas: 2
    template:
      spec:
        parallelism: 4
        completions: 4
        template:
          spec:
            containers:
            - name: t
              image: a/b:c
              resources: {limits: {nvidia.com/gpu: "8"}}
            - name: side
"""


def test_the_layout_is_pods_times_gpus() -> None:
    first, side = read(JOBSET).parts
    assert first.layout.nodes is not None
    assert first.layout.gpus is not None
    assert first.layout.gpus_per_node is not None
    numbers = (first.layout.nodes, first.layout.gpus, first.layout.gpus_per_node)
    assert [value.value for value in numbers] == [8, 64, 8]
    assert side.layout.gpus is None
    assert first.image is not None
    assert first.image.text == "a/b:c"


def test_every_document_and_every_item_of_a_list_is_read() -> None:
    pod = HEAD + "    env: [{name: A, value: x}]\n"
    assert len(read(f"{pod}---\n{pod}---\n# nothing\n").parts) == 2
    item = "".join(f"  {line}\n" for line in pod.splitlines())
    source = read("apiVersion: v1\nkind: List\nitems:\n-" + item[1:] + "-" + item[1:])
    first, second = source.parts
    assert first.environment["A"].origin.line == 10
    assert second.environment["A"].origin.line == 17


def test_a_fragment_is_a_container() -> None:
    part = only("env:\n- {name: A, value: x}\n- {name: XLA_FLAGS, value: --xla_a=1}\n")
    assert part.environment["A"].text == "x"
    assert part.flags is not None


def test_a_kind_that_is_not_read_in_depth_is_said() -> None:
    source = read(
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec:\n  pytorchReplicaSpecs:\n"
        "    Worker:\n      template:\n        spec:\n          containers:\n"
        "          - {name: w, env: [{name: A, value: x}]}\n"
    )
    assert [(found.code, found.severity) for found in source.findings] == [("K8S102", "note")]
    assert source.parts[0].environment["A"].text == "x"


def test_a_document_without_containers_is_a_part_too() -> None:
    assert only("apiVersion: v1\nkind: Service\nspec: {}\n").manifest is not None


TEMPLATES = {
    "helm": ("metadata: {name: p}\nspec:\n  {{- if .Values.x }}\n  hostIPC: true\n  {{- end }}\n"
             "  containers:\n  - env:\n    {{- range .Values.env }}\n    - name: {{ .name }}\n"
             "      value: {{ .value | quote }}\n    {{- end }}\n"
             "    - {name: A, value: \"x{{ .Values.y }}z\"}\n", "Helm", f"x{MARK}z"),
    "jinja": ("spec:\n  containers:\n  - env:\n    {% for e in env %}\n    - name: {{ e }}\n"
              "    {% endfor %}\n    - {name: A, value: '{{ a }}'}\n", "Jinja", MARK),
    "envsubst": ("metadata: {name: ${NAME}}\nspec:\n  containers:\n"
                 "  - env: [{name: A, value: 'x${B:-c}'}]\n", "envsubst", f"x{MARK}"),
    "python": ("metadata:\n  name: {name}\nspec:\n  containers:\n"
               "  - env:\n    - name: A\n      value: {args.a}\n", "Python", MARK),
}  # fmt: skip


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_is_recognised_and_read_as_far_as_it_can_be(name: str) -> None:
    text, tool, value = TEMPLATES[name]
    source = read("apiVersion: v1\nkind: Pod\n" + text)
    (found,) = source.findings
    assert (found.code, found.severity) == ("K8S101", "note")
    assert tool in found.message
    assert source.parts[0].environment["A"].text == value


def test_a_template_that_is_no_yaml_is_no_error() -> None:
    source = read("apiVersion: v1\nkind: Pod\nspec: {{ x }}\n  a: [\n")
    assert {found.severity for found in source.findings} == {"note"}


def test_variables_of_a_shell_do_not_make_a_template() -> None:
    text = HEAD + "    command:\n    - bash\n    - -c\n    - |\n      echo ${A} $B\n"
    assert make_plain(text).tool == ""
    assert read(text).findings == ()
    assert HOLE not in make_plain(text).text


def test_an_unknown_count_stays_unknown() -> None:
    source = read(JOBSET.replace("parallelism: 4", "parallelism: {{ .Values.n }}"))
    layout = source.parts[0].layout
    assert layout.gpus is not None
    assert layout.gpus.value is UNKNOWN


def test_faults_of_yaml_are_found_in_their_lines() -> None:
    source = read("apiVersion: v1\nkind: Pod\nkind: Pod\nspec:\n\ta: 1\n")
    assert ("YAML103", 5) in [(found.code, found.line) for found in source.findings]
    twice = read("apiVersion: v1\nkind: Pod\nkind: Pod\n")
    assert [(found.code, found.line) for found in twice.findings] == [("YAML102", 3)]
