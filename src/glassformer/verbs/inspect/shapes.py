"""The verb `inspect shapes`: prints the ledger of a model (`inspect/ledger/`)."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.errors import InputError
from glassformer.io import write_atomic
from glassformer.terminal import make_console
from glassformer.verbs.inspect.common import ConfigSettings

if TYPE_CHECKING:
    from glassformer.inspect.ledger.ledger import Ledger


@dataclass(frozen=True, kw_only=True)
class ShapesSettings(ConfigSettings):
    """List every tensor from the input to the loss: axes and sizes, parameters, FLOPs, bytes, and the cache."""

    fold: bool = False
    """Show identical layers on one line."""
    batch: int = 1
    """Number of sequences."""
    length: int | None = None
    """Tokens in each sequence (default: 128, or fewer if the model takes fewer)."""
    target_length: int | None = None
    """Tokens in the target of an encoder-decoder (default: the same as --length)."""
    html: Path | None = None
    """Write the list to this file as an HTML page."""


def main(settings: ShapesSettings) -> None:
    from glassformer.checkpoints.config import sides_and_dtype
    from glassformer.inspect.ledger.ledger import ledger

    sides, dtype = sides_and_dtype(settings.run)
    ledgers = {
        side: ledger(
            config, batch=settings.batch, length=settings.length, target_length=settings.target_length, dtype=dtype
        )
        for side, config in sides.items()
    }
    if settings.fold:
        ledgers = {side: found.fold() for side, found in ledgers.items()}
    if settings.json:
        told = {side: json.loads(found.to_json()) for side, found in ledgers.items()}
        print(json.dumps(told.get("", told), ensure_ascii=False))
    for side, found in ledgers.items():
        show_ledger(found, side, settings)


def show_ledger(found: "Ledger", side: str, settings: ShapesSettings) -> None:
    """Prints the table, or the path of the HTML page, and the totals; for a pair of models, under the model's name."""
    name = f"{Path(settings.run).name} {side}".strip()
    page = (
        settings.html if settings.html is None or not side else settings.html.with_stem(f"{settings.html.stem}-{side}")
    )
    if page is not None:
        write_ledger_page(page, found.to_html(name))
    if settings.json:
        return
    console = make_console()
    if side:
        console.print(f"\n{side}\n", highlight=False)
    if page is None:
        console.print(found.as_table())
        console.print()
    for label, value in found.summary().items():
        console.print(f"{label:16}{value}", highlight=False)
    if page is not None:
        console.print(f"{'page':16}{page}", highlight=False)


def write_ledger_page(path: Path, page: str) -> None:
    if not path.parent.is_dir():
        raise InputError(f"--html {path} cannot be written: the folder {path.parent} does not exist")
    write_atomic(path, page)
