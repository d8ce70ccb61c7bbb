"""Programs in files: tensord.jit.load(), and the programs that it gives. _saving.py writes what it reads.

A file is an archive as torch.save() writes it: its tree is a dict of tensors, under the names that the programs capture them by (a module's state
dict), and beside it are the programs (client/files/programs.h). How Python calls one is a record of JSON: its parameters' names and defaults; of a
trace the trees of tensors that it takes and gives.
"""
import copy
import json
import os
import zipfile
import zlib
from typing import Any

from tensord import _C
from tensord.files import _save
from tensord.program._published import Named
from tensord.program._namedtuples import loaded_giver
from tensord.program._mutex import Turn
from tensord.program._module_base import ScriptModule
from tensord.program._parts import Part, packed, state_of, state_words, transient_of, unpacked
from tensord.program._trees import of_json, to_json, with_trees
from tensord.nn import Module, Parameter

_EXTRA_MOST = 1 << 30  # bytes of an extra file


# ---- calling what was loaded


class _Method(Named):
    """A program of a file, with the tensors of the LoadedProgram around it."""

    def __init__(self, name, graph, homes, call, states, turn):
        self.__name__, self.graph = name, graph
        self._homes = homes  # (dict, key) of each tensor that it captures
        self._states = states  # (name, the same) of what it takes behind its arguments, and gives back
        self._turn = turn  # of all methods
        self._program = None
        self._names = _C._names_in(graph)[0]
        if states:
            self._names = self._names[:-len(states)]
        call = call if isinstance(call, dict) else {}
        self._trees = (of_json(call["takes"]), of_json(call["gives"])) if "takes" in call and "gives" in call else None
        self._named = call.get("named")
        self._give = loaded_giver(self._named, name) if self._named is not None else None
        names = call.get("names")
        self._called = names if isinstance(names, list) and all(isinstance(n, str) for n in names) else list(self._names)
        defaults = call.get("defaults")
        try:
            self._defaults = {k: unpacked(v) for k, v in defaults.items()} if isinstance(defaults, dict) else {}
        except (KeyError, TypeError, ValueError, RecursionError) as e:
            raise _C.InvalidError(f"load(): the defaults of the program '{name}' make no sense") from e

    def _captured(self):
        """As they are now: to() and share_memory() put others in their places."""
        return tuple(home[key] for home, key in self._homes)

    def _daemons(self):
        return self._made(self.graph, self._captured())

    def _given(self, args, kwargs):
        """All arguments in the order of the parameters."""
        if len(args) == len(self._called) and not kwargs:
            return args
        given = dict(zip(self._called, args))
        if len(args) > len(self._called):
            raise TypeError(f"{self.__name__}() takes {len(self._called)} arguments, and {len(args)} are given: ({', '.join(self._called)})")
        for name, value in kwargs.items():
            if name in given or name not in self._called:
                raise TypeError(f"{self.__name__}() has no parameter '{name}', or it was given before; it takes ({', '.join(self._called)})")
            given[name] = value
        missing = [name for name in self._called if name not in given and name not in self._defaults]
        if missing:
            raise TypeError(f"{self.__name__}() lacks the argument '{missing[0]}'; it takes ({', '.join(self._called)})")
        return tuple(given[name] if name in given else self._defaults[name] for name in self._called)

    def _states_count(self):
        return len(self._states)

    def _alone(self):
        return self._turn if self._states else None

    def _asks(self, args, kwargs):
        given = self._given(args, kwargs)
        if self._states:
            return self._daemons(), (*given, *(home[key] for _, (home, key) in self._states)), self._keep
        if self._trees is None:
            return self._daemons(), given, self._give
        return self._daemons(), *with_trees(given, *self._trees)

    def _keep(self, made):
        result, now = made
        for (_, (home, key)), value in zip(self._states, now):
            home[key] = value
        return result if self._give is None else self._give(result)

    def __repr__(self):
        return f"<tensord.jit program {self.__name__}({', '.join(self._called)})>"


class _Unread:
    """A method of an archive that is more than is known here: calling it says why."""

    def __init__(self, name, why):
        self.__name__, self._why = name, why

    def __call__(self, *args, **kwargs):
        self._asks(args, kwargs)

    def _alone(self):
        return None

    def _asks(self, args, kwargs):
        raise _C.Unsupported(f"{self.__name__}() was not read: {self._why}")

    def __repr__(self):
        return f"<tensord.jit program {self.__name__}, which was not read>"


