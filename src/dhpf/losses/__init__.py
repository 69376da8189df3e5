"""Section 3.4: what the gates and transformations learn from. Each loss returns named terms."""
