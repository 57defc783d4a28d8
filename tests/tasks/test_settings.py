"""Invalid settings: the error names the flag, its value and what was expected."""

from typing import Any

import pytest

from glassformer.errors import InputError
from glassformer.tasks.settings import (
    ClassifySettings,
    ForecastSettings,
    ImagesSettings,
    LmSettings,
    MlmSettings,
    TaskSettings,
    TranslateSettings,
)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (TranslateSettings, {"d_model": 0}, "--d-model is 0: expected at least 1"),
        (TranslateSettings, {"drop_path": 1.0}, "--drop-path is 1.0: expected at least 0 and below 1"),
        (TranslateSettings, {"head": "class"}, "--head names a new head for the model of --init: give both"),
        (TranslateSettings, {"init": "a", "d_model": 8}, "--d-model is 8: the loaded model .* has its own"),
        (TranslateSettings, {"batch_tokens": 0}, "--batch-tokens is 0: expected at least 1"),
        (TranslateSettings, {"vocab_size": 63}, "--vocab-size is 63: expected at least 64, to hold the characters"),
        (TranslateSettings, {"label_smoothing": -0.1}, "--label-smoothing is -0.1: expected at least 0"),
        (TranslateSettings, {"max_len": 0}, "--max-len is 0: expected at least 1"),
        (TranslateSettings, {"subword_dropout": 1.0}, "--subword-dropout is 1.0: expected at least 0"),
        (
            TranslateSettings,
            {"subword_dropout": 0.1, "tokenizer": "wordpiece"},
            "a wordpiece tokenizer has only one way",
        ),
        (TranslateSettings, {"valid_fraction": 1.0}, "--valid-fraction is 1.0: expected a fraction between 0 and 1"),
        (TranslateSettings, {"examples": 0}, "--examples is 0: expected at least 1"),
        (TranslateSettings, {"num_beams": 0}, "--num-beams is 0: expected at least 1"),
        (ClassifySettings, {"text_columns": ("a", "b", "c")}, "--text-columns is .*: expected one column, or the two"),
        (ClassifySettings, {"label_separator": ""}, "--label-separator is '': expected the text between two labels"),
        (ClassifySettings, {"batch_size": 0}, "--batch-size is 0: expected at least 1"),
        (ClassifySettings, {"patch": 0}, "--patch is 0: expected at least 1"),
        (LmSettings, {"context": 1}, "--context is 1: expected at least 2 tokens"),
        (MlmSettings, {"mask_fraction": 0.0}, "--mask-fraction is 0.0: expected a fraction between 0 and 1"),
        (ImagesSettings, {"size": 0}, "--size is 0: expected at least 1"),
        (ImagesSettings, {"label_smoothing": 1.0}, "--label-smoothing is 1.0: expected at least 0"),
        (ForecastSettings, {"horizon": 0}, "--horizon is 0: expected at least 1"),
        (ForecastSettings, {"splits": (100, 20)}, "--splits is .*: expected three numbers of rows"),
        (ForecastSettings, {"patch": 16, "length": 15}, "--patch is 16: expected at most --length 15"),
    ],
)
def test_a_bad_value_is_named(kind: type[TaskSettings], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        kind(**changes)


def test_the_rate_follows_from_what_has_been_learned_already() -> None:
    assert (ClassifySettings().rate, ClassifySettings(init="a").rate) == (3e-3, 5e-5)
    assert (LmSettings().rate, LmSettings(init="a").rate) == (5e-3, 1e-4)
    assert LmSettings(init="a", rate=0.5).rate == 0.5


def test_the_default_rate_of_translate_fits_its_optimizer() -> None:
    assert TranslateSettings().rate == 0.004
    assert TranslateSettings(optimizer="adamw").rate == 0.001
    assert TranslateSettings(init="owner/model").rate == 0.0002
    assert TranslateSettings(optimizer="adam", schedule="inverse-sqrt").rate is None, "the paper's, from the warm-up"
    assert TranslateSettings(rate=0.01).rate == 0.01
    assert TranslateSettings(schedule="inverse-sqrt").rate == 0.004, "the paper's is for Adam"
