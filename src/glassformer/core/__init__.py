"""The Transformer, in the order of the paper (Vaswani et al., 2017, "Attention Is All You Need").

Read it in the order of the data flow: `embeddings` and `positions` turn the input into vectors; `attention`, `norms`
and `feedforward` are the parts of a `block`; a `stack` is N blocks; `heads` map its output to predictions; `model`
assembles everything. `context` and `cache` hold the state of one call.

The letters in shape comments (a test checks every such comment against the real tensors):

    B  batch                     H  heads                      V  vocabulary
    T  query length              G  kv heads                   N  patches
    S  key length                K  head_dim                   P  values in a patch
    D  d_model                   R  rotary dims of a head      L  length of a series or table
    E  embedding width           F  d_ff                       C  channels, or classes
    W  output width of a norm or a pooling head                Z  horizon of a forecast
    A  texts compared with a batch of images                   M  rows per channel of a folded series

A trailing `# (B, T, D)` is the shape of the line's result; `...` stands for any axes. B may be 1 where all rows are
equal, such as the positions of a batch without padding.
"""
