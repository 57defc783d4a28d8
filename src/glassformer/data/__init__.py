"""Files -> examples -> batches, and the examples that come with the package."""
