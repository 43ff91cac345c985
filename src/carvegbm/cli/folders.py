"""Answer files that need not fit into memory, batch by batch.

With --output FOLDER/, there is a file of answers per file of instances, and --resume skips the
finished ones; without --output only totals are computed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carvegbm.cli import inputs, output
from carvegbm.errors import CarveError, DataError

if TYPE_CHECKING:
    from carvegbm.data.table import FileSchema
    from carvegbm.model.ensemble import Ensemble
    from carvegbm.scale.files import Part
    from carvegbm.scale.output_folder import OutputFolder
    from carvegbm.scale.query import Query
    from carvegbm.scale.writing import Format
    from carvegbm.totals import Totals

__all__ = ["Answers", "answer_files", "is_by_parts", "one_file", "refuse"]


def answer_files(given: Any, ask: Callable[[Ensemble], Query]) -> Answers:
    """Answer a query about every file of DATA; `ask` makes the query for the model."""
    from carvegbm.data.table import with_absent
    from carvegbm.scale.writing import check_format

    if given.resume and given.output is None:
        raise CarveError("--resume continues a run that --output began; give --output as well")
    if given.output is not None and not is_folder(given.output):
        raise CarveError(
            f"--output {given.output} is one file, but there is one result per file of DATA; name "
            f"a folder: {given.output}{os.sep}"
        )
    if given.format is not None and given.output is None:
        raise CarveError("--format needs --output FOLDER/")
    form: Format = given.format or "parquet"
    if given.output is not None:
        check_format(form)
    if not given.data and given.model != inputs.SAMPLE:
        raise DataError("DATA is missing; give files with instances and labels after MODEL")
    if given.no_label:
        raise CarveError("--no-label needs a single DATA file and no --output FOLDER/")
    files = _files(
        [str(inputs.data_path(name)) for name in given.data or [inputs.SAMPLE]], given.label
    )
    ensemble = inputs.load_model(given)
    absent = given.absent or _absent(files, ensemble)
    schema = inputs.file_schema(given, with_absent(ensemble, absent))
    question = ask(schema.ensemble)
    folder = None if given.output is None else Path(given.output)
    parts = _parts(files, folder, form, schema, given.rows)
    run = _Run(question, schema, parts, given.threads)
    _warn(question, schema, parts[0])
    totals = run.totals(None) if folder is None else _into_folder(run, folder, form, given.resume)
    return Answers(given.model, schema.ensemble.n_trees, parts, folder, totals)


def _into_folder(run: _Run, folder: Path, form: Format, resume: bool) -> Totals:
    from carvegbm.scale.output_folder import OutputFolder, is_used

    begins = not is_used(folder)
    with OutputFolder.open(run.question, run.schema, folder, form, resume) as finished:
        if others := finished.others(run.parts):
            raise CarveError(
                f"{folder} holds answers about files that are not among DATA: {others[0]}"
                f"{', …' * (len(others) > 1)}; give all files, or another --output"
            )
        if resume and begins:
            output.note("there is nothing to resume; beginning with the first file")
        try:
            return run.totals(finished)
        except BaseException as error:
            if not run.done:
                raise
            kept = f"{run.done} of {len(run.parts)} files are kept; add --resume to continue"
            raise output.with_progress(error, kept) from None


def _warn(question: Query, schema: FileSchema, part: Part) -> None:
    """Give the warnings about rows that a query of one file gives, about the first rows."""
    from carvegbm.data.files import read_batches
    from carvegbm.scale.files import batch_size

    problem = question.problem
    size = min(inputs.FIRST_ROWS, batch_size(problem.ensemble.n_features))
    tables = read_batches(part.path, schema.read_options(part.path), size)
    with suppress(CarveError, OSError), closing(tables):  # the run itself says what is wrong
        for table in tables:
            X, _ = schema.rows(table, part.path)
            inputs.warn_if_unscaled(problem.ensemble, X, [problem.attacker])
            problem.instances(X)
            break


class _Run:
    """The files of one run; `done` of them are finished."""

    def __init__(
        self, question: Query, schema: FileSchema, parts: list[Part], threads: int | None
    ) -> None:
        self.question, self.schema, self.parts = question, schema, parts
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
                    self.schema,
                    part,
                    threads=self.threads,
                    on_progress=progress.add,
                )
                if finished is not None:
                    finished.keep(part, totals)
                found.append(totals)
                self.done += 1
                progress.add(0)
        return merge_totals(found)


class _Progress:
    """Rows and files that are done, on a terminal."""

    def __init__(self, run: _Run, rows: int) -> None:
        from carvegbm.progress import Bar, is_shown

        self._run, self._rows = run, rows
        self._bar: Bar | None = None
        if is_shown():
            self._total = _rows_of(run.parts, run.schema)
            self._bar = Bar(self._total, 0.5)

    def __enter__(self) -> _Progress:
        self._entered = self._bar or nullcontext()
        self._entered.__enter__()
        self.add(0)
        return self

    def __exit__(self, *error: Any) -> None:
        self._entered.__exit__(*error)

    def add(self, rows: int) -> None:
        """Count further rows as done."""
        self._rows += rows
        if self._bar is not None:
            text = f"{self._run.done} of {output.counted(len(self._run.parts), 'file')}"
            if self._total is None:
                text = f"{output.counted(self._rows, 'row')}, {text}"
            self._bar.update(self._rows, text)


@dataclass(frozen=True)
class Answers:
    """The totals of a run, and where the answers are."""

    model: str
    trees: int
    parts: list[Part]
    folder: Path | None
    totals: Any
    is_single: bool = False
    """Whether this is a run over one file without an output."""

    @property
    def title(self) -> str:
        """How many trees, instances and files there are."""
        trees = output.counted(self.trees, "tree")
        rows = output.counted(self.totals.instances, "instance")
        files = "" if self.is_single else f" in {output.counted(len(self.parts), 'file')}"
        return f"{trees}, {rows}{files}"

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


def is_by_parts(given: Any) -> bool:
    """Whether a run goes over files one by one, with a result for each."""
    several = len(given.data) > 1 or any(
        _is_pattern(name) or Path(name).is_dir() for name in given.data
    )
    return several or (given.output is not None and is_folder(given.output))


def one_file(given: Any) -> tuple[str | None, Path | None]:
    """Return DATA and --output of a run over one file."""
    if given.format is not None:
        raise CarveError(f"--format needs --output FOLDER{os.sep}")
    return (given.data[0] if given.data else None), (
        None if given.output is None else Path(given.output)
    )


def refuse(given: Any, *names: str) -> None:
    """Refuse options that need all rows at once."""
    for name in names:
        if getattr(given, name) is not None:
            raise CarveError(
                f"--{name} needs a single DATA file; give one file as DATA and one as --output, or "
                "leave it out"
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
    files: Sequence[str], folder: Path | None, form: Format, schema: FileSchema, rows: int | None
) -> list[Part]:
    """A part per file, up to so many rows in all."""
    from carvegbm.data.files import count_rows, files_of
    from carvegbm.scale.files import Part

    read = {os.path.realpath(file) for name in files for file in files_of(name, schema.label)}
    parts, of_target = [], dict[str, str]()
    for name in files:
        if rows == 0:
            break
        some = None
        if rows is not None:
            some = count_rows(name, schema.read_options(name), rows)
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


def _rows_of(parts: Sequence[Part], schema: FileSchema) -> int | None:
    """How many rows there are, if all files say so."""
    from carvegbm.data.files import known_length

    total = 0
    for part in parts:
        rows = part.rows
        if rows is None:
            try:
                rows = known_length(part.path, schema.read_options(part.path))
            except DataError:  # which is said when its turn comes
                return None
        if rows is None:
            return None
        total += rows
    return total
