"""Profiles in a report: figures, tables, a plot, and plain words where there is none."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from moectl.actions.report import report
from moectl.errors import MoectlError
from moectl.report import forms
from moectl.report.draw import NARROW, WIDE, svg, value_rows
from moectl.report.draw_png import png
from moectl.report.measure import Report
from moectl.report.page import page
from moectl.report.plots import plots
from tests.support import report_logs as made
from tests.support import training_logs
from tests.support.traces import xspace

PLACE = "tensorboard/plugins/profile/2026_11_30/host.xplane.pb"
SCOPE = {"hlo_op": "op", "tf_op": "jit(train_step)/decoder/moe_layers/mlp"}
KERNELS = {
    "Stream #7(Compute)": [
        ("nvjet_sm100_qqtst_128x256_Avec32UE8M0_Bvec32UE8M0_ptrGroup", 0, 1000, SCOPE),
        ("nvjet_sm100_qqtst_128x256_Avec32UE8M0_Bvec32UE8M0_ptrGroup", 1000, 3000, SCOPE),
        ("made_up_kernel", 6000, 1000, {}),
    ],
    "Stream #9(Communication)": [
        ("nccl_ep_jit_ht_dispatch_kernel", 3000, 2000, SCOPE),
        ("nccl_ep_jit_ht_combine_kernel", 5000, 500, SCOPE),
    ],
}


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("rich")
    made.folder(folder / "logs")
    path = folder / PLACE
    path.parent.mkdir(parents=True)
    path.write_bytes(xspace({"/device:GPU:0": KERNELS}))
    return report([str(folder)])


def test_the_figures_of_a_profile_are_exact(rich: Report) -> None:
    told = {name: rich.value(f"profile.{name}") for name in (
        "window_s", "computing_s", "communication_s", "exposed_s", "overlapped_s", "idle_s",
        "unknown_share", "classes.grouped_gemm.busy_s", "classes.ep_dispatch.exposed_s",
        "latency_s.grouped_gemm.median", "latency_s.ep_combine.p95",
    )}  # fmt: skip
    assert told == {
        "window_s": pytest.approx(7e-6),
        "computing_s": pytest.approx(5e-6),
        "communication_s": pytest.approx(2.5e-6),
        "exposed_s": pytest.approx(1.5e-6),
        "overlapped_s": pytest.approx(1e-6),
        "idle_s": pytest.approx(0.5e-6),
        "unknown_share": pytest.approx(1 / 7.5),
        "classes.grouped_gemm.busy_s": pytest.approx(4e-6),
        "classes.ep_dispatch.exposed_s": pytest.approx(1e-6),
        "latency_s.grouped_gemm.median": pytest.approx(2e-6),
        "latency_s.ep_combine.p95": pytest.approx(0.5e-6),
    }


def test_every_figure_says_its_formula_and_places_in_every_form(rich: Report) -> None:
    text, html = forms.text(rich, explain=True), page(rich)
    rows = {row["figure"]: row for row in csv.DictReader(io.StringIO(forms.figures_as_csv(rich)))}
    told = {row["name"]: row for row in forms.as_dict(rich, explain=True)["figures"]}
    for name in ("goodput", "time_to_first_step_s", "memory.used_gib", "moe.recv_share",
                 "perplexity.last", "profile.latency_s.ep_dispatch.p5"):  # fmt: skip
        assert rich.value(name) is not None, name
    for name, figure in rich.figures.items():
        assert figure.title in text, name
        assert figure.trace in text, name
        assert f'id="figure-{name.replace(".", "-")}"' in html, name
        assert set(rows[name]) == {"figure", "title", "value", "unit", "formula", "places", "why"}
        if figure.value is None:
            assert figure.why
            assert rows[name]["why"] == told[name]["why"] == figure.why
        else:
            assert figure.formula
            assert told[name]["formula"] == figure.formula
            assert rows[name]["places"] == " ".join(figure.places)
            # A count of what never happened stands nowhere.
            assert figure.places or not figure.value, name
    json.dumps(forms.as_dict(rich), allow_nan=False)
    assert forms.as_dict(rich)["traces"][0]["devices"][0]["classes"][0]["class"] == "grouped_gemm"


def test_the_plot_has_a_bar_a_class_and_one_of_idle_time(rich: Report) -> None:
    plot = next(each for each in plots(rich) if each.name == "profile")
    assert [bar.label for bar in plot.bars][-1] == "idle"
    by_label = {bar.label: bar.parts for bar in plot.bars}
    assert by_label["EP dispatch"] == pytest.approx((100 / 7, 100 / 7))
    for size in (WIDE, NARROW):
        drawn = ElementTree.fromstring(svg(plot, size))  # noqa: S314 - made here
        assert len(drawn.findall("{*}g")) == len(plot.bars)
        assert all(float(each.get("x", "0")) < size.width for each in drawn.iter("{*}rect"))
    assert len(value_rows(plot)) == len(plot.bars) + 1
    assert png(plot).startswith(b"\x89PNG")


def test_a_run_without_a_profile_says_how_to_get_one(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(made.log(20))
    found = report([str(tmp_path)])
    assert "`--profile xplane`" in forms.as_dict(found)["missing"]["profile.window_s"]
    assert "`--profile xplane`" in forms.text(found)
    assert [plot.name for plot in plots(found) if plot.bars] == []


def test_a_broken_profile_is_a_note_and_a_named_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(made.log(20))
    broken = tmp_path / "a.xplane.pb"
    broken.write_bytes(b"\xff" * 40)
    assert any("is no profile" in note for note in report([str(tmp_path)]).notes)
    with pytest.raises(MoectlError, match="is no profile"):
        report([str(broken)])


def test_a_failed_run_is_explained_in_every_form(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(made.log(20, per_device_batch_size="4") + training_logs.MEMORY)
    found = report([str(log)])
    told = forms.as_dict(found)["failure"]
    assert told["change"] == {
        "key": "per_device_batch_size", "value": "2", "why": "half the activations",
    }  # fmt: skip
    for text in (forms.text(found), page(found)):
        assert "a GPU ran out of memory" in text
        assert "set per_device_batch_size: 2" in text
