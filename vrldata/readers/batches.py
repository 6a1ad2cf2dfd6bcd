"""`collate`: rows of a reader as one batch, for the `collate_fn` of a torch DataLoader."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any


def collate(rows: Sequence[Any]) -> Any:
    """The rows as one batch: what stacks is stacked, everything else stays a list with an item a row.

    Rows that are dicts give a dict of columns, tuples a tuple of columns. In a column, tensors and arrays of
    one shape and type become a tensor with the batch in front, and numbers and booleans a tensor (batch,).
    Texts, None, lists (such as `options` and `clips`) and what differs in shape are a list. A key that a row
    lacks is None there.

    >>> collate([{"problem": "How many?", "options": []}, {"problem": "Which?", "options": ["A", "B"]}])
    {'problem': ['How many?', 'Which?'], 'options': [[], ['A', 'B']]}
    """
    if rows and all(isinstance(row, Mapping) for row in rows):
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: _column([row.get(name) for row in rows]) for name in names}
    if rows and all(isinstance(row, tuple) and len(row) == len(rows[0]) for row in rows):
        return tuple(_column(list(values)) for values in zip(*rows, strict=True))
    return _column(list(rows))


def _column(values: list[Any]) -> Any:
    import numpy as np
    import torch

    if not values:
        return values
    if all(isinstance(value, bool | np.bool_) for value in values):
        return torch.tensor([bool(value) for value in values])
    if all(isinstance(value, numbers.Real) and not isinstance(value, bool) for value in values):
        whole = all(isinstance(value, numbers.Integral) for value in values)
        if not whole:
            return torch.tensor([float(value) for value in values])
        held = [int(value) for value in values]
        return torch.tensor(held) if all(-(2**63) <= value < 2**63 for value in held) else values
    if all(isinstance(value, np.ndarray) and value.dtype.kind in "biuf" for value in values):
        if len({(value.shape, value.dtype) for value in values}) == 1:
            return torch.from_numpy(np.stack(values))
    elif (
        all(isinstance(value, torch.Tensor) for value in values)
        and len({(value.shape, value.dtype, value.device) for value in values}) == 1
    ):
        return torch.stack(values)
    return values
