"""Settings that every task refuses."""

from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import InputError
from glassformer.training.settings import TrainSettings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "--steps is 0: expected a number above 0"),
        ({"clip": -1.0}, "--clip is -1.0: expected 0 or more"),
        ({"ema": 1.0}, "--ema is 1.0: expected at least 0 and below 1"),
        ({"final_rate": 1.5}, "--final-rate is 1.5: expected a fraction from 0 to 1"),
        ({"average": 0}, "--average is 0: expected at least 1"),
        (
            {"rate": None, "schedule": "cosine"},
            "--rate is None: the cosine schedule needs a learning rate, such as 0.001",
        ),
        ({"resume": True, "overwrite": True}, "--resume continues a run and --overwrite replaces it: choose one"),
    ],
)
def test_a_bad_value_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TrainSettings(**{"out": Path("unused"), "rate": 1e-3, **changes})
