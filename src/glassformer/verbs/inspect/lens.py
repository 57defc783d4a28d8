"""The verb `inspect lens`: draws the predictions after each layer."""

from dataclasses import dataclass

from glassformer.verbs.inspect.common import FigureSettings, QuestionSettings, TextArgument, load_words


@dataclass(frozen=True, kw_only=True)
class LensSettings(QuestionSettings, FigureSettings):
    """Draw what a model would predict after each layer (logit lens)."""

    text: TextArgument
    """The text to read; for a captioning model the path of an image, or `example` for a built-in one."""


def main(settings: LensSettings) -> None:
    from glassformer.inspect.looks.lens import picture_lens

    path = settings.path("lens.png")
    preparer, given = load_words(settings.run, "lens", settings.text)
    picture_lens(preparer, given, path, settings.question)
    settings.tell("lens", path)
