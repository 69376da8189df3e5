"""Section 3.4 put to work: from a recipe to a trained head."""
