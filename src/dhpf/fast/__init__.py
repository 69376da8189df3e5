"""The same functions as in ``model/``, compiled for the CPU; tests hold both against each other."""
