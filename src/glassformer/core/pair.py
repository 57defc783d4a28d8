"""Two encoders, one for texts and one for images, that map matching inputs to similar vectors in a shared space.

Contrastive training (CLIP: Radford et al., 2021): in a batch of images and their texts, the model must find the text of
each image among all texts, and the image of each text. Read after `model.py`.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.config import PairConfig
from glassformer.core.model import Metadata, Transformer
from glassformer.errors import InputError


@dataclass(frozen=True, kw_only=True)
class PairOutput:
    """The result of a call; fields without their input are None."""

    loss: Tensor | None = None
    logits_per_image: Tensor | None = None
    logits_per_text: Tensor | None = None
    text_embeds: Tensor | None = None  # unit vectors
    image_embeds: Tensor | None = None


class Pair(nn.Module):
    """logits = exp(scale) image . text, for unit vectors."""

    def __init__(self, config: PairConfig) -> None:
        super().__init__()
        self.config = config
        self.about = Metadata()
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
        """Embeds texts, images or both; with both, also scores each image against each text.

        For the loss, image i belongs to text i.
        """
        texts = images = per_image = None
        if input_ids is None and pixel_values is None:
            raise InputError("no input: give input_ids, pixel_values or both")
        if input_ids is not None:
            texts = normalise(self.text(input_ids, attention_mask).pooled)
        if pixel_values is not None:
            images = normalise(self.image(pixel_values=pixel_values).pooled)
        if texts is not None and images is not None:
            per_image = self.logits(images, texts)
        if return_loss and (per_image is None or per_image.shape[0] != per_image.shape[1]):
            raise InputError("a loss needs as many texts as images: image i belongs to text i")
        return PairOutput(
            loss=contrastive_loss(per_image) if return_loss and per_image is not None else None,
            logits_per_image=per_image,
            logits_per_text=None if per_image is None else per_image.t(),
            text_embeds=texts,
            image_embeds=images,
        )

    def logits(self, images: Tensor, texts: Tensor) -> Tensor:
        """The scaled cosine similarity of each image and each text."""
        return self.logit_scale.exp() * images @ texts.t()  # (B, A)


def normalise(x: Tensor | None) -> Tensor:
    """x / |x|."""
    assert x is not None  # PairConfig requires head='pool'
    return x / x.norm(dim=-1, keepdim=True)  # (B, W)


def contrastive_loss(logits: Tensor, labels: Tensor | None = None) -> Tensor:
    """The mean of two cross-entropies: finding the text of each image, and the image of each text.

    Pairs with equal `labels` (B) match each other too: a batch may contain the same text twice.
    """
    labels = torch.arange(len(logits), device=logits.device) if labels is None else labels  # (B)
    same = (labels[:, None] == labels).to(logits.dtype)  # (B, B)
    truth = same / same.sum(dim=1, keepdim=True)  # (B, B)
    return (F.cross_entropy(logits, truth) + F.cross_entropy(logits.t(), truth)) / 2
