"""`inspect attention` draws the attention of a model with one stack."""

from pathlib import Path

from helpers.command import run
from helpers.head_checkpoints import bert, llama


def test_attention_of_a_model_with_one_stack_is_drawn_without_a_part(tmp_path: Path) -> None:
    for name in ("bert", "llama"):
        (tmp_path / name).mkdir()
    for folder, part in (
        (bert(tmp_path / "bert", "ForMaskedLM"), "encoder"),
        (llama(tmp_path / "llama", max_position_embeddings=256), "decoder"),
    ):
        assert run("inspect", "attention", folder, "hello there") == 0
        assert (folder / f"attention-{part}.png").is_file()
