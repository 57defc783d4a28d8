"""NaN and infinite weights are refused before a model runs; the error names the tensor and counts them."""

from pathlib import Path

import pytest
import torch
from helpers.command import run
from helpers.small_checkpoints import store, weights_of
from helpers.tiny_models import make

import glassformer as gf
from glassformer.checkpoints.load import count_infinite
from glassformer.errors import InputError
from glassformer.explore.view.session import Session


def spoil(folder: Path, value: float, count: int = 1) -> str:
    """Puts a value into the last matrix of the file, and returns its name."""
    tensors = {name: tensor.clone() for name, tensor in weights_of(folder).items()}
    name = max(name for name, tensor in tensors.items() if tensor.ndim == 2)
    tensors[name].view(-1)[:count] = value
    store(folder, tensors)
    return name


@pytest.fixture
def classifier(tmp_path: Path) -> Path:
    return make(tmp_path / "model", "encoder")


@pytest.mark.parametrize(("value", "kind"), [(float("nan"), "NaN"), (float("-inf"), "infinite")])
def test_every_verb_that_runs_a_model_stops(
    value: float, kind: str, classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = spoil(classifier, value, 3)
    (tmp_path / "rows.csv").write_text("text,label\nhello,calm\n", encoding="utf-8")
    rows = tmp_path / "rows.csv"
    for arguments in (
        ["predict", classifier, "hello"],
        ["convert", classifier, tmp_path / "new"],
        ["inspect", "attention", classifier, "hello"],
        ["inspect", "rollout", classifier, "hello"],
        ["inspect", "step", classifier, "hello"],
        ["inspect", "positions", classifier],
        ["explore", classifier, "--export", tmp_path / "page.html"],
        ["eval", classifier, "--task", "classify", "--data", rows],
        ["train", "classify", "--init", classifier, "--data", rows, "--valid", rows, "--out", tmp_path / "run"],
    ):
        assert run(*arguments) == 2, arguments
        shown = capsys.readouterr()
        assert f"weights of {name} are not finite (3 {kind})" in shown.err
        assert not shown.out
    assert not (tmp_path / "new").exists()


def test_python_stops_where_a_model_is_run(classifier: Path) -> None:
    spoil(classifier, float("nan"))
    for ask in (gf.pipeline, Session, lambda path: gf.convert(path, path.with_name("new"))):
        with pytest.raises(InputError, match=r"1 of .* are not finite"):
            ask(classifier)
    assert gf.load(classifier) is not None  # weights are read when first used
    assert not gf.verify(classifier).passed


def test_a_dtype_that_is_too_narrow(classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil(classifier, 1e5, 2)
    assert run("convert", classifier, tmp_path / "half", "--dtype", "float16") == 2
    assert "are too large for float16. Choose another --dtype, such as bfloat16" in capsys.readouterr().err
    assert run("convert", classifier, tmp_path / "brain", "--dtype", "bfloat16") == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_an_overflow_of_the_sum_is_no_infinite_weight(dtype: torch.dtype) -> None:
    values = torch.full((100,), torch.finfo(dtype).max, dtype=dtype)
    assert count_infinite(values) == 0
    values[7], values[9], values[11] = torch.inf, -torch.inf, torch.nan
    assert count_infinite(values) == 3
