"""Video as grey frames, and principal components that describe a frame by a few numbers."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from psimlearn.datasets.store import dataset_path
from psimlearn.errors import DataError, SettingsError
from psimlearn.extras import imported
from psimlearn.recordings.archives import arrays
from psimlearn.recordings.trajectories import Trajectories
from psimlearn.shapes import Float, UInt8

__all__ = ["PrincipalComponents", "beach", "flag", "frames", "ocean", "pixels", "principal_components"]

Frames = UInt8[np.ndarray, "T h w"]


def frames(path: str | Path, size: tuple[int, int] | None = None) -> Frames:
    """Grey frames, 0 (black) to 255 (white), of any video file that FFmpeg reads, or of an npz archive.

    Args:
        path: a video, which needs the extra `video`; or an archive with one 3-D array of bytes.
        size: height and width, by default as stored; each pixel is the mean of the area it covers. An archive is
            never resized.
    """
    path = Path(path)
    if size is not None and min(size) < 1:
        raise SettingsError(f"size must be a height and a width of at least 1; received {size}.")
    shot = _stored(path) if path.suffix == ".npz" else _decoded(path, size)
    if not len(shot) or (size is not None and shot.shape[1:] != tuple(size)):
        raise DataError(
            f"{path}: required at least one frame{f' of {size}' if size else ''}, received an array of shape "
            f"{shot.shape}. Check the file; to change the size, read the video itself."
        )
    return shot


def flag() -> Frames:
    """A waving flag: 250 frames of 36 x 44 at 25 a second."""
    return frames(dataset_path("video_flag_dyntex", "flag_44x36_gray.npz"))


def ocean(clip: str = "static") -> Frames:
    """The open sea: "static" is 740 frames of 27 x 48 at 29.97 a second; "texture" 100 of 32 x 32 at 25."""
    return _clip({"static": "ocean_static_48x27_gray.npz", "texture": "ocean_32x32_gray.npz"}, clip)


def beach(clip: str = "swash") -> Frames:
    """Waves that run up sand: "swash" is 250 frames of 27 x 48 at 50 a second; "shore" 85 at 25."""
    return _clip({"swash": "beach_swash_48x27_gray.npz", "shore": "beach_shore_48x27_gray.npz"}, clip)


def pixels(shot: Frames) -> Trajectories:
    """One trajectory whose channels are the pixels, row by row; cut it with `blocks` to make folds."""
    return Trajectories.of(shot.reshape(len(shot), -1).astype(np.float64))


@dataclass(frozen=True, eq=False)
class PrincipalComponents:
    """The projection x -> (x - mean) C onto orthonormal columns C."""

    mean: Float[np.ndarray, " p"]
    components: Float[np.ndarray, "p n"]
    share: float
    """The share of the training variance that the components explain."""

    def project(self, recordings: Trajectories) -> Trajectories:
        """Recordings of pixels as recordings of components."""
        names = tuple(f"component {i}" for i in range(self.components.shape[1]))
        return replace(recordings, values=(recordings.values - self.mean) @ self.components, names=names)

    def restore(self, rows: Float[np.ndarray, "*rows n"]) -> Float[np.ndarray, "*rows p"]:
        """The pixels that components describe: exact up to the variance that is left out."""
        restored: np.ndarray = self.mean + rows @ self.components.T
        return restored


def principal_components(train_blocks: Trajectories, n: int) -> PrincipalComponents:
    """The `n` directions of most variance of the training blocks. Pass no test blocks: they would leak."""
    rows = train_blocks.values
    if not 1 <= n <= min(rows.shape):
        raise SettingsError(
            f"n must lie between 1 and {min(rows.shape)}, the rows or channels there are; received {n}."
        )
    if not np.isfinite(rows).all():
        raise DataError("principal components: required blocks without gaps, received NaN. Leave out rows with NaN.")
    mean = rows.mean(axis=0)
    _, sizes, directions = np.linalg.svd(rows - mean, full_matrices=False)
    directions = directions[:n]
    largest = np.abs(directions).argmax(axis=1)
    directions *= np.sign(directions[np.arange(n), largest])[:, None]  # otherwise signs differ between machines
    total = float(np.sum(sizes**2))
    return PrincipalComponents(mean, directions.T.copy(), float(np.sum(sizes[:n] ** 2)) / total if total else 1.0)


def _clip(files: dict[str, str], clip: str) -> Frames:
    if clip not in files:
        raise SettingsError(f"clip must be one of {list(files)}; received {clip!r}.")
    return frames(dataset_path("video_beach_waves", files[clip]))


def _stored(path: Path) -> np.ndarray:
    candidates = [array for array in arrays(path).values() if array.ndim == 3 and array.dtype == np.uint8]
    if len(candidates) != 1:
        raise DataError(
            f"{path}: required exactly one 3-D array of bytes (time, height, width), received {len(candidates)}. Save "
            "the grey frames alone, as uint8."
        )
    return candidates[0]


def _decoded(path: Path, size: tuple[int, int] | None) -> np.ndarray:
    av = imported("av", "video")
    options = {} if size is None else {"height": size[0], "width": size[1], "interpolation": "AREA"}
    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise DataError(f"{path}: required a video, received a file without pictures. Check the path.")
            return np.array([_grey(frame, options) for frame in container.decode(video=0)], dtype=np.uint8)
    except (av.error.FFmpegError, OSError) as error:
        raise DataError(
            f"{path}: required a video that FFmpeg can read, received: {error}. Check the path, or convert the file."
        ) from error


def _grey(frame: Any, options: dict[str, Any]) -> np.ndarray:
    grey: np.ndarray = frame.reformat(format="gray", **options).to_ndarray()
    return grey
