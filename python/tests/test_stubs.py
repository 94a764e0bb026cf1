"""The stub file says what the built module does."""

import ast
import inspect
import pathlib
import sys

import relaxcrf
from relaxcrf import _core

STUB = pathlib.Path(relaxcrf.__file__).with_name("_core.pyi")


def signature_of(node):
    """Names and defaults of a function in the stub, without self."""
    args = node.args
    names = [a.arg for a in [*args.posonlyargs, *args.args] if a.arg not in ("self", "cls")]
    defaults = [ast.literal_eval(d) for d in args.defaults]
    padded = [inspect.Parameter.empty] * (len(names) - len(defaults)) + defaults
    return list(zip(names, padded))


def built_signature(function):
    parameters = inspect.signature(function).parameters.values()
    return [(p.name, p.default) for p in parameters if p.name not in ("self", "cls")]


def test_stub_and_module_agree():
    tree = ast.parse(STUB.read_text())
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}
    public = {n for n in dir(_core) if not n.startswith("_")}
    assert public == set(functions) | set(classes)
    for name, node in functions.items():
        assert built_signature(getattr(_core, name)) == signature_of(node), name
    for name, node in classes.items():
        built = getattr(_core, name)
        members = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
        assert {n for n in dir(built) if not n.startswith("_")} == set(members) - {"__new__"}
        for member, child in members.items():
            if any(isinstance(d, ast.Name) and d.id == "property" for d in child.decorator_list):
                assert inspect.isgetsetdescriptor(getattr(built, member)), member
                continue
            if member == "__new__" and sys.version_info < (3, 10):
                continue  # Python 3.9 cannot tell the signature of a native class.
            function = built if member == "__new__" else getattr(built, member)
            assert built_signature(function) == signature_of(child), (name, member)


def test_package_is_typed():
    assert STUB.with_name("py.typed").exists()
    for name in relaxcrf.__all__:
        thing = getattr(relaxcrf, name)
        assert thing.__doc__, name
        if inspect.isfunction(thing):
            parameters = inspect.signature(thing).parameters.values()
            assert all(p.annotation is not p.empty for p in parameters), name
