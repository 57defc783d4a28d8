"""Text to token ids and back."""

from glassformer.text.tokenizer import Tokenizer, load_tokenizer, train_tokenizer

__all__ = ["Tokenizer", "load_tokenizer", "train_tokenizer"]
