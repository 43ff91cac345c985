"""What a newcomer sees first agrees with itself: the README, its figure, and how to cite."""

from __future__ import annotations

import re
from importlib.metadata import version
from xml.etree import ElementTree

from carvegbm.cli import demo as digits
from conftest import REPOSITORY

DEMO = (REPOSITORY / "docs" / "getting-started.md").read_text("utf-8")
README = (REPOSITORY / "README.md").read_text("utf-8")
CITATION = (REPOSITORY / "CITATION.cff").read_text("utf-8")
FIGURE = (REPOSITORY / "docs" / "figures" / "demo.svg").read_text("utf-8")


def test_first_comes_what_it_is_then_the_picture_then_the_commands() -> None:
    lines = README.splitlines()
    assert lines[0] == "# carvegbm"
    picture = README.index("](docs/figures/demo.svg)")
    assert README.index("LightGBM") < picture < README.index("```")
    assert README.count("![") == 1


def test_figure_shows_the_robustness_that_the_demo_prints() -> None:
    rows = re.findall(r"^  (L[∞01] \S+).* ([\d.]+)\*? +\d+$", DEMO, re.M)
    assert [name for name, _ in rows] == [digits.name_of(n, k) for n, k, _ in digits.ATTACKERS]
    shown = re.findall(r'<text class="robust"[^>]*>([\d.]+)</text>', FIGURE)
    assert shown == [robust for _, robust in rows]


def test_figure_stands_alone_and_follows_light_and_dark_mode() -> None:
    root = ElementTree.fromstring(FIGURE)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert re.findall(r"https?://[^\"]+", FIGURE) == ["http://www.w3.org/2000/svg"]
    light, dark = FIGURE.split("@media (prefers-color-scheme: dark)")
    for drawn in ("page", "ink", "plain", "certified", "robust"):
        assert f".{drawn} {{ fill:" in light
        assert f".{drawn} {{ fill:" in dark


def test_citation_names_this_version_and_the_authors_of_the_paper() -> None:
    assert f"\nversion: {version('carvegbm')}\n" in CITATION
    names = re.findall(r"family-names: (.+)\n +given-names: (.+)\n", CITATION)
    assert len(names) == 4
    entry = " ".join(README[README.index("@inproceedings") :].split())
    assert " and ".join(f"{given} {family}" for family, given in names) in entry
    (title,) = re.findall(r"^  title: (.+)$", CITATION, re.M)
    assert f"title = {{{title}}}" in entry
    (preprint,) = re.findall(r"arxiv\.org/abs/(\S+)$", CITATION, re.M)
    assert f"arXiv:{preprint}" in entry


def test_commands_are_commands_and_every_guide_is_listed() -> None:
    fenced = re.split(r"^```", README, flags=re.M)[1::2]
    blocks = [block.removeprefix("\n") for block in fenced if block.startswith("\n")]
    assert [block.count("\n") for block in blocks[:2]] == [1, 1]
    for line in "".join(blocks[2:]).splitlines():
        assert line.startswith("carvegbm "), line
    guides = {path.name for path in (REPOSITORY / "docs").glob("*.md")} - {"index.md", "guides.md"}
    assert guides == set(re.findall(r"\]\(docs/([\w-]+\.md)\)", README))
