"""Section 3.3: soft mutual nearest neighbours (NC-Net), which keeps what both images agree on.

N source cells  N' target cells
"""

from __future__ import annotations

from torch import Tensor

# Stands in for an all-zero row's or column's maximum. The compiled filter may multiply the reciprocals of
# both first, so these must have a product in float32: else 0 times infinity is no number.
TINY = 1e-18


def mutual_filter(confidence: Tensor, row_maxima: Tensor, column_maxima: Tensor) -> Tensor:
    """Weight every confidence by its share of its row's and of its column's maximum.

    Parameters
    ----------
    confidence
        (N, N') or some of its rows.
    row_maxima, column_maxima
        (N,) of the rows given, (N',) over *all* rows.
    """
    rows = row_maxima.clamp_min(TINY)[:, None]
    columns = column_maxima.clamp_min(TINY)
    return confidence * ((confidence / rows) * (confidence / columns))
