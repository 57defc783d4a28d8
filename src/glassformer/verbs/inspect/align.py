"""The verb `inspect align`.

On standard output stand the pairs alone, a line for each text, as other tools read them.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from glassformer.errors import InputError
from glassformer.terminal import make_console
from glassformer.verbs.inspect.common import PictureSettings, load_reader

if TYPE_CHECKING:
    from glassformer.inspect.looks.align import Alignment


@dataclass(frozen=True, kw_only=True)
class AlignSettings(PictureSettings):
    """Which words of a translation come from which words of the text, by cross-attention: Pharaoh pairs i-j, and a
    picture."""

    json: bool = False
    """Print one JSON object per line, for each text."""
    text: Positional[Annotated[str | None, arg(metavar="[TEXT]")]] = None
    """The text."""
    target: str | None = None
    """Its translation; the model's own if not given."""
    file: Path | None = None
    """Instead of a text, every line of this file: a text, or a text and its translation with a tab between. A picture
    is drawn only if asked for, of the first."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.text is None and self.file is None:
            raise InputError(
                'no text given. Put it after the run: glassformer inspect align RUN "May 1st", or use --file'
            )
        if self.text is not None and self.file is not None:
            raise self._refuse("file", "a text was given, too. Choose one")
        if self.file is not None and self.target is not None:
            raise self._refuse("target", "it belongs to a text; in a file it stands behind a tab")


def main(settings: AlignSettings) -> None:
    from glassformer.inspect.looks.align import align_corpus
    from glassformer.inspect.looks.align_picture import draw_alignment
    from glassformer.predict.calls import check_length
    from glassformer.text.unknown import Tally

    reader = load_reader(settings.run, "align")
    sources, targets = texts_of(settings)
    for row in reader.tokenizer.rows(sources):
        check_length(len(row), reader.limit)
    if said := Tally(reader.unknown(sources)).sentence():
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
    """The text and its translation; or the lines of a file, and where they have tabs what stands before and behind."""
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
        console.print(f"drawn in {path}")
