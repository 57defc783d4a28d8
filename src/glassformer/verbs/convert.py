"""The verb `convert`: a model written anew."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from glassformer.settings import Settings
from glassformer.terminal import make_console


@dataclass(frozen=True, kw_only=True)
class ConvertSettings(Settings):
    """Write a model anew: as safetensors, under present names, with a tokenizer.json, in a dtype of your choice."""

    source: Positional[str]
    """The run or model folder to read, or a hub id owner/name."""
    target: Positional[Path]
    """The folder to write."""
    dtype: Literal["float32", "float16", "bfloat16"] | None = None
    """The weights' new dtype; as they are if not given."""
    max_shard_size: str = "50GB"
    """Weights of more bytes are written as several files; a number, or one such as 5GB."""
    overwrite: bool = False
    """Replace the model in a folder that is not empty; other files in it stay."""
    revision: str | None = None
    """Of a hub id, which branch, tag or commit; the newest if not given."""
    json: bool = False
    """Print what was done as JSON."""


def main(settings: ConvertSettings) -> None:
    from glassformer.checkpoints.convert import convert

    done = convert(
        settings.source,
        settings.target,
        dtype=settings.dtype,
        max_shard_size=settings.max_shard_size,
        overwrite=settings.overwrite,
        revision=settings.revision,
    )
    if settings.json:
        print(json.dumps(done.to_dict(), ensure_ascii=False))
        return
    console = make_console()
    console.print(f"{done.source}: {done.model_type}, head {done.head}, {done.parameters:,} parameters")
    console.print(
        f"written to {done.target} in {done.dtype}, {'with its' if done.tokenizer else 'without a'} tokenizer:"
    )
    for name, size in done.files.items():
        console.print(f"  {name}  {size:,} bytes")
