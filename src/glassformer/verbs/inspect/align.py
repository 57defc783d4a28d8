"""The verb `inspect align`: word alignment by cross-attention.

Standard output holds only the pairs, one line per text, so that other tools can read it.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from glassformer.errors import InputError
from glassformer.terminal import make_console
from glassformer.verbs.inspect.common import FigureSettings, load_reader

if TYPE_CHECKING:
    from glassformer.inspect.looks.align import Alignment


@dataclass(frozen=True, kw_only=True)
class AlignSettings(FigureSettings):
    """Align the words of a translation with the words of the text, by cross-attention: Pharaoh pairs i-j, and a
    picture."""

    json: bool = False
    """Print one JSON object per line, one for each text."""
    text: Positional[Annotated[str | None, arg(metavar="[TEXT]")]] = None
    """The text to translate."""
    target: str | None = None
    """Its translation (default: the model's own)."""
    file: Path | None = None
    """Align every line of this file instead: a text, or a text, a tab and its translation. A picture of the first line
    is drawn only with --picture."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.text is None and self.file is None:
            raise InputError(
                'no text given. Put it after the run: glassformer inspect align RUN "May 1st", or use --file'
            )
        if self.text is not None and self.file is not None:
            raise self._refuse("file", "a text was given as well. Choose one")
        if self.file is not None and self.target is not None:
            raise self._refuse("target", "it only works with a text. In a file, put the translation after a tab")


def main(settings: AlignSettings) -> None:
    from glassformer.inspect.looks.align import align_corpus
    from glassformer.inspect.looks.align_picture import draw_alignment
    from glassformer.predict.calls import check_length
    from glassformer.text.unknown import UnknownTally

    reader = load_reader(settings.run, "align")
    sources, targets = texts_of(settings)
    for row in reader.tokenizer.rows(sources):
        check_length(len(row), reader.limit)
    if said := UnknownTally(reader.unknown(sources)).sentence():
        print(said, file=sys.stderr)
    found = align_corpus(reader.model, reader.tokenizer, sources, targets)
    for alignment in found:
        print(json.dumps(alignment.to_dict(), ensure_ascii=False) if settings.json else alignment.pharaoh())
    if settings.text is not None and not settings.json:
        show_words(found[0])
    if settings.picture is not None:
        draw_alignment(found[0], settings.picture)
    elif settings.text is not None:
        draw_if_readable(found[0], settings.path("alignment.png"))


def texts_of(settings: AlignSettings) -> tuple[list[str], list[str] | None]:
    """The text and its translation, or the lines of a file, split at the tab where there is one."""
    from glassformer.data.files import read_lines
    from glassformer.data.pairs import read_pairs

    if settings.file is None:
        return [settings.text or ""], None if settings.target is None else [settings.target]
    lines = read_lines(settings.file)
    if not any("\t" in line for line in lines):
        return lines, None
    pairs = read_pairs(settings.file)
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def show_words(alignment: "Alignment") -> None:
    console = make_console(stderr=True)
    for source, target in alignment.pairs:
        console.print(f"  {alignment.source_words[source]} - {alignment.target_words[target]}")
    console.print(f"by {', '.join(f'layer {head.layer} head {head.head}' for head in alignment.heads)}")


def draw_if_readable(alignment: "Alignment", path: Path) -> None:
    from glassformer.inspect.looks.align_picture import draw_alignment

    console = make_console(stderr=True)
    try:
        draw_alignment(alignment, path)
    except InputError as error:
        console.print(f"no picture: {error}")
    else:
        console.print(f"picture: {path}")
