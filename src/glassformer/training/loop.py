"""The training loop, the same for all tasks. A task defines its batches and its loss; the loop does the rest.

One batch makes one update. Gradient accumulation and multiple processes split it into parts. The loss of each part is
divided by the weight of the whole batch, so the update does not depend on the split.
"""

import math
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from glassformer.core.model import Transformer
from glassformer.errors import InputError
from glassformer.schema import shown
from glassformer.training.checkpoint import Checkpoints, State
from glassformer.training.optimizers import make_optimizers
from glassformer.training.plan import MeasuredTimes, Plan, plan_steps, seconds_each
from glassformer.training.quicker import speed_up
from glassformer.training.ranks import Ranks, gather_weights
from glassformer.training.report import Report
from glassformer.training.schedule import peak_rate, rate_factor
from glassformer.training.settings import TrainSettings
from glassformer.training.signals import Signals
from glassformer.training.task import Batch, Task
from glassformer.training.whole_batch import whole_batch_backward

CHECKPOINT_SECONDS = 120.0
ESTIMATE_STEPS = 5  # print the time estimate after this many steps; the first ones are slower
MAX_TIMED_STEPS = 20  # at most this many steps are timed for a plan
CHECKS = 10  # how often a run compares its plan with the clock
EARLIER_WEIGHT = 0.75  # weight of earlier steps in the mean time of a step, after each check
SHOWN_EXAMPLES = 8  # of a batch whose loss is not finite


class DivergedError(InputError):
    """A loss, gradient or score is not finite: the training has diverged."""


