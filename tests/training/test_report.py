"""The output of a running training: JSON lines, lines for people, and curves for TensorBoard."""

import json
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from glassformer.errors import InputError
from glassformer.training.report import Report, readable_bytes, readable_metric, readable_time


def follow(folder: Path, *, log: Path | None = None, terminal: bool = False) -> str:
    """The output of a training with four steps and one evaluation."""
    said = StringIO()
    console = Console(file=said, force_terminal=terminal, width=120)
    with Report(folder / "metrics.jsonl", console, unit="tokens", steps=4, log=log) as report:
        for step in range(1, 5):
            report.step(step, loss=4 / step, rate=0.1 * step, norm=1.0, size=10, busy=0.0, progress=step / 4)
        report.evaluation(4, {"loss": 0.5, "accuracy": 0.75}, best=True)
    return said.getvalue()


def test_every_entry_is_a_line_of_json(tmp_path: Path) -> None:
    said = follow(tmp_path)
    entries = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [entry["step"] for entry in entries] == [1, 2, 3, 4, 4]
    assert [entry["loss"] for entry in entries[:4]] == pytest.approx([4, 2, 4 / 3, 1], abs=1e-5)
    assert entries[4] == {"step": 4, "valid_loss": 0.5, "valid_accuracy": 0.75}
    assert "step 4/4  loss 1.000  rate 4.0e-01" in said
    assert "step 4  validation: loss 0.5, accuracy 0.75  (best so far)" in said


def test_a_terminal_has_a_bar_in_place_of_lines(tmp_path: Path) -> None:
    said = follow(tmp_path, terminal=True)
    assert "step 4/4" not in said
    assert "loss 1.000" in said


@pytest.mark.filterwarnings("ignore")  # of tensorboard's own packages
def test_tensorboard_reads_the_same_curves(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    follow(tmp_path, log=tmp_path / "log")
    read = EventAccumulator(str(tmp_path / "log"))
    read.Reload()
    assert [event.step for event in read.Scalars("loss")] == [1, 2, 3, 4]
    assert [event.value for event in read.Scalars("loss")] == pytest.approx([4, 2, 4 / 3, 1], abs=1e-5)
    assert [event.value for event in read.Scalars("valid_accuracy")] == [0.75]


def test_without_tensorboard_it_is_said_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match=r"pip install 'glassformer\[log\]'"):
        follow(tmp_path, log=tmp_path / "log")


def test_a_run_that_goes_on_leaves_out_what_came_after_its_checkpoint(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"ste', encoding="utf-8")  # killed while it wrote
    report = Report(file, Console(quiet=True), unit="tokens", steps=4)
    report.restart(2)
    report.write({"step": 3, "loss": 1.0})
    report.file.close()
    assert file.read_text(encoding="utf-8") == '{"step": 1}\n{"step": 2}\n{"step": 3, "loss": 1.0}\n'


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (readable_time(99), "99 s"),
        (readable_time(100), "2 min"),
        (readable_time(9000), "2.5 h"),
        (readable_bytes(1_500_000), "1.5 MB"),
        (readable_bytes(2_500_000_000), "2.5 GB"),
        (readable_metric("accuracy", 0.123), "12.3%"),
        (readable_metric("bleu", 12.345), "12.3"),
        (readable_metric("mse", 0.000123456), "0.0001235"),
    ],
)
def test_numbers_as_people_read_them(shown: Any, expected: str) -> None:
    assert shown == expected