def _states_of(call, homes, kept):
    """[(name, (dict, key))] of what a program assigns: a tensor of the file where that has this name. `kept`: what is none, of all programs."""
    found = []
    try:
        for state in call.get("states", ()) if isinstance(call, dict) else ():
            name = state["name"]
            slot = kept, name
            if "tensor" not in state:
                kept[name] = unpacked(state["value"])
            elif state["tensor"] == name:
                slot = homes[name]
            else:
                home, key = homes[state["tensor"]]
                kept[name] = home[key]
            found.append((name, slot))
    except (KeyError, TypeError, ValueError, RecursionError) as e:
        raise _C.InvalidError("load(): the state of its programs makes no sense") from e
    return found


def _listed(programs, key):
    """The names that the calls of programs list so."""
    return {name for _, _, _, call in programs if isinstance(call, dict) and isinstance(call.get(key), list) for name in call[key] if isinstance(name, str)}


def _tied(programs, state):
    """The state where tensors of several names are one, also under names that the file's tensors have not got."""
    tied = next((call["tied"] for _, _, _, call in programs if isinstance(call, dict) and isinstance(call.get("tied"), dict)), {})
    for name, other in tied.items():
        if not isinstance(other, str) or other not in state or name in state and not _looks_like(state[name], state[other]):
            raise _C.InvalidError(f"load(): '{name[:80]}' is another tensor than the one that it is said to be")
        state[name] = state[other]


