"""Keeps the libraries that vrltrain runs on quiet. A missing one is reported by `vrldata.command_line`."""

from __future__ import annotations

import logging
import sys
import warnings

logger = logging.getLogger(__name__)


def quiet_libraries() -> None:
    """Switch off the progress bars and hints of transformers; vrltrain shows its own progress.

    Imports transformers and torch, which takes long and is logged the first time.
    """
    if "transformers" not in sys.modules:
        logger.info("loading libraries: torch, transformers")
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    logging.getLogger("torch.distributed").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=FutureWarning)
    # nothing of a dataset is open where a child process is started, and the child opens its own
    warnings.filterwarnings("ignore", message="lance is not fork-safe")
    # frames are mapped read-only, and processors only read them
    warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