class Trainer:
    """A run in progress: the model, replicated or sharded across the processes, its optimisers and its state."""

    def __init__(
        self, task: Task, settings: TrainSettings, ranks: Ranks, checkpoints: Checkpoints, report: Report
    ) -> None:
        self.task, self.settings, self.ranks = task, settings, ranks
        self.checkpoints, self.report = checkpoints, report
        check_precision(settings.precision, ranks.device)
        self.own = task.model.to(ranks.device).train()
        speed_up(self.own, compiled=settings.compile)
        self.spread = ranks.spread(self.own, shard=settings.shard)
        self.model: nn.Module = torch.compile(self.spread) if settings.compile else self.spread  # type: ignore[assignment]
        self.optimizers = make_optimizers(self.own, settings)
        self.highest = peak_rate(settings, task.model.config.last_stack.d_model)
        self.average: dict[str, Tensor] = {}
        if settings.ema is not None:
            self.average = {name: value.detach().clone() for name, value in self.own.named_parameters()}
        self.scaler = make_scaler(settings, ranks)
        self.state = State()
        self.updates = 0  # since this process started
        self.plan = plan_steps(settings, task.budget(settings) or 1, task.validated, settings.warmup)
        self.until: float | None = None  # when the training must end, by `time.perf_counter`
        self.tell_plan: Callable[[Plan], None] = lambda plan: None  # called before a changed plan takes effect
        self.pace, self.evaluation_seconds = StepPace(), 0.0
        self.metric = settings.metric or task.metric

    def run(self, signals: Signals) -> int:
        """Trains to the end of the plan or until a signal arrives. Returns the signal's number, else 0."""
        self.started, self.saved = time.perf_counter() - self.state.seconds, time.perf_counter()
        stop = 0
        for batch in self.remaining():
            number, self.state.seconds, late = self.ranks.largest(
                signals.number, time.perf_counter() - self.started, self.is_late()
            )
            stop = int(number)
            if late:
                self.save()
            if stop or self.state.step >= self.plan.steps or self.is_stale():
                break
            with self.pace.measured():
                self.update(batch)
            self.updates += 1
            if self.updates == ESTIMATE_STEPS:
                self.report.estimate(self.progress, self.memory())
            if self.plan.is_evaluation_due(self.state.step):
                self.evaluate()
            is_checked = self.updates % max(1, self.plan.steps // CHECKS) == 0 and self.state.step < self.plan.steps
            if self.until is not None and is_checked:
                self.keep_time(self.until)
        if not stop and self.state.evaluated != self.state.step:
            self.evaluate()
            stop = int(self.ranks.largest(signals.number)[0])
        self.save()
        return stop

    def memory(self) -> dict[str, int]:
        """Bytes used by training in this process: the total and its known parts."""
        weights = sum(bytes_of(parameter) for parameter in self.own.parameters())
        moments = sum(
            bytes_of(value)
            for optimizer in self.optimizers
            for state in optimizer.state.values()
            for value in state.values()
            if isinstance(value, Tensor)
        )
        averages = sum(map(bytes_of, self.average.values()))
        return {
            "total": peak_memory(self.ranks.device),
            "weights and gradients": 2 * weights,
            "optimiser": moments + averages,
        }

    def remaining(self) -> Iterator[Sequence[int]]:
        """The remaining batches of this epoch, then those of the following epochs."""
        while True:
            with self.pace.measured(steps=0):  # forming batches may mean tokenising every text
                batches = self.task.batches(self.state.epoch)
            while self.state.batch < len(batches):
                yield batches[self.state.batch]
                self.state.batch += 1
            self.state.epoch, self.state.batch = self.state.epoch + 1, 0

    @property
    def progress(self) -> float:
        """The fraction of the plan that is done."""
        return self.plan.progress(self.state.step)

    def keep_time(self, until: float) -> None:
        """Changes the rest of the plan if steps are slower or faster than planned."""
        plan = self.plan.refit(
            self.state.step,
            left=until - time.perf_counter(),
            step_seconds=self.pace.mean(),
            evaluation_seconds=self.evaluation_seconds,
            most=self.settings.steps,
        )
        plan = self.ranks.from_first(plan)
        if plan != self.plan:
            self.tell_plan(plan)
            self.plan = plan

    def costs(self, limit: float) -> MeasuredTimes:
        """Times steps and scoring, each for about `limit` seconds. The weights stay the same, but the optimiser state
        is lost: call this before `restore`."""
        step = self.time_steps(limit)
        valid = test = 1.0
        with self.whole_model():
            if self.ranks.is_first:
                valid = seconds_each(self.task.validate, self.task.count("valid"), limit)
                test = seconds_each(self.task.score_some, self.task.count("test"), limit)
        return MeasuredTimes(step=step, **self.ranks.from_first({"valid": valid, "test": test}))

    def time_steps(self, limit: float) -> float:
        """The mean time of a few steps at learning rate 0, without the first. Resets the optimiser."""
        batches, taken = self.task.batches(self.state.epoch), list[float]()
        while len(taken) <= MAX_TIMED_STEPS and sum(taken) <= limit:
            began = time.perf_counter()
            self.compute(batches[len(taken) % len(batches)], step=len(taken) + 1, rate=0.0)
            taken += self.ranks.largest(time.perf_counter() - began)
        self.optimizers = make_optimizers(self.own, self.settings)
        self.scaler = make_scaler(self.settings, self.ranks)
        timed = taken[1:] or taken
        return max(1e-6, sum(timed) / len(timed))

    def is_stale(self) -> bool:
        return self.settings.patience is not None and self.state.stale >= self.settings.patience

    def is_late(self) -> bool:
        """Whether a checkpoint is due."""
        if self.settings.checkpoint_every:
            return self.state.step > 0 and self.state.step % self.settings.checkpoint_every == 0
        return time.perf_counter() - self.saved > CHECKPOINT_SECONDS

    def update(self, examples: Sequence[int]) -> None:
        """One step: computes the gradient of the batch, clips it and updates the weights."""
        step = self.state.step + 1
        warmed = self.plan.progress(min(step, self.plan.warmup) - 1)
        left = max(0.0, 1 - self.progress) / max(1e-9, 1 - warmed)
        rate = self.highest * rate_factor(self.settings, step, left, self.plan.warmup)
        told = self.compute(examples, step=step, rate=rate)
        if self.average:
            self.follow()
        self.state.step = step
        self.report.step(step, rate=rate, progress=self.progress, **told)

    def compute(self, examples: Sequence[int], *, step: int, rate: float) -> Any:
        """Updates the weights at this learning rate. Returns the values to report."""
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
        torch.manual_seed(hash((self.settings.seed, step, self.ranks.rank)))  # same dropout after a resume
        parts = self.parts(examples)
        computed = time.perf_counter()
        loss = self.compared(parts, examples, step) if self.task.compares else self.summed(parts)
        norm = self.clip()
        if not (math.isfinite(loss) and (math.isfinite(norm) or self.scaler.is_enabled())):
            raise self.not_finite(loss, norm, examples)
        for optimizer in self.optimizers:
            self.scaler.step(optimizer)
            optimizer.zero_grad()
        self.scaler.update()
        busy = time.perf_counter() - computed
        size = sum(self.task.size(batch) for batch, counts in parts if counts) * self.ranks.size
        return {"loss": loss, "norm": norm, "size": size, "busy": busy}

    def summed(self, parts: Sequence[tuple[Batch, bool]]) -> float:
        """Adds the gradient of a loss that sums over the examples. Returns the loss."""
        weight = self.ranks.total(sum(self.task.weight(batch["labels"]) for batch, counts in parts if counts))
        loss = 0.0
        for number, (batch, counts) in enumerate(parts, start=1):
            with self.ranks.sending(self.spread, number == len(parts)):
                loss += self.backward(batch, weight if counts else math.inf)
        return self.ranks.total(loss)

    def compared(self, parts: Sequence[tuple[Batch, bool]], examples: Sequence[int], step: int) -> float:
        """Adds the gradient of a loss that compares all examples of the batch (`whole_batch.py`). Returns the loss."""

        def vectors(number: int) -> dict[str, Tensor]:
            torch.manual_seed(hash((self.settings.seed, step, self.ranks.rank, number)))  # same dropout twice
            inputs = {name: value for name, value in parts[number][0].items() if name != "labels"}
            with self.precision():
                found = self.task.vectors(self.model(**inputs))
            wide = {name: value.to(torch.promote_types(value.dtype, torch.float32)) for name, value in found.items()}
            return {**wide, "labels": parts[number][0]["labels"]}

        def pass_on(number: int, value: Tensor) -> None:
            with self.ranks.sending(self.spread, number == len(parts) - 1):
                self.scaler.scale(value).backward()

        return whole_batch_backward(
            [partial(vectors, number) for number in range(len(parts))],
            self.places(len(examples)),
            len(examples),
            self.task.compare,
            pass_on,
            self.ranks,
        )

    def places(self, total: int) -> list[slice]:
        """The slices of a batch of `total` examples that this process computes."""
        count = self.settings.accumulate * self.ranks.size
        size, more = divmod(total, count)
        first = self.ranks.rank * self.settings.accumulate
        starts = [number * size + min(number, more) for number in range(first, first + self.settings.accumulate + 1)]
        return [slice(start, stop) for start, stop in pairwise(starts)]

    def parts(self, examples: Sequence[int]) -> list[tuple[Batch, bool]]:
        """This process's parts of a batch, and whether they count. If there are fewer examples than parts, an empty
        part repeats the first example with no weight, because all processes must compute equally often."""
        parts = []
        for place in self.places(len(examples)):
            chosen = examples[place]
            batch = self.task.collate(chosen or examples[:1], self.state.epoch)
            parts.append(({name: value.to(self.ranks.device) for name, value in batch.items()}, bool(chosen)))
        return parts

    def backward(self, batch: Batch, weight: float) -> float:
        """Adds the gradient of a part. Returns its share of the loss."""
        labels = batch["labels"]
        inputs = {name: value for name, value in batch.items() if name != "labels"}
        twice = self.settings.r_drop > 0
        if twice:
            inputs = {name: torch.cat([value, value]) for name, value in inputs.items()}
        with self.precision():
            logits = self.model(**inputs).logits
            loss = self.two_losses(logits, labels) if twice else self.task.loss(logits, labels)
        loss = loss / weight
        # DDP and FSDP average gradients over the processes; here they must be summed.
        self.scaler.scale(loss * self.ranks.size).backward()
        return float(loss.detach())

    def precision(self) -> AbstractContextManager[Any]:
        narrow = self.settings.precision != "float32"
        dtype = getattr(torch, self.settings.precision)
        return torch.autocast(self.ranks.device.type, dtype) if narrow else nullcontext()

    def two_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """R-Drop: the mean loss of two passes plus weight / 2 times their divergence, (KL(p, q) + KL(q, p)) / 2."""
        first, second = logits.chunk(2)
        mean = (self.task.loss(first, labels) + self.task.loss(second, labels)) / 2
        return mean + self.settings.r_drop / 2 * self.task.divergence(first, second, labels)

    def clip(self) -> float:
        for optimizer in self.optimizers:
            self.scaler.unscale_(optimizer)
        limit = self.settings.clip or math.inf
        norm: Any = torch.nn.utils.clip_grad_norm_(self.own.parameters(), limit)
        return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)

    @torch.no_grad()
    def follow(self) -> None:
        """Updates the moving average of the weights. Early in training it has a shorter memory."""
        memory = min(self.settings.ema or 0.0, (1 + self.state.step) / (10 + self.state.step))
        current = [value.detach() for value in self.own.parameters()]
        torch._foreach_lerp_(list(self.average.values()), current, 1 - memory)

    def not_finite(self, loss: float, norm: float, examples: Sequence[int]) -> DivergedError:
        what = f"the loss is {loss}" if not math.isfinite(loss) else f"the gradient's norm is {norm}"
        some = ", ".join(map(str, examples[:SHOWN_EXAMPLES])) + (", ..." if len(examples) > SHOWN_EXAMPLES else "")
        return DivergedError(
            f"{what} at step {self.state.step + 1}, on examples {some} of the training set (counted from 0); "
            f"{self.advice()}, or check these examples"
        )

    def advice(self) -> str:
        last = self.checkpoints.last()
        good = f"the last good checkpoint is {last}" if last else "there is no checkpoint yet"
        return f"{good}. Lower --rate ({self.highest:.3g}), raise --warmup ({self.settings.warmup})"

    def evaluate(self) -> None:
        """Scores the current weights or their moving average, and saves them if they are the best so far."""
        began = time.perf_counter()
        with self.kept_weights():
            weights = dict(self.own.named_parameters()) if not self.average else self.average
            with self.whole_model(), self.ranks.together():
                metrics = self.task.validate(self.plan.valid) if self.ranks.is_first else {}
            metrics = self.ranks.from_first(metrics)
            if self.metric not in metrics:
                raise InputError(f"--metric {self.metric} was not measured. Choose from {', '.join(metrics)}")
            value = metrics[self.metric]
            for name, number in metrics.items():
                if not math.isfinite(number):
                    raise DivergedError(f"the validation {name} is {number} at step {self.state.step}; {self.advice()}")
            best = self.is_best(value, metrics.get("loss"))
            if best:
                self.state.best, self.state.best_loss = value, metrics.get("loss")
                self.state.best_step, self.state.stale = self.state.step, 0
                self.checkpoints.save_weights("best", self.state.step, weights)
            else:
                self.state.stale += 1
            if self.settings.average > 1:
                self.checkpoints.save_weights("weights", self.state.step, weights, keep=self.settings.average)
        self.state.evaluated = self.state.step
        self.state.seconds, self.evaluation_seconds = self.ranks.largest(
            time.perf_counter() - self.started, time.perf_counter() - began
        )
        self.report.evaluation(self.state.step, metrics, best=best)

    def is_best(self, value: float, loss: float | None) -> bool:
        """Whether this score is the best so far. The lower loss breaks a tie: of two models with an accuracy of 0.5,
        one may have learned nothing and the other a little."""
        if value == self.state.best and loss is not None and self.state.best_loss is not None:
            return loss < self.state.best_loss
        return self.task.is_better(value, self.state.best, self.metric)

    @contextmanager
    def kept_weights(self) -> Iterator[None]:
        """Inside, the model has the moving average as its weights, if there is one."""
        if not self.average:
            yield
            return
        current = {name: value.detach().clone() for name, value in self.own.named_parameters()}
        self.put(self.average)
        yield
        self.put(current)

    @torch.no_grad()
    def put(self, weights: Mapping[str, Tensor]) -> None:
        for name, value in self.own.named_parameters():
            value.copy_(weights[name])

    @contextmanager
    def whole_model(self) -> Iterator[None]:
        """Inside, the task's model is in evaluation mode; if sharded, the first process has an unsharded copy."""
        if self.settings.shard:
            weights = gather_weights(self.own)
            if self.ranks.is_first:
                self.task.model = copy_of(self.own, weights)
        self.task.model.eval()
        with torch.no_grad():
            yield
        self.task.model = self.own.train()

    def save(self) -> None:
        self.state.scale = self.scaler.state_dict()
        self.checkpoints.save(self.state, self.own, self.optimizers, self.average)
        self.saved = time.perf_counter()

    def restore(self) -> bool:
        """Loads the last complete checkpoint. Returns whether there is one."""
        self.checkpoints.clean()
        self.ranks.wait()
        last = self.checkpoints.last()
        if last is not None:
            self.state = self.checkpoints.restore(last, self.own, self.optimizers, self.average)
            self.scaler.load_state_dict(self.state.scale)
        self.checkpoints.forget_after(self.state.step)
        return last is not None

    @torch.no_grad()
    def finish(self) -> str:
        """Puts the weights to save into the model, unsharded in the first process. Returns their description."""
        said = f"the weights of step {self.state.step}"
        if self.average:
            self.put(self.average)
            said = f"the moving average of the weights at step {self.state.step}"
        found = self.checkpoints.numbered("weights" if self.settings.average > 1 else "best")
        if self.settings.average == 1:
            found = [folder for folder in found if folder.name == f"best-{self.state.best_step:08}"]
        if found:
            mean = {name: torch.zeros_like(value) for name, value in self.own.named_parameters()}
            for folder in found:
                values = {name: torch.zeros_like(value) for name, value in mean.items()}
                self.checkpoints.read(folder, {"model": values})
                for name, value in values.items():
                    mean[name] += value / len(found)
            self.put(mean)
            said = f"the mean of the weights at {len(found)} evaluations"
            if self.settings.average == 1:
                said = f"the weights of step {int(found[0].name.split('-')[1])}, the best on the validation set"
        if self.settings.shard:
            weights = gather_weights(self.own)
            if self.ranks.is_first:
                self.task.model = copy_of(self.own, weights)
        self.task.model.eval()
        return said


