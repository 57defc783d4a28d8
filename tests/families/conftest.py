"""Checkpoints of the samples, made once per session."""

from collections.abc import Callable
from functools import cache

import pytest
from helpers.reference import Checkpoint, save_sample
from helpers.samples import ARCHITECTURES, Sample

import glassformer as gf


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Sample, str], Checkpoint]:
    """checkpoint(sample, kind): the sample with this head, saved by transformers."""

    @cache
    def made(sample: Sample, kind: str) -> Checkpoint:
        path = tmp_path_factory.mktemp(f"{sample}-{kind}")
        return save_sample(sample, ARCHITECTURES[sample.model_type][kind], path)

    return made


@pytest.fixture(scope="session")
def loaded(checkpoint: Callable[[Sample, str], Checkpoint]) -> Callable[[Sample, str], gf.Transformer]:
    """loaded(sample, kind): the same checkpoint, loaded here."""

    @cache
    def made(sample: Sample, kind: str) -> gf.Transformer:
        return gf.load(checkpoint(sample, kind).path).eval()

    return made
