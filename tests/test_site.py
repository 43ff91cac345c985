"""The documentation site: every public name and every command is on it, and what is wrong is seen.

The site itself is built by `.ci/run`, with warnings as errors; here are its parts. Checks of pages
are also run on pages with the defect they look for.
"""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from carvegbm.cli.app import app
from conftest import REPOSITORY

DOCS = REPOSITORY / "docs"
PACKAGES = {"carvegbm": None, "carvegbm.dask": "dask", "carvegbm.spark": "pyspark"}
"""What is public, and what it takes to import it."""


def part(folder: str, name: str) -> Any:
    """A program of the site, which is no package."""
    path = str(REPOSITORY / folder)
    sys.path.insert(0, path)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(path)


def names_on_the_site() -> set[str]:
    """Every name that a list of the reference shows, with its package."""
    found = set()
    for page in (DOCS / "reference").glob("*.rst"):
        module = ""
        listing = False
        for line in page.read_text("utf-8").splitlines():
            if told := re.match(r"\.\. (?:currentmodule|py:module):: (\S+)", line):
                module = f"{told[1]}."
            if told := re.match(r"\.\. autodata:: (\S+)", line):
                found.add(module + told[1])
            listing = line.startswith(".. autosummary::") or (listing and line[:1] in ("", " "))
            if listing and (told := re.fullmatch(r"   ([\w.]+)", line)):
                found.add(told[1] if told[1].startswith("carvegbm") else module + told[1])
    return found


def public() -> list[tuple[str, str]]:
    import carvegbm  # noqa: F401

    names = []
    for package, needed in PACKAGES.items():
        if needed is None or importlib.util.find_spec(needed) is not None:
            names += [(package, name) for name in importlib.import_module(package).__all__]
    return names


def test_every_public_name_is_on_the_site_and_no_other() -> None:
    wanted = {f"{package}.{name}" for package, name in public()}
    shown = {name for name in names_on_the_site() if name.rpartition(".")[0] in dict(public())}
    assert len(wanted) > 40
    assert sorted(wanted - shown) == []
    assert sorted(shown - wanted) == []


@pytest.mark.parametrize(("package", "name"), public(), ids=str)
def test_every_public_name_has_an_example(package: str, name: str) -> None:
    """Which `test_docs.py` runs, and `tests/spark` those that need a session.

    The result of a function may refer to the function: "see `carvegbm.dask.verify`".
    """
    thing = getattr(importlib.import_module(package), name)
    if refers := re.search(r"see `([\w.]+)\.(\w+)`\.$", thing.__doc__ or ""):
        thing = getattr(importlib.import_module(refers[1]), refers[2])
    if not callable(thing):
        return
    said = inspect.cleandoc(vars(thing).get("__doc__") or thing.__doc__ or "")
    assert doctest.DocTestParser().get_examples(said), f"{package}.{name}: no example"
    assert "\nExamples\n--------\n" in said


def test_every_command_has_a_page_with_all_that_it_takes() -> None:
    pytest.importorskip("sphinx")
    pages = part("docs", "ext.commands").pages()
    group: Any = app
    assert set(pages) == {"index", *group.commands}
    for name, command in group.commands.items():
        assert f"({name}.md)" in pages["index"]
        for parameter in command.params:
            if not getattr(parameter, "hidden", False):
                shown = parameter.opts if parameter.opts[0].startswith("-") else [parameter.metavar]
                assert all(re.search(rf"`\[?{word}\b", pages[name]) for word in shown), shown
        assert command.epilog is None or "## Example" in pages[name]
    assert "Default: `10`." in pages["verify"]
    assert "`--engine NAME`\n: auto, large-spread or search" in pages["verify"]
    assert "UNSET" not in "".join(pages.values())


