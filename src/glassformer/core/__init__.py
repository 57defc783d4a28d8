"""The Transformer, in the order of the paper (Vaswani et al., 2017, "Attention Is All You Need").

Read it as the data flows: `embeddings` and `positions` make vectors of the input, `attention`, `norms` and
`feedforward` are the parts of a `block`, a `stack` is N of them, a `head` answers, and `model` puts it together.
`context` and `cache` hold what belongs to one call.

The letters of every shape comment, which a test checks against the real tensors:

    B  batch                     H  heads                      V  vocabulary
    T  query length              G  kv heads                   N  patches
    S  key length                K  head_dim                   P  values in a patch
    D  d_model                   R  turning dims of a head     L  length of a series or table
    E  embedding width           F  d_ff                       C  channels, or classes
    W  width of what a norm or a pooling head gives            Z  horizon of a forecast
    A  texts beside a batch of images

A trailing `# (B, T, D)` is the shape of what the line makes; `...` stands for any axes. B may be 1 where all rows are
alike, as the positions of a batch without padding are.
"""
