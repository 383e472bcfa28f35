#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the golden files of the layout tests: one small file a format, by the format's own library, and expected.json.

    python make.py [FORMAT ...]        all formats, or these; the others stay as they are

expected.json is made without a parser: each tensor's bytes are searched for in the file and must be there exactly once.
Needs: torch safetensors numpy h5py gguf joblib msgpack onnx ml_dtypes
"""
import io
import json
import pickle
import sys
import zipfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
NUMPY_TYPES = {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
               "uint8": "U8", "bool": "BOOL", "complex64": "C64", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}
random = np.random.default_rng(7)
makers = {}


def makes(name):
    return lambda function: makers.setdefault(name, function)


def floats(*shape):
    return random.normal(0, 0.05, shape).astype(np.float32)


def raw(tensor):
    if hasattr(tensor, "untyped_storage"):
        import torch

        storage = tensor.untyped_storage()
        return torch.empty(0, dtype=torch.uint8).set_(storage).numpy().tobytes()
    return tensor.tobytes("F" if tensor.flags.f_contiguous and not tensor.flags.c_contiguous else "C")


def entry(file, name, tensor, chunks=None):
    """What the layout must say of a tensor."""
    dtype = NUMPY_TYPES[getattr(tensor.dtype, "name", str(tensor.dtype).removeprefix("torch."))]
    found = {"name": name, "dtype": dtype, "shape": list(tensor.shape)}
    if chunks is not None:
        return found | {"chunks": [{"origin": list(origin), **place(file, piece)} for origin, piece in chunks]}
    if hasattr(tensor, "untyped_storage") and tensor.untyped_storage().nbytes() != tensor.nbytes:
        found["shape"] = [tensor.untyped_storage().nbytes() // tensor.itemsize]
    return found | place(file, raw(tensor))


def place(file, piece):
    assert file.count(piece) == 1, "not there exactly once"
    return {"offset": file.index(piece), "nbytes": len(piece)}


def chunks_of(array, chunk):
    for index in np.ndindex(*[-(-n // c) for n, c in zip(array.shape, chunk)]):
        origin = tuple(i * c for i, c in zip(index, chunk))
        part = array[tuple(slice(o, o + c) for o, c in zip(origin, chunk))]
        whole = np.zeros(chunk, array.dtype)
        whole[tuple(map(slice, part.shape))] = part
        yield origin, whole.tobytes()


@makes("plain.safetensors")
def safetensors():
    import torch
    from safetensors.torch import save

    state = {"w": torch.from_numpy(floats(5, 7)), "h": torch.from_numpy(floats(4, 6)).bfloat16(),
             "f8": torch.from_numpy(floats(40)).to(torch.float8_e4m3fn), "ids": torch.from_numpy(random.integers(0, 9**9, 6))}
    file = save(state, metadata={"step": "1234", "format": "pt"})
    return file, [(name, tensor) for name, tensor in state.items()]


def torch_state():
    import torch

    shared = torch.from_numpy(floats(6, 8)).bfloat16()
    flat = torch.from_numpy(floats(30))
    return {
        "step": 77,
        "model": {"tok": shared, "head": shared, "qkv": flat[:12], "o": flat[12:].view(3, 6)},
        "list": [torch.from_numpy(floats(9)).to(torch.float8_e5m2), torch.from_numpy(floats(9)).to(torch.float8_e4m3fn)],
        "c": torch.complex(torch.from_numpy(floats(5)), torch.from_numpy(floats(5))),
        "mask": torch.from_numpy(random.integers(0, 2, 50)).bool(),
        "param": torch.nn.Parameter(torch.from_numpy(floats(4, 4))),
        "transposed": torch.from_numpy(floats(3, 5)).t(),
        4: torch.from_numpy(random.normal(0, 1, (3, 3))),
    }


def torch_expected(state):
    model = state["model"]
    transposed = state["transposed"]
    flat = transposed.as_strided((15,), (1,))
    return [("model.tok", model["tok"]), ("model.qkv", model["qkv"]), ("list.0", state["list"][0]),
            ("list.1", state["list"][1]), ("c", state["c"]), ("mask", state["mask"]), ("param", state["param"].detach()),
            ("transposed", flat), ("4", state[4])]


@makes("zip.pt")
def torch_zip():
    import torch

    state, file = torch_state(), io.BytesIO()
    torch.save(state, file)
    return file.getvalue(), torch_expected(state)


@makes("legacy.pt")
def torch_legacy():
    import torch

    state, file = torch_state(), io.BytesIO()
    torch.save(state, file, _use_new_zipfile_serialization=False)
    return file.getvalue(), torch_expected(state)


def small_torch_zip(tensor):
    import torch

    file = io.BytesIO()
    torch.save(tensor, file)
    return file.getvalue()


@makes("zips.distcp")
def distcp():
    import torch

    state = [torch.from_numpy(floats(5, 5)), torch.from_numpy(floats(8)).bfloat16()]
    return b"".join(map(small_torch_zip, state)), [("", tensor) for tensor in state]


@makes("safetensors.distcp")
def distcp_safetensors():
    import torch
    from safetensors.torch import save

    state = {"a": torch.from_numpy(floats(5, 5)), "b": torch.from_numpy(floats(8)).bfloat16()}
    first = torch.from_numpy(floats(3))
    return small_torch_zip(first) + small_torch_zip(17) + save(state), [("", first), *state.items()]


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@makes("array.npy")
def one_array():
    array = random.normal(0, 1, (6, 5))
    return npy(array), [("", array)]


@makes("arrays.npz")
def npz():
    state = {"c": floats(4, 5), "f": np.asfortranarray(floats(6, 3)), "big": floats(7).astype(">f4"), "i": random.integers(0, 9**9, (2, 2))}
    file = io.BytesIO()
    np.savez(file, **state)
    return file.getvalue(), list(state.items())


@makes("policy.zip")
def zip_of_zips():
    import torch

    model, optimizer, file = torch.from_numpy(floats(5, 4)), torch.from_numpy(floats(3)), io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("data", '{"policy": "text"}')
        archive.writestr("policy.pth", small_torch_zip({"w": model}))
        archive.writestr("policy.optimizer.pth", small_torch_zip({"m": optimizer}))
    return file.getvalue(), [("policy.w", model), ("policy.optimizer.m", optimizer)]


@makes("arrays.pkl")
def plain_pickle():
    import ml_dtypes

    state = {"epoch": 3, "weights": {"a": floats(4, 4), "f": np.asfortranarray(floats(5, 3)), "h": floats(9).astype(ml_dtypes.bfloat16)},
             "list": [floats(6), random.normal(0, 1, 5)]}
    names = [("weights.a", state["weights"]["a"]), ("weights.f", state["weights"]["f"]), ("weights.h", state["weights"]["h"]),
             ("list.0", state["list"][0]), ("list.1", state["list"][1])]
    return pickle.dumps(state, protocol=5), names


@makes("arrays4.pkl")
def older_pickle():
    state = {"global_step": 12, "a": floats(4, 4), "f": np.asfortranarray(floats(5, 3))}
    return pickle.dumps(state, protocol=4), [("a", state["a"]), ("f", state["f"])]


@makes("arrays.joblib")
def joblib_dump():
    import joblib

    state, file = {"step": 5, "a": floats(4, 4), "more": [np.asfortranarray(floats(5, 3)), floats(2, 2)]}, io.BytesIO()
    joblib.dump(state, file)
    return file.getvalue(), [("a", state["a"]), ("more.0", state["more"][0]), ("more.1", state["more"][1])]


@makes("state.msgpack")
def flax_msgpack():
    """As flax.serialization.msgpack_serialize writes: arrays are extension 1 around (shape, dtype name, bytes)."""
    import ml_dtypes
    import msgpack

    def pack(array):
        if isinstance(array, np.ndarray):
            return msgpack.ExtType(1, msgpack.packb((array.shape, array.dtype.name, array.tobytes()), use_bin_type=True))
        raise TypeError

    state = {"step": 40, "params": {"dense": {"kernel": floats(20, 6), "bias": floats(4)}}, "half": floats(8).astype(ml_dtypes.bfloat16)}
    file = msgpack.packb(state, default=pack, strict_types=True)
    return file, [("params.dense.kernel", state["params"]["dense"]["kernel"]), ("params.dense.bias", state["params"]["dense"]["bias"]),
                  ("half", state["half"])]


@makes("model.gguf")
def gguf_file():
    import gguf

    path = HERE / "model.gguf"
    state = {"tok.weight": floats(4, 32), "half": floats(3, 5).astype(np.float16)}
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint32("steps", 9)
    writer.add_array("names", ["a", "bc"])
    for name, array in state.items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes(), list(state.items())


@makes("model.onnx")
def onnx_model():
    import onnx
    from onnx import helper, numpy_helper

    state = {"w": floats(8, 4), "b": random.integers(0, 9**9, 6)}
    graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [], [helper.make_tensor_value_info("y", 1, [8, 4])],
                              initializer=[numpy_helper.from_array(array, name) for name, array in state.items()])
    return helper.make_model(graph).SerializeToString(), list(state.items())


def hdf5(libver, fill):
    import h5py

    file, expected = io.BytesIO(), []
    with h5py.File(file, "w", libver=libver) as h5:
        fill(h5, expected)
    return file.getvalue(), expected


def fill_hdf5(h5, expected):
    def whole(name, array, **options):
        h5.create_dataset(name, data=array, **options)
        expected.append((name, array))

    def chunked(name, array, chunk, **options):
        h5.create_dataset(name, data=array, chunks=chunk, **options)
        expected.append((name, array, list(chunks_of(array, chunk))))

    whole("model/dense/w", floats(5, 6))
    whole("model/dense/b", random.normal(0, 1, 4))
    whole("ids", random.integers(0, 9**9, 7, dtype=np.int32))
    chunked("model/chunked", floats(9, 8), (4, 5))
    chunked("grows", floats(7, 3), (2, 3), maxshape=(None, 3))
    chunked("grows_both", floats(5, 7), (3, 4), maxshape=(None, None))
    for i in range(12):
        whole(f"many/{i}", floats(3, 2))


@makes("old.h5")
def hdf5_earliest():
    return hdf5("earliest", fill_hdf5)


@makes("latest.h5")
def hdf5_latest():
    return hdf5("latest", fill_hdf5)


def main():
    path = HERE / "expected.json"
    expected = json.loads(path.read_text()) if path.exists() else {}
    for name in sys.argv[1:] or makers:
        file, tensors = makers[name]()
        (HERE / name).write_bytes(file)
        expected[name] = [entry(file, *tensor) for tensor in tensors]
    lines = [f"{json.dumps(name)}: [\n  " + ",\n  ".join(map(json.dumps, entries)) + "]" for name, entries in sorted(expected.items())]
    path.write_text("{" + ",\n".join(lines) + "}\n")


main()
