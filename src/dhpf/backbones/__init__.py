"""Section 3.1: image -> feature blocks, by a frozen network. One file for each family."""
