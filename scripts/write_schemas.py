"""Write the JSON Schemas of records and configurations into `schemas/`. A test keeps the folder current.

Usage: python scripts/write_schemas.py [FOLDER]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pydantic import TypeAdapter

import vrldata.types
import vrleval.configs
import vrleval.types
import vrltrain.configs
from vrldata.sampling import SamplingSpec

RECORDS = {
    "sample": vrldata.types.Sample,
    "trajectory": vrldata.types.Trajectory,
    "score": vrldata.types.Score,
    "sampling_spec": SamplingSpec,
    "prediction": vrleval.types.Prediction,
}
CONFIGS = {
    "train_run": vrltrain.configs.RunConfig,
    "train_sft": vrltrain.configs.SftConfig,
    "train_rollouts": vrltrain.configs.RolloutsConfig,
    "eval_run": vrleval.configs.RunConfig,
}


def schemas() -> dict[str, str]:
    """Text of each schema by file name."""
    texts = {}
    for name, model in {**RECORDS, **CONFIGS}.items():
        schema = TypeAdapter(model).json_schema()
        texts[f"{name}.schema.json"] = json.dumps(schema, indent=2, sort_keys=True) + "\n"
    return texts


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "schemas"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in schemas().items():
        (folder / name).write_text(text, encoding="utf-8")
    print(f"{len(schemas())} schemas in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
