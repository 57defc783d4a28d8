"""The verb `convert`: rewrites a model with another dtype, in safetensors."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from glassformer.settings import Settings
from glassformer.terminal import make_console


@dataclass(frozen=True, kw_only=True)
class ConvertSettings(Settings):
    """Rewrite a model as safetensors, with current tensor names and a tokenizer.json, in the dtype you choose."""

    source: Positional[str]
    """Run or model folder to read, or a hub id owner/name."""
    target: Positional[Path]
    """Output folder."""
    dtype: Literal["float32", "float16", "bfloat16"] | None = None
    """New dtype of the weights (default: unchanged)."""
    max_shard_size: str = "50GB"
    """Maximum size of a weight file, such as 5GB or a number of bytes; larger weights are split into several files."""
    overwrite: bool = False
    """Replace a model in the output folder; other files there are kept."""
    revision: str | None = None
    """Branch, tag or commit of a hub model (default: the newest)."""
    json: bool = False
    """Print the result as JSON."""


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
    console.print(f"Saved to {done.target} in {done.dtype}, {'with its' if done.tokenizer else 'without a'} tokenizer:")
    for name, size in done.files.items():
        console.print(f"  {name}  {size:,} bytes")
