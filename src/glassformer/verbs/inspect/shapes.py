"""The verb `inspect shapes`: the ledger of a model."""

from dataclasses import dataclass
from pathlib import Path

from glassformer.errors import InputError
from glassformer.io import write_whole
from glassformer.terminal import make_console
from glassformer.verbs.inspect.common import ConfigSettings


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
    """Tokens in the target of an encoder-decoder (default: as --length)."""
    html: Path | None = None
    """Write the list to this file as an HTML page."""


def main(settings: ShapesSettings) -> None:
    from glassformer.checkpoints.config import config_and_dtype
    from glassformer.inspect.ledger.ledger import ledger

    config, dtype = config_and_dtype(settings.run)
    found = ledger(
        config, batch=settings.batch, length=settings.length, target_length=settings.target_length, dtype=dtype
    )
    found = found.fold() if settings.fold else found
    if settings.html is not None:
        write_page(settings.html, found.to_html(Path(settings.run).name))
    if settings.json:
        print(found.to_json())
        return
    console = make_console()
    if settings.html is None:
        console.print(found.as_table())
        console.print()
    for name, value in found.summary().items():
        console.print(f"{name:16}{value}", highlight=False)
    if settings.html is not None:
        console.print(f"{'page':16}{settings.html}", highlight=False)


def write_page(path: Path, page: str) -> None:
    if not path.parent.is_dir():
        raise InputError(f"--html {path} cannot be written: the folder {path.parent} does not exist")
    write_whole(path, page)
