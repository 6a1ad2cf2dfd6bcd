import numpy as np
from numpy.typing import NDArray

def resize(
    picture: NDArray[np.uint8],
    width: int,
    row_firsts: NDArray[np.int32],
    row_weights: NDArray[np.float32],
    column_firsts: NDArray[np.int32],
    column_weights: NDArray[np.float32],
    out: NDArray[np.uint8],
    /,
) -> None: ...
