"""Run long checks, which are not part of the test suite or of .ci/run.

    python tools/campaigns.py fuzz --files 100000 --coverage 2000
    python tools/campaigns.py answers --function stability --cases 10000

Each command prints counts and, for every mistake, the seed or the arguments that reproduce it; the
exit code is 1 if there was one. The tests run a small sample of each with the same functions.
"""

from __future__ import annotations

import argparse
import inspect
import os
import random
import resource
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import product
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY / "tests")]

# ruff: noqa: E402 - these modules are found by the line above
import lightgbm
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

import answers
import carvegbm as cg
import engine_answers
import interrupted_runs
from answers import ANSWERS
from carvegbm_experiments import milp
from fuzzing import FORMATS, OUTCOMES, SLOW
from generators import MIX, make_case
from kinds import LIMITS, NORMS, make_kind
from proofs.asking import NO_LIMIT, check_proof, make_any
from proofs.asking import arguments as proof_arguments

FAMILIES = ("catboost", "onnx")

# ── fuzz: mutated files ──────────────────────────────────────────────────────────────────────

SECONDS = 2.0  # of processor time that a file may take
PATIENCE = 20.0  # seconds after which a file counts as a hang, if the machine is busy
MEMORY = 512 << 20  # bytes that a file may take
FEW_FILES = 500  # of formats that start a process per file
MOST_FINDINGS = 50  # per format
TRACED = ("carvegbm/readers/", "carvegbm_check.py")


def worker(name: str, seeds: range, traced: int, answers: Connection) -> None:
    """Check files of one format and send (outcome, seconds, bytes, lines) of each."""
    warnings.simplefilter("ignore")
    tested, is_outside = FORMATS[name], name in SLOW
    memory_disk = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory_disk) as folder:
        path = Path(folder) / "model"
        for seed in (10**9, 10**9 + 1):  # imports, and what is computed once
            outcome_of(lambda seed=seed: tested.check(random.Random(seed), path))
        children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        if not is_outside:
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
        answers.send("ready")
        for seed in seeds:
            lines = Lines() if seed < traced else None
            Path("/proc/self/clear_refs").write_text("5")  # the peak is the present size
            before, started = status("VmRSS"), processor_time()
            if lines is not None:
                sys.settrace(lines)
            found = outcome_of(lambda seed=seed: tested.check(random.Random(seed), path))
            sys.settrace(None)
            seconds, memory = processor_time() - started, status("VmHWM") - before
            if is_outside:
                grown = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss - children
                memory = max(memory, grown << 10)
            if seconds > SECONDS and lines is None:
                found = f"takes {seconds:.1f} s"
            elif memory > MEMORY:
                found = f"takes {memory >> 20} MB"
            answers.send((found, seconds, memory, lines.seen if lines else ()))


def outcome_of(check: Callable[[], str]) -> str:
    try:
        return check()
    except BaseException as error:
        while error.__cause__ is not None:
            error = error.__cause__
        frame = inspect.getinnerframes(error.__traceback__)[-1] if error.__traceback__ else None
        place = f"{Path(frame.filename).name}:{frame.lineno}" if frame else "?"
        return f"{type(error).__name__}: {error} ({place})"