def _looks_like(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and type(a) is type(b)


def _as_parameter(tensor):
    """One that requires no grad, which an archive of TorchScript does not tell from a buffer."""
    return tensor if isinstance(tensor, Parameter) else Parameter(tensor, requires_grad=False)


class LoadedProgram(ScriptModule):
    """A program that a file held; made by load(). Called as what was saved, with parameters and state of its own.

    train() and eval() of what was saved decided what it does, before it was saved."""

    __slots__ = ()

    def __init__(self, state, programs):
        Module.__init__(self)
        transient, frozen = _listed(programs, "transient"), _listed(programs, "frozen")
        state = {name: _as_parameter(tensor) if name in frozen else tensor for name, tensor in state.items()}
        _tied(programs, state)
        homes = {name: self._put(name, tensor, name in transient) for name, tensor in state.items()}
        self.__dict__["_kept"] = kept = {}
        turn = Turn()
        methods = {name: _Unread(name, captured[0]) if graph is None else _Method(name, graph, [homes[k] for k in captured], call, _states_of(call, homes, kept), turn)
                   for name, graph, captured, call in programs}
        self.__dict__["_programs"] = methods
        first = next((m for m in methods.values() if isinstance(m, _Method)), None) or next(iter(methods.values()))
        self.__dict__["_main"] = methods.get("forward", first)

    def _put(self, name, tensor, transient):
        """Where its name says that it belongs, in modules within modules: (the dict, its key there)."""

        *places, last = name.split(".")
        if len(places) > 100:
            raise _C.InvalidError(f"load(): the name '{name[:40]}...' has more than 100 parts")
        at: Module = self
        for place in places:
            inner = at._modules.get(place)
            if inner is None:
                inner = at._modules[place] = Module()
            at = inner
        if transient:
            at._transient.add(last)
        home: Any = at._parameters if isinstance(tensor, Parameter) else at._buffers
        home[last] = tensor
        return home, last

    @property
    def graph(self):  # type: ignore[override]
        return self._main.graph

    @property
    def forward(self):
        return self._main

    def _alone(self):
        return self._main._alone()

    def _asks(self, args, kwargs):
        return self._main._asks(args, kwargs)

    def train(self, mode=True):
        """What it does was saved."""
        return self

    def _daemons(self):
        return self._main._daemons()

    def _parts(self):
        return [Part(m.__name__, m.graph, dict(zip(_C._names_in(m.graph)[1], m._captured())), _json_of(m)) for m in self._programs.values() if isinstance(m, _Method)]

    def _state(self):
        kept = {name: home[key] for m in self._programs.values() if isinstance(m, _Method) for name, (home, key) in m._states if _C.is_tensor(home[key])}
        return {**kept, **state_of(self)}, [*transient_of(self), *(name for name in kept if name not in state_of(self))]

    def __getattr__(self, name):
        for home in (self.__dict__.get("_programs", ()), self.__dict__.get("_kept", ())):
            if name in home:
                return home[name]
        return super().__getattr__(name)

    def __reduce__(self):
        """Pickled and copied as its tensors are, with the programs beside them."""
        state, transient = self._state()
        listed = {"transient": transient, "frozen": [name for name, x in state.items() if isinstance(x, Parameter) and not x.requires_grad]}
        state, programs = dict(state), []
        for part in self._parts():
            state.update(part.captured)
            programs.append((part.name, part.graph, list(part.captured), {**(part.call or {}), **listed}))
        programs += [(name, None, [m._why], None) for name, m in self._programs.items() if isinstance(m, _Unread)]
        mine = {name: value for name, value in vars(self).items() if name not in _OF_MODULES}
        return _again, (type(self), state, programs, mine)

    def __deepcopy__(self, memo):
        make, parts = self.__reduce__()
        memo[id(self)] = made = make(*copy.deepcopy(parts, memo))
        return made

    def __repr__(self):
        return f"<tensord.jit.LoadedProgram: {', '.join(map(repr, self._programs.values()))}>"


_OF_MODULES = frozenset(vars(Module())) | {"_programs", "_main", "_kept"}


def _again(kind, state, programs, mine):
    made = kind(state, programs)
    made.__dict__.update(mine)
    return made


def _json_of(method):
    call: "dict[str, Any]" = {"names": method._called, "defaults": {k: packed(v) for k, v in method._defaults.items()}}
    if method._named is not None:
        call["named"] = method._named
    if method._trees is not None:
        call["takes"], call["gives"] = map(to_json, method._trees)
    if method._states:
        call["states"] = [state_words(name, home[key]) for name, (home, key) in method._states]
    return call


# ---- loading


def _read_extras(f, wanted) -> None:
    """The extra files of an archive that these are the names of; what it has not got is b""."""
    at = None if isinstance(f, (str, bytes, os.PathLike)) else f.tell()
    try:
        with zipfile.ZipFile(os.fsdecode(f) if isinstance(f, (bytes, os.PathLike)) else f) as z:
            found = {entry.filename.split("/", 1)[-1]: entry for entry in z.infolist()}
            for name in wanted:
                entry = found.get(f"extra/{name}")
                if entry is not None and entry.file_size > _EXTRA_MOST:
                    raise _C.InvalidError(f"load(): the extra file '{name}' has {entry.file_size} bytes, more than {_EXTRA_MOST}")
                wanted[name] = z.read(entry) if entry is not None else b""
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as e:
        raise _C.InvalidError(f"load(): the extra files are damaged: {e}") from e
    finally:
        if at is not None:
            f.seek(at)


def load(f, map_location=None, _extra_files=None) -> LoadedProgram:
    """The program, or the module of programs, that save() or torch.jit.save() wrote to a file: a path, or an object with read().

    It is called as what was saved; methods that were exported are attributes. parameters(), state_dict() and load_state_dict() are those of a
    module, and what training writes to them its programs see. Nothing in the file is run before it is called, and what is called is a program
    for the daemon, which Python never sees. map_location is that of tensord.load(). _extra_files: a dict, whose values become the bytes of the
    extra files of these names, as in PyTorch. A file without a program is Unsupported: tensord.load()
    reads its tensors."""
    if _extra_files:
        if not isinstance(f, (str, bytes, os.PathLike)) and not f.seekable():
            raise _C.Unsupported("load(): _extra_files are read of a path, or of a file that can be sought in")
        _read_extras(f, _extra_files)
    state, programs = _save.load_programs(f, map_location)
    if not isinstance(state, dict) or not all(isinstance(k, str) and _C.is_tensor(v) for k, v in state.items()):
        raise _C.InvalidError("load(): the tensors of the programs are no dict of tensors")
    known = []
    for name, graph, captured, call in programs:
        missing = [k for k in captured if k not in state] if graph is not None else []
        if missing:
            raise _C.InvalidError(f"load(): the program '{name}' captures '{missing[0]}', and the file has no such tensor")
        try:
            known.append((name, graph, captured, None if call is None else json.loads(call)))
        except (ValueError, RecursionError) as e:
            raise _C.InvalidError(f"load(): how the program '{name}' is called is no JSON") from e
    return LoadedProgram(state, known)


def save(m, f, _extra_files=None) -> None:
    """m.save(f), of any program."""
    if not isinstance(m, Named):
        raise TypeError(f"save() takes a program (script(), trace()), not {type(m).__name__}")
    m.save(os.fspath(f) if isinstance(f, os.PathLike) else f, _extra_files=_extra_files)
