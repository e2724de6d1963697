#!/usr/bin/env python3
"""Draws the kernels' roofline from what halfeven-bench measured; needs nothing but Python.

    build/release/bench/halfeven-bench --suite roofline --suite resnet50 --json > bench.json
    python3 bench/plot_roofline.py bench.json roofline.svg

Both axes are logarithmic: operations per byte of activations, operations per second. The roofs are the peaks of the
instruction sets and the bandwidths of the memory levels as the suite "roofline" measured them.
"""
import html
import json
import math
import sys

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 900, 560, 70, 50, 30, 210
COLORS = ["#1b6ca8", "#c8553d", "#2e8b57", "#8e5ea2", "#b8860b", "#444444", "#d6498f", "#0f9d9d"]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1]) as f:
        benchmarks = json.load(f)["benchmarks"]
    peaks = {b["name"].split("/")[2]: b["peak_operations"] for b in benchmarks if "peak_operations" in b}
    reads = {b["name"].split("/")[2]: b["read_bytes"] for b in benchmarks if "read_bytes" in b}
    points = [b for b in benchmarks if b.get("operations", 0) > 0 and b.get("intensity", 0) > 0]
    if not points or not peaks:
        sys.exit("there have to be kernels and the suite \"roofline\" in the file")
    x0 = 10 ** math.floor(math.log10(min(b["intensity"] for b in points) / 2))
    x1 = 10 ** math.ceil(math.log10(max(b["intensity"] for b in points) * 2))
    y1 = 10 ** math.ceil(math.log10(max(peaks.values())))
    y0 = 10 ** math.floor(math.log10(min(b["operations"] for b in points) / 2))

    def x(v):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(v / x0) / math.log(x1 / x0)

    def y(v):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * math.log(v / y0) / math.log(y1 / y0)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
           f'font-size="11"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']

    def line(xa, ya, xb, yb, color, width=1.0, dash=""):
        out.append(f'<line x1="{xa:.1f}" y1="{ya:.1f}" x2="{xb:.1f}" y2="{yb:.1f}" stroke="{color}" '
                   f'stroke-width="{width}"{f" stroke-dasharray={chr(34)}{dash}{chr(34)}" if dash else ""}/>')

    def text(xa, ya, what, anchor="start", color="#222"):
        out.append(f'<text x="{xa:.1f}" y="{ya:.1f}" text-anchor="{anchor}" fill="{color}">{html.escape(what)}</text>')

    decade = x0
    while decade <= x1:
        line(x(decade), y(y0), x(decade), y(y1), "#e4e4e4")
        text(x(decade), HEIGHT - BOTTOM + 16, f"{decade:g}", "middle")
        decade *= 10
    decade = y0
    while decade <= y1:
        line(x(x0), y(decade), x(x1), y(decade), "#e4e4e4")
        text(LEFT - 6, y(decade) + 4, f"{decade / 1e9:g} G", "end")
        decade *= 10
    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "operations per byte of activations", "middle")
    text(LEFT, TOP - 12, "operations per second, one thread")
    highest = max(peaks.values())
    for name, peak in peaks.items():
        line(x(x0), y(peak), x(x1), y(peak), "#888", 1.2, "6 3")
        text(x(x1) - 4, y(peak) - 4, f"{name}: {peak / 1e9:.0f} G", "end", "#666")
    for name, bandwidth in reads.items():
        # operations = intensity * bandwidth, up to the highest roof
        start, end = max(x0, y0 / bandwidth), min(x1, highest / bandwidth)
        if start < end:
            line(x(start), y(start * bandwidth), x(end), y(end * bandwidth), "#aaa", 1.0, "2 3")
    kernels = sorted({b["name"].split("/")[-2 if b["name"].endswith("/real_time") else -1] for b in points})
    colors = {k: COLORS[i % len(COLORS)] for i, k in enumerate(kernels)}
    for b in points:
        parts = b["name"].removesuffix("/real_time").rsplit("/", 1)
        share = f", {100 * b['of_peak']:.0f} % of what is attainable" if "of_peak" in b else ""
        out.append(f'<circle cx="{x(b["intensity"]):.1f}" cy="{y(b["operations"]):.1f}" r="4" fill="{colors[parts[1]]}" '
                   f'fill-opacity="0.75"><title>{html.escape(parts[0])}: {b["operations"] / 1e9:.1f} G/s{share}</title>'
                   f'</circle>')
    for i, k in enumerate(kernels):
        out.append(f'<circle cx="{WIDTH - RIGHT + 20}" cy="{TOP + 10 + 18 * i}" r="4" fill="{colors[k]}"/>')
        text(WIDTH - RIGHT + 30, TOP + 14 + 18 * i, k)
    out.append("</svg>\n")
    with open(sys.argv[2], "w") as f:
        f.write("\n".join(out))


if __name__ == "__main__":
    main()