def status(field: str) -> int:
    """A size of this process in bytes."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if field in line)
    return int(line.split()[1]) << 10


def processor_time() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Lines:
    """A trace function that collects the lines of the readers and the checker that run."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, int]] = set()

    def __call__(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            self.seen.add((frame.f_code.co_filename, frame.f_lineno))
        elif not any(part in frame.f_code.co_filename for part in TRACED):
            return None
        return self


def fuzz(given: argparse.Namespace) -> bool:
    """Check mutated files; print a line per format, and the coverage of the readers."""
    covered: set[tuple[str, int]] = set()
    is_fine = True
    for name in given.format or FORMATS:
        n_files = min(given.files, FEW_FILES) if name in SLOW else given.files
        is_fine &= fuzz_format(name, range(given.first, given.first + n_files), given, covered)
    if covered:
        print_coverage(covered)
    return is_fine


def fuzz_format(
    name: str, seeds: range, given: argparse.Namespace, covered: set[tuple[str, int]]
) -> bool:
    """Check files of one format, and start another process after a crash or a hang."""
    counts: Counter[str] = Counter()
    n_findings, slowest, largest, started = 0, (0.0, 0), (0, 0), time.monotonic()
    while seeds and n_findings < MOST_FINDINGS:
        for found, seconds, memory, lines in checked(name, seeds, given.coverage):
            slowest = max(slowest, (seconds, seeds[0]))
            largest = max(largest, (memory, seeds[0]))
            covered.update(lines)
            is_finding = found not in OUTCOMES
            counts["finding" if is_finding else found] += 1
            if is_finding:
                n_findings += 1
                print(f"{name}, seed {seeds[0]}: {found}", flush=True)
            seeds = seeds[1:]
            if n_findings == MOST_FINDINGS:
                break
    total = counts.total()
    past = 100 * (1 - counts["refused: syntax"] / total)
    refused = counts["refused"] + counts["refused: syntax"]
    print(
        f"{name}: {total} files in {time.monotonic() - started:.0f} s, {past:.0f} % past the "
        f"syntax, {counts['accepted']} accepted, {refused} refused, {n_findings} findings; "
        f"slowest {slowest[0]:.2f} s (seed {slowest[1]}), most memory {largest[0] >> 20} MB "
        f"(seed {largest[1]})",
        flush=True,
    )
    return not n_findings


def checked(name: str, seeds: range, coverage: int) -> Iterator[tuple[str, float, int, Any]]:
    """Yield the worker's result for each file until the worker ends, crashes or hangs."""
    ours, theirs = get_context("spawn").Pipe(duplex=False)
    process = get_context("spawn").Process(target=worker, args=(name, seeds, coverage, theirs))
    process.start()
    theirs.close()
    try:
        assert ours.recv() == "ready"
        for _ in seeds:
            if not ours.poll(PATIENCE):
                yield f"no end after {PATIENCE:.0f} s", PATIENCE, 0, ()
                return
            try:
                answer = ours.recv()
            except EOFError:
                process.join()
                yield f"the process ended with {process.exitcode}", 0.0, 0, ()
                return
            yield answer
    finally:
        process.kill()
        process.join()


def print_coverage(covered: set[tuple[str, int]]) -> None:
    """Print the share of the lines of functions that ran, by module."""
    root = REPOSITORY / "src"
    files = [*sorted((root / "carvegbm/readers").rglob("*.py")), root / "carvegbm_check.py"]
    ran, known = 0, 0
    for path in files:
        lines = lines_of(compile(path.read_text(), str(path), "exec"), is_function=False)
        seen = lines & {line for file, line in covered if file == str(path)}
        if not lines:
            continue
        missed = ", ".join(map(str, sorted(lines - seen)))
        print(f"{path.relative_to(root)}: {len(seen)} of {len(lines)} lines; not {missed}")
        if "readers" in str(path):
            ran, known = ran + len(seen), known + len(lines)
    print(f"carvegbm.readers: {ran} of {known} lines, {100 * ran / known:.1f} %", flush=True)


def lines_of(code: CodeType, *, is_function: bool) -> set[int]:
    """The lines of the functions in a code object, without those of their headers."""
    found: set[int] = set()
    if is_function:
        found = {line for *_, line in code.co_lines() if line and line > code.co_firstlineno}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found |= lines_of(inner, is_function=bool(inner.co_flags & inspect.CO_OPTIMIZED))
    return found


# ── cases: the functions, the engines and the proofs against the oracle ──────────────────────


def check_cases(
    title: str,
    check: Callable[[Any], str],
    make: Callable[..., Any],
    cases: Iterable[tuple[Any, ...]],
    given: argparse.Namespace,
) -> bool:
    """Check case after case, and print counts; whether all of them agree with the oracle."""
    counts: Counter[str] = Counter()
    started = time.monotonic()
    for arguments in cases:
        try:
            counts[check(make(*arguments))] += 1
        except Exception as error:
            counts["disagreement"] += 1
            print(f"{check.__name__}({make.__name__}{arguments}): {error!r}", flush=True)
            if not given.keep_going:
                return False
    seconds = time.monotonic() - started
    print(f"{title}: {counts.total()} cases in {seconds:.0f} s: {dict(counts)}", flush=True)
    return counts["disagreement"] == 0


def seeds_of(given: argparse.Namespace) -> range:
    return range(given.first, given.first + given.cases)


def norms_of(given: argparse.Namespace) -> list[float]:
    return [*map(float, given.norm)] if given.norm else [*NORMS]


def check_answers(given: argparse.Namespace) -> bool:
    """Check functions; without --norm the norms take turns."""
    is_fine = True
    for function in given.function or ANSWERS:
        check, _, norms = ANSWERS[function]
        for norm in norms_of(given) if given.norm else [None]:
            if norm is None or norm in norms:
                cases = (answers.arguments_of(function, seed, norm) for seed in seeds_of(given))
                is_fine &= check_cases(function, check, make_case, cases, given)
    return is_fine


def check_engines(given: argparse.Namespace) -> bool:
    """Check verdicts, witnesses and radii of each engine."""
    is_fine = True
    for norm in norms_of(given):
        cases = ((seed, norm, *MIX[seed % len(MIX)]) for seed in seeds_of(given))
        is_fine &= check_cases(f"norm {norm}", engine_answers.check, make_case, cases, given)
    return is_fine


def check_limits(given: argparse.Namespace) -> bool:
    """Check the same, or functions, for attackers with directions, steps, categories and so on."""
    is_fine = True
    for function in given.function or [None]:
        check, tasks, norms = engine_answers.check, (), NORMS
        if function is not None:
            check, tasks, norms = ANSWERS[function]
        elif given.brief:
            check = engine_answers.check_briefly
        for limit, norm in product(given.limit or LIMITS, norms_of(given)):
            if norm in norms:
                cases = (
                    engine_answers.arguments_of(seed, norm, limit, tasks)
                    for seed in seeds_of(given)
                )
                title = f"{function or 'all'}, {limit}, norm {norm}"
                is_fine &= check_cases(title, check, make_kind, cases, given)
    return is_fine


def check_proofs(given: argparse.Namespace) -> bool:
    """Prove statuses, and check the proofs from their files."""
    is_fine = True
    for limit, norm in product(given.limit or [NO_LIMIT, *LIMITS], norms_of(given)):
        cases = proof_arguments(seeds_of(given), norm, limit)
        is_fine &= check_cases(f"{limit}, norm {norm}", check_proof, make_any, cases, given)
    return is_fine


def check_milp(given: argparse.Namespace) -> bool:
    """Compare the search with the MILP baseline on trained models of real sizes."""
    counts: Counter[str] = Counter()
    for seed in seeds_of(given):
        model, X, y, attacker = trained_case(seed)
        found = cg.verify(model, X, y, attacker, engine="search", timeout=30, progress=False)
        second = milp.verify(model, X, y, attacker, timeout=30)
        for row, (status, other) in enumerate(zip(found.status, second.status, strict=True)):
            differ = "unknown" not in (status, other) and status != other
            counts["disagreement" if differ else f"{status}, milp: {other}"] += 1
            if differ:
                print(f"seed {seed}, row {row}, {attacker}: {status}, milp: {other}", flush=True)
    print(f"milp: {counts.total()} rows: {dict(counts)}", flush=True)
    return counts["disagreement"] == 0


def trained_case(seed: int) -> tuple[Any, Any, Any, cg.Attacker]:
    """A model of 20 to 300 trees, five rows with labels, of which one in four is wrong, and an
    attacker with a random norm, budget and limits.
    """
    rng = np.random.default_rng(seed)
    n_features, n_classes = int(rng.integers(5, 60)), int(rng.integers(2, 5))
    X, y = make_classification(
        1000, n_features, n_informative=5, n_classes=n_classes, flip_y=0.05, random_state=seed
    )
    X = ((X - X.min(axis=0)) / np.ptp(X, axis=0)).astype(np.float32).astype(np.float64)
    if rng.random() < 0.5:
        trees, leaves = int(rng.integers(20, 300)) // n_classes, int(rng.integers(4, 64))
        model: Any = lightgbm.LGBMClassifier(
            n_estimators=trees, num_leaves=leaves, verbose=-1, n_jobs=1, random_state=seed
        )
    else:
        forest = (RandomForestClassifier, ExtraTreesClassifier)[seed % 2]
        model = forest(int(rng.integers(20, 60)), max_depth=12, random_state=seed)
    model.fit(X[:-5], y[:-5])
    labels = np.where(rng.random(5) < 0.25, (y[-5:] + 1) % n_classes, model.predict(X[-5:]))
    norm = [0, 1, 2, "inf"][rng.integers(4)]
    budget = {0: int(rng.integers(1, 3)), 1: 0.05, 2: 0.03, "inf": 0.01}[norm]
    options: dict[str, Any] = {}
    if rng.random() < 0.3:
        options["features"] = rng.choice(n_features, n_features // 2 + 1, replace=False).tolist()
    if rng.random() < 0.3:
        options["scale"] = {0: (0, 2), 1: (0.5, 1), 2: 3.0}
    if rng.random() < 0.3:
        options["bounds"] = (0, 1)
    return model, X[-5:], labels, cg.Attacker(norm, budget, **options)


# ── libraries and interrupted runs ───────────────────────────────────────────────────────────


def check_libraries(given: argparse.Namespace) -> bool:
    """Compare scores with CatBoost and onnxruntime, bit for bit, on random models."""
    is_fine = True
    for family in given.family or FAMILIES:
        models = import_module(f"readers.{family}_models")
        for setting in models.ALL:
            rows, wrong = 0, 0
            for seed in seeds_of(given):
                try:
                    rows += models.check(setting, seed)
                except AssertionError as error:
                    wrong += 1
                    print(f"{family}, {setting}, seed {seed}: {error}", flush=True)
            is_fine &= not wrong
            agree = f"{given.cases - wrong} of {given.cases} models agree"
            print(f"{family}, {setting}: {agree}, on {rows} rows", flush=True)
    return is_fine


def check_interrupted(given: argparse.Namespace) -> bool:
    """Disturb runs of the command line at random moments, and resume them."""
    counts: Counter[str] = Counter()
    is_fine = True
    with tempfile.TemporaryDirectory() as folder:
        runs = interrupted_runs.Runs(Path(folder))
        try:
            for seed in seeds_of(given):
                try:
                    counts.update(interrupted_runs.check(runs, seed))
                except AssertionError as error:
                    is_fine = False
                    print(f"seed {seed}: {error}", flush=True)
        finally:
            runs.close()
    for event, count in sorted(counts.items()):
        print(f"{count:6} {event}")
    return is_fine


# ── the command line ─────────────────────────────────────────────────────────────────────────


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], bool], cases: int) -> Any:
        command = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        command.set_defaults(run=run)
        command.add_argument("--first", type=int, default=0, help="first seed")
        if cases:
            command.add_argument("--cases", type=int, default=cases, help=f"default: {cases}")
        return command

    command = add("fuzz", fuzz, 0)
    command.add_argument("--format", action="append", choices=[*FORMATS], help="default: all")
    command.add_argument("--files", type=int, default=100_000, help="per format")
    command.add_argument("--coverage", type=int, default=0, help="trace files with lower seeds")
    for name, run in (
        ("answers", check_answers),
        ("engines", check_engines),
        ("limits", check_limits),
        ("proofs", check_proofs),
    ):
        command = add(name, run, 10_000)
        command.add_argument("--norm", choices=[*map(str, NORMS)], action="append")
        command.add_argument("--keep-going", action="store_true", help="count all disagreements")
        if name in ("answers", "limits"):
            command.add_argument("--function", choices=[*ANSWERS], action="append")
        if name in ("limits", "proofs"):
            limits = [*LIMITS] if name == "limits" else [NO_LIMIT, *LIMITS]
            command.add_argument("--limit", choices=limits, action="append")
        if name == "limits":
            command.add_argument("--brief", action="store_true", help="each engine once")
    add("milp", check_milp, 100)
    add("libraries", check_libraries, 100).add_argument(
        "--family", choices=FAMILIES, action="append"
    )
    add("interrupted", check_interrupted, 1000)
    given = parser.parse_args()
    return 0 if given.run(given) else 1


if __name__ == "__main__":
    sys.exit(main())
