"""What the sources of a tree say about its house: classes, questions, tuples, hooks, inner floors; see `report.py`."""

import ast
import re
import statistics
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import product

FORMS = ("Objective", "Problem", "Regulariser", "Penalty")     # base classes of forms of the objective
FLAGS = ("nonneg", "is_penalised", "_is_penalised", "is_separable", "is_square", "is_of_norm",
         "is_linear")
FORMS_OF = ("radius", "entries", "even", "square", "ball")      # None if a problem or a penalty lacks this form

OBJECTIVES = ("objective", "problem", "penalty", "omega", "regulariser", "penalty_term")
OFFSETS, SLOPES = r"(old_|new_)?(offset|constant)", r"(old_|new_)?(phi|slope|vector)"
PLANES = ("bundle/", "mkl/", "runtime/", "solvers/")     # `proof` has a class of its own, an oracle's pair no errors
HOOKS = ("__getstate__", "__setstate__", "__reduce__", "check_state", "adopt", "from_state", "terms_of")
LIMITS = "FreeWeights"      # the class that proves limits of free weights
ASKED = "RiskBase"          # the class whose members solvers may ask for
OWN = {"penalties": ("prox/", ("L1", "SparseGroupLasso", "ElasticNet", "Box")),
       "structures": ("models/", ("Chain", "Dependency", "Segmentation", "BinaryLabeling", "Landmarks"))}


def classes(sources, folder=""):
    """(path, definition) of classes of Python files by name."""
    return {node.name: (path, node) for path, tree in sources.python(folder).items() for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)}


def bases(known, name):
    """The names of a class and of what it derives from, as far as the tree has them."""
    found = [name]
    for base in known[name][1].bases if name in known else ():
        found += bases(known, ast.unparse(base).split("[")[0].split(".")[-1])
    return found


def members(node, functions_only=False):
    """Names that the body of a class binds."""
    for child in node.body:
        if isinstance(child, ast.FunctionDef):
            yield child.name
        elif not functions_only and isinstance(child, ast.AnnAssign):
            yield child.target.id
        elif not functions_only and isinstance(child, ast.Assign):
            yield from (target.id for target in child.targets)


def largest_classes(sources):
    """The class of solvers with most methods, and the one with most when those of its bases in the package count."""
    known = classes(sources)
    own = {name: len(set(members(node, True))) for name, (path, node) in known.items() if path.startswith("solvers/")}
    whole = {name: len({method for base in bases(known, name) if base in known
                        for method in members(known[base][1], True)}) for name in own}
    return [max(counts.items(), key=lambda item: item[1]) for counts in (own, whole)]


def asked_members(sources):
    """Public members of the class that lists what a risk may have."""
    known = classes(sources)
    if ASKED not in known:
        raise SystemExit(f"there is no class {ASKED}; say in ASKED which one lists what solvers may ask of a risk")
    return sorted({name for name in members(known[ASKED][1]) if not name.startswith("_")})


def last_name(node):
    return re.split(r"\W", ast.unparse(node).removesuffix("()"))[-1]


def questions(sources):
    """(place, line of source) of questions about the form of an objective in solvers."""
    known = classes(sources)
    forms = {name for name in known if set(FORMS) & set(bases(known, name)[1:])}
    for path, tree in sources.python("solvers/").items():
        lines, found = sources.texts[path].splitlines(), set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1:
                is_form = node.func.id in ("isinstance", "issubclass") and forms & set(
                    re.findall(r"\w+", ast.unparse(node.args[1])))
                is_lookup = node.func.id in ("getattr", "hasattr") and last_name(node.args[0]) in OBJECTIVES
                found |= {node.lineno} if is_form or is_lookup else set()
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                name = node.id if isinstance(node, ast.Name) else node.attr
                found |= {node.lineno} if name in FLAGS else set()
            else:
                found |= {part.lineno for part in tested(node) if getattr(part, "attr", None) in FORMS_OF}
        yield from ((f"{path}:{line}", lines[line - 1].strip()) for line in sorted(found))


def tested(node):
    """Expressions that a comparison, a condition or `and`, `or`, `not` asks about."""
    if isinstance(node, ast.Compare):
        both = [node.left, *node.comparators]
        return [part for one in both for part in (one.elts if isinstance(one, ast.Tuple) else [one])]
    if isinstance(node, ast.BoolOp):
        return node.values
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return [node.operand]
    return [node.test] if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert) else []


