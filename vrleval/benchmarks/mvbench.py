"""MVBench: twenty tasks of 200 questions; where one asks about a window, the window is all that is shown."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vrleval.rows import Row

FOLDERS = {
    "action_sequence": "star/Charades_v1_480",
    "action_prediction": "star/Charades_v1_480",
    "action_antonym": "ssv2_video",
    "fine_grained_action": "Moments_in_Time_Raw/videos",
    "unexpected_action": "FunQA_test/test",
    "object_existence": "clevrer/video_validation",
    "object_interaction": "star/Charades_v1_480",
    "object_shuffle": "perception/videos",
    "moving_direction": "clevrer/video_validation",
    "action_localization": "sta/sta_video",
    "scene_transition": "scene_qa/video",
    "action_count": "perception/videos",
    "moving_count": "clevrer/video_validation",
    "moving_attribute": "clevrer/video_validation",
    "state_change": "perception/videos",
    "fine_grained_pose": "nturgbd",
    "character_order": "perception/videos",
    "egocentric_navigation": "vlnqa",
    "episodic_reasoning": "tvqa/frames_fps3_hq",
    "counterfactual_inference": "clevrer/video_validation",
}
"""Task to the folder of its videos in the official layout."""


def prepare(rows: list[Row]) -> list[Row]:
    """Rows with their task, their video's folder and, where they have one, their window.

    The official files are named by task. EasyVideoR1's file has no label; of a path that belongs to a single
    task the task is known, of the others it is not.
    """
    for row in rows:
        stem = PurePosixPath(str(row.get("annotation_file", ""))).stem
        if stem in FOLDERS:
            row["task"] = stem
            row["video"] = f"{FOLDERS[stem]}/{row.get('video')}"
        else:
            found = [task for task, folder in FOLDERS.items() if folder in str(row.get("video", ""))]
            if len(found) == 1:
                row["task"] = found[0]
        if row.get("end") in (None, "", 0):
            row["start"] = row["end"] = None
    return rows
