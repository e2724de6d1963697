#!/usr/bin/env python3
"""Writes a twin of a quantized (QDQ) network: the same graph and weights with activations of another integer type.

An activation code q of the original (0 to 255; int8 codes count from -128) becomes
    s8    q - 128           the same scale, so the twin's results are the original's
    u16   q * 257           scale / 257, rounded to float32: 0 and 255 become 0 and 65535
    s16   q * 257 - 32768   the same
and zero points likewise. Weights and biases keep their codes and scales. 16-bit QuantizeLinear needs opset 21: where the
model has an older one, it is converted; QuantizeLinear and DequantizeLinear of com.microsoft become ONNX's own.

    make_twins.py MODEL OUT --type s8|u16|s16
"""

import argparse
import sys

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper, version_converter

TYPES = {
    "s8": (TensorProto.INT8, np.int8),
    "u16": (TensorProto.UINT16, np.uint16),
    "s16": (TensorProto.INT16, np.int16),
}
CODES = (TensorProto.UINT8, TensorProto.INT8)
QUANTIZE = "QuantizeLinear"
DEQUANTIZE = "DequantizeLinear"
# Operators that hand codes on as they are.
MOVES = {
    "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Reshape", "Slice",
    "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
}  # fmt: skip
OPSET = 21


class Twin:
    """The rewriting of one model; raises ValueError where a twin would mean something else."""

    def __init__(self, model, kind):
        self.kind = kind
        self.tensor_type, self.array_type = TYPES[kind]
        self.model = self.raise_opset(model) if kind != "s8" else model
        self.graph = self.model.graph
        self.constants = {t.name: t for t in self.graph.initializer}
        for node in self.graph.node:
            if node.op_type == "Constant":
                for a in node.attribute:
                    if a.name == "value":
                        self.constants[node.output[0]] = a.t
        self.made = {}  # names of new constants

    @staticmethod
    def raise_opset(model):
        for node in model.graph.node:
            if node.domain == "com.microsoft" and node.op_type in (QUANTIZE, DEQUANTIZE):
                node.domain = ""
        version = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
        if version < OPSET:
            model = version_converter.convert_version(model, OPSET)
        model.ir_version = max(model.ir_version, 10)
        return model

    def run(self):
        codes = self.activations()
        for node in self.graph.node:
            reads = [k for k, name in enumerate(node.input) if name in codes]
            if node.op_type == QUANTIZE and node.output[0] in codes:
                self.rewrite(node, codes[node.output[0]])
            elif node.op_type == DEQUANTIZE and node.input[0] in codes:
                self.rewrite(node, codes[node.input[0]])
            elif reads and node.op_type not in MOVES:
                raise ValueError(f"{node.op_type} '{node.name}' computes with codes; only QDQ models have twins")
            elif reads and node.op_type == "MaxPool" and self.kind != "s8":
                raise ValueError(f"MaxPool '{node.name}' reads codes, and ONNX has none of 16 bits")
        for value in [*self.graph.input, *self.graph.output, *self.graph.value_info]:
            if value.name in codes:
                value.type.tensor_type.elem_type = self.tensor_type
        self.drop_unused()
        onnx.checker.check_model(self.model, full_check=True)
        return self.model

    def activations(self):
        """Names of values that hold 8-bit codes of activations, each with its type."""
        codes = {}
        for value in self.graph.input:
            if value.name not in self.constants and value.type.tensor_type.elem_type in CODES:
                codes[value.name] = value.type.tensor_type.elem_type
        for node in self.graph.node:
            if node.op_type == QUANTIZE:
                kind = self.quantized_type(node)
                if kind in CODES and node.input[0] not in self.constants:
                    codes[node.output[0]] = kind
            elif node.op_type in MOVES and node.input[0] in codes:
                if node.op_type == "Concat" and any(name not in codes for name in node.input):
                    raise ValueError(f"Concat '{node.name}' joins activations and constants")
                outputs = node.output[:1] if node.op_type == "MaxPool" else node.output
                codes.update({name: codes[node.input[0]] for name in outputs})
        return codes

    def quantized_type(self, node):
        if len(node.input) > 2 and node.input[2]:
            return self.constant(node, 2).data_type
        types = [a.i for a in node.attribute if a.name == "output_dtype"]
        return types[0] if types and types[0] else TensorProto.UINT8

    def constant(self, node, k):
        name = node.input[k]
        if name not in self.constants:
            raise ValueError(f"input {k} of {node.op_type} '{node.name}' is '{name}', which is no constant")
        return self.constants[name]

    def rewrite(self, node, old_type):
        """Gives QuantizeLinear or DequantizeLinear the twin's scale and zero point."""
        scale = numpy_helper.to_array(self.constant(node, 1))
        if len(node.input) > 2 and node.input[2]:
            zero = numpy_helper.to_array(self.constant(node, 2)).astype(np.int64)
            zero_name = node.input[2]
        else:
            zero = np.zeros(scale.shape, np.int64)
            zero_name = node.input[1] + "_zero"
        if old_type == TensorProto.INT8:
            zero = zero + 128
        if self.kind == "s8":
            zero = zero - 128
        else:
            zero = zero * 257 - (32768 if self.kind == "s16" else 0)
            if scale.dtype != np.float32:
                raise ValueError(f"the scale of {node.op_type} '{node.name}' is no float32")
            scale = (scale.astype(np.float64) / 257).astype(np.float32)
            node.input[1] = self.new_constant(node.input[1], scale, scale.dtype)
        zero_name = self.new_constant(zero_name, zero.astype(self.array_type), self.array_type)
        if len(node.input) > 2:
            node.input[2] = zero_name
        else:
            node.input.append(zero_name)
        for a in node.attribute:
            if a.name == "output_dtype":
                a.i = self.tensor_type

    def new_constant(self, name, array, kind):
        key = (name, np.dtype(kind).name, array.tobytes())
        if key not in self.made:
            new = f"{name}_{self.kind}"
            while new in self.constants:
                new += "_"
            self.graph.initializer.append(numpy_helper.from_array(np.asarray(array), new))
            self.constants[new] = self.graph.initializer[-1]
            self.made[key] = new
        return self.made[key]

    def drop_unused(self):
        used = {name for node in self.graph.node for name in node.input} | {v.name for v in self.graph.output}
        kept = [t for t in self.graph.initializer if t.name in used]
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--type", choices=sorted(TYPES), required=True)
    args = parser.parse_args()
    try:
        onnx.save(Twin(onnx.load(args.model), args.type).run(), args.out)
    except ValueError as error:
        sys.exit(f"{args.model}: {error}")


if __name__ == "__main__":
    main()
