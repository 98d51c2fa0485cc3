"""How fast images come: from JPEG files against the bare decoders, and from the packed cache.

    python benchmarks/decode.py [--out benchmarks/results/decode.json] [--rounds 25]

One thread, by its processor time (what others do on the machine then counts less). All take turns, round
after round; a rate is the median, and a ratio the median of the rounds' own ratios. A bare decoder makes
the whole image from bytes in memory, and keeps none. "resize" is the decoder and the resize with nothing
else: the most that can be had; "decode" begins with the bytes, and "files" with the file. The JPEGs are
drawn here, with the spectrum and the bytes of photographs (COCO's: 640 x 480, 160 kB on average). Files and
caches are in the page cache.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from mlcl import store
from mlcl.data import decode as decoding
from mlcl.data.images import FileImages
from mlcl.data.packed import PackedImages, pack
from mlcl.types import Images

SIZES = (224, 256, 448, 512)
SETS = {"640 x 480": (640, 480, 64), "2016 x 1512": (2016, 1512, 8)}  # width, height, how many
FAST, SLOW = "simplejpeg", "Pillow"


def photograph(width: int, height: int, chance: np.random.Generator) -> Image.Image:
    """Noise whose amplitude falls with the frequency as in photographs: grey strong, colours weak."""
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    frequency[0, 0] = 1

    def plane() -> np.ndarray:
        phase = np.exp(2j * np.pi * chance.random(frequency.shape))
        values = np.fft.irfft2(frequency**-1.2 * phase, s=(height, width))
        return (values - values.mean()) / values.std()

    planes = np.stack([120 + 55 * plane(), 128 + 15 * plane(), 128 + 15 * plane()], axis=-1)
    return Image.fromarray(np.clip(planes, 0, 255).astype(np.uint8), "YCbCr")


def draw(folder: Path, width: int, height: int, count: int) -> list[str]:
    chance = np.random.default_rng(0)
    refs = [f"{k}.jpg" for k in range(count)]
    for ref in refs:
        photograph(width, height, chance).save(folder / ref, quality=90)
    return refs


def contenders(folder: Path, refs: list[str]) -> dict[str, tuple[Callable[[], Any], int]]:
    """What is measured: a name, something to run, and how many images it yields."""
    contents = [(folder / ref).read_bytes() for ref in refs]
    count = len(refs)
    order = np.random.default_rng(0).permutation(count)
    fast = decoding.simplejpeg

    def each(act: Callable[[bytes], Any]) -> tuple[Callable[[], Any], int]:
        def run() -> None:
            for data in contents:
                act(data)

        return run, count

    runs = {"bare Pillow": each(lambda data: Image.open(io.BytesIO(data)).load())}
    if fast:
        runs["bare simplejpeg"] = each(lambda data: fast.decode_jpeg(data))
        runs["bare, rough colours"] = each(lambda data: fast.decode_jpeg(data, fastupsample=True))

    def by(decoder: Any, images: Images) -> Callable[[], Any]:
        def run() -> None:
            decoding.simplejpeg = decoder  # type: ignore[attr-defined]
            for start in range(0, count, 32):
                images.load(order[start : start + 32])
            decoding.simplejpeg = fast  # type: ignore[attr-defined]

        return run

    for size in SIZES:
        files = FileImages(folder, refs, size, threads=1)
        packed: PackedImages = pack(files, refs, folder / f"pack-{size}")
        runs[f"files {SLOW} {size}"] = by(None, files), count
        if fast:
            opened = {data: decoding._open(data) for data in contents}
            out = np.empty((size, size, 3), np.uint8)

            def alone(data: bytes, out: np.ndarray = out, opened: dict[bytes, Any] = opened) -> None:
                pixels = decoding._fast_jpeg(opened[data], data, len(out))
                assert pixels is not None
                decoding.squash(pixels, out)

            runs[f"resize {FAST} {size}"] = each(alone)
            runs[f"decode {FAST} {size}"] = each(lambda data, size=size: decoding.decode(data, size, "a"))
            runs[f"files {FAST} {size}"] = by(fast, files), count
        runs[f"packed {size}"] = by(fast, packed), count
    return runs


def measure(runs: dict[str, tuple[Callable[[], Any], int]], rounds: int) -> dict[str, np.ndarray]:
    """Images a second of each, round by round."""
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, (run, count) in runs.items():
            began, passes = time.thread_time(), 0
            while (spent := time.thread_time() - began) < 0.05:
                run()
                passes += 1
            rates[name].append(passes * count / spent)
    return {name: np.array(found) for name, found in rates.items()}


def ratios(rate: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """What the bars are about."""
    table = {}
    decoders = [name for name in (FAST, SLOW) if f"bare {name}" in rate]
    best = decoders[0]
    for size in SIZES:
        files = rate[f"files {best} {size}"]
        row = {
            f"files / bare ({name})": rate[f"files {name} {size}"] / rate[f"bare {name}"] for name in decoders
        }
        if best == FAST:
            for what in ("resize", "decode"):
                row[f"{what} / bare ({FAST})"] = rate[f"{what} {FAST} {size}"] / rate[f"bare {FAST}"]
        row[f"files ({best}) / bare Pillow"] = files / rate["bare Pillow"]
        row[f"packed / files ({best})"] = rate[f"packed {size}"] / files
        table[f"to {size} px"] = {name: round(float(np.median(value)), 2) for name, value in row.items()}
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=25)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {"provenance": {**store.provenance(), "decoder": decoding.decoder()}}
    for name, (width, height, count) in SETS.items():
        with tempfile.TemporaryDirectory() as folder:
            refs = draw(Path(folder), width, height, count)
            kilobytes = sum((Path(folder) / ref).stat().st_size for ref in refs) / count / 1000
            rounds = measure(contenders(Path(folder), refs), arguments.rounds)
        rate = {what: float(np.median(found)) for what, found in rounds.items()}
        print(f"\n{name} JPEGs of {kilobytes:.0f} kB: images a second, one thread")
        for what, value in rate.items():
            print(f"  {what:<24} {value:8.0f}")
        for size, row in ratios(rounds).items():
            print(f"  {size:<10}", "   ".join(f"{what} {value:.2f}" for what, value in row.items()))
        results[name] = {
            "kilobytes": round(kilobytes),
            "images_per_second": {what: round(value, 1) for what, value in rate.items()},
            "ratios": ratios(rounds),
        }
    if arguments.out:
        store.write_json(arguments.out, results)


if __name__ == "__main__":
    main()
