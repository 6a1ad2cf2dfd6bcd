"""Keeps the libraries that vrltrain runs on quiet. A missing one is reported by `vrldata.command_line`."""

from __future__ import annotations

import logging
import warnings


def quiet_libraries() -> None:
    """Switch off the progress bars and hints of transformers; vrltrain shows its own progress."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    logging.getLogger("torch.distributed").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=FutureWarning)
    # nothing of a dataset is open where a child process is started, and the child opens its own
    warnings.filterwarnings("ignore", message="lance is not fork-safe")
    # frames are mapped read-only, and processors only read them
    warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
