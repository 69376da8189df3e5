"""Carry the labels of a few images to all others."""
