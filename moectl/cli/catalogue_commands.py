"""Declarations of the commands about what moectl knows: schemas, presets, hardware, facts."""

from __future__ import annotations

from moectl.cli.command import Argument, Command, Option
from moectl.cli.options import ANSWER, output


def catalogue_commands() -> tuple[Command, ...]:
    """Return the commands."""
    return (
        Command(
            "schema",
            "Print the JSON Schema of run files, cluster profiles or presets.",
            "moectl.cli.schema:run",
            (
                Argument(
                    "kind",
                    "run, cluster or preset; without one, run.",
                    many=True,
                    required=False,
                    of="schemas",
                ),
            ),
            (output("the schema"),),
            ("moectl schema", "moectl schema preset --output preset.schema.json"),
            detail="For editors (yaml-language-server) and other checkers; JSON Schema 2020-12.",
        ),
        Command(
            "probe",
            "Print the program that catalogues an image, for `validate --probe`.",
            "moectl.cli.probe:run",
            options=(
                Option(
                    "--python",
                    "Run it with this interpreter and print its JSON instead.",
                    metavar="PATH",
                    of="files",
                ),
                output("it"),
            ),
            examples=("moectl probe --output probe.py",),
            detail="One standard-library file; in the image: `docker run --rm IMAGE python3 - < "
            "probe.py > image.json`, or with srun --container-image. It needs no GPU and tells no "
            "secrets.",
        ),
        Command(
            "presets list",
            "List the presets.",
            "moectl.cli.catalogues:presets_list",
            options=(ANSWER,),
            examples=("moectl presets list",),
        ),
        Command(
            "presets show",
            "Show a preset: its values, its path and the reasons.",
            "moectl.cli.catalogues:presets_show",
            (Argument("name", "A preset.", of="presets"),),
            (ANSWER,),
            ("moectl presets show kimi-k2-1t",),
        ),
        Command(
            "hardware list",
            "List the GPU platforms.",
            "moectl.cli.catalogues:hardware_list",
            options=(ANSWER,),
            examples=("moectl hardware list",),
        ),
        Command(
            "hardware show",
            "Show a GPU platform and the sources of its figures.",
            "moectl.cli.catalogues:hardware_show",
            (Argument("name", "A platform.", of="hardware"),),
            (ANSWER,),
            ("moectl hardware show gb200-nvl72",),
        ),
        Command(
            "facts list",
            "List the fact tables with their releases.",
            "moectl.cli.facts:facts_list",
            options=(ANSWER,),
            examples=("moectl facts list",),
        ),
        Command(
            "facts maxtext",
            "Read the key catalogue of a MaxText wheel or folder.",
            "moectl.cli.facts:maxtext",
            (Argument("source", "A wheel, a source tree, or a site-packages folder.", of="files"),),
            (output("the catalogue", folder=True, default="maxtext-catalogue"), ANSWER),
            ("moectl facts maxtext maxtext-0.2.5-py3-none-any.whl --output catalogue",),
        ),
        Command(
            "facts xla",
            "Ask an installed jaxlib for its XLA flags.",
            "moectl.cli.facts:xla",
            options=(
                Option(
                    "--python",
                    "Interpreter that has the jaxlib; the default is this one.",
                    metavar="PATH",
                    of="files",
                ),
                output("the catalogue", default="xla.tsv"),
                ANSWER,
            ),
            examples=("moectl facts xla --output xla.tsv",),
        ),
        Command(
            "facts weights",
            "Ask MaxText itself for the weights of its models (minutes).",
            "moectl.cli.facts:weights",
            (Argument("models", "Model names, comma separated.", of="models"),),
            (output("the table", default="weights.json"), ANSWER),
            ("moectl facts weights deepseek3-671b --output weights.json",),
        ),
    )
