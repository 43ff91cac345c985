"""What a release rests on agrees with itself: versions, workflows, the published pages."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import carvegbm
from conftest import REPOSITORY

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
CONTRIBUTING = (REPOSITORY / "CONTRIBUTING.md").read_text("utf-8")
WORKFLOWS = REPOSITORY / ".github" / "workflows"
PLACES = {
    "GITHUB_REPOSITORY": "somebody/carvegbm",
    "ADDRESS": "https://somebody.github.io/carvegbm",
}


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, REPOSITORY / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def workflow(name: str) -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    if not WORKFLOWS.is_dir():
        pytest.skip("a source distribution has no workflows")
    found: dict[str, Any] = yaml.safe_load((WORKFLOWS / f"{name}.yml").read_text("utf-8"))
    return found


def commands(name: str) -> list[str]:
    """All that a workflow runs, line by line."""
    jobs = workflow(name)["jobs"].values()
    steps = [step for job in jobs for step in job["steps"]]
    return [line for step in steps if "run" in step for line in step["run"].splitlines()]


# ── the environment of contributors ──────────────────────────────────────────────────────────


def test_what_builds_without_isolation_is_installed_before() -> None:
    installed, isolated = set(), {}
    block = CONTRIBUTING[CONTRIBUTING.index("## Build") : CONTRIBUTING.index("## Test")]
    for line in re.findall(r"^\.venv/bin/pip install (.+)$", block, re.M):
        for folder in re.findall(r"-e \"?(\.[\w/]*)", line):
            isolated[folder] = "--no-build-isolation" not in line
        installed |= {word for word in line.split() if word[0].isalpha()}
    assert isolated == {".": False, "./experiments": True}
    needed = {re.split(r"[>=;]", name)[0] for name in PROJECT["build-system"]["requires"]}
    assert {*needed, "cmake", "ninja"} <= installed


def test_pyspark_is_downloaded_only_where_it_is_asked_for() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert [name for name, needed in extras.items() if "pyspark" in " ".join(needed)] == ["spark"]
    assert "spark" not in " ".join(extras["test"] + extras["dev"])


@pytest.mark.parametrize(
    ("required", "code"), [("0", pytest.ExitCode.NO_TESTS_COLLECTED), ("1", 2)]
)
def test_without_pyspark_its_tests_are_skipped_or_fail_where_nothing_may_be_skipped(
    required: str, code: int
) -> None:
    program = (
        "import pytest, sys; sys.modules['pyspark'] = None; sys.exit(pytest.main(sys.argv[1:]))"
    )
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "tests/spark/test_faults.py"]
    done = subprocess.run(
        [sys.executable, "-c", program, *options],
        cwd=REPOSITORY,
        env={**os.environ, "CARVEGBM_REQUIRE_ALL": required},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout


def test_ids_of_tests_do_not_depend_on_time_and_hash_seed() -> None:
    """`.ci/run` compares those of all tests; this folder has compressed bytes as parameters."""
    collected = []
    for now in (0, 10**9):
        program = f"import pytest, sys, time; time.time = lambda: {now}; pytest.main(sys.argv[1:])"
        options = ["--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        done = subprocess.run(
            [sys.executable, "-c", program, *options, "tests/data"],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONHASHSEED": str(now)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        collected.append([line for line in done.stdout.splitlines() if "::" in line])
    assert collected[0]
    assert collected[0] == collected[1]


# ── versions ─────────────────────────────────────────────────────────────────────────────────


def test_the_version_is_said_once_and_cited() -> None:
    assert "version" not in PROJECT["project"]
    assert PROJECT["tool"]["scikit-build"]["metadata"]["version"]["input"] == (
        "src/carvegbm/__init__.py"
    )
    assert carvegbm.__version__ == version("carvegbm")
    citation = (REPOSITORY / "CITATION.cff").read_text("utf-8")
    assert re.findall(r"^version: (.+)$", citation, re.M) == [carvegbm.__version__]


def test_every_python_that_is_promised_gets_a_wheel() -> None:
    promised = [
        name.rpartition(" ")[2]
        for name in PROJECT["project"]["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", name)
    ]
    assert PROJECT["project"]["requires-python"] == f">={promised[0]}"
    built = PROJECT["tool"]["cibuildwheel"]["build"]
    assert {f"cp{name.replace('.', '')}-*" for name in promised} <= set(built)
    assert workflow("ci")["jobs"]["run"]["strategy"]["matrix"]["python"] == promised


# ── workflows ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["ci", "docs", "wheels"])
def test_a_workflow_may_read_and_only_what_publishes_may_more(name: str) -> None:
    found = workflow(name)
    assert found["permissions"] == {"contents": "read"}
    jobs = found["jobs"]
    more = {job: jobs[job]["permissions"] for job in jobs if "permissions" in jobs[job]}
    allowed = {"docs": {"contents": "write"}, "wheels": {"id-token": "write"}}
    assert more == ({"publish": allowed[name]} if name in allowed else {})
    for job in jobs.values():
        assert job["timeout-minutes"]
        used = [step["uses"] for step in job["steps"] if "uses" in step]
        pinned = re.compile(r"(actions|pypa)/[\w-]+@(release/)?v\d+")
        assert [action for action in used if not pinned.fullmatch(action)] == []


def test_workflows_run_what_people_are_told_to_run() -> None:
    assert commands("ci") == [".ci/run"]
    releases = CONTRIBUTING[CONTRIBUTING.index("## Releases") :]
    assert "python -m build" in releases
    for command in commands("wheels"):
        tools = re.findall(r"python -m (build|twine check --strict|cibuildwheel)", command)
        assert all(named in releases for named in tools), command
    (built,) = [line for line in commands("docs") if "sphinx-build" in line]
    assert built in CONTRIBUTING
    named = " ".join(commands("wheels") + commands("docs"))
    for path in re.findall(r"tools/\w+\.py", named):
        assert (REPOSITORY / path).is_file()


def test_what_workflows_install_is_declared() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    known = {re.split(r"\W", requirement)[0] for requirement in extras["release"]}
    for command in commands("wheels") + commands("docs"):
        if "pip install" in command:
            for wanted in command.partition("pip install ")[2].split():
                extra = re.fullmatch(r'"\.\[(\w+)\]"', wanted)
                assert extra[1] in extras if extra else wanted in known, wanted


# ── pages ────────────────────────────────────────────────────────────────────────────────────


def test_on_pypi_all_links_of_the_readme_are_addresses_of_files_that_exist() -> None:
    repository = "https://github.com/somebody/carvegbm"
    text = (REPOSITORY / "README.md").read_text("utf-8")
    released = tool("released_readme").released(text, repository, "v1.2.3")
    targets = re.findall(r"\]\(([^)]*)\)", released)
    assert targets
    assert [target for target in targets if not target.startswith("https://")] == []
    ours = re.compile(r"https://(?:raw\.githubusercontent|github)\.com/somebody/carvegbm/(?:blob/)?"
                      r"v1\.2\.3/([^#]+)")  # fmt: skip
    paths = [found[1] for target in targets if (found := ours.match(target))]
    assert "docs/figures/demo.svg" in paths
    assert [path for path in paths if not (REPOSITORY / path).exists()] == []
    assert "](https://raw.githubusercontent.com/somebody/carvegbm/v1.2.3/docs/fig" in released


def built_site(folder: Path, content: str) -> Path:
    folder.mkdir()
    (folder / "index.html").write_text(content)
    return folder


def test_versions_of_the_site_lie_side_by_side(tmp_path: Path) -> None:
    publish = tool("publish_site").publish
    published, address = tmp_path / "published", PLACES["ADDRESS"]
    published.mkdir()
    for number, name in enumerate(["dev", "0.9", "0.10", "dev", "0.9"]):
        site = built_site(tmp_path / str(number), f"{name}, {number}")
        publish(site, published, name, address)
        first = "dev" if number == 0 else "stable"
        assert f"url={first}/" in (published / "index.html").read_text()
    shown = {path.parent.name: path.read_text() for path in published.glob("*/index.html")}
    assert shown == {"dev": "dev, 3", "0.9": "0.9, 4", "0.10": "0.10, 2", "stable": "0.10, 2"}
    assert json.loads((published / "switcher.json").read_text()) == [
        {"name": "dev", "version": "dev", "url": f"{address}/dev/"},
        {
            "name": "0.10 (stable)",
            "version": "0.10",
            "url": f"{address}/stable/",
            "preferred": True,
        },
        {"name": "0.9", "version": "0.9", "url": f"{address}/0.9/"},
    ]
    with pytest.raises(SystemExit, match="VERSION must be dev or two numbers"):
        publish(tmp_path / "0", published, "../0.1", address)


def test_the_workflow_publishes_the_site_from_its_first_version_on(tmp_path: Path) -> None:
    (publishing,) = [
        step["run"] for step in workflow("docs")["jobs"]["publish"]["steps"] if "run" in step
    ]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    plain |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(tmp_path)}
    plain |= dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "somebody")
    plain |= dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "somebody@example.org")
    origin = tmp_path / "origin"

    def git(*arguments: str, **options: Any) -> str:
        command = ["git", *arguments]
        return subprocess.run(
            command, check=True, env=plain, stdout=subprocess.PIPE, text=True, **options
        ).stdout

    git("init", "--quiet", "--bare", str(origin))
    first = tmp_path / "first"
    git("clone", "--quiet", str(origin), str(first))
    (first / "tools").mkdir()
    tools = REPOSITORY / "tools" / "publish_site.py"
    (first / "tools" / "publish_site.py").write_text(tools.read_text("utf-8"), "utf-8")
    git("add", "--all", cwd=first)
    git("commit", "--quiet", "--message", "sources", cwd=first)
    git("push", "--quiet", "origin", "HEAD:main", cwd=first)
    for number, name in enumerate(["dev", "0.1"]):
        clone = tmp_path / f"clone{number}"
        git("clone", "--quiet", "--depth", "1", "--branch", "main", f"file://{origin}", str(clone))
        built_site(clone / "built", name)
        given = {**plain, **PLACES, "VERSION": name, "GITHUB_SHA": "0" * 40}
        subprocess.run(["bash", "-e", "-c", publishing], cwd=clone, env=given, check=True)
    served = git("ls-tree", "-r", "--name-only", "gh-pages", cwd=origin).split()
    pages = ["0.1/index.html", "dev/index.html", "index.html", "stable/index.html"]
    assert served == [".nojekyll", *pages, "switcher.json"]


def test_the_deprecation_policy_is_three_lines() -> None:
    part = CONTRIBUTING[CONTRIBUTING.index("### Deprecations") :]
    paragraph = part.split("\n\n")[1].rstrip()
    assert paragraph.count("\n") == 2
    assert re.findall(r"^(\d)\. ", paragraph, re.M) == ["1", "2", "3"]
