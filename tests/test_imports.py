"""What an import brings along. Times are printed by `benchmarks/startup.py`, never asserted."""

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


@pytest.mark.parametrize(
    "arguments", [["--help"], ["train", "translate", "--help"], ["predict", "--help"], ["demo", "-h"], ["verify", "-h"]]
)
def test_help_does_not_import_torch(arguments: list[str]) -> None:
    program = (
        f"from glassformer.cli import main\ntry: main({arguments!r})\nexcept SystemExit as end: assert not end.code"
    )
    assert "torch" not in loaded_after(program)


def test_public_names_are_found_and_unknown_ones_are_not() -> None:
    import glassformer as gf

    for name in gf.__all__:
        assert callable(getattr(gf, name)), f"gf.{name} must not be hidden by a folder of that name"
    assert set(gf.__all__) <= set(dir(gf))
    with pytest.raises(AttributeError, match="has no 'Transfomer'"):
        gf.Transfomer  # noqa: B018
