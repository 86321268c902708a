"""What reading the sources of a tree tells: lines, classes, constants, lookups, imports; see `report.py`."""

import ast
import importlib.util
import io
import os
import re
import tokenize
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SUFFIXES = (".py", ".pyx", ".pxd", ".h")
PROTOCOLS = {  # a class or a field that lets threads share work, each with rules of its own
    "map": r"^class Threads\b", "hands": r"^class Hands\b", "rounds": r"^cdef class Rounds\b",
    "rounds in lanes": r"^cdef class LaneRounds\b", "leader and assistant": r"^cdef class Pass\b",
    "aggregate gate": r"\bsum_of_now\b", "products ahead": r"^class Ahead\b",
}  # fmt: skip
THREADS = re.compile(r"ThreadPoolExecutor\(|threading\.Thread\(|\bpb_(?:load|store|add|cas|swap)\w*\(")
METHODS = {"frank-wolfe": "FrankWolfe", "lbfgs": "QuasiNewton", "newton": "Newton", "alm": "AugmentedLagrangian",
           "sgd": "StochasticSubgradient"}
NUMBER = r"[-+(]*[\d.]"
NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
STRING = r'(?:"""(?:\\.|[^\\])*?""")'


class Sources:
    """Texts of a tree's package by their paths in it, and who imports whom, by the parser of its layering test."""

    def __init__(self, tree):
        self.root = tree / "pybundle"
        self.texts = {path.relative_to(self.root).as_posix(): path.read_text(encoding="utf-8")
                      for path in sorted(self.root.rglob("*")) if path.suffix in SUFFIXES}
        spec = importlib.util.spec_from_file_location("layering", tree / "tests" / "test_layering.py")
        self.layering = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.layering)

    def python(self, folder=""):
        return {path: ast.parse(text) for path, text in self.texts.items()
                if path.endswith(".py") and path.startswith(folder)}

    def imported(self, path):
        """Files without suffix that a source imports; a folder stands for its __init__."""
        stems = {name.rsplit(".", 1)[0] for name in self.texts if not name.endswith(".h")}
        package = ("pybundle", *Path(path).parts[:-1])
        for dots, module, names in self.layering._statements(path, self.texts[path]):
            base = (package[:len(package) - dots + 1] if dots else ()) + tuple(filter(None, module.split(".")))
            if base[:1] == ("pybundle",):
                for name in names or [""]:
                    tries = ("/".join(parts) for parts in ((*base[1:], name), base[1:], (*base[1:], "__init__")))
                    yield from [stem for stem in tries if stem in stems][:1]

    def files_of(self, stem):
        return [stem + suffix for suffix in (".py", ".pyx", ".pxd") if stem + suffix in self.texts]

    def compiled_closure(self, stems):
        """The .pyx and .pxd of the stems and of all that they cimport, and the headers that these include."""
        found, todo = set(), [path for stem in stems for path in self.files_of(stem)]
        while todo:
            path = todo.pop()
            if path in found or path.endswith(".py"):
                continue
            found.add(path)
            if not path.endswith(".h"):
                todo += [other for stem in self.imported(path) for other in self.files_of(stem)]
            for name in re.findall(r'(?:include|extern from)[ \t]+"([^"]+\.h)"', self.texts[path]):
                places = (Path(path).parent, Path("core"), Path("features"))
                near = [os.path.normpath(place / name) for place in places]
                todo += [other for other in near if other in self.texts][:1]
        return found

    def circles(self):
        """Groups of files that import each other, found by taking one circle after the other together."""
        stems = {path.rsplit(".", 1)[0] for path in self.texts if not path.endswith(".h")}
        edges = {stem: {other for path in self.files_of(stem) for other in self.imported(path)} - {stem}
                 for stem in stems}
        group = {stem: stem for stem in stems}
        while True:
            graph = {}
            for stem, others in edges.items():
                graph.setdefault(group[stem], set()).update({group[other] for other in others} - {group[stem]})
            try:
                TopologicalSorter(graph).prepare()
            except CycleError as error:
                first, *others = error.args[1]
                group = {stem: first if name in others else name for stem, name in group.items()}
            else:
                sizes = {name: [stem for stem in stems if group[stem] == name] for name in set(group.values())}
                return sorted(sorted(members) for members in sizes.values() if len(members) > 1)


def code_lines(path, text):
    """Number of lines that are neither blank, comment nor docstring."""
    if path.endswith(".py"):
        documented = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and type(node.value.value) is str:
                documented |= set(range(node.lineno, node.end_lineno + 1))
        tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in NO_CODE]
        return len({line for token in tokens for line in range(token.start[0], token.end[0] + 1)} - documented)
    if path.endswith(".h"):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    else:       # C code in `cdef extern from *` is none
        text = re.sub(rf"(?m)(extern from [^\n]*:\n)?^[ \t]*r?{STRING}[ \t]*$", lambda m: m[0] if m[1] else "", text)
    return sum(bool(line.strip()) and not (line.strip().startswith("#") and not path.endswith(".h"))
               for line in text.splitlines())


def count_constants(path, text):
    """Number of names of a module that stand for a number."""
    if path.endswith(".h"):
        return len(re.findall(rf"(?m)^[ \t]*#[ \t]*define \w+ +{NUMBER}", text))
    if path.endswith(".py"):
        return sum(isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant | ast.BinOp | ast.UnaryOp)
                   and any(isinstance(x, ast.Constant) and type(x.value) in (int, float) for x in ast.walk(node.value))
                   for node in ast.parse(text).body)
    text = re.sub(STRING, "", text)
    cdefs = re.findall(r"(?m)^cdef [^\n(]*?\b[A-Z][A-Z_0-9]*\s*=[^\n#]*", text)
    return (sum(len(re.findall(rf"\b[A-Z][A-Z_0-9]*\s*=\s*{NUMBER}", line)) for line in cdefs)
            + len(re.findall(rf"(?m)^[ ]*[A-Z][A-Z_0-9]* = {NUMBER}[^\n]*$", text)))


def loop_members(sources):
    """Direct members of the loop that policies use, and all chains of attributes that begin with one."""
    chains = set()
    for path, tree in sources.python("solvers/").items():
        for node in ast.walk(tree) if path.endswith("/policies.py") else ():
            names = re.fullmatch(r"loop\.([\w.]+)", ast.unparse(node)) if isinstance(node, ast.Attribute) else None
            chains |= {names[1]} if names else set()
    if not chains:
        raise SystemExit("no policies.py in solvers uses `loop`; change loop_members in sources.py")
    return sorted({chain.split(".")[0] for chain in chains}), sorted(chains)


def lookups(sources):
    """First arguments of hasattr and getattr in solvers: on risks and oracles, and all."""
    found = [ast.unparse(node.args[0]) for tree in sources.python("solvers/").values() for node in ast.walk(tree)
             if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
             and re.fullmatch("(has|get)attr", node.func.id)]
    return [name for name in found if re.search(r"(^|[._])(risk|oracle|exact|working|home)(\(\))?$", name)], found


def places(sources):
    """Numbers of files that name each of `METHODS`."""
    texts = [text for path, text in sources.texts.items() if path.endswith(".py")]
    texts += [(sources.root.parent / name).read_text(encoding="utf-8") for name in ("README.md", "docs/methods.rst")]
    for name, owner in METHODS.items():
        if not any(re.search(rf"^class {owner}\b", text, re.M) for text in texts):
            raise SystemExit(f"there is no class {owner}; say in METHODS which one is {name!r} now")
    return {name: sum(bool(re.search(rf'"{name}"|\b{owner}\b', text)) for text in texts)
            for name, owner in METHODS.items()}
