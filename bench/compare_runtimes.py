#!/usr/bin/env python3
"""This engine beside ONNX Runtime and OpenVINO on one machine, in alternation.

    python3 bench/compare_runtimes.py build/release/halfeven MODELS_FOLDER [--threads 1 2] [--rounds 5] [--runs 20]

MODELS_FOLDER holds folders with model.onnx and case0/input_K.npy. In each round every engine warms up and runs --runs
times; the figure of a round is its median, the figure of an engine the median of its rounds, with the least and the
greatest in brackets. Needs numpy, onnxruntime and openvino (those that are missing are left out, which is said).
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import time

import numpy as np


def inputs_of(folder):
    files = glob.glob(os.path.join(folder, "case0", "input_*.npy"))
    return sorted(files, key=lambda f: int(f.rsplit("_", 1)[1][:-4]))


def timed(call, runs):
    for _ in range(3):
        call()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def onnxruntime_engine(model, arrays, threads):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feeds = {i.name: a for i, a in zip(session.get_inputs(), arrays)}
    return lambda runs: timed(lambda: session.run(None, feeds), runs)


def openvino_engine(model, arrays, threads):
    import openvino as ov
    core = ov.Core()
    network = core.read_model(model)
    network.reshape({p.any_name: list(a.shape) for p, a in zip(network.inputs, arrays)})
    compiled = core.compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": "1",
                                                   "INFERENCE_NUM_THREADS": str(threads)})
    request = compiled.create_infer_request()
    return lambda runs: timed(lambda: request.infer(arrays), runs)


def halfeven_engine(command, model, files, threads):
    arguments = [command, "bench", model, "--threads", str(threads), "--json"]
    for f in files:
        arguments += ["--input", f]

    def run(runs):
        out = subprocess.run(arguments + ["--runs", str(runs)], check=True, capture_output=True, text=True).stdout
        return json.loads(out)["median_ms"]
    return run


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("halfeven")
    parser.add_argument("models")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--only", default="")
    a = parser.parse_args()
    print("| network | threads | ONNX Runtime | OpenVINO | halfeven | of ONNX Runtime | of the better |")
    print("|---|---|---|---|---|---|---|")
    ratios, best_ratios = {}, {}  # by number of threads
    for folder in sorted(glob.glob(os.path.join(a.models, "*"))):
        model, files = os.path.join(folder, "model.onnx"), inputs_of(folder)
        if not os.path.exists(model) or not files or a.only not in folder:
            continue
        arrays = [np.load(f) for f in files]
        for threads in a.threads:
            engines, failed = {}, {}
            for name, make in (("ort", lambda: onnxruntime_engine(model, arrays, threads)),
                               ("ov", lambda: openvino_engine(model, arrays, threads)),
                               ("he", lambda: halfeven_engine(a.halfeven, model, files, threads))):
                try:
                    engines[name] = make()
                    engines[name](1)
                except Exception as e:  # an engine that lacks an operator is part of the result
                    failed[name] = type(e).__name__
                    engines.pop(name, None)
            rounds = {name: [] for name in engines}
            for k in range(a.rounds):
                for name in (list(engines) if k % 2 == 0 else reversed(list(engines))):
                    rounds[name].append(engines[name](a.runs))

            def cell(name):
                if name not in rounds:
                    return failed.get(name, "-")
                r = rounds[name]
                return f"{statistics.median(r):.2f} ({min(r):.2f}..{max(r):.2f})"
            medians = {name: statistics.median(r) for name, r in rounds.items()}
            peers = [medians[n] for n in ("ort", "ov") if n in medians]
            of_ort = medians["ort"] / medians["he"] if "ort" in medians and "he" in medians else None
            of_best = min(peers) / medians["he"] if peers and "he" in medians else None
            if of_ort:
                ratios.setdefault(threads, []).append(of_ort)
            if of_best:
                best_ratios.setdefault(threads, []).append(of_best)
            print(f"| {os.path.basename(folder)} | {threads} | {cell('ort')} | {cell('ov')} | {cell('he')} | "
                  f"{of_ort and f'{of_ort:.2f}' or '-'} | {of_best and f'{of_best:.2f}' or '-'} |", flush=True)
    for threads in sorted(ratios):
        print(f"\nGeometric means, {threads} thread{'s' if threads > 1 else ''}: "
              f"{statistics.geometric_mean(ratios[threads]):.2f} of ONNX Runtime's speed, "
              f"{statistics.geometric_mean(best_ratios[threads]):.2f} of the better one's.")


if __name__ == "__main__":
    main()
