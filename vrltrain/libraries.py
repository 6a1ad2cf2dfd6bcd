"""How vrltrain treats the libraries that it runs on: a clear error when one is missing, and less noise."""

from __future__ import annotations

import importlib.util
import logging
import warnings

from vrldata.errors import missing_extra


def require(library: str, extra: str, purpose: str) -> None:
    """Raise one line that names the extra unless `library` is installed.

    Raises:
        MissingExtraError: it is not.
    """
    if importlib.util.find_spec(library) is None:
        raise missing_extra(library, extra, purpose)


def quiet_libraries() -> None:
    """Switch off the progress bars and hints of transformers; vrltrain shows its own progress.

    Raises:
        MissingExtraError: torch or transformers is not installed.
    """
    require("torch", "train", "vrltrain")
    require("transformers", "train", "vrltrain")
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    logging.getLogger("torch.distributed").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=FutureWarning)
    # nothing of a dataset is open where a child process is started, and the child opens its own
    warnings.filterwarnings("ignore", message="lance is not fork-safe")
    # frames are mapped read-only, and processors only read them
    warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
