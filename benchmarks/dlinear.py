"""DLinear (Zeng et al., 2023), the linear model that forecasting papers compare with; `results.py` trains it on ETTh1.

    future = W_trend trend + W_rest (past - trend) + b        one W_trend and one W_rest for all channels

The trend is a moving average over 25 values, with the first and the last value repeated at the ends. Trained as in the
paper's script for ETTh1 (cure-lab/LTSF-Linear): weights that begin as averages, squared error, eight windows per batch,
and Adam at 0.0001, halved after each epoch but the first. Training ends after ten epochs, or three without a better
validation error. The best weights are scored on every test window.
"""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.data.series import Windows

SPAN, RATE, BATCH, EPOCHS, PATIENCE = 25, 0.0001, 8, 10, 3
SCORE_BATCH = 256


class DLinear(nn.Module):
    def __init__(self, length: int, horizon: int) -> None:
        super().__init__()
        self.trend, self.rest = nn.Linear(length, horizon), nn.Linear(length, horizon)
        for layer in (self.trend, self.rest):
            nn.init.constant_(layer.weight, 1 / length)

    def forward(self, past: Tensor) -> Tensor:
        rows = past.transpose(1, 2)  # (B, C, L)
        trend = F.avg_pool1d(F.pad(rows, (SPAN // 2, SPAN // 2), mode="replicate"), SPAN, stride=1)  # (B, C, L)
        future: Tensor = self.trend(trend) + self.rest(rows - trend)  # (B, C, H)
        return future.transpose(1, 2)  # (B, H, C)


def dlinear(train: Windows, valid: Windows, test: Windows, seed: int) -> float:
    """The test MSE of a DLinear trained with this seed."""
    torch.manual_seed(seed)
    model = DLinear(train.length, train.horizon)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    best, weights, waited = float("inf"), copy.deepcopy(model.state_dict()), 0
    for epoch in range(EPOCHS):
        optimizer.param_groups[0]["lr"] = RATE * 0.5 ** max(0, epoch - 1)
        for numbers in torch.randperm(len(train)).split(BATCH):
            past, future = batch(train, numbers)
            loss = F.mse_loss(model(past), future)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        reached = mse(model, valid)
        waited = 0 if reached < best else waited + 1
        if not waited:
            best, weights = reached, copy.deepcopy(model.state_dict())
        elif waited == PATIENCE:
            break
    model.load_state_dict(weights)
    return mse(model, test)


@torch.no_grad()
def mse(model: DLinear, windows: Windows) -> float:
    squared, count = 0.0, 0
    for numbers in torch.arange(len(windows)).split(SCORE_BATCH):
        past, future = batch(windows, numbers)
        squared += float((model(past) - future).square().sum(dtype=torch.float64))
        count += future.numel()
    return squared / count


def batch(windows: Windows, numbers: Tensor) -> tuple[Tensor, Tensor]:
    both = torch.from_numpy(windows.all()[numbers.numpy()].copy())  # (B, L+H, C)
    return both[:, : windows.length], both[:, windows.length :]
