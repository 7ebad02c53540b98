"""Manifests: every container is a part, templates are read as far as they can be."""

from __future__ import annotations

import pytest

from moectl.settings.sources.manifest import SEEN
from moectl.settings.sources.read import read_source
from moectl.settings.sources.source import Part, Source
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


MAPS = """apiVersion: v1
kind: ConfigMap
metadata: {name: env}
data:
  NCCL_DEBUG: INFO
  flags: "--xla_a=1"
---
apiVersion: v1
kind: ConfigMap
metadata: {name: files}
data:
  run.sh: |
    set -e
    source ./env.sh
    export XLA_FLAGS="$XLA_FLAGS --xla_b=2"
    python3 -m maxtext.trainers.pre_train.train cfg.yml stepz=3
  env.sh: |
    export XLA_FLAGS="$XLA_FLAGS --xla_c=3"
  cfg.yml: |
    base_config: base.yml
    hardware: gpu
    hardware: gpu
  other.yml: |
    per_device_batchsize: 3
    hardware: gpu
  notes.yml: |
    a: b
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  volumes: [{name: s, configMap: {name: files}}]
  containers:
  - name: t
    image: x/y:1
    workingDir: /s
    envFrom: [{configMapRef: {name: env}}]
    env:
    - name: XLA_FLAGS
      valueFrom: {configMapKeyRef: {name: env, key: flags}}
    volumeMounts: [{name: s, mountPath: /s}]
    command: [bash, /s/run.sh]
"""


def test_variables_and_files_of_a_config_map_reach_the_container_at_their_places() -> None:
    source = read(MAPS)
    (part,) = [part for part in source.parts if part.kind == "manifest" and part.is_maxtext]
    assert part.environment["NCCL_DEBUG"].text == "INFO"
    assert part.environment["NCCL_DEBUG"].origin.line == 5
    assert part.flags is not None
    assert part.flags.text == "--xla_a=1 --xla_c=3 --xla_b=2"
    lines = [part.flags.at(part.flags.text.index(flag)).line for flag in ("a=", "b=", "c=")]
    assert lines == [6, 15, 18]
    assert {part.flags.at(n).file for n in range(len(part.flags.text))} == {"d/m.yml"}
    stepz = part.arguments["stepz"].origin
    assert (stepz.file, stepz.line, stepz.column) == ("d/m.yml", 16, 57)
    hardware = part.config["hardware"].origin
    assert (hardware.file, hardware.line, hardware.column) == ("d/m.yml", 22, 5)
    assert [(f.code, f.file, f.line) for f in source.findings] == [("YAML102", "d/m.yml", 22)]


def test_a_config_that_no_container_opens_is_judged_and_other_files_are_not() -> None:
    (part,) = [part for part in read(MAPS).parts if part.kind == "MaxText config"]
    place = part.config["per_device_batchsize"].origin
    assert (place.file, place.line, place.column) == ("d/m.yml", 24, 5)
    assert part.origin.line == 24


def test_no_sentence_names_a_file_that_nobody_has() -> None:
    rl = MAPS.replace(
        "    per_device_batchsize: 3\n", "    per_device_batch_size: 3\n    rl: {a: 1}\n"
    )
    told = [sentence for sentence in read(rl).told if "RL trainers" in sentence]
    assert told == ["d/m.yml is for the RL trainers of MaxText; its sections (rl) are not judged"]


def test_what_is_mounted_by_another_name_is_found_by_that_name() -> None:
    renamed = MAPS.replace(
        "configMap: {name: files}",
        "configMap: {name: files, items: [{key: run.sh, path: go.sh}, {key: cfg.yml, path: c}]}",
    ).replace("/s/run.sh", "/s/go.sh")
    (part,) = [part for part in read(renamed).parts if part.kind == "manifest" and part.is_maxtext]
    assert part.flags is not None
    assert "--xla_b=2" in part.flags.text
    assert "hardware" not in part.config
    single = MAPS.replace("mountPath: /s}", "mountPath: /go, subPath: run.sh}").replace(
        "/s/run.sh", "/go"
    )
    (part,) = [part for part in read(single).parts if part.kind == "manifest" and part.is_maxtext]
    assert "stepz" in part.arguments