class StepPace:
    """The mean time of a step. Steps since the last call of `mean` count most."""

    def __init__(self) -> None:
        self.count = self.seconds = 0.0

    @contextmanager
    def measured(self, steps: int = 1) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.count, self.seconds = self.count + steps, self.seconds + time.perf_counter() - began

    def mean(self) -> float:
        mean = self.seconds / self.count
        self.count, self.seconds = EARLIER_WEIGHT * self.count, EARLIER_WEIGHT * self.seconds
        return mean


def check_accumulation(task: Task, settings: TrainSettings, ranks: Ranks) -> None:
    """Refuses to split batches into more parts than they have examples: most parts would compute nothing."""
    parts = settings.accumulate * ranks.size
    if settings.accumulate == 1:
        return
    largest = max(map(len, task.batches(0)))
    if parts > largest:
        among = f" in each of {ranks.size} processes" if ranks.size > 1 else ""
        raise InputError(
            f"--accumulate {shown(settings.accumulate)}: a batch of {largest:,} examples cannot be split into "
            f"{shown(settings.accumulate)} parts{among}. Use at most {max(1, largest // ranks.size):,}"
        )


def make_scaler(settings: TrainSettings, ranks: Ranks) -> torch.amp.GradScaler:
    return torch.amp.GradScaler(ranks.device.type, enabled=settings.precision == "float16")


