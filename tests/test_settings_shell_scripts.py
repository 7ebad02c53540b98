"""Scripts as people write them: what they start, with which words and variables, and where."""

from __future__ import annotations

from textwrap import dedent

from moectl.settings.shell import MaxTextStart, is_template, maxtext_commands, read, read_script
from moectl.workload import MARK, Batch, Step, Text


def batch(text: str) -> Batch:
    return read_script(dedent(text).lstrip("\n"), "job.sh")


def starts(text: str) -> list[MaxTextStart]:
    return [start for step in batch(text).steps for start in maxtext_commands(step)]


def texts(words: tuple[Text, ...]) -> list[str]:
    return [word.text for word in words]


def place(text: Text) -> tuple[int | None, int | None]:
    return text.origin.line, text.origin.column


def values(step: Step) -> dict[str, str]:
    return {name: text.text for name, text in step.environment.items()}


def test_a_plain_batch_script_gives_directives_environment_and_the_command() -> None:
    found = batch(
        """
        #!/bin/bash
        #SBATCH --job-name="moe 671b" -N 32
        #SBATCH --ntasks-per-node=4   # one a GPU
        export NCCL_DEBUG=WARN XLA_PYTHON_CLIENT_MEM_FRACTION=0.92
        srun --container-image=./m.sqsh -l --container-env NCCL_DEBUG \\
            python3 -m maxtext.trainers.pre_train.train config.yml run_name=a \\
            hardware=gpu_multiprocess > log-%j.txt 2>&1
        """
    )
    assert [(o.name, o.value and o.value.text) for o in found.directives] == [
        ("--job-name", "moe 671b"),
        ("--nodes", "32"),
        ("--ntasks-per-node", "4"),
    ]
    assert found.scheduled
    (step,) = found.steps
    assert [(o.name, o.value and o.value.text) for o in step.options] == [
        ("--container-image", "./m.sqsh"),
        ("--label", None),
        ("--container-env", "NCCL_DEBUG"),
    ]
    assert values(step) == {"NCCL_DEBUG": "WARN", "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.92"}
    (start,) = maxtext_commands(step)
    assert start.module == "maxtext.trainers.pre_train.train"
    assert texts(start.words) == ["config.yml", "run_name=a", "hardware=gpu_multiprocess"]
    assert place(start.words[2]) == (7, 5)


def test_flags_built_over_several_lines_know_the_line_of_every_flag() -> None:
    found = batch(
        """
        export XLA_FLAGS="--xla_a=1 \\
          --xla_b=2"
        XLA_FLAGS+=" --xla_c=3"
        MORE='--xla_d=4'
        export XLA_FLAGS="$XLA_FLAGS ${MORE} --xla_\\"e\\"=5"
        srun true
        """
    )
    flags = found.steps[0].environment["XLA_FLAGS"]
    assert flags.text == '--xla_a=1   --xla_b=2 --xla_c=3 --xla_d=4 --xla_"e"=5'
    lines = {flag: flags.at(flags.text.index(flag)) for flag in ("a=1", "b=2", "c=3", "d=4", "=5")}
    assert {flag: (o.line, o.column) for flag, o in lines.items()} == {
        "a=1": (1, 25), "b=2": (2, 9), "c=3": (3, 20), "d=4": (4, 13), "=5": (5, 49),
    }  # fmt: skip


def test_what_the_submitting_shell_may_say_stays_unknown() -> None:
    found = batch(
        """
        export XLA_FLAGS="$XLA_FLAGS --xla_a=1"
        export STEPS=${STEPS:-10}
        export HOST=$(hostname) PORT=$((10000 + SLURM_JOB_ID % 1000)) HERE=`pwd` FIRST=$1
        """
    )
    assert {name: text.text for name, text in found.environment.items()} == {
        "XLA_FLAGS": f"{MARK} --xla_a=1", "STEPS": MARK, "HOST": MARK, "PORT": MARK,
        "HERE": MARK, "FIRST": MARK,
    }  # fmt: skip
    assert found.environment["STEPS"].pieces[0].raw == "${STEPS:-10}"


