#!/usr/bin/env python3
"""Memory of `halfeven bench`: packed weights, what tensors need at least, and little else.

    residence_test.py HALFEVEN MODEL INPUT
"""
import json
import os
import subprocess
import sys

MEGABYTE = 1 << 20


def call(*arguments):
    return json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)


def main():
    halfeven, model, input_file = sys.argv[1:]
    if not os.path.exists(model):
        print(f"{model} is not here: nothing is tested")
        return
    bench = call(halfeven, "bench", model, "--input", input_file, "--runs", "3", "--threads", "1", "--json")
    weights = max(bench["weight_bytes"], call(halfeven, "inspect", model, "--json")["parameter_bytes"])
    limit = weights + 1.2 * bench["largest_live_bytes"] + 30 * MEGABYTE
    for what in ("resident_kilobytes", "peak_kilobytes"):
        print(f"{what}: {bench[what] / 1024:.1f} MB; weights {weights / MEGABYTE:.1f} MB, arena "
              f"{bench['arena_bytes'] / MEGABYTE:.2f} MB, largest live set {bench['largest_live_bytes'] / MEGABYTE:.2f} MB, "
              f"limit {limit / MEGABYTE:.1f} MB")
    assert bench["resident_kilobytes"] * 1024 <= limit, "too much memory after the runs"
    # Packing may hold the largest layer (2.4 million weights here) in a wide form beside the packed one.
    assert bench["peak_kilobytes"] * 1024 <= limit + 48 * MEGABYTE, "too much memory while loading"


if __name__ == "__main__":
    main()