def test_a_config_map_of_another_file_stays_unknown() -> None:
    other = MAPS.replace("metadata: {name: env}", "metadata: {name: other}")
    (part,) = [part for part in read(other).parts if part.kind == "manifest" and part.is_maxtext]
    assert "NCCL_DEBUG" not in part.environment
    assert part.flags is not None
    assert part.flags.text == f"{MARK} --xla_c=3 --xla_b=2"


def test_an_absolute_path_of_a_container_is_not_opened_here() -> None:
    asked = []

    def opened(path: str) -> str | None:
        asked.append(path)
        return None

    text = HEAD + (
        "    command: [python3, -m, maxtext.trainers.pre_train.train, /etc/c.yml, a=1]\n"
    )
    read_source("d/m.yml", text, opened, "manifest")
    read_source("d/m.yml", text.replace("/etc/c.yml", "c.yml"), opened, "manifest")
    assert asked == ["c.yml"]


def test_the_manifests_variables_flow_into_the_script_and_can_be_unset() -> None:
    part = only(
        HEAD + "    env: [{name: XLA_FLAGS, value: --xla_a=1}, {name: A, value: it's}]\n"
        "    command:\n    - bash\n    - -c\n    - |\n"
        '      export XLA_FLAGS="$XLA_FLAGS --xla_b=2" B="$A"\n'
        "      python3 -m maxtext.trainers.pre_train.train base.yml\n"
    )
    assert part.flags is not None
    assert part.flags.text == "--xla_a=1 --xla_b=2"
    assert [part.flags.at(at).line for at in (0, 12)] == [7, 12]
    assert part.environment["B"].text == "it's"
    gone = only(
        HEAD + "    env: [{name: XLA_FLAGS, value: --xla_a=1}]\n"
        "    command: [bash, -c, 'unset XLA_FLAGS; "
        "python3 -m maxtext.trainers.pre_train.train base.yml']\n"
    )
    assert gone.flags is None


QUOTED = {
    "written line ends": (
        '    command: [bash, -c, "python3 -m maxtext.trainers.pre_train.train b.yml '
        '\\\\\\n a=1"]\n',
        (7, 81),
    ),
    "escaped line ends": (
        '    command: [bash, -c, "set -e; \\\n'
        '      python3 -m maxtext.trainers.pre_train.train b.yml \\\n        a=1"]\n',
        (9, 9),
    ),
    "folded lines": (
        "    command: [bash, -c, 'python3 -m maxtext.trainers.pre_train.train b.yml\n"
        "      c=2 a=1']\n",
        (8, 11),
    ),
    "folded block": (
        "    command:\n    - bash\n    - -c\n    - >-\n"
        "      python3 -m maxtext.trainers.pre_train.train b.yml\n      c=2\n      a=1\n",
        (13, 7),
    ),
}


@pytest.mark.parametrize("name", QUOTED)
def test_an_argument_in_a_quoted_script_is_found_in_its_line(name: str) -> None:
    text, place = QUOTED[name]
    origin = only(HEAD + text).arguments["a"].origin
    assert (origin.file, origin.line, origin.column) == ("d/m.yml", *place)


def test_many_containers_are_all_read_and_an_end_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    pod = HEAD + "    env: [{name: A, value: b}]\n"
    source = read("---\n".join([pod] * 200))
    assert len(source.parts) == 200
    assert source.findings == ()
    monkeypatch.setattr("moectl.settings.sources.workloads.MAX_PARTS", 3)
    source = read("---\n".join([pod] * 5))
    assert len(source.parts) == 3
    assert [(f.code, f.severity, f.line) for f in source.findings] == [("SRC105", "warning", 25)]
    several = HEAD + "".join(f"  - name: c{n}\n" for n in range(5))
    source = read(several)
    assert len(source.parts) == 3
    assert [(f.code, f.severity, f.line) for f in source.findings] == [("SRC105", "warning", 9)]


def test_a_document_is_marked_in_all_parts_but_the_first() -> None:
    source = read(HEAD + "  - name: u\n  - name: v\n")
    seen = [part.manifest is not None and SEEN in part.manifest.places for part in source.parts]
    assert seen == [False, True, True]
    assert all(part.manifest and part.manifest.at("kind").line == 2 for part in source.parts)


def test_lines_that_steer_a_template_are_known() -> None:
    plain = make_plain("a: 1\n{{- if .Values.x }}\nb: 2\n{{- else }}\nb: 3\n{{- end }}\n")
    assert plain.controls == (2, 4, 6)