def test_default_forms_are_known_when_the_variable_certainly_is() -> None:
    found = batch(
        """
        A=1; unset B; C=
        export D=${A:-x} E=${B:-y} F=${C:-z} G=${C-w} H=${A:+s} I=${B:+t} J=$((A*4/3)) K=${B:=k}
        export L=$B
        """
    )
    assert [found.environment[name].text for name in "DEFGHIJKL"] == [
        "1", "y", "z", "", "s", "", "1", "k", "k",
    ]  # fmt: skip


def test_arrays_of_arguments_keep_words_and_places() -> None:
    (start,) = starts(
        """
        ARGS=(
          run_name="two words"   # with a comment )
          'path=/a b/c'
        )
        ARGS+=(steps=$((4*8)) hardware=gpu)
        srun python3 -m MaxText.train MaxText/configs/base.yml "${ARGS[@]}" "last=$OTHER"
        """
    )
    assert texts(start.words) == [
        "MaxText/configs/base.yml", "run_name=two words", "path=/a b/c", "steps=32", "hardware=gpu",
        f"last={MARK}",
    ]  # fmt: skip
    assert [place(word) for word in start.words[1:4]] == [(2, 3), (3, 4), (5, 8)]


def test_bash_c_in_double_quotes_maps_to_the_file() -> None:
    (start,) = starts(
        """
        NAME=x1
        srun bash -c "export RANK=\\$SLURM_PROCID; cd /opt && \\
          exec python3 -u -m MaxText.train base.yml run_name=$NAME note=\\"a b\\" r=\\$RANK"
        """
    )
    assert texts(start.words) == ["base.yml", "run_name=x1", "note=a b", f"r={MARK}"]
    assert place(start.words[0]) == (3, 36)
    assert place(start.words[1]) == (3, 45)
    assert start.words[1].at(len("run_name=")).line == 1
    assert place(start.words[2]) == (3, 60)
    assert start.environment["RANK"].text == MARK
    assert [step.program for step in start.steps] == ["srun", "python3"]


def test_only_exported_variables_reach_what_is_started() -> None:
    reading = read(
        "XLA_FLAGS=--xla_a=1\nNCCL_DEBUG=INFO srun bash -c 'srun true $XLA_FLAGS'\n", "j"
    )
    (step,) = reading.batch.steps
    assert values(step) == {"NCCL_DEBUG": "INFO"}
    assert texts(step.inside[0].words) == ["true", MARK]
    assert {name: text.text for name, text in reading.unexported.items()} == {
        "XLA_FLAGS": "--xla_a=1"
    }


def test_set_a_declare_x_and_a_late_export_export_too() -> None:
    found = batch("A=1\nset -a\nB=2\nset +a\nC=3\ndeclare -x D=4\nexport A\nE=5 srun true\n")
    assert values(found.steps[0]) == {"A": "1", "B": "2", "D": "4", "E": "5"}


def test_env_and_other_wrappers_are_seen_through() -> None:
    found = starts(
        """
        time timeout -k 10 2h nohup env -u OLD A=1 'B=x y' numactl -m 0 --cpunodebind=0 \\
          nsys profile -o rep --trace cuda,nvtx -- /usr/bin/python3.12 -m MaxText.train c.yml
        srun --mpi pmix taskset -c 0-3 stdbuf -oL python MaxText/train.py d.yml
        command -v python3
        """
    )
    assert [texts(start.words) for start in found] == [["c.yml"], ["d.yml"]]
    assert {name: text.text for name, text in found[0].environment.items()} == {
        "A": "1",
        "B": "x y",
    }
    assert found[0].step.program == "python3.12"


