"""vrleval: asynchronous evaluation on video benchmarks, with frames from a vrldata store."""

from vrldata import __version__ as __version__
