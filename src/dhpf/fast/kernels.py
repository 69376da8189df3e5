"""The passes over the correlation matrix as compiled CPU loops; ``passes.py`` calls them.

Each function works on a range of source grid rows, releases the interpreter lock and touches memory in
order, so that threads can take ranges side by side. Sums are kept per grid row and added up in a fixed
order by the caller: results do not depend on the number of threads.

H, W source grid  H', W' target grid  N = H*W  N' = H'*W'  k grid rows of one tile
"""

from __future__ import annotations

import numpy as np

from .threads import Floats, Integers, compiled

TILE = 360  # targets a tile: 8 channels of them and one result fit the first-level cache
ROUNDING = np.float32(1.0001)  # more than the errors of the few products that it allows for


@compiled
def appearance_rows(
    start: int,
    stop: int,
    first: int,
    tile: Floats,
    base_a: Floats,
    base_b: Floats,
    coarse: Floats,
    levels: Integers,
    y_low: Integers,
    y_weight: Floats,
    x_low: Integers,
    x_weight: Floats,
    norm_a: Floats,
    norm_b: Floats,
    epsilon: float,
    by_dx: Floats,
) -> None:
    """Multiply all factors out, take ReLU(cosine)^2, and sum that by horizontal offset.

    ``tile`` (k, W, N') begins at grid row ``first`` and receives the result for its rows ``start`` to
    ``stop``; ``by_dx`` (k, H', W + W' - 1) receives their sums. ``base_a`` (N, C) and ``base_b`` (C, N') are
    the features of the base resolution, C a multiple of 8.
    ``coarse`` holds R resolutions one below the other, of the grids ``levels`` (R, 2); ``y_*`` (R, k) and
    ``x_*`` (R, W) say how each is resized.
    """
    width, cells_b = tile.shape[1], tile.shape[2]
    height_b = by_dx.shape[1]
    width_b = cells_b // height_b
    eps = np.float32(epsilon)
    one = np.float32(1)
    lines = np.empty((levels[:, 1].sum(), cells_b), np.float32)
    for row in range(start, stop):
        by_dx[row] = 0
        own = (first + row) * width
        _multiply(base_a[own : own + width], base_b, tile[row])
        above = 0  # resize the coarse correlations to this grid row ...
        line = 0
        for level in range(len(levels)):
            rows, columns = levels[level]
            upper = above + y_low[level, row] * columns
            lower = upper + (columns if rows > 1 else 0)
            weight = y_weight[level, row]
            for x in range(columns):
                _mix(lines[line + x], coarse[upper + x], coarse[lower + x], one - weight, weight)
            line += columns
            above += rows * columns

        for x in range(width):
            cell = tile[row, x]
            line = 0  # ... and then to each cell of it
            for level in range(len(levels)):
                columns = levels[level, 1]
                left = line + x_low[level, x]
                right = left + (1 if columns > 1 else 0)
                weight = x_weight[level, x]
                _add_mix(cell, lines[left], lines[right], one - weight, weight)
                line += columns
            length = norm_a[own + x]
            for target in range(cells_b):
                cosine = max(cell[target], np.float32(0)) / (length * norm_b[target] + eps)
                cell[target] = cosine * cosine
            shift = width - 1 - x
            for ty in range(height_b):
                sums = by_dx[row, ty, shift : shift + width_b]
                part = cell[ty * width_b : (ty + 1) * width_b]
                for tx in range(width_b):
                    sums[tx] += part[tx]


@compiled
def _multiply(a: Floats, b: Floats, out: Floats) -> None:
    """out (W, N') = a (W, C) @ b (C, N'), in tiles of ``b`` that stay in the nearest cache.

    A library's product is a little faster by itself, but leaves its threads spinning on the processors that
    the following passes need, and its result in memory instead of in the cache.
    """
    out[:] = 0
    for start in range(0, b.shape[1], TILE):
        stop = min(start + TILE, b.shape[1])
        for c in range(0, b.shape[0], 8):
            b0, b1 = b[c, start:stop], b[c + 1, start:stop]
            b2, b3 = b[c + 2, start:stop], b[c + 3, start:stop]
            b4, b5 = b[c + 4, start:stop], b[c + 5, start:stop]
            b6, b7 = b[c + 6, start:stop], b[c + 7, start:stop]
            for x in range(len(a)):
                a0, a1, a2, a3 = a[x, c], a[x, c + 1], a[x, c + 2], a[x, c + 3]
                a4, a5, a6, a7 = a[x, c + 4], a[x, c + 5], a[x, c + 6], a[x, c + 7]
                part = out[x, start:stop]
                for t in range(stop - start):
                    part[t] += (
                        a0 * b0[t] + a1 * b1[t] + a2 * b2[t] + a3 * b3[t]
                        + a4 * b4[t] + a5 * b5[t] + a6 * b6[t] + a7 * b7[t]
                    )  # fmt: skip


@compiled
def _mix(out: Floats, a: Floats, b: Floats, weight_a: float, weight_b: float) -> None:
    for i in range(len(out)):
        out[i] = weight_a * a[i] + weight_b * b[i]


