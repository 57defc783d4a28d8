"""Describes every step of a Transformer: its axes, its equation, a sentence, and the line of code that computes it.

    step = step_of("decoder.blocks.2.cross.q", model.config)
    step.axes, step.equation, step.place      # ("B", "H", "T", "K"), "q = x W_q", core/attention.py:143

`core/__init__.py` defines the letters. Tests run models and check that this line computes the value recorded under the
step's name, and that the equation gives the same numbers. Read next: `stack.py` and `answer.py`.
"""

from glassformer.config import TransformerConfig
from glassformer.errors import InputError
from glassformer.inspect.steps.answer import answer_step
from glassformer.inspect.steps.places import SourceLine, Step, line_of
from glassformer.inspect.steps.stack import memory_step, rows_of_series, stack_step
from glassformer.watch.names import STACKS, StepName

__all__ = ["LEGEND", "SourceLine", "Step", "line_of", "rows_of_series", "step_of"]

LEGEND = {
    "B": ("batch", "배치"),
    "T": ("query length", "쿼리 길이"),
    "S": ("key length", "키 길이"),
    "D": ("d_model", "모델 너비"),
    "E": ("embedding width", "임베딩 너비"),
    "H": ("heads", "헤드"),
    "G": ("kv heads", "키·값 헤드"),
    "K": ("head_dim", "헤드 너비"),
    "F": ("d_ff", "피드포워드 너비"),
    "V": ("vocabulary", "어휘"),
    "N": ("patches", "패치"),
    "L": ("length of the series", "시계열 길이"),
    "C": ("channels, or classes", "채널 또는 클래스"),
    "W": ("width of the pooled vector", "풀링된 벡터의 너비"),
    "Z": ("horizon", "예측 길이"),
    "M": ("rows per channel of a folded series", "접은 시계열의 채널당 행 수"),
}


def step_of(name: str, config: TransformerConfig) -> Step:
    """The step recorded under `name`, as this model computes it."""
    parsed = StepName.parse(name)
    stack = getattr(config, parsed.stack) if parsed.stack in STACKS else None
    if stack is None:
        found = memory_step(name, config) or answer_step(name, config)
    else:
        found = stack_step(parsed, stack, config)
    if found is None:
        raise InputError(f"this model has no step {name!r}: expected a name that gf.record gives")
    return found
