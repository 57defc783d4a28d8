"""A pair of models in one space: one reads texts, one images, and what belongs together lies close together.

Contrastive training (CLIP: Radford et al., 2021): in a batch of images with their texts, each image must find its text
among all of them, and each text its image. Read after `model.py`.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.config import PairConfig
from glassformer.core.model import About, Transformer
from glassformer.errors import InputError


@dataclass(frozen=True, kw_only=True)
class PairOutput:
    """What a call returns; a field is None when the call was given nothing for it."""

    loss: Tensor | None = None
    logits_per_image: Tensor | None = None
    logits_per_text: Tensor | None = None
    text_embeds: Tensor | None = None  # of length 1
    image_embeds: Tensor | None = None


class Pair(nn.Module):
    """logits = exp(scale) image . text, of vectors of length 1."""

    def __init__(self, config: PairConfig) -> None:
        super().__init__()
        self.config = config
        self.about = About()
        self.text, self.image = Transformer(config.text), Transformer(config.image)
        self.logit_scale = nn.Parameter(torch.tensor(config.logit_scale))

    @property
    def device(self) -> torch.device:
        return self.logit_scale.device

    @property
    def dtype(self) -> torch.dtype:
        return self.logit_scale.dtype

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        *,
        pixel_values: Tensor | None = None,
        return_loss: bool = False,
    ) -> PairOutput:
        """The vectors of the texts and of the images, and with both, how well each image fits each text.

        For a loss, the i-th image belongs to the i-th text.
        """
        texts = images = per_image = None
        if input_ids is None and pixel_values is None:
            raise InputError("a pair reads input_ids, pixel_values or both: give at least one")
        if input_ids is not None:
            texts = unit(self.text(input_ids, attention_mask).pooled)
        if pixel_values is not None:
            images = unit(self.image(pixel_values=pixel_values).pooled)
        if texts is not None and images is not None:
            per_image = self.logits(images, texts)
        if return_loss and (per_image is None or per_image.shape[0] != per_image.shape[1]):
            raise InputError("a loss needs as many texts as images: the i-th image belongs to the i-th text")
        return PairOutput(
            loss=contrastive_loss(per_image) if return_loss and per_image is not None else None,
            logits_per_image=per_image,
            logits_per_text=None if per_image is None else per_image.t(),
            text_embeds=texts,
            image_embeds=images,
        )

    def logits(self, images: Tensor, texts: Tensor) -> Tensor:
        """How well each image fits each text."""
        return self.logit_scale.exp() * images @ texts.t()  # (B, A)


def unit(x: Tensor | None) -> Tensor:
    """Vectors brought to length 1."""
    assert x is not None  # a pair's models pool
    return x / x.norm(dim=-1, keepdim=True)  # (B, W)


def contrastive_loss(logits: Tensor, labels: Tensor | None = None) -> Tensor:
    """Cross-entropy of finding the text of each image and the image of each text, averaged.

    Of `labels` (B), equal ones belong together too: a batch may hold one text twice.
    """
    labels = torch.arange(len(logits), device=logits.device) if labels is None else labels  # (B)
    same = (labels[:, None] == labels).to(logits.dtype)  # (B, B)
    truth = same / same.sum(dim=1, keepdim=True)  # (B, B)
    return (F.cross_entropy(logits, truth) + F.cross_entropy(logits.t(), truth)) / 2
