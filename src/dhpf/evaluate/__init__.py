"""A predictions file in, figures out. Nothing here imports torch at import time."""