def bare_planes(sources):
    """(place, source) where a plane is a tuple: taken apart as one, passed as arguments but to `Plane`, or indexed."""
    pair = re.compile(rf"(^|[(,]\s*)(self\.|\w+\.)?{OFFSETS}(: \w+)?, (self\.|\w+\.)?{SLOPES}\b")
    index = re.compile(r"\b(plane|aggregate|newest|proven)\[[\d:]+\]")
    for path, text in sources.texts.items():
        if not path.startswith(PLANES) or not path.endswith((".py", ".pyx")):
            continue
        bare = re.sub(r'"""(?:\\.|[^\\])*?"""', lambda m: "\n" * m[0].count("\n"), text)
        for number, line in enumerate(bare.splitlines(), 1):
            code = line.split("#")[0].strip()
            words = re.sub(r"^(return|yield|for|if|elif|def \w+|\w+ = )\s*\(?", "", code)
            if index.search(code) or ("Plane(" not in code and (pair.search(code) or pair.search(words))):
                yield f"{path}:{number}", code


def by_hand(sources):
    """Files of solvers that handle evidence, those that use limits of free weights, and hooks of checkpoints."""
    trees, known = sources.python("solvers/"), classes(sources)
    if LIMITS not in known:
        raise SystemExit(f"there is no class {LIMITS}; say in LIMITS which one proves limits of free weights")
    evidence = [path for path, tree in trees.items() if any(
        isinstance(node, ast.Attribute) and node.attr == "record" and last_name(node.value) != "history"
        for node in ast.walk(tree))]
    limits = [path for path, tree in trees.items() if path != known[LIMITS][0] and any(
        isinstance(node, ast.Name) and node.id == LIMITS for node in ast.walk(tree))]
    names = "|".join(HOOKS)
    pattern = re.compile(rf"^[ ]+(?:def ({names})\b|(serialised)\b[^\n=]*=)", re.M)
    hooks = [f"{path}: {a or b}" for path, text in sources.texts.items() if path.endswith((".py", ".pyx"))
             for a, b in pattern.findall(text)]
    return evidence, limits, hooks


def inner_floors(sources):
    """Rooms and arrows between them inside solvers, arrows that run up, and floors.

    A room is a folder or a file of `solvers`. The fewest arrows run up whose removal leaves no circle, one of each two
    rooms that import each other among them; floors are the longest way down along the others, in the lowest such house.
    """
    counts = {}
    for path in sources.texts:
        room = path.split("/")[1].split(".")[0] if path.startswith("solvers/") and not path.endswith(".h") else ""
        for stem in sources.imported(path) if room else ():
            other = stem.split("/")[1] if stem.startswith("solvers/") else room
            if other != room and "__init__" not in (room, other):
                counts[room, other] = counts.get((room, other), 0) + 1
    rooms = {room for arrow in counts for room in arrow}
    mutual = [pair for pair in counts if pair[::-1] in counts and pair < pair[::-1]]
    choices = [broken(counts, rooms, chosen) for chosen in product(*((pair, pair[::-1]) for pair in mutual))]
    up = min(choices, key=lambda up: (len(up), height(counts, up, rooms)))
    return len(rooms), len(counts), sorted(up), height(counts, up, rooms)


def height(counts, up, rooms):
    """Rooms on the longest way along arrows that do not run up."""
    @cache
    def below(room):
        return 1 + max((below(b) for a, b in counts if a == room and (a, b) not in up), default=0)

    return max(map(below, rooms))


def broken(counts, rooms, chosen):
    """The chosen arrows and, of each circle that is left, the one of fewest imports."""
    up = set(chosen)
    while True:
        try:
            TopologicalSorter({a: {d for c, d in counts if c == a and (c, d) not in up} for a in rooms}).prepare()
        except CycleError as error:
            circle = error.args[1]
            up.add(min(zip(circle[1:], circle[:-1], strict=True), key=lambda arrow: (counts[arrow], arrow)))
        else:
            return up


def own_places(sources):
    """For penalties and structures: how many files of the package name one by its class, beside its own; medians."""
    known, found = classes(sources), {}
    for kind, (folder, names) in OWN.items():
        for name in names:
            if name not in known or not known[name][0].startswith(folder):
                raise SystemExit(f"there is no class {name} in {folder}; say in OWN which ones to count")
            home = known[name][0].rsplit("/", 1)[0] + "/" if known[name][0].count("/") > 1 else known[name][0]
            found.setdefault(kind, {})[name] = sum(
                not path.startswith(home) and path.endswith(".py") and not path.startswith(("estimators/", "cli/"))
                and any(name == getattr(node, "id" if isinstance(node, ast.Name) else "name", None)
                        for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name | ast.alias))
                for path, text in sources.texts.items())
    return {kind: (statistics.median(counts.values()), counts) for kind, counts in found.items()}
