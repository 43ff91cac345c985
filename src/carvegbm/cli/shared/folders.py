"""A run over files that need not fit into memory, part by part, into a folder.

Comes in: DATA that names several files, or --output that is a folder; who answers. Goes out: a file
of answers per file of instances, and the totals of all; what is finished is kept, for --resume.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carvegbm.cli.shared import inputs, output
from carvegbm.errors import CarveError, DataError

if TYPE_CHECKING:
    from carvegbm.data.table import FileSchema
    from carvegbm.model.ensemble import Ensemble
    from carvegbm.scale.files import Part
    from carvegbm.scale.output_folder import OutputFolder
    from carvegbm.scale.query import Query
    from carvegbm.scale.writing import Format
    from carvegbm.totals import Totals

__all__ = ["Answers", "Asked", "is_by_parts", "one_file", "refuse"]


@dataclass(frozen=True)
class Asked:
    """What is read, where the answers go, and who finds them; options of the same names."""

    model: str
    data: Sequence[str]
    reading: inputs.Reading
    out: str | None
    form: Format | None
    resume: bool
    threads: int | None

    def answers(self, ask: Callable[[Ensemble], Query]) -> Answers:
        """Ask about every file; `ask` makes the question for the model."""
        from carvegbm.data.table import FileSchema, with_absent
        from carvegbm.scale.writing import check_format

        if self.resume and self.out is None:
            raise CarveError("--resume continues a run that --output began; give --output as well")
        if self.out is not None and not is_folder(self.out):
            raise CarveError(
                f"--output {self.out} is one file, the answers are one per file of DATA; name a "
                f"folder: {self.out}{os.sep}"
            )
        if self.form is not None and self.out is None:
            raise CarveError("--format is that of the files in the folder --output; give that, too")
        form = self.form or "parquet"
        if self.out is not None:
            check_format(form)
        reading = self.reading
        if not self.data and self.model != inputs.SAMPLE:
            raise DataError("DATA is missing; give files with instances and labels after MODEL")
        given = [str(inputs.data_path(name)) for name in self.data or [inputs.SAMPLE]]
        files = _files(given, reading.label)
        ensemble = reading.load_model(self.model)
        absent = reading.absent or _absent(files, ensemble)
        matching = FileSchema(
            with_absent(ensemble, absent), reading.label, reading.zero_based, reading.absent
        )
        question = ask(matching.ensemble)
        folder = None if self.out is None else Path(self.out)
        parts = _parts(files, folder, form, matching, reading.rows)
        run = _Run(question, matching, parts, self.threads)
        _warn(question, matching, parts[0])
        totals = run.totals(None) if folder is None else self._kept(run, folder, form)
        return Answers(self.model, matching.ensemble.n_trees, parts, folder, totals)

    def _kept(self, run: _Run, folder: Path, form: Format) -> Totals:
        from carvegbm.scale.output_folder import OutputFolder, is_used

        begins = not is_used(folder)
        opened = OutputFolder.open(run.question, run.matching, folder, form, self.resume)
        with opened as finished:
            if others := finished.others(run.parts):
                raise CarveError(
                    f"{folder} holds answers about files that are not among DATA: {others[0]}"
                    f"{', …' * (len(others) > 1)}; give all files, or another --output"
                )
            if self.resume and begins:
                output.note("there is nothing to resume; beginning with the first file")
            try:
                return run.totals(finished)
            except BaseException as error:
                if not run.done:
                    raise
                kept = f"{run.done} of {len(run.parts)} files are kept; add --resume to continue"
                if isinstance(error, KeyboardInterrupt):
                    raise output.Interrupted(kept) from None
                if isinstance(error, OSError | CarveError):
                    reason = output.reason(error) if isinstance(error, OSError) else str(error)
                    raise CarveError(f"{reason}; {kept}") from None
                raise


def _warn(question: Query, matching: FileSchema, part: Part) -> None:
    """Give the warnings about rows that a query of one file gives, about the first rows."""
    from carvegbm.data.files import read_batches
    from carvegbm.scale.files import batch_size

    problem = question.problem
    size = min(inputs.FIRST_ROWS, batch_size(problem.ensemble.n_features))
    tables = read_batches(part.path, matching.read_options(part.path), size)
    with suppress(CarveError, OSError), closing(tables):  # the run itself says what is wrong
        for table in tables:
            X, _ = matching.rows(table, part.path)
            inputs.warn_if_unscaled(problem.ensemble, X, [problem.attacker])
            problem.instances(X)
            break


class _Run:
    """Parts on their way to totals; `done` of them have arrived."""

    def __init__(
        self, question: Query, matching: FileSchema, parts: list[Part], threads: int | None
    ) -> None:
        self.question, self.matching, self.parts = question, matching, parts
        self.threads = threads
        self.done = 0

    def totals(self, finished: OutputFolder | None) -> Totals:
        """Of all parts, those of before included."""
        from carvegbm.scale.files import answer_file
        from carvegbm.totals import merge_totals

        found: list[Totals] = []
        rest: list[Part] = []
        for part in self.parts:
            before = None if finished is None else finished.totals(part)
            if before is None:
                rest.append(part)
            else:
                found.append(before)
        self.done = len(found)
        if self.done:
            output.note(f"resuming after {self.done} of {output.counted(len(self.parts), 'file')}")
        with _Progress(self, sum(totals.instances for totals in found)) as progress:
            for part in rest:
                totals = answer_file(
                    self.question,
                    self.matching,
                    part,
                    threads=self.threads,
                    on_progress=progress.tell,
                )
                if finished is not None:
                    finished.keep(part, totals)
                found.append(totals)
                self.done += 1
                progress.tell(0)
        return merge_totals(found)


class _Progress:
    """Rows and files that are done, on a terminal."""

    def __init__(self, run: _Run, rows: int) -> None:
        from carvegbm.progress import Bar, is_shown

        self._run, self._rows = run, rows
        self._bar: Bar | None = None
        if is_shown():
            self._total = _rows_of(run.parts, run.matching)
            self._bar = Bar(self._total, 0.5)

    def __enter__(self) -> _Progress:
        self._entered = self._bar or nullcontext()
        self._entered.__enter__()
        self.tell(0)
        return self

    def __exit__(self, *error: Any) -> None:
        self._entered.__exit__(*error)

    def tell(self, rows: int) -> None:
        """So many more rows are done."""
        self._rows += rows
        if self._bar is not None:
            text = f"{self._run.done} of {output.counted(len(self._run.parts), 'file')}"
            if self._total is None:
                text = f"{output.counted(self._rows, 'row')}, {text}"
            self._bar.update(self._rows, text)


@dataclass(frozen=True)
class Answers:
    """What came of a run, as a command shows it."""

    model: str
    trees: int
    parts: list[Part]
    folder: Path | None
    totals: Any

    @property
    def title(self) -> str:
        """How many trees, instances and files there are."""
        counts = (
            (self.trees, "tree"),
            (self.totals.instances, "instance"),
            (len(self.parts), "file"),
        )
        trees, rows, files = (output.counted(count, noun) for count, noun in counts)
        return f"{trees}, {rows} in {files}"

    def print_json(self) -> None:
        """Totals, and which files they are of; rows are in the folder."""
        document = {
            "model": self.model,
            "data": [part.path for part in self.parts],
            "output": [str(part.target) for part in self.parts if part.target is not None],
        }
        output.print_json({**document, **self.totals.to_dict()})


# ── which files ──────────────────────────────────────────────────────────────────────────────

_HIDDEN = (".", "_")  # names of files that are left out by what reads folders, here and elsewhere


def is_by_parts(data: Sequence[str], out: str | None) -> bool:
    """Whether a run goes over files one by one, with a result for each."""
    several = len(data) > 1 or any(_is_pattern(name) or Path(name).is_dir() for name in data)
    return several or (out is not None and is_folder(out))


def one_file(
    data: Sequence[str], out: str | None, *, resume: bool = False, form: Format | None = None
) -> tuple[str | None, Path | None]:
    """DATA and --output of a run that is not by parts; refuses what only those know."""
    if resume or form is not None:
        option = "--resume" if resume else "--format"
        raise CarveError(f"{option} is of a run into a folder; give --output FOLDER{os.sep}")
    return (data[0] if data else None), (None if out is None else Path(out))


def refuse(**options: Any) -> None:
    """Refuse options that speak of all rows at once."""
    for name, value in options.items():
        if value is not None:
            raise CarveError(
                f"--{name} is one file about all rows, this run goes file by file; give one file "
                "as DATA and one as --output, or leave it out"
            )


def is_folder(out: str) -> bool:
    """Whether --output names a folder: it is one, or ends as only folders do."""
    separators = tuple(filter(None, (os.sep, os.altsep)))
    return out.endswith(separators) or Path(out).is_dir()


def _is_pattern(name: str) -> bool:
    return has_magic(name) and not Path(name.partition(",")[0]).exists()


def _files(given: Sequence[str], label: str | None) -> list[str]:
    """The files that DATA names, in its order; those of labels come with those of features."""
    from carvegbm.data.files import files_of

    found: list[str] = []
    for name in given:
        if Path(name).is_dir():
            inside = sorted(path for path in Path(name).iterdir() if path.is_file())
            some = [str(path) for path in inside if not path.name.startswith(_HIDDEN)]
        elif _is_pattern(name):
            some = [path for path in sorted(glob(name, recursive=True)) if Path(path).is_file()]
        else:
            some = [name]
        if not some:
            what = "the folder has no files" if Path(name).is_dir() else "no file has such a name"
            raise DataError(f"{name}: {what}; give files with instances and labels")
        found += some
    labels = {os.path.realpath(file) for name in found for file in files_of(name, label)[1:]}
    kept = [name for name in found if os.path.realpath(name) not in labels]
    seen: set[str] = set()
    for name in kept:
        if os.path.realpath(name) in seen:
            raise DataError(f"{name} is given twice; its rows would count twice")
        seen.add(os.path.realpath(name))
    return kept


def _parts(
    files: Sequence[str], folder: Path | None, form: Format, matching: FileSchema, rows: int | None
) -> list[Part]:
    """A part per file, up to so many rows in all."""
    from carvegbm.data.files import count_rows, files_of
    from carvegbm.scale.files import Part

    read = {os.path.realpath(file) for name in files for file in files_of(name, matching.label)}
    parts, of_target = [], dict[str, str]()
    for name in files:
        if rows == 0:
            break
        some = None
        if rows is not None:
            some = count_rows(name, matching.read_options(name), rows)
            rows -= some
        target = None
        if folder is not None:
            target = folder / f"{_stem(name)}.{form}"
            if target.name.startswith(_HIDDEN):
                raise CarveError(
                    f"{name}: its answers would go to {target}, and what reads folders leaves out "
                    f"names that begin with {target.name[0]}; rename it"
                )
            if os.path.realpath(target) in read:
                raise CarveError(
                    f"{target} is among DATA, and would be overwritten; give another --output"
                )
            if target.name in of_target:
                raise CarveError(
                    f"{of_target[target.name]} and {name} would both be written to {target}; "
                    "rename one, or run them into two folders"
                )
            of_target[target.name] = name
        parts.append(Part(name, target, some))
    return parts


def _stem(name: str) -> str:
    """part-0001 of dir/part-0001.csv.gz."""
    path = Path(name if Path(name).exists() else name.partition(",")[0])
    return Path(path.stem).stem if path.suffix == ".gz" else path.stem


def _absent(files: Sequence[str], ensemble: Ensemble) -> Any:
    """What the files leave out: nothing but zeros in a text, in matrices what the model says."""
    from carvegbm.data.files import sparse_format

    if ensemble.absent == "zero":
        return "zero"
    formats = {sparse_format(path) for path in files} - {None}
    if len(formats) == 2:
        raise DataError(
            "LIBSVM text leaves out zeros, and matrices what this model takes for missing; give "
            "--absent, or run them into two folders"
        )
    return "zero" if formats == {"libsvm"} else ensemble.absent


def _rows_of(parts: Sequence[Part], matching: FileSchema) -> int | None:
    """How many rows there are, if all files say so."""
    from carvegbm.data.files import known_length

    total = 0
    for part in parts:
        rows = part.rows
        if rows is None:
            try:
                rows = known_length(part.path, matching.read_options(part.path))
            except DataError:  # which is said when its turn comes
                return None
        if rows is None:
            return None
        total += rows
    return total
