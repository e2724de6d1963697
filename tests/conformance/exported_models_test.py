#!/usr/bin/env python3
"""Other tools' view of fused models: exported_models_test.py HALFEVEN TESTS_DATA [NETWORKS ...]

Fuses every case and network with the built command. The onnx checker must accept the file,
onnxruntime must load and run it, groups and tables included (their bodies are standard operators), and give outputs of
the types and shapes of the original. Values are not judged: onnxruntime rounds otherwise.
"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy
import onnx
import onnxruntime

COMMAND = ""
DATA = Path()
NETWORKS = []
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ppocr_cls" / "model.onnx"

# Standard operators with types that the standard allows, and that onnxruntime has no kernel for.
LACKING = "Could not find an implementation for"


def session(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def can_load(model):
    try:
        return session(model)
    except Exception:  # onnxruntime has a type for every reason
        return None


def forms(outputs):
    return [(output.dtype, output.shape) for output in outputs]


class ExportedModelsTest(unittest.TestCase):
    def check(self, model, inputs, folder):
        fused = folder / "fused.onnx"
        result = subprocess.run([COMMAND, "fuse", model, "-o", fused], capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        onnx.checker.check_model(str(fused), full_check=True)
        original = can_load(model)
        if original is None:
            print(f"  {model.parent.name}: onnxruntime does not load the original, so the fused one is not tried")
            return
        try:
            runnable = session(fused)
        except Exception as error:
            if LACKING not in str(error):
                raise
            print(f"  {model.parent.name}: {str(error)[str(error).index(LACKING) :]}")
            return
        given = {declared.name: numpy.load(file) for declared, file in zip(runnable.get_inputs(), inputs)}
        self.assertEqual(forms(runnable.run(None, given)), forms(original.run(None, given)))

    def check_all(self, models):
        with tempfile.TemporaryDirectory() as folder:
            for model, inputs in models:
                with self.subTest(model=str(model)):
                    self.check(model, inputs, Path(folder))

    def test_cases(self):
        cases = sorted(model.parent for model in (DATA / "cases").glob("*/model.onnx"))
        cases = [case for case in cases if not (case / "expected_error.txt").exists()]
        self.assertGreater(len(cases), 40)
        self.check_all((case / "model.onnx", sorted(case.glob("input_*.npy"))) for case in cases)

    def test_networks(self):
        folders = [case.parent for root in NETWORKS for case in sorted(root.glob("*/case*"))]
        self.assertGreater(len(folders), 2)
        for folder in dict.fromkeys(folders):
            own = folder / "model.onnx"  # the example's model is not kept twice
            (case, *_) = sorted(folder.glob("case*"))
            self.check_all([(own if own.exists() else EXAMPLE, sorted(case.glob("input_*.npy")))])


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    COMMAND = sys.argv[1]
    DATA = Path(sys.argv[2])
    NETWORKS = [DATA / "models", *map(Path, sys.argv[3:])]
    unittest.main(argv=[sys.argv[0]])
