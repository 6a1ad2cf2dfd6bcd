"""Generated video and image questions whose answers are known by construction: the project's test bed.

`write_demo_data` writes them. Drawing, encoding and the questions lie in the modules of this package;
nothing here reads or checks data of users.
"""

from __future__ import annotations

from vrldata.demo_data.writing import DemoReport, write_demo_data

__all__ = ["DemoReport", "write_demo_data"]
