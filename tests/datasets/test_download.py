"""A published file is downloaded once and whole, checked, or refused; nothing half is kept."""

from __future__ import annotations

import hashlib
import lzma
import os
import socket
from pathlib import Path

import numpy as np
import pytest

from carvegbm import datasets
from carvegbm.datasets.cache import cache_folder
from carvegbm.errors import DataError
from datasets.small_files import libsvm_text, write_idx
from plain_trees import refused

FILE = "webspam_wc_normalized_unigram.svm.xz"
TEXT, X, Y = libsvm_text()
CONTENT = lzma.compress(TEXT.encode())
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def url(server, catalogued):
    """Webspam is published on the local server, in small."""
    server.has[f"/{FILE}"] = CONTENT
    catalogued("webspam", url=f"{server.address}/{FILE}", rows=60)
    return f"{server.address}/{FILE}"


def test_published_address_is_the_libsvm_page_s():
    from carvegbm.datasets.catalogue import CATALOGUE

    entry = CATALOGUE["webspam"]
    page = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
    assert entry.url == page + entry.names[0] + ".xz"
    assert entry.rows == 350_000
    assert entry.test_limit == round(CATALOGUE["fmnist"].rows * 0.3)


def test_download_gives_what_the_local_file_gives(url, tmp_path):
    (tmp_path / FILE).write_bytes(CONTENT)
    local = datasets.load("webspam", folder=tmp_path, download=False)
    data = datasets.load("webspam")
    assert np.array_equal(data.X, local.X)
    assert np.array_equal(data.y, local.y)
    assert data.source == url


@pytest.mark.usefixtures("url")
def test_second_call_uses_the_cache_without_network(server, cache: Path):
    first = datasets.load("webspam")
    assert server.asked == [f"/{FILE}"]
    server.has.clear()
    assert np.array_equal(datasets.load("webspam").X, first.X)
    assert server.asked == [f"/{FILE}"]
    assert sorted(os.listdir(cache)) == [FILE, f"{FILE}.sha256"]
    assert (cache / f"{FILE}.sha256").read_text() == f"{DIGEST}  {FILE}\n"


@pytest.mark.usefixtures("url")
def test_folder_that_has_the_file_comes_before_the_download(server, tmp_path):
    (tmp_path / FILE).write_bytes(CONTENT)
    datasets.load("webspam", folder=tmp_path)
    assert server.asked == []


@pytest.mark.usefixtures("url")
def test_folder_without_the_file_leads_to_the_download(server, tmp_path):
    write_idx(tmp_path / "mnist")
    datasets.load("webspam", folder=tmp_path)
    assert server.asked == [f"/{FILE}"]


