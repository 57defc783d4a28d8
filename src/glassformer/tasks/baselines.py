"""Simple baselines, scored on the same held-out data as the model.

    forecast    seasonal_naive, linear_forecast
    classify    majority_class, bag_of_words
    images      majority_class
    lm          character_ngram (in `data/ngram.py`)
    mlm         most_frequent_token
    translate   copy_source, nearest_source; compared by score_translations

Those of the image-and-text tasks are in `pictures/`. A score says little without a baseline.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from glassformer.data.pairs import TextPair
from glassformer.data.series import Windows
from glassformer.errors import InputError
from glassformer.training.waiting import LoopProgress

NO_TRAINING = "no baseline: it needs the training examples, but only the examples to score were read"
WINDOWS_AT_ONCE = 512  # windows at a time, so that memory does not grow with their number
STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0)  # inverse regularisation strengths to try
SILENT = LoopProgress()


@dataclass(frozen=True)
class ForecastScore:
    """Mean squared and mean absolute error over every window, step and series."""

    mse: float
    mae: float
    windows: int

    @property
    def metrics(self) -> dict[str, float]:
        return {"mse": self.mse, "mae": self.mae}


def seasonal_naive(
    test: Windows, period: int, numbers: Sequence[int] | None = None, follow: LoopProgress = SILENT
) -> ForecastScore:
    """Repeats the last season: yesterday's hours with period 24, last week's with 168."""
    if not 1 <= period <= test.length:
        raise InputError(f"period {period}: expected 1 to {test.length}, the number of past rows")
    last = test.length - period + np.arange(test.horizon) % period
    return score_forecasts(((past[:, last], future) for past, future in chunks(test, numbers, follow)))


def linear_forecast(
    train: Windows,
    test: Windows,
    ridge: float = 1.0,
    numbers: Sequence[int] | None = None,
    follow: LoopProgress = SILENT,
) -> ForecastScore:
    """future = W past + b, fitted by least squares with a ridge, one W for all series (as in Zeng et al., 2023).

    Each window is normalised by its past to mean 0 and standard deviation 1, and the forecast is scaled back.
    """
    size = train.length + 1  # a constant 1 is the last input; its weight is b
    inputs, outputs = np.zeros((size, size)), np.zeros((size, train.horizon))
    for past, future in chunks(train, None, follow):
        mean, deviation = instance_statistics(past)
        x = with_constant((past - mean) / deviation)  # (N, C, L+1)
        y = ((future - mean) / deviation).swapaxes(1, 2)  # (N, C, H)
        x, y = x.reshape(-1, size), y.reshape(-1, train.horizon)
        inputs += x.T @ x
        outputs += x.T @ y
    penalty = ridge * np.eye(size)
    penalty[-1, -1] = 0.0  # b is not shrunk
    weights = np.linalg.solve(inputs + penalty, outputs)  # (L+1, H)

    def forecasts() -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        for past, future in chunks(test, numbers, follow):
            mean, deviation = instance_statistics(past)
            scaled = with_constant((past - mean) / deviation) @ weights  # (N, C, H)
            yield scaled.swapaxes(1, 2) * deviation + mean, future

    return score_forecasts(forecasts())


def chunks(
    windows: Windows, numbers: Sequence[int] | None, follow: LoopProgress
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Past (N, L, C) and future (N, H, C) of all windows, or of those with these numbers, in chunks."""
    every = windows.all()
    chosen = np.arange(len(every)) if numbers is None else np.array(numbers)
    for start in follow(range(0, len(chosen), WINDOWS_AT_ONCE)):
        both = every[chosen[start : start + WINDOWS_AT_ONCE]].astype(np.float64)
        yield both[:, : windows.length], both[:, windows.length :]


