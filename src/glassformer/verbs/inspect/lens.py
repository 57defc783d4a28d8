"""The verb `inspect lens`."""

from dataclasses import dataclass

from glassformer.verbs.inspect.common import PictureSettings, QuestionSettings, Text, load_words


@dataclass(frozen=True, kw_only=True)
class LensSettings(QuestionSettings, PictureSettings):
    """Draw what a model would say after each of its layers (logit lens)."""

    text: Text
    """The text that it reads; of a captioner the path of an image, or `example`."""


def main(settings: LensSettings) -> None:
    from glassformer.inspect.looks.lens import picture_lens

    path = settings.path("lens.png")
    preparer, given = load_words(settings.run, "lens", settings.text)
    picture_lens(preparer, given, path, settings.question)
    settings.tell("lens", path)
