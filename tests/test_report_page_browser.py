"""The page of a report in a real headless Chromium: drawn, quiet, readable, and safe.

Screenshots at the widths of a desk and of a phone, light and dark, are kept in the folder that
MOECTL_ARTEFACTS names, or in pytest's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moectl.actions.report import report, scaling
from moectl.report.context import Wish
from moectl.report.page import page
from moectl.report.scaling_forms import page as scaling_page
from tests.support import report_logs as made
from tests.support.components import require
from tests.support.traces import xspace
from tests.test_report_fuzz import HOSTILE
from tests.test_report_traced import KERNELS

DESK, PHONE = (1280, 900), (390, 844)
# Colours of every text that is seen against what is behind it, by WCAG 2.1's formula.
CONTRAST = """
() => {
  const channel = c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest('title,style')) continue;
    const box = element.getBoundingClientRect();
    if (!box.width || !box.height || box.right < 0) continue;
    const style = getComputedStyle(element);
    const ink = parse(element.closest('svg') ? style.fill : style.color);
    const [a, b] = [light(ink), light(behind(element))].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), parseFloat(style.fontSize), walker.currentNode.data]);
  }
  return found;
}
"""
DRAWN = """
() => [...document.querySelectorAll('figure')].map(figure => {
  const all = [...figure.querySelectorAll("svg")];
  const svg = all.filter(each => each.getBoundingClientRect().width);
  return [figure.id, svg.length, svg[0].getBoundingClientRect().width,
          svg[0].querySelectorAll('path,circle,rect').length,
          Math.min(...[...svg[0].querySelectorAll('text')].map(
            text => text.getBoundingClientRect().height))];
})
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = require("chromium")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - with Chromium only

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=str(program), args=["--no-sandbox", "--disable-gpu"]
        )
        yield found
        found.close()


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    said = os.environ.get("MOECTL_ARTEFACTS")
    folder = Path(said) if said else tmp_path_factory.mktemp("artefacts")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    found = report([str(made.folder(folder / "dsv3"))], Wish(hardware="gb200"))
    paths = []
    for gpus in (128, 256, 512, 1024, 2048):
        path = folder / f"run-{gpus}"
        path.write_text(made.log(60, seconds=5.763 * (gpus / 128) ** 0.011, gpus=gpus))
        paths.append(str(path))
    traced = made.folder(folder / "traced")
    place = traced / "profile" / "host.xplane.pb"
    place.parent.mkdir()
    place.write_bytes(xspace({"/device:GPU:0": KERNELS}))
    texts = {
        "profiled": page(report([str(traced)])),
        "report": page(found),
        "scaling": scaling_page(scaling(paths)),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text)
    return {name: folder / f"{name}.html" for name in texts}


class Visit:
    """A page as it was opened, and all that it did."""

    def __init__(self, browser: Any, path: Path, size: tuple[int, int], scheme: str) -> None:
        self.context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme
        )
        self.page = self.context.new_page()
        self.console: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda said: self.console.append(said.text))
        self.page.on("pageerror", lambda error: self.console.append(str(error)))
        self.page.on("dialog", lambda dialog: self.console.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri(), wait_until="load")

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("name", ["report", "scaling", "profiled"])
def test_a_page_is_drawn_quiet_and_readable(
    browser: Any,
    pages: dict[str, Path],
    artefacts: Path,
    name: str,
    size: tuple[int, int],
    scheme: str,
) -> None:
    with Visit(browser, pages[name], size, scheme) as visit:
        assert visit.console == []
        assert visit.requests == [pages[name].as_uri()]
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= size[0]
        drawn = visit.page.evaluate(DRAWN)
        assert len(drawn) == {"report": 7, "scaling": 2, "profiled": 8}[name]
        for figure, count, width, shapes, height in drawn:
            assert count == 1, figure
            assert width > 300, figure
            assert shapes > 4, figure
            assert height >= 12, figure  # of the smallest text, in pixels
        visit.page.evaluate(
            "document.querySelectorAll('details').forEach(each => each.open = true)"
        )
        texts = visit.page.evaluate(CONTRAST)
        assert len(texts) > 100
        assert [text for text in texts if text[0] < 4.5] == []
        assert [text for text in texts if text[1] < 12] == []
        visit.page.evaluate(
            "document.querySelectorAll('details').forEach(each => each.open = false)"
        )
        where = artefacts / f"{name}-{'desk' if size == DESK else 'phone'}-{scheme}.png"
        visit.page.screenshot(path=str(where), full_page=True)
        assert where.stat().st_size > 20_000


def test_the_page_can_be_used_with_the_keyboard(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["report"], DESK, "light") as visit:
        seen = []
        for _ in range(9):
            visit.page.keyboard.press("Tab")
            seen.append(
                visit.page.evaluate(
                    "[document.activeElement.tagName, document.activeElement.className, "
                    "getComputedStyle(document.activeElement).outlineStyle]"
                )
            )
        assert seen[0][:2] == ["A", "skip"]
        assert [tag for tag, *_ in seen] == ["A"] * 7 + ["SUMMARY"] * 2
        assert all(outline == "solid" for *_, outline in seen)
        visit.page.keyboard.press("Enter")
        opened = visit.page.evaluate("document.activeElement.parentElement.open")
        assert opened is True
        visit.page.locator(".key a").first.focus()
        visit.page.keyboard.press("Enter")
        assert visit.page.evaluate("location.hash") == "#figure-step_time_s-median"


def test_every_figure_says_when_pointed_at_where_it_comes_from(
    browser: Any, pages: dict[str, Path]
) -> None:
    with Visit(browser, pages["report"], DESK, "light") as visit:
        titles = visit.page.eval_on_selector_all(
            ".figures td.number", "cells => cells.map(cell => [cell.innerText, cell.title])"
        )
        assert len(titles) > 25
        assert all(title for _, title in titles)
        with_lines = [title for text, title in titles if "rank-0.log:" in title]
        assert len(with_lines) > 12
        hovered = visit.page.eval_on_selector_all(
            "#plot-loss .wide circle title", "all => all.map(each => each.textContent)"
        )
        assert len(hovered) > 90
        assert all("rank-0.log:" in each for each in hovered)


def test_a_hostile_run_runs_nothing(browser: Any, tmp_path: Path) -> None:
    log = tmp_path / "<img src=x onerror=alert(2)>.log"
    text = made.log(20, run_name=HOSTILE, model_name=HOSTILE).replace(
        "Memstats: After", f"Memstats: {HOSTILE}"
    )
    log.write_text(text + f"Training stopped: {HOSTILE}\n")
    found = report([str(log)])
    path = tmp_path / "page.html"
    path.write_text(page(found))
    with Visit(browser, path, DESK, "light") as visit:
        assert visit.console == []
        assert visit.requests == [path.as_uri()]
        assert visit.page.evaluate("document.scripts.length") == 0
        assert visit.page.locator("img").count() == 0
        assert HOSTILE in visit.page.locator("body").inner_text()
        assert "onerror" in visit.page.title()


def test_a_page_without_steps_says_so(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "empty.log").write_text("")
    path = tmp_path / "page.html"
    path.write_text(page(report([str(tmp_path / "empty.log")])))
    with Visit(browser, path, PHONE, "dark") as visit:
        assert visit.console == []
        assert "no line tells of a step" in visit.page.locator("main").inner_text()
