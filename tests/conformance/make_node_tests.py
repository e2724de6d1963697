#!/usr/bin/env python3
"""Writes the ONNX project's node tests as files, with expected outputs of our own beside theirs.

    make_node_tests.py FOLDER                the tests of the installed Python package `onnx`
    make_node_tests.py FOLDER --from TESTS   tests that are files already (Debian's libonnx-testdata)

FOLDER/test_NAME/model.onnx, and in test_data_set_K: input_J.pb and output_J.pb, as in ONNX's own archives. Where every
output of a test follows from the tables here, precise_J.pb holds output J computed in fractions (real functions with
400 bits) and rounded once to its type, and for a quantized output quotient_J.pb the numbers that were rounded to its
integers (as float64, zero point apart); otherwise missing.txt names what the tables lack.

Needs: pip install onnx mpmath
"""

import argparse
import shutil
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import numpy_helper  # noqa: E402

from node_numbers import is_float  # noqa: E402
from node_quantized import QUANTIZERS  # noqa: E402
from node_precise import Missing, expected  # noqa: E402

def to_message(value, declared):
    """The value of a graph input or output as the protobuf message that ONNX's archives hold."""
    if isinstance(value, onnx.TensorProto):
        return value
    kind = declared.type.WhichOneof("value")
    if kind == "tensor_type":
        return numpy_helper.from_array(np.asarray(value), declared.name)
    maker = {"sequence_type": numpy_helper.from_list, "optional_type": numpy_helper.from_optional,
             "map_type": numpy_helper.from_dict}[kind]
    return maker(value, declared.name)


def package_tests():
    """(name, model, data sets of serialized inputs and outputs) of the installed package, each name once."""
    from onnx.backend.test.loader import load_node_model_tests

    seen = set()
    for case in load_node_model_tests():
        if case.name in seen or case.model is None:
            continue
        seen.add(case.name)
        graph = case.model.graph
        sets = []
        for inputs, outputs in case.data_sets:
            sets.append([[to_message(v, d).SerializeToString(deterministic=True) for v, d in zip(values, declared)]
                         for values, declared in ((inputs, graph.input), (outputs, graph.output))])
        yield case.name, case.model.SerializeToString(deterministic=True), sets


def file_tests(folder):
    """The same of tests that are files."""

    def numbered(where, stem):
        out = []
        while (path := where / f"{stem}_{len(out)}.pb").exists():
            out.append(path.read_bytes())
        return out

    for path in sorted(folder.glob("test_*/model.onnx")):
        sets = [[numbered(d, "input"), numbered(d, "output")] for d in sorted(path.parent.glob("test_data_set_*"))]
        yield path.parent.name, path.read_bytes(), sets


def to_array(message):
    tensor = onnx.TensorProto()
    tensor.ParseFromString(message)
    return numpy_helper.to_array(tensor)


def tensors_only(model):
    values = [*model.graph.input, *model.graph.output]
    return all(v.type.WhichOneof("value") == "tensor_type" for v in values)


def write_precise(where, model, inputs):
    """precise_J.pb for the float outputs, or missing.txt. Returns what is missing, or None."""
    if not tensors_only(model):
        return "not a tensor"
    try:
        values, quotients = expected(model, [to_array(m) for m in inputs])
    except Missing as lack:
        (where / "missing.txt").write_text(f"{lack}\n")
        return str(lack)
    for j, (value, quotient) in enumerate(zip(values, quotients)):
        value = np.asarray(value)
        if is_float(value.dtype) or quotient is not None:
            (where / f"precise_{j}.pb").write_bytes(numpy_helper.from_array(value).SerializeToString())
        if quotient is not None:
            nearly = quotient.astype(np.float64)
            (where / f"quotient_{j}.pb").write_bytes(numpy_helper.from_array(nearly).SerializeToString())
    return None


def floats_out(model):
    float_types = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE}
    return any(o.type.tensor_type.elem_type in float_types for o in model.graph.output)


def computes(model):
    return floats_out(model) or any(n.op_type in QUANTIZERS for n in model.graph.node)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the tests go")
    parser.add_argument("--from", dest="source", type=Path, help="a folder of tests to take instead of the package's")
    arguments = parser.parse_args()
    if arguments.source and not arguments.source.is_dir():
        sys.exit(f"make_node_tests.py: no folder {arguments.source}")
    for old in arguments.folder.glob("test_*/model.onnx"):  # what an earlier run wrote
        shutil.rmtree(old.parent)

    count = precise = with_floats = 0
    for name, text, sets in file_tests(arguments.source) if arguments.source else package_tests():
        model = onnx.load_from_string(text)
        folder = arguments.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.onnx").write_bytes(text)
        missing = None
        for k, (inputs, outputs) in enumerate(sets):
            where = folder / f"test_data_set_{k}"
            where.mkdir(exist_ok=True)
            for stem, messages in (("input", inputs), ("output", outputs)):
                for j, message in enumerate(messages):
                    (where / f"{stem}_{j}.pb").write_bytes(message)
            if computes(model):
                missing = write_precise(where, model, inputs) or missing
        count += 1
        with_floats += floats_out(model)
        precise += floats_out(model) and missing is None
    source = arguments.source or f"onnx {onnx.__version__}"
    print(f"{count} node tests of {source} in {arguments.folder}: {with_floats} with float outputs, "
          f"{precise} of them with precise values")


if __name__ == "__main__":
    main()