def test_a_here_document_counts_only_where_it_is_run() -> None:
    found = starts(
        """
        cat > run.sh <<'EOF'
        #!/bin/bash
        export LOCAL=$SLURM_LOCALID
        python3 -m MaxText.train "$@" from=file
        EOF
        chmod +x run.sh
        cat <<EOF
        python3 -m MaxText.train never=printed
        EOF
        cat > other.sh <<-EOF
        \tpython3 -m MaxText.train never=run
        \tEOF
        srun -N2 ./run.sh base.yml a=b
        srun bash <<EOF
        python3 -m MaxText.train from=$SHELL_ITSELF x=\\$Y
        EOF
        python3 - <<EOF
        srun python3 -m MaxText.train not=shell
        EOF
        : <<'COMMENT'
        srun python3 -m MaxText.train in=comment
        COMMENT
        """
    )
    assert [texts(start.words) for start in found] == [
        ["base.yml", "a=b", "from=file"],
        [f"from={MARK}", f"x={MARK}"],
    ]
    assert place(found[0].words[2]) == (4, 31)
    assert found[0].origin.line == 4
    assert found[1].origin.line == 15


def test_an_unset_path_variable_still_names_the_script_it_wrote() -> None:
    found = starts(
        """
        S=$(mktemp)
        cat <<'X' > $S
        python3 -m MaxText.train one=1
        X
        cat > "$TMPDIR/a b.sh" <<'X'
        python3 -m MaxText.train two=2
        X
        srun bash $S
        srun bash "${TMPDIR}/a b.sh"
        srun bash $OTHER/a.sh
        """
    )
    assert [texts(start.words) for start in found] == [["one=1"], ["two=2"]]


def test_branches_make_unknown_what_they_change_and_commands_conditional() -> None:
    found = batch(
        """
        export XLA_FLAGS="--xla_a=1"
        export SAME=x
        if [ -n "$DEBUG" ]; then
          export XLA_FLAGS="$XLA_FLAGS --xla_dump_to=/tmp/d" NCCL_DEBUG=INFO SAME=y
          srun hostname
        else
          SAME=y
        fi
        [ -f extra.sh ] && export EXTRA=1
        srun true
        """
    )
    inside, after = found.steps
    assert (inside.conditional, after.conditional) == (True, False)
    assert values(inside)["XLA_FLAGS"] == "--xla_a=1 --xla_dump_to=/tmp/d"
    assert values(after) == {
        "XLA_FLAGS": f"--xla_a=1 {MARK}", "SAME": "y", "NCCL_DEBUG": MARK, "EXTRA": MARK,
    }  # fmt: skip


def test_a_test_over_known_values_decides() -> None:
    found = batch(
        """
        MODE=bf16 N=4
        if [[ "$MODE" == fp8 ]]; then export Q=te_fp8; elif [ $N -gt 2 ]; then export Q=big; fi
        case $MODE in fp*) P=1;; "bf16"|x) P=2;; *) P=3;; esac
        [ "$MODE" = fp8 ] && srun never
        [ "$N" -eq 4 ] || exit 1
        export P
        srun true
        """
    )
    (step,) = found.steps
    assert not step.conditional
    assert values(step)["Q"] == "big"
    assert values(step)["P"] == MARK  # `fp*` is not looked into


def test_a_branch_that_leaves_does_not_count_afterwards() -> None:
    found = batch(
        """
        A=ok
        if [ -z "$WHAT" ]; then A=bad; exit 1; fi
        test -d /data || { A=worse; exit 2; }
        export A
        srun true
        exit
        srun never
        """
    )
    assert [texts(step.words) for step in found.steps] == [["true"]]
    assert values(found.steps[0]) == {"A": "ok"}


def test_functions_count_where_they_are_called() -> None:
    found = starts(
        """
        launch() {
          local nodes=$1; shift
          export SET_INSIDE=1
          srun -N "$nodes" "$@" 2>&1 | tee "log.$nodes" || return 1
        }
        function never { srun python3 -m MaxText.train never=1; }
        nodes=outer
        launch 2 python3 -m MaxText.train c.yml "a=b c"
        launch 4 python3 -m MaxText.train d.yml n=$nodes &
        wait
        """
    )
    assert [texts(start.words) for start in found] == [["c.yml", "a=b c"], ["d.yml", "n=outer"]]
    assert [option.value and option.value.text for option in found[1].step.options] == ["4"]
    assert place(found[0].words[1]) == (8, 42)
    assert "SET_INSIDE" in found[1].environment


