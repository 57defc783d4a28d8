"""Built-in data: 1,797 handwritten digits of 8x8 pixels that come with scikit-learn (Alpaydin and Kaynak, 1998).

They are the test part of the Optical Recognition of Handwritten Digits set of the UCI repository. A fifth of every
digit is held out. The split is fixed: it depends on no seed or library version.
"""

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import InputError

HOLD_OUT_EVERY = 5
BRIGHTEST = 16  # a pixel counts the dark ones of 4x4 pixels of the scan


def digit_images(held_out: bool) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Pixels (N, 1, 8, 8) from 0 to 1, and which digit each image shows (N)."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise InputError("the digits come with scikit-learn: pip install 'glassformer[vision]'") from None
    images, labels = load_digits(return_X_y=True)
    pixels = (images / BRIGHTEST).astype(np.float32).reshape(-1, 1, 8, 8)  # (N, 1, 8, 8)
    chosen = held_out_rows(labels) == held_out
    return pixels[chosen], labels[chosen].astype(np.int64)


def held_out_rows(labels: NDArray[np.int_]) -> NDArray[np.bool_]:
    """Every fifth image of each digit, in order."""
    chosen = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        chosen[np.flatnonzero(labels == label)[::HOLD_OUT_EVERY]] = True
    return chosen
