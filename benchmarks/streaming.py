"""Vectors past the memory: `python benchmarks/streaming.py` adds rows to streaming.md.

A file of random unit centres with noise is generated once, clustered by the command within
`--memory`, and its peak resident memory read from the system when it ends.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.metrics import adjusted_rand_score

K, DIM, SIGMA, ROWS = 20, 128, 0.12, 250_000

RUN = """
import sys
from attnclust.cli import main
try:
    main()
finally:
    peak = open("/proc/self/status").read().split("VmHWM:")[1].split()[0]
    print(1024 * int(peak), file=sys.stderr)
"""


def generate(path, gigabytes):
    """Vectors of so many gigabytes in float32, with their classes where the file is a table."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((K, DIM), dtype=np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    blocks = round(gigabytes * 1e9 / (ROWS * DIM * 4))
    labels = []
    kind = pa.list_(pa.float32(), DIM)
    with path.open("wb") as file:
        table = None
        if path.suffix == ".npy":
            header = {"descr": "<f4", "fortran_order": False, "shape": (blocks * ROWS, DIM)}
            np.lib.format.write_array_header_1_0(file, header)
        else:
            schema = pa.schema([("embedding", kind)])
            table = pq.ParquetWriter(file, schema, compression="none", use_dictionary=False)
        for _ in range(blocks):
            label = rng.integers(0, K, ROWS)
            X = rng.standard_normal((ROWS, DIM), dtype=np.float32)
            X *= SIGMA
            X += centres[label]
            labels.append(label.astype(np.int8))
            if table is None:
                X.tofile(file)
            else:
                flat = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), type=kind)
                table.write_table(pa.table({"embedding": flat}), row_group_size=50_000)
        if table is not None:
            table.close()
    return np.concatenate(labels)


def heading():
    """What the rows are."""
    return [
        "# Past the memory",
        "",
        f"`python benchmarks/streaming.py`, {date.today()}, {os.cpu_count()} cores of "
        f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}; one "
        f"thread of the BLAS, the machine shared with other work. {K} random unit centres in {DIM} "
        f"dimensions, sigma {SIGMA}, float32. Peak is all that the process had resident, the "
        "program with its libraries included. ARI is against the classes drawn.",
        "",
        "| file | rows | GB | --memory | peak resident, MB | sample | ARI | read, s | fit, s | "
        "label, s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gigabytes", type=float, default=20.0)
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--suffix", nargs="+", default=[".npy", ".parquet"])
    parser.add_argument("--folder", type=Path, default=None, help="Where there is room.")
    options = parser.parse_args()
    page = Path(__file__).with_suffix(".md")
    lines = page.read_text().splitlines() if page.exists() else heading()
    for suffix in options.suffix:
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            path = Path(name) / f"X{suffix}"
            began = time.perf_counter()
            known = generate(path, options.gigabytes)
            print(f"{path.name} generated in {time.perf_counter() - began:.0f} s", flush=True)
            out = Path(name) / "out"
            command = ["fit", path, "-k", K, "--memory", options.memory, "--out", out, "--quiet"]
            done = subprocess.run(
                [sys.executable, "-c", RUN, *map(str, command)],
                check=True,
                stderr=subprocess.PIPE,
                text=True,
            )
            summary = json.loads((out / "summary.json").read_text())
            if suffix == ".npy":
                labels = np.load(out / "labels.npy")
            else:
                labels = pq.read_table(out / "labels.parquet")["cluster"].to_numpy()
            seconds = summary["seconds"]
            cells = [
                suffix,
                f"{summary['rows']:,}",
                f"{path.stat().st_size / 1e9:.1f}",
                options.memory,
                f"{int(done.stderr.split()[-1]) / 1e6:.0f}",
                f"{summary['rows_used']:,}",
                f"{adjusted_rand_score(known, labels):.4f}",
                *(f"{seconds[stage]:.0f}" for stage in ("read", "fit", "label")),
            ]
            lines.append(f"| {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    page.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
