"""The rooms that faults are planted in, and the suites that stand nearest to each.

A word of a row is a pattern of names of suites, or a folder of tests/python, which stands for all suites in it. `tests/mutate` runs them by
the time that they take, the shortest first."""
import fnmatch
import pathlib

ROOMS = {
    "daemon/autograd": "autograd autograd_* starved_ops client_graph client_hooks hooks random python/autograd",
    "daemon/cuda": "fake_cuda_* python_cuda",
    "daemon/graph": "python_script_plain graph_run passes_run plans_run starved_plan client_programs client_calls programs many starved_program endless python_plans python_jit python_jit_random python_jit_train",
    "daemon/kernels": "conformance jit kernels_* ops_kernels rewritten work random fake_cuda_kernels fake_cuda_products python_math python_values python_linalg python_fft python_nn",
    "daemon/ops": "ops starved_plan ops_kernels graph_run plans_run conformance device starved_ops random rewritten work client_ops client_bits python_tensor python_index python_errors",
    "daemon/sched": "sched sched_* device device_ahead graph_run turns waits many endless client_queues greedy",
    "daemon/server": "options hostile sessions rings import fuse frames ending crowd intake own stoppers waits client_meeting client_processes tools",
    "daemon/service": "service groups jobs models kept full import hostile_groups hostile_models client_queues client_handles client_groups client_collectives client_regroup "
                      "client_models waits greedy sessions crash_models crash_groups turns tools python_queued python_share",
    "daemon/session": "starved fuzz_session asked hooks waits turns many random sessions hostile frames greedy programs hostile_groups hostile_models client_ops client_calls "
                      "client_hooks client_queues client_mangled client_programs python_errors python_tables kept full import own endless work",
    "daemon/tensor": "account tensor ops autograd sched_ops starved_ops many kept full own client_handles client_device python_memory python_layouts",
    "client/files": "client_starved client_files client_program_files fuzz_files python/files python_torchscript python_jit_files python_jit_torch",
    "client/grad": "client_graph client_starved client_hooks python_autograd python_hooks python_checkpoint python_saved python_leaks",
    "client/group": "client_groups client_collectives client_regroup hello_group hello_group_kill crash_groups python_group python_process_group python_collectives python_sends",
    "client/http": "http_* fuzz_http",
    "client/model": "client_models client_starved hostile_models crash_models python/models tools http_models",
    "client/onnx": "client_starved onnx_* fuzz_onnx client_rows client_models python/models",
    "client/program": "client_calls client_starved client_programs client_program_* client_trace client_rows trace python_jit python_jit_files python_jit_named python_trace python_jit_frozen",
    "client/python/src": "python_calls python_values python_tensor python_index python_numpy python_errors python_lost python_process python_memory python_leaks python_items "
                         "python_queued python_handles python_hooks python_jit_named python_group python_models python_torch python_signals python_threads python_ends python_aio",
    "client/script": "script_golden fuzz_script graph_parse_ir client_programs python_script python_script_* python_jit python_jit_usual python_jit_functions",
    "client/share": "client_starved client_queues client_handles client_loop client_meeting python_queued python_items python_share python_handles python_meeting python_gone python_leaks",
    "client/tensor": "client client_starved client_loop client_ops client_bits client_handles client_device fake_cuda_memory fake_cuda_share python_tensor python_values python_numpy python_memory "
                     "python_crossing python_index",
    "client/tensorctl": "tools python_tables python_jit_files python_torchscript python_plans python_pool",
    "client/wire": "client client_starved client_loop client_loop_ring client_mangled client_mangled_ring client_meeting client_processes client_queues_ring python_process python_meeting "
                   "python_lost python_errors python_signals python_threads python_ends python_memory",
    "proto/base": "proto_* shm_segment tensor ops conformance client frames client_bits sched python_types python_errors",
    "proto/infer": "proto_infer proto_views proto_rules proto_hostile fuzz_infer ops conformance client_ops python_tensor python_nn python_linalg python_index",
    "proto/ops": "generator formula proto_attrs proto_rules proto_infer proto_hostile ops conformance autograd_grad client_ops python_functions",
    "proto/passes": "passes_golden passes_run graph_check_passes starved_program python_jit python_jit_random python_passes client_programs",
    "proto/program": "proto_ir proto_ir_* graph_parse_ir fuzz_program starved_program passes_golden graph_run client_programs client_program_files programs python_jit",
    "proto/rows": "client_rows autograd_rows onnx_nodes fuzz_program python_rows python_onnx_edges python_jit",
    "proto/wire": "proto_record proto_ring proto_ir_wire proto_cgroup fuzz_frame fuzz_session frames rings hostile client client_mangled client_loop_ring import sessions",
    "shm": "shm_* kept full fake_cuda_driver fake_cuda_library fake_cuda_share import client_handles client_collectives client_groups sessions own",
    "client/python/tensord": "python_aio python_amp python_fft python_func python_functions python_jit python_jit_usual python_script_modules python_linalg python_multiprocessing python_surface python_types tools",
    "client/python/tensord/array_api": "python/array_api python_device",
    "client/python/tensord/autograd": "python/autograd",
    "client/python/tensord/compat": "python/compat python_surface python_idioms",
    "client/python/tensord/core": "python/core python_idioms",
    "client/python/tensord/data": "python/data python_loader",
    "client/python/tensord/files": "python/files",
    "client/python/tensord/models": "python/models",
    "client/python/tensord/nn": "python/nn python_swap",
    "client/python/tensord/optim": "python/optim",
    "client/python/tensord/program": "python/program",
    "client/python/tensord/share": "python/share python_store",
    "client/python/tensord/torch": "python/with_torch",
    "client/python/tensord/utils": "python_checkpoint python_data python_swap python_surface python_idioms",
}
# Suites that install what was built.
INSTALLING = {"tools"}
# Folders that lie in a room's and hold none of its code, and programs that write code.
ASIDE = {"gen", "examples", "embed.py"}
# Rooms whose files lie in their own folder alone.
FLAT = {"client/python/tensord"}


def files(root, room):
    """The room's sources, from the root of the tree."""
    found = (pathlib.Path(root) / room).glob("*" if room in FLAT else "**/*")
    names = (path.relative_to(root) for path in found if path.suffix in (".c", ".py"))
    return sorted(str(name) for name in names if not ASIDE & set(name.parts))


def suites(root, room, names):
    """Of all suites' names those of the room."""
    wanted = []
    for word in ROOMS[room].split():
        folder = pathlib.Path(root) / "tests" / word
        wanted += [f"python_{path.stem.removeprefix('test_')}" for path in folder.glob("test_*.py")] if "/" in word else [word]
    return [name for name in names if any(fnmatch.fnmatchcase(name, w) for w in wanted)]
