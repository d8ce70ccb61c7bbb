"""tritonclient.http, as its users have it, against a server of models every, one, and later in its repository.

    triton.py HOST:PORT"""

import sys

import numpy as np
import tritonclient.http as http
import tritonclient.utils as utils
import tritonclient.utils.shared_memory as shm

KINDS = [np.bool_, np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64]


def draw(kind, rng):
    kind = np.dtype(kind)
    if kind == np.bool_:
        return rng.random((5, 3)) > 0.5
    if kind.kind == "f":
        return rng.normal(size=(5, 3)).astype(kind)
    return rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, (5, 3), dtype=kind, endpoint=True)


def try_dtypes(c, rng):
    for binary in (True, False):
        for wanted in ("none", "binary", "text"):
            values = {np.dtype(k).name: draw(k, rng) for k in KINDS}
            inputs, asked = [], []
            for name, v in values.items():
                half = name == "float16"
                i = http.InferInput("in_" + name, [5, 3], utils.np_to_triton_dtype(v.dtype))
                i.set_data_from_numpy(v, binary_data=binary or half)
                inputs.append(i)
                asked.insert(0, http.InferRequestedOutput("out_" + name, binary_data=wanted == "binary" or half))
            i = http.InferInput("in_bfloat16", [5, 3], "BF16")
            i._raw_data, i._parameters["binary_data_size"] = b"\x00\x3f" * 15, 30
            answer = c.infer("every", [*inputs, i], outputs=None if wanted == "none" else asked, request_id="7", timeout=60000000, priority=1)
            assert answer.get_response()["id"] == "7"
            for name, v in values.items():
                came = answer.as_numpy("out_" + name)
                assert came.dtype == v.dtype and np.array_equal(came, v), (name, came, v)


def try_classes(c, x):
    i = http.InferInput("x", list(x.shape), "FP32")
    i.set_data_from_numpy(x)
    for binary in (True, False):
        came = c.infer("one", [i], outputs=[http.InferRequestedOutput("y", binary_data=binary, class_count=3)]).as_numpy("y")
        texts = [[t.decode() if isinstance(t, bytes) else t for t in row] for row in came]
        assert [[int(t.split(":")[1]) for t in row] for row in texts] == np.argsort(-x, 1)[:, :3].tolist()


def try_regions(c, x):
    import os
    names = [f"/td-triton-{os.getpid()}-{k}" for k in range(2)]
    a, b = (shm.create_shared_memory_region(n[4:], n, x.nbytes) for n in names)
    try:
        shm.set_shared_memory_region(a, [x])
        for n in names:
            c.register_system_shared_memory(n[4:], n, x.nbytes)
        assert len(c.get_system_shared_memory_status()) == 2
        i, o = http.InferInput("x", list(x.shape), "FP32"), http.InferRequestedOutput("y")
        i.set_shared_memory(names[0][4:], x.nbytes), o.set_shared_memory(names[1][4:], x.nbytes)
        c.infer("one", [i], outputs=[o])
        assert np.array_equal(shm.get_contents_as_numpy(b, np.float32, list(x.shape)), x)
        c.unregister_system_shared_memory(names[0][4:]), c.unregister_system_shared_memory()
        assert c.get_system_shared_memory_status() == [] and c.get_cuda_shared_memory_status() == []
    finally:
        shm.destroy_shared_memory_region(a), shm.destroy_shared_memory_region(b)


def refused(call, *why):
    try:
        call()
    except utils.InferenceServerException as e:
        assert all(w in str(e) for w in why), e
    else:
        raise AssertionError(f"not refused: {why}")


def main(address):
    c, rng = http.InferenceServerClient(address, connection_timeout=60, network_timeout=60), np.random.default_rng(0)
    x = rng.normal(size=(2, 1000)).astype(np.float32)
    assert c.is_server_live() and c.is_server_ready() and c.is_model_ready("every") and not c.is_model_ready("later")
    assert "statistics" in c.get_server_metadata()["extensions"]
    assert c.get_model_metadata("one", "1")["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 1000]}]
    assert c.get_model_config("one")["input"][0]["data_type"] == "TYPE_FP32"
    try_dtypes(c, rng), try_classes(c, x), try_regions(c, x)
    i = http.InferInput("x", [2, 1000], "FP32")
    i.set_data_from_numpy(x)
    assert np.array_equal(c.async_infer("one", [i]).get_result().as_numpy("y"), x)
    refused(lambda: c.infer("none", [i]), "404"), refused(lambda: c.infer("one", [i], sequence_id=3), "400", "sequence_id")
    refused(lambda: c.infer("one", [i], outputs=[http.InferRequestedOutput("q")]), "400", "q")
    refused(lambda: c.infer("one", [i], request_compression_algorithm="gzip"), "415"), refused(lambda: c.load_model("none"), "404")
    c.load_model("later")
    assert c.is_model_ready("later", "3")
    assert {r["name"]: r["state"] for r in c.get_model_repository_index()} == {"every": "READY", "one": "READY", "later": "READY"}
    c.unload_model("later")
    assert not c.is_model_ready("later")
    stats = c.get_inference_statistics("one")["model_stats"][0]
    assert stats["inference_stats"]["success"]["count"] >= 4 and stats["version"] == "1"


main(sys.argv[1])
