"""The command line as pages, written from the commands themselves.

Comes in: `carvegbm.cli.app.app`. Goes out: a page per command and a list of all, in Markdown, in
the folder `commands/` beside conf.py; written before Sphinx looks for pages, and ignored by git.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from sphinx.application import Sphinx

from carvegbm.cli.app import app as commands

FOLDER = "commands"


def pages() -> dict[str, str]:
    """The text of every page, by name; `index` lists the commands in the order of `--help`."""
    group: Any = commands
    shown = {name: command for name, command in group.commands.items() if not command.hidden}
    return {"index": _index(group, shown)} | {name: _page(name, it) for name, it in shown.items()}


def _index(group: Any, shown: dict[str, Any]) -> str:
    rows = [
        f"| [`carvegbm {name}`]({name}.md) | {_first(command)} |" for name, command in shown.items()
    ]
    return "\n".join(
        [
            "# Commands",
            "",
            "Every page is written from the command itself: it is what `--help` prints. What the "
            "commands have in common, files that do not fit into memory, interrupted runs and use "
            "in scripts are in [the guide](../command-line.md).",
            "",
            "| command | what it does |",
            "|---|---|",
            *rows,
            "",
            *_epilog(group),
            "",
            "```{toctree}",
            ":hidden:",
            "",
            *shown,
            "```",
            "",
        ]
    )


def _page(name: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    usage = " ".join(
        [
            f"carvegbm {name}",
            *(["[OPTIONS]"] if options else []),
            *(_argument(argument) for argument in arguments),
        ]
    )
    lines = [f"# carvegbm {name}", "", _prose(command.help), "", "```text", usage, "```", ""]
    for title, given in (("Arguments", arguments), ("Options", options)):
        if given:
            lines += [f"## {title}", ""]
            for parameter in given:
                lines += [_term(parameter), f": {_meaning(parameter)}", ""]
    return "\n".join([*lines, *_epilog(command)])


def _epilog(command: Any) -> list[str]:
    """The command that the epilog shows, in a block of its own."""
    if not command.epilog:
        return []
    said, _, example = command.epilog.partition("carvegbm ")
    heading = [] if "Try it" in said else ["## Example", ""]
    said = "" if heading else said.strip()
    return [
        *heading,
        said,
        "",
        "```text",
        *_wrapped(f"carvegbm {example}".split("\n")[0]),
        "```",
        "",
    ]


def _wrapped(line: str, width: int = 88) -> Iterator[str]:
    """A command as lines that a shell joins again."""
    start, rest = "", shlex.split(line)
    for word in rest:
        quoted = shlex.quote(word)
        if start and len(start) + len(quoted) + 1 > width:
            yield start + " \\"
            start = "  "
        start += quoted if not start.strip() else f" {quoted}"
    yield start


def _argument(argument: Any) -> str:
    return str(argument.make_metavar())


def _term(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{_argument(parameter)}`"
    names = [*parameter.opts, *parameter.secondary_opts]
    takes = "" if parameter.is_flag else " " + _takes(parameter)
    return ", ".join(f"`{name}{takes}`" for name in names)


def _takes(option: Any) -> str:
    return option.metavar or "|".join(_choices(option)) or option.name.upper()


def _choices(option: Any) -> list[str]:
    """The words an option may be given, however click stores them."""
    kind = getattr(option, "type", None)
    told = getattr(kind, "choices", None)
    if told is None:
        told = get_args(getattr(getattr(option, "type_descriptor", None), "annotation", None))
    return [word for word in told or [] if isinstance(word, str)]


def _meaning(parameter: Any) -> str:
    said = [_prose(getattr(parameter, "sentence", None) or getattr(parameter, "help", None) or "")]
    if parameter.param_type_name == "option" and parameter.required:
        said.append("Needed.")
    default = parameter.to_info_dict().get("default")  # None if unset
    silent = parameter.is_flag if parameter.param_type_name == "option" else True
    if (
        getattr(parameter, "show_default", False)
        and not silent
        and default not in (None, "", [], ())
    ):
        shown = f"{default:g}" if isinstance(default, float) else str(default)
        said.append(f"Default: `{shown}`.")
    return " ".join(said)


def _prose(text: str) -> str:
    """A docstring's paragraphs as Markdown: lines joined, options in a fixed font."""
    paragraphs = re.split(r"\n\s*\n", text.replace("\b", "").strip())
    joined = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    joined = re.sub(r"([*_<>|\[\]])", r"\\\1", joined)
    return re.sub(r"(?<![\w`-])(--?[a-z][\w-]*)", r"`\1`", joined)


def _first(command: Any) -> str:
    return _prose((command.help or "").strip().split("\n\n")[0])


def write(app: Sphinx) -> None:
    """Write what has changed: Sphinx reads again only what is newer than its last build."""
    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(exist_ok=True)
    wanted = pages()
    for path in folder.glob("*.md"):
        if path.stem not in wanted:
            path.unlink()
    for name, text in wanted.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