def test_formulas_become_mathml_and_what_is_wrong_is_told() -> None:
    pytest.importorskip("sphinx")
    nodes = pytest.importorskip("docutils.nodes")
    mathml = part("docs", "ext.mathml")
    shown = mathml._mathml(nodes.math(text=r"\lVert z - x \rVert_p \le k"), as_block=False)
    assert shown.startswith("<math ")
    assert 'stretchy="false"' in shown
    for page in sorted(DOCS.glob("*.md")):
        text = re.sub(r"^```.*?^```|`[^`\n]+`", "", page.read_text("utf-8"), flags=re.M | re.S)
        for tex in re.findall(r"\$\$(.+?)\$\$|\$([^$\n]+)\$", text, re.S):
            node = nodes.math(text="".join(tex))
            assert "<math " in mathml._mathml(node, as_block=True), "".join(tex)
    assert "<code>" in mathml._mathml(nodes.math(text=r"\absent{a}"), as_block=False)


@pytest.mark.parametrize(
    ("source", "target", "there"),
    [
        ("docs/robust.md", "../experiments/results/results.md#data", "project/results.md#data"),
        ("docs/robust.md", "training.md#the-data", "training.md#the-data"),
        ("docs/proofs.md", "../src/carvegbm_check.py", "../src/carvegbm_check.py"),
        ("docs/proofs.md", "https://arxiv.org/abs/2402.14988", "https://arxiv.org/abs/2402.14988"),
        ("CHANGELOG.md", "docs/robust.md", "../robust.md"),
        ("experiments/README.md", "results/index.html", "../../experiments/results/index.html"),
    ],
)
def test_a_link_leads_on_the_site_where_it_leads_in_the_repository(
    source: str, target: str, there: str
) -> None:
    pytest.importorskip("sphinx")
    links = part("docs", "ext.links")
    page = DOCS / f"{links.HOMES[source]}.md" if source in links.HOMES else REPOSITORY / source
    block = "\n```\n[x](absent.md)\n```\n"
    given = links.turned(f"[a link]({target}){block}", REPOSITORY / source, page, DOCS)
    assert given == f"[a link]({there}){block}"


# ── looking at the site ──────────────────────────────────────────────────────────────────────


def write(folder: Path, **pages: str) -> Path:
    for name, body in pages.items():
        (folder / f"{name}.html").write_text(
            f'<!doctype html><meta charset="utf-8"><title>{name}</title>'
            f'<link rel="icon" href="data:,"><body><main>{body}</main>',
            encoding="utf-8",
        )
    return folder


def test_wrong_links_are_seen(tmp_path: Path) -> None:
    look = part("tools", "look_at_site")
    site = write(
        tmp_path,
        index='<a href="other.html#place">a</a><a href="#here">b</a><i id="here"></i>'
        '<a href="https://elsewhere.org/">c</a>',
        other='<p id="place"></p><a href="index.html#gone">d</a><a href="absent.html">e</a>'
        '<img src="https://elsewhere.org/picture.png">',
    )
    assert sorted(look.wrong_links(site)) == [
        "other.html: absent.html leads nowhere",
        "other.html: loads https://elsewhere.org/picture.png from another server",
        "other.html: there is no #gone on index.html",
    ]


@pytest.mark.skipif(part("tools", "look_at_site").BROWSER is None, reason="no Chromium")
def test_what_sticks_out_and_what_the_console_says_are_seen(tmp_path: Path) -> None:
    look = part("tools", "look_at_site")
    wide = '<div style="width: 700px">too wide</div>'
    site = write(
        tmp_path,
        fine='<pre style="overflow-x: auto">' + "long " * 200 + "</pre>",
        wide=wide,
        hidden=f'<article style="overflow-x: auto">{wide}</article>',
        loud="<script>absent()</script>",
    )
    found = list(look.in_browser(site, look.pages_of(site)))
    assert len(found) == 3, found
    assert "absent is not defined" in found[0]
    assert [line.split(":")[0] for line in found[1:]] == [
        "hidden.html at 400 px",
        "wide.html at 400 px",
    ]
    assert all("too wide" in line for line in found[1:])
    assert look.opened_as_a_file(site / "fine.html", "--dump-dom") == []
    assert len(look.opened_as_a_file(site / "loud.html", "--dump-dom")) == 1
