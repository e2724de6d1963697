#!/usr/bin/env python3
"""Two builds, or two kernels of one build, on the same benchmarks, in alternation.

    python3 bench/compare.py OLD/halfeven-bench NEW/halfeven-bench --suite resnet50
    python3 bench/compare.py build/release/bench/halfeven-bench --kernels conv.sse2 conv.vnni --suite worst

Each round runs A, then B (the next round B, then A). A benchmark's figure is the ratio of A's time to B's in the same
round, so what slows the machine down for both cancels out: the median over the rounds, the least and the greatest.
Above 1, B is faster. Lines whose whole spread lies on one side of 1 are marked; on a busy machine compare a build with
itself first, to see what that is worth.
"""
import argparse
import json
import math
import statistics
import subprocess

REPETITIONS = 5


def run(command, suites, kernel, min_time, extra):
    arguments = [command, "--json", f"--benchmark_min_time={min_time / REPETITIONS}",
                 f"--benchmark_repetitions={REPETITIONS}"]
    for s in suites:
        arguments += ["--suite", s]
    if kernel:
        arguments += ["--kernel", kernel]
    out = subprocess.run(arguments + extra, check=True, capture_output=True, text=True).stdout
    times = {}
    for b in json.loads(out)["benchmarks"]:
        if b.get("error_occurred") or b["run_type"] != "iteration":
            continue
        name = b["name"].removesuffix("/real_time")
        if kernel:
            name = name.removesuffix("/" + kernel)
        times[name] = min(b["real_time"], times.get(name, math.inf))  # what the machine does besides only adds
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="+", metavar="HALFEVEN_BENCH", help="one or two builds of halfeven-bench")
    parser.add_argument("--kernels", nargs=2, metavar=("A", "B"))
    parser.add_argument("--suite", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--min-time", type=float, default=0.05, help="seconds a benchmark and round")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--filter", default="", help="as --benchmark_filter takes it")
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args()
    if len(a.commands) > 2 or (len(a.commands) == 1) == (a.kernels is None):
        parser.error("give two builds, or one build and --kernels A B")
    pair = [(a.commands[0], (a.kernels or [None])[0]), (a.commands[-1], (a.kernels or [None])[-1])]
    extra = ["--threads", str(a.threads)] + ([f"--benchmark_filter={a.filter}"] if a.filter else [])
    ratios, times = {}, {}
    for r in range(a.rounds):
        got = [None, None]
        for side in ((0, 1) if r % 2 == 0 else (1, 0)):
            got[side] = run(*pair[side][:1], a.suite or ["all"], pair[side][1], a.min_time, extra)
        for name in got[0].keys() & got[1].keys():
            ratios.setdefault(name, []).append(got[0][name] / got[1][name])
            times.setdefault(name, []).append((got[0][name], got[1][name]))
    rows = []
    for name, r in ratios.items():
        rows.append({"name": name, "a": statistics.median(t[0] for t in times[name]),
                     "b": statistics.median(t[1] for t in times[name]), "ratio": statistics.median(r), "least": min(r),
                     "greatest": max(r)})
    rows.sort(key=lambda row: row["name"])
    mean = math.exp(statistics.fmean(math.log(row["ratio"]) for row in rows)) if rows else None
    if a.json:
        print(json.dumps({"benchmarks": rows, "geometric_mean": mean}, indent=1))
        return
    print("| benchmark | A | B | A / B | spread | |\n|---|---:|---:|---:|---|---|")
    for row in rows:
        sure = "faster" if row["least"] > 1 else "slower" if row["greatest"] < 1 else ""
        print(f"| {row['name']} | {row['a']:.2f} | {row['b']:.2f} | {row['ratio']:.3f} | {row['least']:.3f} .. "
              f"{row['greatest']:.3f} | {sure} |")
    if rows:
        print(f"\nGeometric mean of A / B over {len(rows)} benchmarks: {mean:.3f}")


if __name__ == "__main__":
    main()