@pytest.mark.usefixtures("url")
def test_progress_is_told_in_bytes_and_ends_with_all_of_them():
    seen: list[int] = []
    datasets.load("webspam", progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == len(CONTENT)


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.usefixtures("url")
def test_bar_is_shown_on_request_only(wanted, capsys, monkeypatch):
    monkeypatch.setattr("carvegbm.progress._PATIENCE", -1)
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich draws as if on a terminal
    datasets.load("webspam", progress=wanted)
    assert ("Webspam" in capsys.readouterr().err) == wanted


def test_right_checksum_is_accepted_and_wrong_one_leaves_nothing(url, catalogued, cache: Path):
    catalogued("webspam", sha256=DIGEST)
    assert len(datasets.load("webspam").y) == 60
    (cache / FILE).unlink()
    (cache / f"{FILE}.sha256").unlink()
    catalogued("webspam", sha256="0" * 64)
    with refused("webspam", url, DIGEST, "0" * 64, "CARVEGBM_DATA", kind=DataError):
        datasets.load("webspam")
    assert os.listdir(cache) == []


@pytest.mark.parametrize("published", [DIGEST, None])
@pytest.mark.usefixtures("url")
def test_cached_file_that_has_changed_is_removed(published, catalogued, cache: Path):
    catalogued("webspam", sha256=published)
    datasets.load("webspam")
    (cache / FILE).write_bytes(CONTENT + b"x")
    with refused(str(cache / FILE), DIGEST, "removed", kind=DataError):
        datasets.load("webspam")
    assert not (cache / FILE).exists()
    assert len(datasets.load("webspam").y) == 60


@pytest.mark.usefixtures("url")
def test_file_put_into_the_cache_by_hand_is_used_and_its_checksum_recorded(server, cache):
    cache.mkdir()
    (cache / FILE).write_bytes(CONTENT)
    datasets.load("webspam")
    assert server.asked == []
    assert DIGEST in (cache / f"{FILE}.sha256").read_text()


def test_interrupted_download_leaves_nothing_and_the_next_one_works(url, server, cache: Path):
    server.breaks_off_after = 100
    with refused("webspam", url, f"100 of {len(CONTENT):,} bytes", "CARVEGBM_DATA", kind=DataError):
        datasets.load("webspam")
    assert os.listdir(cache) == []
    server.breaks_off_after = None
    assert len(datasets.load("webspam").y) == 60


@pytest.mark.usefixtures("url")
def test_interruption_by_the_user_leaves_nothing(cache: Path):
    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        datasets.load("webspam", progress=stop)
    assert os.listdir(cache) == []


def test_server_that_is_down_is_named_with_the_remedy(catalogued, cache: Path, tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/{FILE}"
    catalogued("webspam", url=url)
    with refused("webspam", url, "refused", FILE[:-3], "CARVEGBM_DATA", kind=DataError):
        datasets.load("webspam")
    (tmp_path / "data").mkdir()
    with refused("webspam", url, "put", str(tmp_path / "data"), kind=DataError):
        datasets.load("webspam", folder=tmp_path / "data")
    assert os.listdir(cache) == []


def test_server_that_stays_silent_is_given_up(catalogued, monkeypatch, cache: Path):
    monkeypatch.setattr("carvegbm.datasets.download.TIMEOUT", 0.1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/{FILE}"
        catalogued("webspam", url=url)
        with refused("webspam", url, "timed out", kind=DataError):
            datasets.load("webspam")
    assert os.listdir(cache) == []


def test_file_that_is_not_there_is_refused(url, server, cache: Path):
    server.has.clear()
    with refused("webspam", url, "404", "CARVEGBM_DATA", kind=DataError):
        datasets.load("webspam")
    assert os.listdir(cache) == []


@pytest.mark.usefixtures("url")
def test_page_in_place_of_the_file_is_not_kept(server):
    server.has[f"/{FILE}"] = b"<html>Please log in</html>"
    with refused(FILE, "damaged", "removed", "CARVEGBM_DATA", kind=DataError):
        datasets.load("webspam")
    server.has[f"/{FILE}"] = CONTENT
    assert len(datasets.load("webspam").y) == 60


@pytest.mark.usefixtures("url")
def test_other_file_than_the_published_set_is_refused(catalogued, cache: Path):
    catalogued("webspam", rows=61)
    with refused("webspam", "60 rows", "61", str(cache / FILE), "delete", kind=DataError):
        datasets.load("webspam")


@pytest.mark.usefixtures("url")
def test_cache_that_cannot_be_written_is_named_with_the_remedy(monkeypatch, unwritable):
    monkeypatch.setenv("CARVEGBM_CACHE", str(unwritable))
    with refused(str(unwritable), "CARVEGBM_CACHE", kind=DataError):
        datasets.load("webspam")
    monkeypatch.setenv("CARVEGBM_CACHE", str(unwritable / "deeper"))
    with refused(str(unwritable / "deeper"), "CARVEGBM_CACHE", kind=DataError):
        datasets.load("webspam")


@pytest.mark.skipif(os.name == "nt", reason="POSIX names")
def test_cache_is_the_user_s_unless_the_environment_says_otherwise(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CARVEGBM_CACHE", "~/mine")
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("CARVEGBM_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == tmp_path / ".cache" / "carvegbm"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "carvegbm"
    assert (tmp_path / "xdg" / "carvegbm").is_dir()
