"""Put a built documentation site beside those of other versions.

    python tools/publish_site.py build/site PUBLISHED VERSION https://ADDRESS

PUBLISHED is the folder that is served at ADDRESS. VERSION is `dev`, or that of a release, such as
0.1: the site becomes PUBLISHED/VERSION, in place of what was there. `stable` is the newest release
again, `switcher.json` lists what there is, and `index.html` leads to stable, or to dev before the
first release.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

_RELEASE = re.compile(r"\d+\.\d+")


def publish(built: Path, published: Path, version: str, address: str) -> None:
    """Put the site in its place, and write down which there are."""
    if version != "dev" and not _RELEASE.fullmatch(version):
        sys.exit(f"VERSION must be dev or two numbers such as 0.1, got {version!r}")
    if not (built / "index.html").is_file():
        sys.exit(f"{built}: holds no index.html; build the site first")
    _replace(published / version, built)
    releases = sorted(
        (place.name for place in published.iterdir() if _RELEASE.fullmatch(place.name)),
        key=lambda name: tuple(map(int, name.split("."))),
        reverse=True,
    )
    if releases:
        _replace(published / "stable", published / releases[0])
    listed = [
        {"name": "dev", "version": "dev", "url": f"{address}/dev/"}
        for place in [published / "dev"]
        if place.is_dir()
    ]
    for name in releases:
        if name == releases[0]:
            entry = {"name": f"{name} (stable)", "url": f"{address}/stable/", "preferred": True}
        else:
            entry = {"name": name, "url": f"{address}/{name}/"}
        listed.append({**entry, "version": name})
    (published / "switcher.json").write_text(json.dumps(listed, indent=1) + "\n", "utf-8")
    first = "stable" if releases else "dev"
    (published / "index.html").write_text(
        f'<!doctype html>\n<meta charset="utf-8">\n<title>carvegbm</title>\n'
        f'<meta http-equiv="refresh" content="0; url={first}/">\n<a href="{first}/">carvegbm</a>\n',
        "utf-8",
    )
    (published / ".nojekyll").touch()  # GitHub would leave out _static otherwise


def _replace(place: Path, source: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(source, place)


if __name__ == "__main__":
    publish(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4].rstrip("/"))
