"""The reference: checkpoints that `transformers` makes from samples, their test inputs, and their outputs."""

from dataclasses import dataclass
from functools import cache, cached_property
from math import sqrt
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

import glassformer as gf
from glassformer.checkpoints.read_layout import layout_of
from helpers.samples import (
    ARCHITECTURES,
    CAPTIONERS,
    ENCODER_ONLY,
    GENERATION,
    OWN_HEAD,
    POOLED_DECODERS,
    SAMPLES,
    SEQ2SEQ,
    SERIES,
    VISION,
    Sample,
)

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

FIRST, LAST = 10, 78  # ordinary tokens: in every sample's vocabularies, and not special
ROWS = (1.0, 0.7, 0.45)  # the lengths of a batch's rows, relative to the longest


@dataclass(frozen=True)
class Checkpoint:
    """A sample with a head, as transformers saved it to `path`."""

    sample: Sample
    architecture: str
    path: Path

    @cached_property
    def model(self) -> Any:
        """The model that transformers loads from the file, with eager attention, the plainest reference."""
        model_class = getattr(transformers, self.architecture)
        model = model_class.from_pretrained(self.path, attn_implementation="eager").eval()
        for module in model.modules():
            if type(module).__name__ == "TrOCRSinusoidalPositionalEmbedding":  # transformers 5.22 leaves it empty
                module.weights = module.get_embedding(len(module.weights), module.embedding_dim, module.padding_idx)
        return model

    @cached_property
    def inputs(self) -> dict[str, Tensor]:
        return make_inputs(self)

    @property
    def call(self) -> dict[str, Tensor]:
        """The inputs by our argument names; with an image, the text always goes to the decoder."""
        if self.sample.model_type not in CAPTIONERS:
            return self.inputs
        ours = {"input_ids": "decoder_input_ids", "attention_mask": "decoder_attention_mask"}
        return {ours.get(name, name): value for name, value in self.inputs.items()}

    @cached_property
    def output(self) -> Any:
        with torch.no_grad():
            output = self.model(**self.inputs, output_hidden_states=True)
            if self.sample.model_type in ("blip", "git"):
                return two_sided(self, output)
        if self.sample.model_type in SERIES:  # (B, channels, ...): ours has a channel as a row of the batch
            output.hidden_states = [state.flatten(0, 1) for state in output.hidden_states]
            if "last_hidden_state" in output:
                output.last_hidden_state = output.last_hidden_state.flatten(0, 1)
        return output


def two_sided(made: Checkpoint, output: Any) -> Any:
    """The output of a captioner, by the names of an encoder-decoder; for GIT, only the tokens of its sequence."""
    pixels, ids, keep = (made.inputs[name] for name in ("pixel_values", "input_ids", "attention_mask"))
    if made.sample.model_type == "blip":
        seen = made.model.vision_model(pixels, output_hidden_states=True)
        text = made.model.text_decoder(
            ids, attention_mask=keep, encoder_hidden_states=seen.last_hidden_state, output_hidden_states=True
        )
    else:
        base = made.model.git if made.architecture == "GitForCausalLM" else made.model
        seen, text = base.image_encoder(pixels, output_hidden_states=True), output
    answer = {
        name: output[name][:, -ids.shape[1] :]
        for name in ("logits", "last_hidden_state")
        if output.get(name) is not None and not (name == "last_hidden_state" and made.sample.model_type == "blip")
    }
    return transformers.utils.ModelOutput(
        **answer,
        encoder_last_hidden_state=seen.last_hidden_state,
        encoder_hidden_states=seen.hidden_states,
        decoder_hidden_states=text.hidden_states,
    )


def save_sample(sample: Sample, architecture: str, path: Path) -> Checkpoint:
    """Builds the model from the sample's config with random weights, and saves it."""
    build(sample, architecture).save_pretrained(path)
    return Checkpoint(sample, architecture, path)


def build(sample: Sample, architecture: str) -> Any:
    torch.manual_seed(sum(map(ord, f"{sample}{architecture}")))
    settings = dict(sample.config)
    if architecture.endswith("QuestionAnswering"):
        settings.pop("num_labels", None)  # a span has a start and an end
    config = transformers.CONFIG_MAPPING[sample.model_type](**settings)
    model = getattr(transformers, architecture)(config)
    if str(sample) in OWN_HEAD and architecture.endswith("ConditionalGeneration"):
        model.lm_head.weight = nn.Parameter(torch.empty_like(model.lm_head.weight))
    if model.can_generate():
        model.generation_config.update(**GENERATION.get(str(sample), {}))
    randomise(model)
    return model


