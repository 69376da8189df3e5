"""Which layers a model chooses: figures 3, 4 and 7 of the paper, and one pair, layer by layer."""