def test_a_loop_over_known_words_gives_a_command_for_each() -> None:
    found = starts(
        """
        for bs in 4 "8" 16; do
          srun python3 -m MaxText.train base.yml per_device_batch_size=$bs
        done
        for f in configs/*.yml; do srun python3 -m MaxText.train "$f"; done
        while read -r line; do srun python3 -m MaxText.train x=$line; done < list
        """
    )
    assert [texts(start.words)[-1] for start in found] == [
        "per_device_batch_size=4", "per_device_batch_size=8", "per_device_batch_size=16",
        MARK, f"x={MARK}",
    ]  # fmt: skip
    assert [start.conditional for start in found] == [False, False, False, True, True]
    assert found[1].words[1].at(len("per_device_batch_size=")).line == 1


def test_subshells_pipelines_and_background_do_not_leak() -> None:
    found = batch("A=1\n(A=2; export A; exit 1)\nexport A | cat\n{ A=3; } &\nexport A\nsrun x\n")
    assert values(found.steps[0]) == {"A": "1"}


def test_containers_get_only_the_variables_they_are_given() -> None:
    found = starts(
        """
        export XLA_FLAGS=--xla_a=1 OTHER=2
        docker run --rm --gpus all -e XLA_FLAGS -eB=3 --env C="4 5" -v /a:/b:ro img:26.03 \\
          bash -c "python3 -m MaxText.train c.yml"
        enroot start --rw -m /a:/b -e D=6 name python3 -m MaxText.train d.yml
        apptainer exec --nv -B /a:/b img.sif python3 -m MaxText.train e.yml
        docker ps -a
        """
    )
    assert [texts(start.words) for start in found] == [["c.yml"], ["d.yml"], ["e.yml"]]
    assert {name: text.text for name, text in found[0].environment.items()} == {
        "XLA_FLAGS": "--xla_a=1", "B": "3", "C": "4 5",
    }  # fmt: skip
    assert texts(found[0].step.words)[:2] == ["run", "img:26.03"]
    assert found[0].step.options[1].name == "--gpus"


def test_sbatch_wrap_and_sbatch_of_a_written_script() -> None:
    found = batch(
        """
        sbatch -N 2 --wrap="srun python3 -m MaxText.train w=1"
        cat > job.sbatch <<'EOF'
        #!/bin/bash
        #SBATCH --nodes=8 --mem=0
        srun python3 -m MaxText.train "$1"
        EOF
        ID=$(sbatch --parsable --nodes=4 job.sbatch arg=2)
        sbatch --dependency=afterok:$ID other.sh "x y"
        """
    )
    wrap, written, other = found.steps
    assert texts(next(maxtext_commands(wrap)).words) == ["w=1"]
    assert texts(next(maxtext_commands(written)).words) == ["arg=2"]
    nodes = written.option("--nodes")
    assert nodes is not None
    assert nodes.value is not None
    assert nodes.value.text == "4"
    assert written.option("--mem") is not None
    assert texts(other.words) == ["other.sh", "x y"]
    dependency = other.option("--dependency")
    assert dependency is not None
    assert dependency.value is not None
    assert dependency.value.text == f"afterok:{MARK}"


def test_unknown_options_and_programs_are_not_guessed() -> None:
    found = batch(
        """
        srun $SRUN_OPTS -N 2 python3 -m MaxText.train a=1
        srun $COMMAND --steps 5
        $PREFIX srun -n 1 true
        ${PYTHON:-python3} -m MaxText.train b=2
        $WHATEVER --flag
        """
    )
    first, second, third, fourth = found.steps
    assert [option.name for option in first.options] == [MARK, "--nodes"]
    assert texts(second.words) == [MARK, "--steps", "5"]
    assert texts(third.words) == ["true"]
    assert texts(next(maxtext_commands(fourth)).words) == ["b=2"]


def test_heterogeneous_steps_and_mpirun() -> None:
    found = batch("srun -N1 a b : -N2 --mem=0 c\nmpirun -np 8 --mca btl tcp -x A python3 t.py\n")
    assert [(step.program, texts(step.words)) for step in found.steps] == [
        ("srun", ["a", "b"]),
        ("srun", ["c"]),
        ("mpirun", ["python3", "t.py"]),
    ]


