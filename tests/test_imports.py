"""What an import loads. `benchmarks/startup.py` prints times; they are never asserted."""

import pytest
from helpers.command import python

HEAVY = "matplotlib numpy.f2py PIL pandas scipy sklearn tokenizers safetensors transformers rich tyro tensorboard sympy"


def loaded_after(statement: str) -> set[str]:
    program = f"import sys\n{statement}\nprint('modules', *sys.modules)"
    return set(python("-c", program).rpartition("modules ")[2].split())


def test_the_package_brings_nothing_heavy_beyond_torch() -> None:
    extra = loaded_after("import torch, glassformer") - loaded_after("import torch")
    assert {name for name in extra if not name.startswith("glassformer")} == set()


def test_building_a_model_brings_nothing_heavy_either() -> None:
    loaded = loaded_after("import glassformer as gf; gf.Transformer; gf.TransformerConfig")
    before = loaded_after("import torch, torch.utils.checkpoint")
    assert {name for name in HEAVY.split() if name in loaded and name not in before} == set()


HELP_OF_EVERY_VERB = """
from glassformer.cli import VERBS, main
for words in ([], ["train"], ["inspect"], *(name.split() for name in VERBS)):
    try:
        main([*words, "--help"])
    except SystemExit as end:
        assert not end.code, words
    assert "torch" not in sys.modules, words
"""


def test_no_help_imports_torch() -> None:
    assert "torch" not in loaded_after(HELP_OF_EVERY_VERB)


def test_public_names_are_found_and_unknown_ones_are_not() -> None:
    import glassformer as gf

    for name in gf.__all__:
        assert callable(getattr(gf, name)), f"gf.{name} must not be hidden by a folder of that name"
    assert set(gf.__all__) <= set(dir(gf))
    with pytest.raises(AttributeError, match="has no 'Transfomer'"):
        gf.Transfomer  # noqa: B018