@torch.no_grad()
def randomise(model: nn.Module) -> None:
    """Moves every parameter away from values without effect, but keeps the activations of order 1."""
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    for parameter in model.parameters():
        if not parameter.requires_grad:
            continue  # Marian's sinusoids, which are not weights
        if parameter.dim() <= 1:
            parameter += 0.3 * torch.randn_like(parameter)
        else:
            fan_in = parameter[0].numel()
            nn.init.normal_(parameter, std=0.7 if id(parameter) in tables or fan_in < 8 else 1.0 / sqrt(fan_in))
    for module in model.modules():
        if "Norm" in type(module).__name__ and module.weight is not None:
            # Flip half of the signs: otherwise a tied head would repeat the last token again and again.
            about = module.weight.mean().round()  # 1, or 0 where the norm multiplies by 1 + w
            turned = torch.rand_like(module.weight) < 0.5
            module.weight[turned] = 2 * (about - 1) - module.weight[turned]
    for name, buffer in model.named_buffers():
        if name == "final_logits_bias":
            buffer.normal_()


def make_inputs(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """A batch of three rows of different lengths, padded on the right; or two images or windows."""
    generator = torch.Generator().manual_seed(7)
    config, sample = checkpoint.model.config, checkpoint.sample
    if sample.model_type in VISION:
        return {"pixel_values": torch.randn(2, config.num_channels, *[config.image_size] * 2, generator=generator)}
    if sample.model_type in CAPTIONERS:
        return make_caption(checkpoint, generator)
    if sample.model_type in SERIES:
        window = torch.randn(2, config.context_length, config.num_input_channels, generator=generator)
        return {"past_values": 3 * window + 5}
    source, keep = ragged(sample.length, config.pad_token_id, generator)
    inputs = {"input_ids": source, "attention_mask": keep}
    if getattr(config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = torch.randint(config.type_vocab_size, source.shape, generator=generator)
    if sample.model_type in (*SEQ2SEQ, *POOLED_DECODERS):
        source[torch.arange(len(source)), keep.sum(1) - 1] = config.eos_token_id
        if sample.model_type in SEQ2SEQ and checkpoint.architecture not in ENCODER_ONLY:
            inputs |= make_target(checkpoint, source, keep, generator)
    return inputs


def make_caption(checkpoint: Checkpoint, generator: torch.Generator) -> dict[str, Tensor]:
    """Three images, and a caption for each."""
    config, sample = checkpoint.model.config, checkpoint.sample
    image = config.encoder if sample.model_type == "vision-encoder-decoder" else config.vision_config
    channels = getattr(image, "num_channels", 3)
    pixels = torch.randn(len(ROWS), channels, image.image_size, image.image_size, generator=generator)
    ids, keep = ragged(sample.length, 0, generator)
    ids[:, 0] = 1  # the first token of each
    prefix = "decoder_" if sample.model_type == "vision-encoder-decoder" else ""
    return {"pixel_values": pixels, f"{prefix}input_ids": ids, f"{prefix}attention_mask": keep}


def make_target(checkpoint: Checkpoint, source: Tensor, keep: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
    """A separate target; for heads that classify the source, the source again, shifted right by one."""
    config = checkpoint.model.config
    if checkpoint.architecture.endswith(("SequenceClassification", "QuestionAnswering")):
        target, target_keep = source.clone(), keep
    else:
        target, target_keep = ragged(checkpoint.sample.length - 2, config.pad_token_id, generator)
        target, target_keep = target.flip(0), target_keep.flip(0)  # the longest source has the shortest target
    start = source.new_full((len(source), 1), config.decoder_start_token_id)
    return {
        "decoder_input_ids": torch.cat([start, target[:, :-1]], dim=1).masked_fill(
            target_keep == 0, config.pad_token_id
        ),
        "decoder_attention_mask": target_keep,
    }


def ragged(length: int, pad: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Token ids of rows of different lengths, padded on the right, and their mask."""
    ids = torch.randint(FIRST, LAST, (len(ROWS), length), generator=generator)
    lengths = torch.tensor([round(share * length) for share in ROWS])
    keep = (torch.arange(length) < lengths[:, None]).long()
    return ids.masked_fill(keep == 0, pad), keep


def to_left(ids: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """The same rows with their padding on the left."""
    shifts = (keep.shape[1] - keep.sum(1)).tolist()
    rolled = [[x.roll(shift) for x, shift in zip(table, shifts, strict=True)] for table in (ids, keep)]
    return torch.stack(rolled[0]), torch.stack(rolled[1])


@cache
def family_configs(*, one_each: bool = False) -> dict[str, gf.TransformerConfig]:
    """Configs by sample and head. `one_each`: one per family, with another head than the previous family."""
    found = {}
    first = {sample.model_type: sample for sample in reversed(SAMPLES)}
    for i, sample in enumerate(first.values() if one_each else SAMPLES):
        heads = list(ARCHITECTURES[sample.model_type].items())
        for kind, architecture in [heads[i % len(heads)]] if one_each else heads:
            settings = dict(sample.config)
            if architecture.endswith("QuestionAnswering"):
                settings.pop("num_labels", None)  # a span has a start and an end
            values = transformers.CONFIG_MAPPING[sample.model_type](**settings).to_dict()
            layout = layout_of({**values, "architectures": [architecture]}, name=f"{sample}-{kind}")
            found[f"{sample}-{kind}"] = layout.config
    return found