def test_sourced_and_evaluated_texts_run_in_the_same_shell() -> None:
    found = batch(
        """
        cat > env.sh <<'EOF'
        export A=1
        EOF
        . ./env.sh
        eval "export B='2 3'"
        unset C
        source "$HOME/other.sh"
        export D=$C
        srun true
        """
    )
    assert values(found.steps[0]) == {"A": "1", "B": "2 3", "D": MARK}


def test_hostile_names_quotes_and_newlines_stay_what_they_are() -> None:
    (start,) = starts(
        """
        DIR='/data/ü ber/$HOME; rm -rf "x"'
        srun -J 'a"b' python3 -m MaxText.train "$DIR/c.yml" $'run_name=two\\nlines' 'k=`id`' \\
          x=$(touch /tmp/never) "q='s'" e=\\$X '' "${DIR}"$'\\x41'
        """
    )
    assert texts(start.words) == [
        "/data/ü ber/$HOME; rm -rf \"x\"/c.yml", "run_name=two\nlines", "k=`id`", f"x={MARK}",
        "q='s'", "e=$X", "", "/data/ü ber/$HOME; rm -rf \"x\"A",
    ]  # fmt: skip
    assert place(start.words[0]) == (1, 6)
    assert start.words[0].at(start.words[0].text.index("/c.yml")).column == 45


def test_maxtext_is_known_by_module_or_path_and_nothing_else() -> None:
    found = starts(
        """
        python3 -m maxtext.trainers.post_train.sft.train_sft a.yml
        python -X importtime -mMaxText.train_compile b.yml
        /opt/venv/bin/python3 -u /deps/src/maxtext/trainers/pre_train/train.py c.yml
        python3 $REPO/MaxText/train.py d.yml
        python3 train.py no.yml
        python3 -c 'import MaxText.train' no.yml
        python3 -m maxtext.trainers no.yml
        echo python3 -m MaxText.train no.yml
        # python3 -m MaxText.train no.yml
        """
    )
    assert [texts(start.words) for start in found] == [["a.yml"], ["b.yml"], ["c.yml"], ["d.yml"]]
    assert found[2].module == "maxtext.trainers.pre_train.train"


def test_a_shell_that_stops_at_an_open_quote_has_run_what_stands_before() -> None:
    reading = read("srun true\nexport A=\"--xla_a=1\n# it's\nsrun never\n", "job.sh")
    assert [texts(step.words) for step in reading.batch.steps] == [["true"]]
    assert reading.unread is not None
    assert (reading.unread.origin.line, reading.unread.origin.column) == (2, 10)
    assert "never closed" in reading.unread.clause


def test_dos_line_ends_do_not_hide_the_commands() -> None:
    found = batch("#!/bin/bash\r\n#SBATCH -N 2\r\nexport A=1 \\\r\n B=2\r\nsrun true\r\n")
    assert [o.value and o.value.text for o in found.directives] == ["2"]
    assert values(found.steps[0]) == {"A": "1", "B": "2"}
    assert texts(found.steps[0].words) == ["true"]


def test_a_command_text_in_a_variable_from_a_here_document_is_followed() -> None:
    found = starts(
        """
        CMD=$(cat <<'EOF'
        export RANK=$SLURM_PROCID
        python3 -m MaxText.train one=1 \\
          "name=a b"
        EOF
        )
        srun bash -c "$CMD"
        read -r -d '' OTHER <<EOF || true
          set -e; python3 -m MaxText.train two=2
        EOF
        srun bash -lc "${OTHER}"
        """
    )
    assert [texts(start.words) for start in found] == [["one=1", "name=a b"], ["two=2"]]
    assert place(found[0].words[1]) == (4, 4)
    assert place(found[1].words[0]) == (9, 36)


def test_exec_of_redirections_alone_does_not_end_the_script() -> None:
    found = batch("exec > >(tee log) 2>&1\nexec 3<&1\nsrun a\nexec srun b\nsrun never\n")
    assert [texts(step.words) for step in found.steps] == [["a"], ["b"]]


