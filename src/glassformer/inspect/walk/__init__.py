"""One attention head by hand: the numbers of one token, equation by equation."""
