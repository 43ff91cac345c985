"""CONTRIBUTING's table of folders is the tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
FOLDERS = ["core", "src/carvegbm", "experiments/carvegbm_experiments"]
"""Whose rooms the table lists one by one; of the others it lists the folder."""


def table() -> dict[str, str]:
    """What lives in every path that the table names."""
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \| (.+) \|$", text, flags=re.M)
    return {path: what for paths, what in rows for path in re.findall(r"`([^`]+)`", paths)}


def sources(folder: str) -> list[Path]:
    return [
        path
        for path in sorted((REPOSITORY / folder).rglob("*"))
        if path.suffix in (".py", ".cpp", ".hpp") and "__pycache__" not in path.parts
    ]


def test_every_room_of_the_table_is_there():
    rooms = table()
    assert len(rooms) > 30
    missing = [room for room in rooms if not (REPOSITORY / room).exists()]
    assert missing == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_is_in_a_room_of_the_table(folder):
    """In the table itself, or in a folder that is; the rooms of FOLDERS are named one by one."""
    rooms = [REPOSITORY / room for room in table()]
    homeless = [
        str(path.relative_to(REPOSITORY))
        for path in sources(folder)
        if path not in rooms
        and not any(room in path.parents for room in rooms if room != REPOSITORY / folder)
    ]
    assert homeless == []


def test_every_folder_of_the_repository_is_a_room():
    rooms = {Path(room).parts[0] for room in table()}
    ignored = (REPOSITORY / ".gitignore").read_text(encoding="utf-8").split()
    folders = {path.name for path in REPOSITORY.iterdir() if path.is_dir()}
    mine = {name for name in folders if not name.startswith(".") and f"{name}/" not in ignored}
    assert mine <= rooms


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_room_holds_more_than_a_dozen_and_a_few(folder):
    counts: dict[str, int] = {}
    for path in sources(folder):
        if path.stem not in ("__init__", "__main__"):
            name = str(path.parent.relative_to(REPOSITORY))
            counts[name] = counts.get(name, 0) + (path.suffix != ".hpp")
    assert {name: count for name, count in counts.items() if count > 20} == {}


@pytest.mark.parametrize(
    "path",
    sources("src/carvegbm") + sources("core"),
    ids=lambda path: path.relative_to(REPOSITORY).as_posix(),
)
def test_every_file_says_what_lives_there(path):
    first = path.read_text(encoding="utf-8").lstrip()
    if path.suffix == ".cpp":
        header = path.with_suffix(".hpp")
        if header.exists():
            return  # its header says it
    assert first.startswith(('"""', 'r"""', "//")) or path.name == "py.typed" or not first
