"""A tiny model of each family and a small dataset, made once for the session."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.train.colour_clips import build_colour_dataset


def _tiny(tmp_path_factory: pytest.TempPathFactory, family: str, warm_up_steps: int) -> Path:
    from vrltrain.libraries import quiet_libraries
    from vrltrain.tiny_model import make_tiny_model

    quiet_libraries()
    folder = tmp_path_factory.mktemp(family) / "tiny"
    make_tiny_model(folder, family, seed=0, warm_up_steps=warm_up_steps)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen3-VL that knows the form of answers."""
    return _tiny(tmp_path_factory, "qwen3-vl", 60)


@pytest.fixture(scope="session")
def practised_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen3-VL as `vrltrain tiny-model` makes it."""
    return _tiny(tmp_path_factory, "qwen3-vl", 150)


@pytest.fixture(scope="session")
def tiny_qwen2_5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen2.5-VL with random weights."""
    return _tiny(tmp_path_factory, "qwen2.5-vl", 0)


@pytest.fixture(scope="session")
def tiny_qwen2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen2-VL with random weights."""
    return _tiny(tmp_path_factory, "qwen2-vl", 0)


@pytest.fixture(scope="session")
def colour_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixteen training and four validation questions. Do not write to it: copy it."""
    return build_colour_dataset(tmp_path_factory.mktemp("colours"))


@pytest.fixture
def own_dataset(colour_dataset: Path, tmp_path: Path) -> Path:
    """A copy of the colour dataset that a test may write to."""
    return Path(shutil.copytree(colour_dataset, tmp_path / "data"))
