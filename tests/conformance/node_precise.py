"""Expected outputs of a model, node by node: each the exact result of its rounded inputs, rounded once to its type
(section 2 of the numeric contract). Nodes that compute nothing in floats (they move, compare or count) are left to
ONNX's reference implementation, which cannot round there.
"""

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

import node_elementwise
import node_quantized
import node_resize
import node_windows
from node_numbers import exact, is_float, rounded

OPERATORS = {**node_elementwise.OPERATORS, **node_windows.OPERATORS, **node_resize.OPERATORS,
             **node_quantized.OPERATORS}

# Float tensors go through these unchanged, element by element.
MOVE = set(
    "ArgMax ArgMin Compress Concat Constant ConstantOfShape DepthToSpace Dropout Equal Expand Flatten Gather "
    "GatherElements GatherND Greater GreaterOrEqual Identity IsInf IsNaN Less LessOrEqual MaxPool NonZero OneHot Pad "
    "Reshape ScatterElements ScatterND Shape Size Slice SpaceToDepth Split Squeeze Tile TopK Transpose Trilu Unsqueeze "
    "Where".split())


class Missing(Exception):
    """The table lacks what a node needs."""


def _reference(node, model, inputs):
    feeds = {n: v for n, v in zip(node.input, inputs) if n}
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in feeds.items()]
    outputs = [helper.make_empty_tensor_value_info(n) for n in node.output if n]
    graph = helper.make_graph([node], "one", infos, outputs)
    single = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    try:
        results = iter(ReferenceEvaluator(single).run(None, feeds))
    except Exception as failure:  # the package's own limits
        raise Missing(f"{node.op_type} (onnx.reference: {type(failure).__name__})") from failure
    return [np.asarray(next(results)) if n else None for n in node.output]


def _result_type(node, attributes, inputs):
    """The float type of a computing node's results; None if it is no float type."""
    if node.op_type == "Cast":
        dtype = helper.tensor_dtype_to_np_dtype(attributes["to"])
    elif node.op_type == "CastLike":
        dtype = inputs[1].dtype
    elif node.op_type == "DequantizeLinear":
        to = attributes.get("output_dtype", 0)
        dtype = helper.tensor_dtype_to_np_dtype(to) if to else inputs[1].dtype
    else:
        dtype = inputs[0].dtype
    return dtype if is_float(dtype) else None


def _compute(node, model, inputs):
    """(outputs, exact quotient if the node quantizes)."""
    if node.op_type in node_quantized.QUANTIZERS and node.domain in ("", "ai.onnx"):
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        try:
            return node_quantized.QUANTIZERS[node.op_type](attributes, inputs, None)
        except NotImplementedError as variant:
            raise Missing(f"{node.op_type} ({variant})") from variant
    return _compute_floats(node, model, inputs), None


def _compute_floats(node, model, inputs):
    floats = [v for v in inputs if v is not None and is_float(v.dtype)]
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    attributes = {k: v.decode() if isinstance(v, bytes) else v for k, v in attributes.items()}
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), None)
    if node.domain not in ("", "ai.onnx"):
        raise Missing(f"{node.domain}.{node.op_type}")
    if any(isinstance(v, onnx.GraphProto) for v in attributes.values()):
        raise Missing(f"{node.op_type} (a subgraph)")
    scatters = node.op_type.startswith("Scatter") and attributes.get("reduction", "none") != "none"
    if node.op_type in MOVE and not scatters:
        return _reference(node, model, inputs)
    if node.op_type in ("Cast", "CastLike", "DequantizeLinear"):
        dtype = _result_type(node, attributes, inputs)
        if dtype is None or str(inputs[0].dtype) == "float8_e8m0fnu":
            return _reference(node, model, inputs)
    elif not floats:
        return _reference(node, model, inputs)
    else:
        dtype = _result_type(node, attributes, inputs)
    if node.op_type not in OPERATORS or dtype is None:
        raise Missing(node.op_type)
    numbers = [exact(v) if v is not None and (is_float(v.dtype) or k == 0 or node.op_type == "Pow") else v
               for k, v in enumerate(inputs)]
    try:
        results = OPERATORS[node.op_type](attributes, numbers, opset)
    except NotImplementedError as variant:
        raise Missing(f"{node.op_type} ({variant})") from variant
    return [rounded(v, dtype) for v in results]


def expected(model, inputs):
    """The outputs of a model whose inputs are arrays, and the exact quotients (None where not quantized), as two
    lists; raises Missing."""
    quotients = {}
    values = {i.name: onnx.numpy_helper.to_array(i) for i in model.graph.initializer}
    values.update(zip([i.name for i in model.graph.input], inputs))
    if model.functions:
        raise Missing("a local function")
    with np.errstate(all="ignore"):
        for node in model.graph.node:
            results, quotient = _compute(node, model, [values[n] if n else None for n in node.input])
            values.update(zip(node.output, results))
            quotients[node.output[0]] = quotient
    names = [o.name for o in model.graph.output]
    return [values[n] for n in names], [quotients.get(n) for n in names]
