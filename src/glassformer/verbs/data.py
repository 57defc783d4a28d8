"""The verb `data`: lists the known data sets (`data/known.py`), or downloads one and says how to train on it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from tyro.conf import Positional, arg

from glassformer.data import known
from glassformer.data.known import KNOWN, Known, fetch
from glassformer.errors import InputError
from glassformer.settings import Settings
from glassformer.terminal import make_console

MEGABYTE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class DataSettings(Settings):
    """List the public data sets that have a recipe, or download one and verify its checksums."""

    name: Positional[str | None] = None
    """The data set to download; without it, the list is printed."""
    out: Path = Path("data")
    """Output folder; the files go into a subfolder with the data set's name, where the recipes expect them."""
    source: Annotated[Path | None, arg(name="from")] = None
    """Copy the files from this folder, or its subfolder with the data set's name, instead of downloading them. They may
    be gzipped."""
    json: bool = False
    """Print the list, or the downloaded files, as JSON."""


def main(settings: DataSettings) -> None:
    console = make_console()
    if settings.name is None:
        if settings.source is not None:
            raise InputError(f"--from {settings.source} needs the name of a data set; known are {', '.join(KNOWN)}")
        show_list(console, as_json=settings.json)
    else:
        download(settings, settings.name, console)


def show_list(console: Console, *, as_json: bool) -> None:
    """Prints name, task, size, licence and content of each data set, and how to get one."""
    if as_json:
        rows = [{"name": name, **described_dataset(entry)} for name, entry in KNOWN.items()]
        console.print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for name, entry in KNOWN.items():
        console.print(f"{name:16}{entry.task:12}{entry.size / MEGABYTE:5.1f} MB", style="bold")
        console.print(f"  {entry.description}")
        console.print(f"  licence: {entry.licence}")
        if entry.note:
            console.print(f"  only with --from DIR: {entry.note}")
    console.print("\nglassformer data NAME              downloads one into data/NAME")
    console.print("glassformer data NAME --from DIR   copies it from a folder")


def described_dataset(entry: Known) -> dict[str, str | int]:
    return {
        "task": entry.task,
        "bytes": entry.size,
        "licence": entry.licence,
        "description": entry.description,
        "origin": entry.origin,
        "recipe": recipe_path(entry),
        **({"pretraining": f"recipes/{entry.pretraining}.toml"} if entry.pretraining else {}),
    }


def download(settings: DataSettings, name: str, console: Console) -> None:
    """Downloads every file of a data set and prints the command that trains on it."""
    known.check_name(name)
    entry, out = KNOWN[name], settings.out / name
    with shown_progress(name, entry, console) as progress:
        files = fetch(name, out, settings.source, progress)
    command = f"glassformer train {entry.task} --config {recipe_path(entry)}"
    before = f"glassformer train mlm --config recipes/{entry.pretraining}.toml" if entry.pretraining else ""
    if settings.json:
        found = {"files": list(map(str, files)), "command": command, **({"before": before} if before else {})}
        console.print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    count = "1 file" if len(files) == 1 else f"{len(files)} files"
    console.print(f"{name}: {count}, {entry.size / MEGABYTE:.1f} MB, verified, in {out}")
    console.print(f"licence: {entry.licence}\n\nTrain on it:")
    for line in filter(None, (before, command)):
        console.print(f"  {line}")
    if settings.out != Path("data"):
        recipes = "recipes read" if entry.pretraining else "recipe reads"
        console.print(f"  (the {recipes} data/{name}: change that to {out} in your copy)")


def recipe_path(entry: Known) -> str:
    return f"recipes/{entry.recipe}.toml"


@contextmanager
def shown_progress(name: str, entry: Known, console: Console) -> Iterator[known.OnBytes]:
    """Shows a progress bar over the bytes of all files, on a terminal. Files that exist count once verified."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    counts: dict[str, int] = {}
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        line = bar.add_task(name, total=entry.size)

        def tell(file: str, count: int) -> None:
            counts[file] = count
            bar.update(line, completed=sum(counts.values()), description=f"{name}/{file}")

        yield tell
