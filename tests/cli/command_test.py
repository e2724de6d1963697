#!/usr/bin/env python3
"""Runs the built command for every exit code: command_test.py HALFEVEN TESTS_DATA"""

import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

COMMAND = ""
CASES = Path()
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ppocr_cls"


def halfeven(*arguments, **options):
    return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=300, **options)


def case(number):
    (folder,) = CASES.glob(f"{number}-*")
    return folder


def read_npy(path):
    """(descr, shape, data) of a version 1 file."""
    file = Path(path).read_bytes()
    (length,) = struct.unpack("<H", file[8:10])
    header = file[10 : 10 + length].decode()
    descr = re.search(r"'descr': '([^']*)'", header).group(1)
    shape = re.search(r"'shape': \(([^)]*)\)", header).group(1)
    return descr, [int(d) for d in shape.split(",") if d.strip()], file[10 + length :]


def write_npy(path, descr, shape, data):
    header = repr({"descr": descr, "fortran_order": False, "shape": tuple(shape)}).encode() + b"\n"
    Path(path).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)


def varint(value):
    result = b""
    while value > 127:
        result += bytes([value & 127 | 128])
        value >>= 7
    return result + bytes([value])


def tensor_proto(name, data_type, shape, data):
    dims = b"".join(b"\x08" + varint(d) for d in shape)
    text = name.encode()
    return dims + b"\x10" + varint(data_type) + b"\x42" + varint(len(text)) + text + b"\x4a" + varint(len(data)) + data


class CommandTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.model = case("01") / "model.onnx"
        self.input = case("01") / "input_0.npy"

    def expect(self, code, *arguments, message=""):
        """The exit code, and for an error its one line on stderr."""
        result = halfeven(*arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        if code >= 2:
            lines = [line for line in result.stderr.splitlines() if not line.startswith("warning: ")]
            self.assertEqual(len(lines), 1, result.stderr)
            self.assertTrue(lines[0].startswith("halfeven: error: "), result.stderr)
            self.assertIn(message, lines[0])
            self.assertEqual(result.stdout, "")
        return result

    def input_name(self):
        return json.loads(self.expect(0, "inspect", self.model, "--json").stdout)["inputs"][0]["name"]

    # 0: good

    def test_help_and_version(self):
        self.assertRegex(self.expect(0, "--version").stdout, r"^halfeven \d+\.\d+\.\d+\n$")
        for arguments in (["--help"], ["run", "--help"], ["inspect", "--help"], ["fuse", "--help"]):
            self.assertIn("Usage:", self.expect(0, *arguments).stdout)

    def test_run_writes_the_right_outputs(self):
        for number in ("01", "43", "82"):
            folder = case(number)
            inputs = [f"--input={file}" for file in sorted(folder.glob("input_*.npy"))]
            result = self.expect(0, "run", folder / "model.onnx", *inputs, "--output-dir", self.folder / number / "out")
            self.assertIn("hash", result.stdout)
            for expected in folder.glob("expected_*.npy"):
                output = self.folder / number / "out" / expected.name.replace("expected", "output")
                self.assertEqual(read_npy(output), read_npy(expected), number)

    def test_named_inputs_in_every_format(self):
        wanted = self.expect(0, "run", self.model, "--input", self.input).stdout
        name = self.input_name()
        descr, shape, data = read_npy(self.input)
        types = {"<f4": 1, "|u1": 2, "|i1": 3}
        archive = self.folder / "x.npz"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            file.write(self.input, f"{name}.npy")
        proto = self.folder / "x.pb"
        proto.write_bytes(tensor_proto(name, types[descr], shape, data))
        for argument in (f"{name}={self.input}", archive, f"{name}={archive}", proto, f"{name}={proto}"):
            self.assertEqual(self.expect(0, "run", self.model, "--input", argument).stdout, wanted, argument)

    def test_json_and_hashes(self):
        hashes = self.folder / "hashes.json"
        arguments = ["run", self.model, "--input", self.input, "--json", "--check", "--dump-hashes", hashes]
        report = json.loads(self.expect(0, *arguments).stdout)
        output = report["outputs"][0]
        self.assertTrue(report["check"]["passed"])
        self.assertEqual(json.loads(hashes.read_text())[output["name"]], [output["type"], output["shape"], output["hash"]])

    def test_threads_change_nothing(self):
        runs = [self.expect(0, "run", self.model, "--input", self.input, "--threads", n).stdout for n in (1, 2, 3)]
        self.assertEqual(len(set(runs)), 1)

    def test_check_says_what_it_found(self):
        result = self.expect(0, "run", self.model, "--input", self.input, "--check")
        self.assertRegex(result.stdout, r"cross-checked: exact run repeated on 1 thread, 0 of \d+ bits differ; ")

    def test_inspect(self):
        text = self.expect(0, "inspect", self.model, "--nodes").stdout
        self.assertIn("QuantizeLinear", text)
        summary = json.loads(self.expect(0, "inspect", self.model, "--json").stdout)
        self.assertRegex(summary["hash"], r"^[0-9a-f]{64}$")
        self.assertIn("QuantizeLinear", [operator["op_type"] for operator in summary["operators"]])

    def test_fuse_changes_no_output(self):
        for number in ("01", "31", "43"):
            folder = case(number)
            fused = self.folder / f"{number}.onnx"
            self.expect(0, "fuse", folder / "model.onnx", "-o", fused)
            arguments = [f"--input={folder / 'input_0.npy'}", "--json"]
            before = self.expect(0, "run", folder / "model.onnx", *arguments).stdout
            after = self.expect(0, "run", fused, *arguments).stdout
            self.assertEqual(json.loads(before)["outputs"], json.loads(after)["outputs"], number)

    def test_fuse_says_what_it_did(self):
        text = self.expect(0, "fuse", EXAMPLE / "model.onnx", "--explain").stdout
        self.assertRegex(text, r"pass +changes\n")
        self.assertRegex(text, r"\nConv +53 +0\n")
        self.assertRegex(text, r"\nfused 54 of 54 compute operators ")
        self.assertRegex(text, r"\nbuild-tables\n  \d+ nodes become a table of 256 entries \(\d+\)\n      \S")
        report = json.loads(self.expect(0, "fuse", EXAMPLE / "model.onnx", "--explain", "--json").stdout)
        self.assertEqual((report["compute_operators"], report["fused_operators"]), (54, 54))
        for finding in report["findings"]:
            self.assertTrue(finding["pass"] and finding["where"] and finding["text"], finding)
            self.assertIn(finding["where"], text)
            self.assertIn(finding["text"], text)

    def test_fuse_with_chosen_passes(self):
        names = [line.split()[0] for line in self.expect(0, "fuse", "--list-passes").stdout.splitlines()[1:]]
        self.assertIn("fuse-qdq", names)
        listed = json.loads(self.expect(0, "fuse", "--list-passes", "--json").stdout)
        self.assertEqual([entry["pass"] for entry in listed], names)
        report = json.loads(self.expect(0, "fuse", self.model, "--passes", "eliminate-dead", "--json").stdout)
        self.assertEqual([step["pass"] for step in report["steps"]], ["eliminate-dead"])
        self.assertEqual(report["fused_operators"], 0)

    def test_fused_files_are_the_same_every_time(self):
        files = []
        for value in ("0", "85", "170"):
            out = self.folder / f"{value}.onnx"
            environment = {**os.environ, "MALLOC_PERTURB_": value}
            result = halfeven("fuse", EXAMPLE / "model.onnx", "-o", out, env=environment)
            self.assertEqual(result.returncode, 0, result.stderr)
            files.append(out.read_bytes())
        self.assertEqual(len(set(files)), 1)

    def test_verify(self):
        folder = case("36")
        arguments = [folder / "model.onnx", f"--input={folder / 'input_0.npy'}"]
        text = self.expect(0, "verify", *arguments).stdout
        self.assertIn("10 elements, 5 differ, 5 of these certified", text)
        self.assertRegex(text, r"\nverified: .*0 bits of \d+ compared tensors differ; \d+ kernel runs?, 0 bits differ\n$")
        report = json.loads(self.expect(0, "verify", *arguments, "--json").stdout)
        self.assertTrue(report["verified"])
        flipped = report["groups"][0]["flipped"]
        self.assertEqual([e["certified"] for e in flipped], [True] * 5)
        self.assertEqual([e["distance_to_tie"] <= e["bound"] for e in flipped], [True] * 5)

    def test_verify_with_random_inputs(self):
        one, same, other = (
            self.expect(0, "verify", EXAMPLE / "model.onnx", "--random", 1, "--seed", seed, "--threads", threads,
                        "--shape", "x=1x3x48x32", "--passes", "fuse-qdq", "--json").stdout
            for seed, threads in ((1, 1), (1, 3), (2, 2)))
        self.assertEqual(one, same)
        self.assertNotEqual(one, other)
        self.assertIn('"fuse-qdq"', one)

    def test_pictures(self):
        options = "--channels bgr --mean 0.5 --std 0.5 --resize pad --size 48x192 --json".split()
        for file, upright in (("text.png", True), ("text_upside_down.png", False)):
            out = self.folder / file
            self.expect(0, "run", EXAMPLE / "model.onnx", "--image", EXAMPLE / file, "--output-dir", out, *options)
            descr, shape, data = read_npy(out / "output_0.npy")
            self.assertEqual((descr, shape), ("<f4", [1, 2]))
            standing, turned = struct.unpack("<2f", data)
            self.assertEqual(standing > 0.9 > 0.1 > turned, upright)
            self.assertEqual(turned > 0.9 > 0.1 > standing, not upright)

    def test_picture_options_as_lists(self):
        picture = ["run", EXAMPLE / "model.onnx", "--image", EXAMPLE / "text.png", "--size", "48x192"]
        one = self.expect(0, *picture, "--mean", "-0.5", "--std", "0.25").stdout
        three = self.expect(0, *picture, "--mean", "-0.5,-0.5,-.5", "--std=0.25,0.25,0.25").stdout
        self.assertEqual(one, three)
        for wrong in ("0.5,", ",", "half", "0.5,0.5", "nan", "1e999"):
            self.expect(2, *picture, "--mean", wrong, message="--mean")
        self.expect(2, *picture, "--std", "0", message="--std")

    def test_plan(self):
        report = json.loads(self.expect(0, "plan", self.model, "--json").stdout)
        self.assertEqual(report["dropped"], [])
        self.assertGreaterEqual(report["arena_bytes"], report["largest_live_bytes"])
        step = next(s for s in report["steps"] if s["kernel"] not in ("reference", "view", "convert"))
        self.assertEqual(len(step["outputs"]), 1)
        self.assertIn(step["kernel"], self.expect(0, "plan", self.model).stdout)
        for rounding in filter(None, (s["rounding"] for s in report["steps"])):
            self.assertTrue(rounding["double_decides"], rounding)
        kernels = json.loads(self.expect(0, "plan", "--kernels", "--json").stdout)
        self.assertIn(step["kernel"], [k["name"] for k in kernels])
        portable = json.loads(self.expect(0, "plan", self.model, "--isa", "sse2", "--json").stdout)
        needs = {k["name"]: k["isa"] for k in kernels}
        for s in portable["steps"]:
            self.assertEqual(needs.get(s["kernel"], "sse2"), "sse2")
        # A kernel of that table entry comes first where it serves, and is not explained away.
        chosen = next(s["kernel"] for s in portable["steps"] if s["kernel"] in needs)
        forced = json.loads(self.expect(0, "plan", self.model, "--kernel", chosen, "--json").stdout)
        self.assertIn(chosen, [s["kernel"] for s in forced["steps"]])
        self.expect(2, "plan")
        self.expect(2, "plan", self.model, "--kernel", "abacus", message="abacus")
        self.expect(2, "plan", self.model, "--isa", "z80", message="z80")

    def test_bench(self):
        trace = self.folder / "trace.json"
        arguments = ["bench", self.model, "--input", self.input, "--runs", "3", "--threads", "2", "--json"]
        report = json.loads(self.expect(0, *arguments, "--profile", "--trace", trace).stdout)
        self.assertLessEqual(report["min_ms"], report["median_ms"])
        self.assertGreater(report["peak_kilobytes"], 0)
        events = json.loads(trace.read_text())["traceEvents"]
        steps = [e for e in events if e["ph"] == "X" and e["tid"] == 0]
        self.assertEqual(len(steps), len(report["profile"]))
        self.expect(2, "bench", self.model, "--runs", "0", message="--runs")

    def test_backends(self):
        hashes = []
        for backend in (["auto"], ["cpu"], ["cpu", "--isa", "sse2"], ["reference"]):
            result = self.expect(0, "run", self.model, "--input", self.input, "--json", "--backend", *backend)
            hashes.append([o["hash"] for o in json.loads(result.stdout)["outputs"]])
        self.assertEqual(len(set(map(tuple, hashes))), 1)

    def test_verify_kernels(self):
        arguments = ["verify", self.model, "--input", self.input, "--json"]
        kernels = json.loads(self.expect(0, *arguments).stdout)["kernels"]
        self.assertGreater(len(kernels), 0)
        self.assertEqual({k["threads"] for k in kernels}, {1, 4})
        self.assertEqual(sum(k["differing"] for k in kernels), 0)
        some = json.loads(self.expect(0, *arguments, "--isa", "sse2").stdout)["kernels"]
        self.assertEqual({k["isa"] for k in some}, {"sse2"})
        self.expect(2, *arguments, "--isa", "z80", message="z80")

    # 2: wrong usage

    def test_wrong_usage(self):
        self.expect(2)
        self.expect(2, "dance")
        self.expect(2, "run")
        self.expect(2, "run", self.model, "--no-such-option")
        self.expect(2, "run", self.model, "--contract", "vague", message="vague")
        self.expect(2, "run", self.model, "--backend", "abacus", message="abacus")
        self.expect(2, "run", self.model, "--threads", "-1")
        self.expect(2, "run", self.model, "--threads", "many")
        self.expect(2, "run", self.model, "--input", self.input, "--size", "48")
        self.expect(2, "run", EXAMPLE / "model.onnx", "--image", EXAMPLE / "text.png", message="--size")
        self.expect(2, "inspect", self.model, "--shape", "nonsense")
        self.expect(2, "inspect", self.model, "--shape", "nowhere=1x2", message="nowhere")
        self.expect(2, "verify", self.model, "--shape", "nonsense", message="--shape takes NAME=")
        self.expect(2, "verify", self.model, "--shape", "nowhere=1x2", message="nowhere")
        self.expect(2, "verify", self.model, "--random", "0", message="nothing to verify")
        self.expect(2, "verify", self.model, "--random", "-1")
        self.expect(2, "verify", self.model, "--passes", "fuse-all", message="fuse-all")
        self.expect(2, "fuse", message="MODEL")
        self.expect(2, "fuse", self.model, "--passes", "fuse-all", message="fuse-all")

    # 3: unusable model

    def test_unusable_models(self):
        models = sorted(CASES.glob("*-bad-*/model.onnx"))
        self.assertGreater(len(models), 5)
        for model in models:
            with self.subTest(model=model):
                inputs = [f"--input={file}" for file in sorted(model.parent.glob("input_*.npy"))]
                self.expect(3, "run", model, *inputs)
        self.expect(3, "inspect", case("67") / "model.onnx")
        empty = self.folder / "empty.onnx"
        empty.write_bytes(b"no model at all")
        self.expect(3, "run", empty)
        self.expect(3, "fuse", empty, "-o", self.folder / "fused.onnx")
        self.assertFalse((self.folder / "fused.onnx").exists())

    # 4: unusable input

    def test_unusable_inputs(self):
        def run(code, *arguments, message=""):
            self.expect(code, "run", self.model, *arguments, message=message)

        descr, shape, data = read_npy(self.input)
        name = self.input_name()
        broken = self.folder / "broken.npy"
        run(4, message=name)
        run(4, "--input", self.folder / "nothing.npy", message="nothing.npy")
        run(4, "--input", self.folder, message=str(self.folder))
        run(4, "--input", f"nobody={self.input}", message="nobody")
        run(4, "--input", self.input, "--input", self.input, message="input_0.npy")
        broken.write_bytes(self.input.read_bytes()[:-1])
        run(4, "--input", broken, message="broken.npy")
        write_npy(broken, "<c16", shape, data)
        run(4, "--input", broken, message="<c16")
        write_npy(broken, "<f8", [1], bytes(8))
        run(4, "--input", broken, message="float64")
        write_npy(broken, descr, [2**40, 2**40], data)
        run(4, "--input", broken, message="too large")
        write_npy(broken, descr, [len(data)], data)
        self.assertEqual(halfeven("run", self.model, "--input", broken).returncode, 4)
        for suffix in ("npz", "pb", "txt"):
            file = self.folder / f"broken.{suffix}"
            file.write_bytes(b"\xff" * 100)
            run(4, "--input", file, message=file.name)
        run(4, "--image", self.input, message="PNG")

    # 5: anything else

    def test_files_that_cannot_be_used(self):
        self.expect(5, "run", self.folder / "nothing.onnx", message="nothing.onnx")
        wall = self.folder / "wall"
        wall.write_bytes(b"")
        self.expect(5, "run", self.model, "--input", self.input, "--output-dir", wall, message="wall")
        self.expect(5, "run", self.model, "--input", self.input, "--dump-hashes", wall / "x", message="wall")
        self.expect(5, "fuse", self.folder / "nothing.onnx", message="nothing.onnx")
        self.expect(5, "fuse", self.model, "-o", wall / "x.onnx", message="wall")

    def test_full_disk(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        with open("/dev/full", "w") as full:
            result = subprocess.run([COMMAND, "inspect", self.model], stdout=full, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(result.returncode, 5)

    def test_closed_stdout_is_no_crash(self):
        read_end, write_end = os.pipe()
        os.close(read_end)
        arguments = [COMMAND, "inspect", str(self.model), "--nodes"]
        result = subprocess.run(arguments, stdout=write_end, stderr=subprocess.PIPE, timeout=60)
        os.close(write_end)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        result = subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', *arguments], stderr=subprocess.PIPE, timeout=60)
        self.assertEqual((result.returncode, result.stderr), (0, b""))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    COMMAND = sys.argv[1]
    CASES = Path(sys.argv[2]) / "cases"
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
