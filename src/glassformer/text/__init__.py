"""Text to token ids and back."""

from glassformer.text.load import load_tokenizer, read_tokenizer
from glassformer.text.tokenizer import Encoded, Tokenizer, check_vocabulary
from glassformer.text.train import train_tokenizer

__all__ = ["Encoded", "Tokenizer", "check_vocabulary", "load_tokenizer", "read_tokenizer", "train_tokenizer"]
