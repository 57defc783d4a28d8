"""The base of what a verb or a training can be told. Fields are the flags, the keys of a TOML file, and the record
kept beside the weights; the string under a field is its help text. Each verb has its own in `verbs/`.
"""

from dataclasses import dataclass

from glassformer.schema import Config


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    """The base: a value that does not fit is named as the flag that gave it."""

    def _name(self, field: str) -> str:
        return "--" + field.replace("_", "-")