def instance_statistics(past: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return past.mean(axis=1, keepdims=True), past.std(axis=1, keepdims=True) + 1e-5  # (N, 1, C), (N, 1, C)


def with_constant(past: NDArray[np.float64]) -> NDArray[np.float64]:
    rows = past.swapaxes(1, 2)  # (N, C, L)
    return np.concatenate([rows, np.ones((*rows.shape[:2], 1))], axis=2)  # (N, C, L+1)


def score_forecasts(forecasts: Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> ForecastScore:
    squared = absolute = count = 0.0
    windows = 0
    for forecast, future in forecasts:
        error = forecast - future
        squared, absolute, count = squared + (error**2).sum(), absolute + np.abs(error).sum(), count + error.size
        windows += len(error)
    return ForecastScore(float(squared / count), float(absolute / count), windows)


def majority_class(train: Sequence[Hashable], test: Sequence[Hashable]) -> float:
    """Accuracy of always predicting the most frequent training label."""
    guess = Counter(train).most_common(1)[0][0]
    return sum(label == guess for label in test) / len(test)


def bag_of_words(
    train: Sequence[tuple[str, str]], test: Sequence[tuple[str, str]], follow: LoopProgress = SILENT, longest: int = 1
) -> float:
    """Accuracy of a logistic regression on tf-idf weights, which knows the words of a text but not their order.

    Its regularisation is chosen by cross-validation. `longest=2` adds pairs of neighbouring words.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import StratifiedKFold
        from sklearn.pipeline import Pipeline
    except ImportError:
        raise InputError("the bag-of-words baseline needs scikit-learn: pip install 'glassformer[vision]'") from None
    words = TfidfVectorizer(token_pattern=r"\w+", ngram_range=(1, longest))
    model = Pipeline([("words", words), ("regression", LogisticRegression(max_iter=1000))])
    texts, labels = (np.array(column, dtype=object) for column in zip(*train, strict=True))
    rarest = min(Counter(labels).values())
    if rarest < 3:
        raise InputError(
            f"a label has only {rarest} training example{'s' * (rarest > 1)}: cross-validation needs at least 3"
        )
    trials = [(c, *fold) for c in STRENGTHS for fold in StratifiedKFold(3).split(texts, labels)]
    reached: dict[float, float] = defaultdict(float)
    for c, known, asked in follow(trials):
        model.set_params(regression__C=c).fit(texts[known], labels[known])
        reached[c] += model.score(texts[asked], labels[asked]) / 3
    model.set_params(regression__C=max(reached, key=reached.__getitem__)).fit(texts, labels)
    test_texts, test_labels = zip(*test, strict=True)
    return float(model.score(test_texts, test_labels))


@dataclass(frozen=True)
class TokenScore:
    """Accuracy of the most frequent token, and the perplexity of the frequencies."""

    accuracy: float
    perplexity: float


def most_frequent_token(train: Sequence[Sequence[int]], masked: Sequence[int], vocab_size: int) -> TokenScore:
    """Predicts masked tokens by their frequency in the training text, with 1 added to every count."""
    counts = Counter(token for row in train for token in row)
    if not counts or not masked:
        raise InputError("no training tokens or no masked tokens: expected at least one of each")
    total, guess = counts.total() + vocab_size, counts.most_common(1)[0][0]
    loss = -sum(log((counts[token] + 1) / total) for token in masked) / len(masked)
    return TokenScore(sum(token == guess for token in masked) / len(masked), exp(loss))


def nearest_source(train: Sequence[TextPair], test: Sequence[TextPair], follow: LoopProgress = SILENT) -> list[str]:
    """The translation of the most similar training sentence, by 2 |A and B| / (|A| + |B|) of their letter trigrams."""
    found: dict[str, list[int]] = defaultdict(list)
    for index, pair in enumerate(follow(train)):
        for triple in triples(pair.source):
            found[triple].append(index)
    places = {triple: np.array(indices) for triple, indices in found.items()}
    sizes = np.array([len(triples(pair.source)) for pair in train])
    guesses = []
    for pair in follow(test):
        wanted, shared = triples(pair.source), np.zeros(len(train))
        for triple in wanted & places.keys():
            shared[places[triple]] += 1
        guesses.append(train[int(np.argmax(2 * shared / (sizes + len(wanted))))].target)
    return guesses


def triples(text: str) -> set[str]:
    """Letter trigrams, with the edges of the text marked."""
    padded = f"\n{text}\n"
    return {padded[start : start + 3] for start in range(max(1, len(padded) - 2))}