def copy_of(model: Transformer, weights: Mapping[str, Tensor]) -> Transformer:
    """An unsharded model with the same config and these weights."""
    with torch.device("meta"):
        copy = Transformer(model.config)
    copy.to_empty(device=model.device)
    copy.tie()
    copy.load_state_dict(weights, strict=False)
    copy.about = model.about
    return copy


def bytes_of(tensor: Tensor) -> int:
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return local.numel() * local.element_size()


def peak_memory(device: torch.device) -> int:
    """Peak memory in bytes: of tensors on a GPU, else of the whole process."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def check_precision(precision: str, device: torch.device) -> None:
    """Refuses half precision if it is slower here. This is measured, because a device's name does not tell."""
    if precision == "float32":
        return
    dtype = getattr(torch, precision)
    seconds = {kind: time_product(kind, device) for kind in (torch.float32, dtype)}
    if device.type == "cpu" and precision == "float16":
        raise InputError("--precision float16 needs a GPU. Leave it out, or use bfloat16 on a CPU that supports it")
    if seconds[dtype] > seconds[torch.float32]:
        times = seconds[dtype] / seconds[torch.float32]
        raise InputError(
            f"--precision {precision} would be slower on this {device.type}: a matrix product takes {times:.1f} "
            "times as long as in float32. Leave it out"
        )


def time_product(dtype: torch.dtype, device: torch.device) -> float:
    matrix = torch.ones(256, 256, dtype=dtype, device=device)
    times = []
    for _ in range(5):
        began = time.perf_counter()
        float((matrix @ matrix).sum())
        times.append(time.perf_counter() - began)
    return min(times)