@compiled
def _add_mix(out: Floats, a: Floats, b: Floats, weight_a: float, weight_b: float) -> None:
    for i in range(len(out)):
        out[i] += weight_a * a[i] + weight_b * b[i]


@compiled
def sum_rows(
    start: int,
    stop: int,
    first: int,
    tile: Floats,
    top: Integers,
    left: Integers,
    width_b: int,
    sums: Floats,
) -> None:
    """Sum appearance by offset: add each source cell's matches to its window in the table of its grid row,
    ``sums`` (k, rows, columns), which begins at ``top`` and ``left``, both (H, W)."""
    width, height_b = tile.shape[1], tile.shape[2] // width_b
    for row in range(start, stop):
        for x in range(width):
            upper, shift = top[first + row, x], left[first + row, x]
            for ty in range(height_b):
                line = sums[row, upper + ty, shift : shift + width_b]
                part = tile[row, x, ty * width_b : (ty + 1) * width_b]
                for tx in range(width_b):
                    line[tx] += part[tx]


@compiled
def maxima_rows(
    start: int,
    stop: int,
    first: int,
    tile: Floats,
    votes: Floats,
    top: Integers,
    left: Integers,
    line_maxima: Floats,
    column_maxima: Floats,
) -> None:
    """Maxima of appearance times votes: of each source cell with each target grid row, (k, W, H'), and of
    each target cell, this range's (H', W'). The window of a source cell in ``votes`` begins at ``top`` and
    ``left``, both (H, W)."""
    width = tile.shape[1]
    height_b, width_b = column_maxima.shape
    for row in range(start, stop):
        for x in range(width):
            upper, shift = top[first + row, x], left[first + row, x]
            for ty in range(height_b):
                line = tile[row, x, ty * width_b : (ty + 1) * width_b]
                vote = votes[upper + ty, shift : shift + width_b]
                columns = column_maxima[ty]
                best = np.float32(0)
                for tx in range(width_b):
                    confidence = line[tx] * vote[tx]
                    columns[tx] = max(columns[tx], confidence)
                    best = max(best, confidence)
                line_maxima[row, x, ty] = best


@compiled
def best_rows(
    start: int,
    stop: int,
    first: int,
    tile: Floats,
    votes: Floats,
    top: Integers,
    left: Integers,
    line_maxima: Floats,
    column_maxima: Floats,
    tiny: float,
    best: Integers,
    value: Floats,
) -> None:
    """Soft mutual filter, then each source cell's best target (k, W) and its filtered confidence (k, W).

    The filter only lowers a confidence c, to at most c * c / (row maximum): target grid rows that cannot beat
    the best so far are not looked at.
    """
    width = tile.shape[1]
    height_b, width_b = column_maxima.shape
    floor = np.float32(tiny)
    one = np.float32(1)
    of_columns = one / np.maximum(column_maxima, floor)
    filtered = np.empty(width_b, np.float32)
    for row in range(start, stop):
        for x in range(width):
            maxima = line_maxima[row, x]
            of_row = one / max(maxima.max(), floor)
            upper, shift = top[first + row, x], left[first + row, x]
            highest = np.float32(-1)
            where = 0
            for ty in range(height_b):
                if maxima[ty] * (maxima[ty] * of_row) * ROUNDING <= highest:
                    continue
                line = tile[row, x, ty * width_b : (ty + 1) * width_b]
                vote = votes[upper + ty, shift : shift + width_b]
                columns = of_columns[ty]
                line_top = np.float32(-1)
                for tx in range(width_b):
                    confidence = line[tx] * vote[tx]
                    filtered[tx] = confidence * ((confidence * of_row) * (confidence * columns[tx]))
                    line_top = max(line_top, filtered[tx])
                if line_top > highest:
                    highest = line_top
                    for tx in range(width_b):
                        if filtered[tx] == line_top:
                            where = ty * width_b + tx
                            break
            best[row, x] = where
            value[row, x] = highest


@compiled
def best_columns(
    start: int,
    stop: int,
    first: int,
    tile: Floats,
    votes: Floats,
    top: Integers,
    left: Integers,
    line_maxima: Floats,
    tiny: float,
    best: Integers,
    value: Floats,
) -> None:
    """Each target cell's best source of this range (H', W'), and c^3 / (row maximum): its filtered confidence
    but for the column's own maximum."""
    width = tile.shape[1]
    height_b, width_b = value.shape
    for row in range(start, stop):
        for x in range(width):
            upper, shift = top[first + row, x], left[first + row, x]
            of_row = np.float32(1) / max(line_maxima[row, x].max(), np.float32(tiny))
            cell = (first + row) * width + x
            for ty in range(height_b):
                line = tile[row, x, ty * width_b : (ty + 1) * width_b]
                vote = votes[upper + ty, shift : shift + width_b]
                highest, where = value[ty], best[ty]
                for tx in range(width_b):
                    confidence = line[tx] * vote[tx]
                    filtered = confidence * (confidence * (confidence * of_row))
                    better = filtered > highest[tx]
                    highest[tx] = filtered if better else highest[tx]
                    where[tx] = cell if better else where[tx]
