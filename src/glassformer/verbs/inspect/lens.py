"""The verb `inspect lens`."""

from dataclasses import dataclass

from glassformer.verbs.inspect.common import PictureSettings, Text, load_reader


@dataclass(frozen=True, kw_only=True)
class LensSettings(PictureSettings):
    """Draw what a model would say after each of its layers (logit lens)."""

    text: Text
    """The text that it reads."""


def main(settings: LensSettings) -> None:
    from glassformer.inspect.looks.lens import picture_lens

    path = settings.path("lens.png")
    picture_lens(load_reader(settings.run, "lens"), settings.text, path)
    settings.tell("lens", path)
