"""The verb `study norms`."""

from dataclasses import dataclass
from pathlib import Path

from glassformer.settings import Settings


@dataclass(frozen=True, kw_only=True)
class StudyNormsSettings(Settings):
    """Train small language models with the norm before and after each branch, over depth and learning rate, with and
    without warm-up, and draw the curves and the gradients of each layer in one picture. Runs that are finished are kept
    and not repeated."""

    out: Path = Path("studies/norms")
    """The folder to write: norms.png, and the numbers as norms.json."""
    depths: tuple[int, ...] = (2, 6, 12)
    """Numbers of layers."""
    rates: tuple[float, ...] = (1e-3, 3e-3, 1e-2)
    """Learning rates."""
    steps: int = 400
    """Updates of each run."""
    warmup: int = 200
    """Steps over which the rate rises, in the runs that have a warm-up; it is constant then."""
    seed: int = 0
    """Decides the initial weights and the order of the data."""
    minutes: float = 10.0
    """What does not fit into this time is skipped, and said so; the same command goes on with it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("depths", "rates"):
            values = getattr(self, name)
            if not values or min(values) <= 0 or len(set(values)) < len(values):
                raise self._refuse(name, "expected one or more different numbers above 0")
        for name in ("steps", "minutes"):
            if getattr(self, name) <= 0:
                raise self._refuse(name, "expected a number above 0")
        if not 2 <= self.warmup <= self.steps:
            raise self._refuse("warmup", f"expected 2 to --steps = {self.steps}")


def main(settings: StudyNormsSettings) -> None:
    from glassformer.study.norms import Plan, study_norms

    study_norms(Plan(**vars(settings)))
