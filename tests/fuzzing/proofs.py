"""Mutated proofs, data and expectations for the checker."""

from __future__ import annotations

import csv
import io
import json
import pickle
import random
import re
import struct
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import carvegbm as cg
import carvegbm_check
from asking import question
from carvegbm.errors import CarveError
from fuzzing.mutations import NotWrittenError, json_bytes, mutated
from kinds import LIMITS, NORMS, TURNS, make_kind
from proofs import by_hand

PARTS = ("proof", "proof", "data", "expectation")
SYNTAX = re.compile("is no proof|cut off or damaged|is not JSON|JSON in which")
NOT_WRITTEN = (AttributeError, KeyError, OverflowError, TypeError, ValueError, struct.error)


class CheckerFormat:
    """A model, and a proof, data and an expectation, one of which is mutated."""

    @cached_property
    def documents(self) -> list[bytes]:
        """Cases with limits of every kind that the checker accepts, pickled."""
        return [pickle.dumps(document) for document in _documents()]

    def check(self, rng: random.Random, path: Path) -> str:
        """Write files, one of them mutated, and run the checker."""
        document = pickle.loads(rng.choice(self.documents))
        part = rng.choice(PARTS)
        while True:
            changed = mutated(pickle.loads(pickle.dumps(document[part])), rng)
            try:
                code, out, err = run(path, {**document, part: changed}, part == "expectation")
            except NotWrittenError:
                continue
            break
        if code == carvegbm_check.BAD_INPUT:
            assert err.startswith("carvegbm_check: "), err
            assert len(err.splitlines()) == 1, err
            assert len(err) < 1000, err
            assert not out, out
            return "refused: syntax" if SYNTAX.search(err) else "refused"
        assert code in range(5), code
        assert not err, err
        report = json.loads(out)
        if report["attacker"] == document["attacker"]:
            assert report["checked"].items() <= document["statuses"].items(), report
        if code == 0 and part == "expectation":
            _assert_robust(changed, document)
        return "accepted"


def run(path: Path, document: dict[str, Any], with_expectation: bool) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of the checker."""
    files = [path, path.with_suffix(".json"), path.with_suffix(".csv"), path.with_suffix(".expect")]
    try:
        written = [_proof_bytes(document["proof"]), document["model"], _csv(document["data"])]
        written.append(json_bytes(document["expectation"]))
    except NOT_WRITTEN as error:
        raise NotWrittenError from error
    for file, content in zip(files, written, strict=True):
        file.write_bytes(content)
    arguments = [*map(str, files[:3]), "--json", "--allow-trivial"]
    arguments += ["--expect", str(files[3])] * with_expectation
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = carvegbm_check.main(arguments)
    return code, out.getvalue(), err.getvalue()


def _assert_robust(expectation: dict[str, Any], document: dict[str, Any]) -> None:
    """Rows with a proof are robust against an attacker that the proof is said to cover."""
    claims = ("rows", "labels", "robustness")
    given = {key: value for key, value in expectation.items() if key not in claims}
    try:
        attacker = cg.Attacker.from_dict(given)
        ensemble, X, y = (document[key] for key in ("ensemble", "X", "y"))
        result = cg.verify(ensemble, X, y, attacker, timeout=1, threads=1)
    except (CarveError, TypeError, ValueError):  # the checker reads more
        return
    for row, status in document["statuses"].items():
        found = result.status[int(row)]
        assert found in (status, "unknown") or status in ("fragile", "broken"), (found, given)


# ── documents ────────────────────────────────────────────────────────────────────────────────


def _documents() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        for seed, (limit, norm) in enumerate(product(LIMITS, NORMS)):
            situation, task = TURNS[seed % len(TURNS)]
            task = "multiclass" if task == "regression" else task
            document = _document(question(make_kind(seed, norm, limit, situation, task)), path)
            if run(path, document, True)[0] == 0:
                report = json.loads(run(path, document, False)[1])
                document["statuses"] = report["checked"]
                yield document | {"attacker": report["attacker"]}


def _document(asked: tuple[Any, Any, Any, Any], path: Path) -> dict[str, Any]:
    """A proof of one row, and all that belongs to it."""
    model, X, y, attacker = asked
    ensemble = cg.load(model)
    saved = path.with_suffix(".json")
    ensemble.save(saved)
    cg.verify(ensemble, X, y, attacker, threads=1, proof=path)
    head, blocks, count = carvegbm_check.read_frame(path.read_bytes())
    has_bounds = head["attacker"].get("row_bounds", False)
    records = [_tokens(reader, has_bounds) for reader in carvegbm_check.records_of(blocks)]
    return {
        "ensemble": ensemble,
        "X": X,
        "y": y,
        "model": saved.read_bytes(),
        "proof": {"head": head, "records": records, "count": count},
        "data": [[*map(str, row), str(label)] for row, label in zip(X, y, strict=True)],
        "expectation": attacker.to_dict() | {"rows": "all", "labels": "given"},
    }


def _tokens(reader: carvegbm_check.Reader, has_bounds: bool) -> list[int | float]:
    """A record: ints that are written as varints, and doubles."""
    found: list[Any] = [reader.varint(), reader.take("B")]
    for doubles in [2] * has_bounds + [1] * (found[1] in (1, 3)):
        pairs = reader.several(doubles=doubles)
        found += [len(pairs), *(value for pair in pairs for value in pair)]
    return [*found, *reader.rest()] if found[1] in (0, 2) else found


def _proof_bytes(proof: Any) -> bytes:
    records = [b"".join(map(_token_bytes, record)) for record in proof["records"]]
    return by_hand.file_of(proof["head"], records, proof["count"])


def _token_bytes(token: Any) -> bytes:
    if isinstance(token, float):
        return struct.pack("<d", token)
    if not isinstance(token, int) or token < 0:
        raise NotWrittenError
    return by_hand.varint(token)


def _csv(table: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(row if isinstance(row, list) else [row] for row in table)
    return text.getvalue().encode()
