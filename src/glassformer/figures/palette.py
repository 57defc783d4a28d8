"""The colours of every picture and page that is written here, but for the explorer's, whose style sheet has its own."""

# Scales: of weights in [0, 1], as colour-blind eyes read them too; of signed values, centred at 0; of many curves.
SEQUENTIAL, DIVERGING, CURVES = "cividis", "RdBu_r", "viridis"

# Curves: the one and the other of a comparison, and what they are compared with.
FIRST, SECOND, MUTED = "#1b6ca8", "#d1495b", "#6b7280"

# Pages; `accent-parts` is the accent as numbers, to be made transparent.
LIGHT = {
    "paper": "#fbfaf7", "ink": "#23221f", "soft": "#6b675e", "rule": "#dedacf", "shade": "#f2efe7",
    "accent": "#2f5d8c", "accent-parts": "47 93 140", "second": "#b3541e",
}  # fmt: skip
DARK = {
    "paper": "#17181b", "ink": "#e6e3dc", "soft": "#9d998f", "rule": "#35363b", "shade": "#202125",
    "accent": "#86b3e0", "accent-parts": "134 179 224", "second": "#e39a63",
}  # fmt: skip
