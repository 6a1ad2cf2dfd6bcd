"""Worker processes: what hangs, explodes or crashes costs itself only, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("av")
pytest.importorskip("torch")

from tests.conftest import PROJECT
from tests.data.synthetic_video import number_in, write_video
from vrldata.decode_jobs import DecodeJob
from vrldata.decode_pool import DecodeLimits, decode_many, open_pool
from vrldata.decode_process import started_early
from vrldata.decoding import decode
from vrldata.errors import ConfigError, DecodeError
from vrldata.media_file import source_fingerprint
from vrldata.sampling import SamplingSpec

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="watches processes through /proc"
)

SPEC = SamplingSpec(max_frames=8)


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    return write_video(tmp_path_factory.mktemp("video") / "clip.mp4", 120)


@pytest.fixture
def endless(tmp_path, video):
    """A file that takes minutes to read: terabytes of nothing behind a video's first bytes."""
    file = tmp_path / "endless.mp4"
    file.write_bytes(video.read_bytes())
    os.truncate(file, 2 << 40)
    return file


def job(path, spec=SPEC, **fields):
    return DecodeJob(path=path, video_path=Path(path).name, spec=spec, **fields)


def workers_of(parent):
    """Process ids of the decode workers that the nurseries of `parent` forked."""
    return [worker for nursery in children_of(parent) for worker in children_of(nursery)]


