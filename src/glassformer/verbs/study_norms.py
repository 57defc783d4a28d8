"""The verb `study norms`: compares pre-norm and post-norm over depth and learning rate."""

from dataclasses import dataclass
from pathlib import Path

from glassformer.settings import Settings


@dataclass(frozen=True, kw_only=True)
class StudyNormsSettings(Settings):
    """Train small pre-norm and post-norm language models over depth and learning rate, with and without warm-up, and
    draw the loss curves and the gradients of each layer in one picture. Finished runs are kept and not repeated."""

    out: Path = Path("studies/norms")
    """Output folder for the picture norms.png and the numbers norms.json."""
    depths: tuple[int, ...] = (2, 6, 12)
    """Numbers of layers."""
    rates: tuple[float, ...] = (1e-3, 3e-3, 1e-2)
    """Learning rates."""
    steps: int = 400
    """Training steps of each run."""
    warmup: int = 200
    """Warm-up steps, in the runs that have a warm-up; the learning rate is constant afterwards."""
    seed: int = 0
    """Random seed of the initial weights and the order of the data."""
    minutes: float = 10.0
    """Time limit in minutes. Runs that do not fit are skipped; run the same command again to continue with them."""

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
    from glassformer.study.norms import NormStudy, study_norms

    study_norms(NormStudy(**vars(settings)))