def test_sbatch_reads_a_here_document_or_a_pipe() -> None:
    found = batch(
        """
        sbatch -N 2 <<EOF
        #!/bin/bash
        #SBATCH --mem=0
        srun python3 -m MaxText.train a=1
        EOF
        cat <<'EOF' | sbatch
        #!/bin/bash
        #SBATCH --mem=1
        srun python3 -m MaxText.train b=1
        EOF
        tee run.sh <<'EOF' > /dev/null
        python3 -m MaxText.train c=1
        EOF
        srun bash -eo pipefail run.sh
        """
    )
    commands = [texts(start.words) for step in found.steps for start in maxtext_commands(step)]
    assert commands == [["a=1"], ["b=1"], ["c=1"]]
    memory = [step.option("--mem") for step in found.steps[:2]]
    assert [option and option.value and option.value.text for option in memory] == ["0", "1"]


def test_a_comment_or_a_blank_behind_a_backslash_ends_the_command() -> None:
    found = batch(
        "srun python3 -m MaxText.train a=1 \\\n  # b=2 \\\n  c=3\n"
        "srun python3 -m MaxText.train d=4 \\ \n  e=5\nsrun true\n"
    )
    commands = [texts(start.words) for step in found.steps for start in maxtext_commands(step)]
    assert commands == [["a=1"], ["d=4", " "]]


def test_an_environment_manager_runs_what_stands_behind_it() -> None:
    found = starts(
        """
        uv run --with x python -m MaxText.train a=1
        srun conda run -n env --no-capture-output python3 -m MaxText.train b=1
        poetry run python3 -m MaxText.train c=1
        uv pip install python3
        """
    )
    assert [texts(start.words) for start in found] == [["a=1"], ["b=1"], ["c=1"]]


def test_extended_patterns_are_read_over() -> None:
    found = batch("[[ $X == @(a|b) ]] && srun a\nif [[ $X =~ ^(v)+([0-9]+)$ ]]; then srun b; fi\n")
    assert [(texts(step.words), step.conditional) for step in found.steps] == [
        (["a"], True),
        (["b"], True),
    ]


def test_words_of_export_that_name_no_variable_are_told() -> None:
    reading = read("export -x XLA_FLAGS=--a=1 --b=2 '1x'\ndeclare -A M=([a]=b)\nexport $V\n", "j")
    assert [(word.text, place(word)) for word in reading.strays] == [
        ("--b=2", (1, 27)),
        ("1x", (1, 34)),
    ]


def test_export_takes_only_its_own_words() -> None:
    found = batch(
        "export XLA_FLAGS=--xla_n=1 --xla_x=2\nexport -n A\nexport B=1; export -n B\nsrun a\n"
    )
    assert values(found.steps[0]) == {"XLA_FLAGS": "--xla_n=1"}


def test_what_a_template_fills_in_is_unknown_and_its_own_lines_are_left_out() -> None:
    found = batch(
        """
        #!/bin/bash
        #SBATCH --nodes={{ nodes }} --ntasks-per-node=8
        {% if debug %}
        export NCCL_DEBUG={{ level | default("INFO") }}
        {%- endif %}
        {{- range .Values.names }}
        srun python3 -m MaxText.train {{ .Values.config }} steps=3 run_name="r-{{ name }}" b=1
        {{- end }}
        """
    )
    nodes, tasks = found.directives
    assert nodes.value is not None
    assert not nodes.value.known
    assert (tasks.value and tasks.value.text, tasks.origin.column) == ("8", 29)
    (step,) = found.steps
    assert values(step) == {"NCCL_DEBUG": MARK}
    (start,) = maxtext_commands(step)
    assert texts(start.words) == [MARK, "steps=3", f"run_name=r-{MARK}", "b=1"]
    assert place(start.words[1]) == (7, 52)


def test_braces_that_are_no_template_stay_as_they_are() -> None:
    text = "srun echo ${A:-${B:-x}} {a,{b,c}} ${#ARR[@]} '}}'\n"
    (step,) = batch(text).steps
    assert not is_template(text)
    assert step.words[-1].text == "}}"
    assert not is_template("docker ps --format '{{.Names}}'\n")