def children_of(parent):
    """Process ids of the nurseries or decode workers that `parent` started."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            command = (entry / "cmdline").read_bytes()
        except (OSError, IndexError):
            continue
        if int(fields[1]) == parent and fields[0] != "Z" and b"vrldata.decode_nursery" in command:
            found.append(int(entry.name))
    return found


def wait_until(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.02)


def mapped_bytes():
    """Bytes of clips that this process maps."""
    total = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "vrl-frames" in line:
            begin, end = line.split()[0].split("-")
            total += int(end, 16) - int(begin, 16)
    return total


def test_every_job_gives_one_result_with_the_frames_of_decode(tmp_path, video):
    (tmp_path / "empty.mp4").touch()
    jobs = [
        job(video),
        job(tmp_path / "empty.mp4"),
        job(video, SamplingSpec(max_frames=4)),
        job(tmp_path / "none.mp4"),
    ]
    results = {id(result.job): result for result in decode_many(jobs, workers=2)}
    assert len(results) == 4
    first, empty, third, missing = (results[id(one)] for one in jobs)
    here = decode(video, SPEC)
    assert (first.clip.frames == here.frames).all()
    assert first.clip.metadata.timestamps.tolist() == here.metadata.timestamps.tolist()
    assert first.clip.metadata.frame_indices.dtype == np.int32
    assert first.clip.clip_id == SPEC.clip_id("clip.mp4")
    assert not first.clip.frames.flags.writeable
    assert first.source == source_fingerprint(video)
    assert first.decoder.startswith("PyAV")
    assert first.reason == ""
    assert [number_in(frame) for frame in third.clip.frames] == third.clip.metadata.frame_indices.tolist()
    assert empty.clip is None
    assert empty.reason == f"{tmp_path / 'empty.mp4'}: the file is empty (0 bytes): download it again"
    assert missing.reason.endswith("none.mp4: no such file")
    assert not workers_of(os.getpid())


def test_a_file_that_hangs_costs_its_own_deadline(video, endless):
    jobs = [job(endless), *[job(video)] * 3]
    results = list(decode_many(jobs, workers=1, timeout_s=1.0))
    assert [result.clip is not None for result in results].count(True) == 3
    hung = next(result for result in results if result.clip is None)
    assert hung.reason == f"{endless}: no result after 1 s; its process was stopped"
    assert 1.0 <= hung.seconds < 20


def test_a_file_that_explodes_costs_its_own_memory(video):
    greedy = SamplingSpec(fps=30, max_frames=120, min_pixels=700_000, max_pixels=786432)
    results = list(decode_many([job(video, greedy), job(video)], workers=1, memory_limit_bytes=96 << 20))
    exploded = next(result for result in results if result.clip is None)
    assert str(video) in exploded.reason
    assert "memory" in exploded.reason
    assert sum(result.clip is not None for result in results) == 1


def test_a_worker_that_dies_is_replaced(video, endless):
    results = []
    consumer = threading.Thread(
        target=lambda: results.extend(decode_many([job(endless), job(video)], workers=1))
    )
    consumer.start()
    wait_until(lambda: workers_of(os.getpid()))
    (worker,) = workers_of(os.getpid())
    wait_until(lambda: str(endless) in open_files(worker))
    os.kill(worker, signal.SIGSEGV)
    consumer.join(timeout=60)
    assert [result.clip is None for result in results] == [True, False]
    assert results[0].reason.startswith(f"{endless}: the decoder process died by SIGSEGV")


def open_files(process):
    found = ""
    for entry in Path(f"/proc/{process}/fd").iterdir():
        try:
            found += os.readlink(entry) + "\n"
        except OSError:
            continue
    return found


def test_bytes_in_flight_are_bounded(video):
    size = decode(video, SPEC).frames.nbytes
    results = decode_many([job(video)] * 12, workers=2, bytes_in_flight=2 * size)
    first = next(results)
    time.sleep(1.5)
    # what was handed out, and what waits: no more, however long the caller takes
    assert mapped_bytes() <= 3 * size + 3 * 4096
    rest = [result.clip.metadata.total_num_frames for result in results]
    assert rest == [120] * 11
    del first
    assert mapped_bytes() == 0


def test_a_clip_over_the_bound_goes_alone(video):
    results = list(decode_many([job(video)] * 5, workers=2, bytes_in_flight=1))
    assert all(result.clip is not None for result in results)


def test_stopping_early_leaves_no_process_behind(video, endless):
    results = decode_many([job(video), job(endless)], workers=2)
    assert next(results).clip is not None
    results.close()
    assert not workers_of(os.getpid())


def test_workers_end_with_their_parent(tmp_path, endless):
    script = textwrap.dedent(
        f"""
        from vrldata.decode_jobs import DecodeJob
        from vrldata.decode_pool import DecodeLimits, decode_many, open_pool
        from vrldata.sampling import SamplingSpec
        job = DecodeJob(path={str(endless)!r}, video_path="a", spec=SamplingSpec())
        list(decode_many([job, job], workers=2))
        """
    )
    # no `__main__` guard: the workers never import the script
    (tmp_path / "build.py").write_text(script)
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    parent = subprocess.Popen([sys.executable, str(tmp_path / "build.py")], env=environment)
    wait_until(lambda: len(workers_of(parent.pid)) == 2)
    workers = workers_of(parent.pid)
    wait_until(lambda: all(str(endless) in open_files(worker) for worker in workers))
    parent.kill()
    parent.wait()
    wait_until(lambda: not any(running(worker) for worker in workers), seconds=10)


def running(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_source_that_changed_since_its_fingerprint_is_refused(tmp_path, video):
    file = tmp_path / "clip.mp4"
    file.write_bytes(video.read_bytes())
    source = source_fingerprint(file)
    (kept,) = decode_many([job(file, source=source)], workers=1)
    assert kept.source == source
    os.utime(file, ns=(1, 1))
    (changed,) = decode_many([job(file, source=source)], workers=1)
    assert "changed since it was fingerprinted" in changed.reason


def test_an_error_in_the_jobs_reaches_the_caller(video):
    def jobs():
        yield job(video)
        raise LookupError("the list ends here")

    with pytest.raises(LookupError, match="the list ends here"):
        list(decode_many(jobs(), workers=1))
    assert not workers_of(os.getpid())


def test_wrong_limits_are_named():
    with pytest.raises(ConfigError, match="workers=0"):
        decode_many([], workers=0)
    with pytest.raises(ConfigError, match="timeout_s=-1"):
        decode_many([], workers=1, timeout_s=-1)
    assert list(decode_many([], workers=1)) == []


def test_jobs_that_need_torch_get_it_under_the_same_memory_limit(video):
    exact = SamplingSpec(max_frames=8, resize="exact", max_pixels=32 * 32 * 4)
    native = SamplingSpec(max_frames=8, max_pixels=32 * 32 * 4)
    jobs = [job(video, native), job(video, native), job(video, exact), job(video, native)]
    for result in decode_many(jobs, workers=1, memory_limit_bytes=96 << 20):
        assert result.clip is not None, result.reason
        assert (result.clip.frames == decode(video, result.job.spec).frames).all()


def test_workers_that_started_early_take_the_first_jobs(video):
    with closing(open_pool(DecodeLimits(workers=2), start=1)) as pool:
        wait_until(lambda: workers_of(os.getpid()))
        (early,) = workers_of(os.getpid())
        (result,) = pool.decode([job(video)])
        assert result.clip is not None
        assert workers_of(os.getpid()) == [early]
    assert not workers_of(os.getpid())


def test_a_pool_that_was_never_needed_leaves_no_process():
    with closing(open_pool(DecodeLimits(workers=2), start=2)):
        wait_until(lambda: len(workers_of(os.getpid())) == 2)
    assert not workers_of(os.getpid())


def test_a_pool_takes_over_what_was_started_before_and_the_rest_is_ended(video):
    with started_early(2) as processes:
        ids = sorted(process.process_id for process in processes)
        with closing(open_pool(DecodeLimits(workers=1), started=processes)) as pool:
            (result,) = pool.decode([job(video)])
            assert result.clip is not None
            assert len(processes) == 1
            assert sorted(workers_of(os.getpid())) == ids
        assert workers_of(os.getpid()) == [processes[0].process_id]
    assert not workers_of(os.getpid())


def test_a_process_that_died_before_the_pool_took_it_over_costs_nothing(video):
    with started_early(1) as processes:
        os.kill(processes[0].process_id, signal.SIGKILL)
        with closing(open_pool(DecodeLimits(workers=1), started=processes)) as pool:
            (result,) = pool.decode([job(video)])
    assert result.clip is not None


def test_processes_without_torch_are_not_taken_for_jobs_that_need_it():
    with (
        started_early(1) as processes,
        closing(open_pool(DecodeLimits(workers=1), with_torch=True, started=processes)),
    ):
        assert len(processes) == 1


def test_jobs_that_were_begun_are_decoded_once_and_in_their_place(video):
    specs = [SamplingSpec(max_frames=count) for count in range(2, 9)]
    jobs = [job(video, spec) for spec in specs]
    with closing(open_pool(DecodeLimits(workers=1))) as pool:
        pool.begin(iter(jobs))
        wait_until(lambda: not pool._results.empty())
        results = list(pool.decode(jobs))
    assert sorted(len(result.clip.frames) for result in results) == sorted(
        len(decode(video, spec).frames) for spec in specs
    )


def test_a_nursery_that_died_costs_no_clip(video):
    jobs = [job(video, SamplingSpec(max_frames=count)) for count in (2, 3, 4, 5)]
    with closing(open_pool(DecodeLimits(workers=1))) as pool:
        results = pool.decode(jobs)
        assert next(results).clip is not None
        (nursery,) = children_of(os.getpid())
        os.kill(nursery, signal.SIGKILL)
        wait_until(lambda: not children_of(os.getpid()))
        assert all(result.clip is not None for result in results)
    assert not children_of(os.getpid())


def test_a_nursery_that_dies_before_its_decoders_start_is_one_failed_start(video):
    with closing(open_pool(DecodeLimits(workers=6), start=6)) as pool:
        wait_until(lambda: children_of(os.getpid()))
        (nursery,) = children_of(os.getpid())
        os.kill(nursery, signal.SIGKILL)
        results = list(pool.decode([job(video) for _ in range(6)]))
    assert all(result.clip is not None for result in results)


def test_decoders_of_one_pool_share_a_nursery_that_has_one_thread(video):
    with closing(open_pool(DecodeLimits(workers=3), start=3)):
        wait_until(lambda: len(workers_of(os.getpid())) == 3)
        (nursery,) = children_of(os.getpid())
        assert len(os.listdir(f"/proc/{nursery}/task")) == 1
    assert not children_of(os.getpid())


def test_a_pool_that_is_closed_at_once_does_not_wait_for_its_decoders():
    pool = open_pool(DecodeLimits(workers=2), start=2, with_torch=True)
    wait_until(lambda: children_of(os.getpid()))
    (nursery,) = children_of(os.getpid())
    pool.close()
    assert not running(nursery)


def test_a_library_that_does_not_import_is_named(video, tmp_path, monkeypatch):
    (tmp_path / "av").mkdir()
    (tmp_path / "av" / "__init__.py").write_text("raise ImportError('libavcodec.so.62 is missing')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(DecodeError, match=r"cannot be started.*libavcodec\.so\.62 is missing"):
        list(decode_many([job(video)], workers=1))
    assert not children_of(os.getpid())
