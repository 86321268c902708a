"""Which results were measured on older code: for every page its commits, and what has changed since the oldest.

    python asv_benchmarks/reproduce/stale.py [--all]

A page names its commits; for one that does not, the commit that last wrote it counts. Lines of code that changed are
counted by folder of the package and in the scripts that made the page. Whether a change matters is the reader's choice:
run the script again where it does. With --all pages of the present code are listed, too.
"""

import argparse
import re
import subprocess

from common import RESULTS, table

ROOT = RESULTS.parents[1]
SCRIPTS = RESULTS.parent / "reproduce"
CODE = (".py", ".pyx", ".pxd", ".h")
NOT_MEASURED = {"cli", "plotting", "datasets", "capi"}      # folders that no page measures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    rows = []
    for page in sorted(RESULTS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        oldest = oldest_of(re.findall(r"\b[0-9a-f]{7,12}\b", " ".join(re.findall(
            r"at commit \w+|Commits measured: [^.]*", text)))) or git("log", "-1", "--format=%h", "--", str(page))
        scripts = [made_by(name) for name in {page.stem, *re.findall(r"reproduce/(\w+)\.py", text)}]
        if not oldest or scripts == [frozenset()]:
            continue
        changes = changed(oldest, set().union(*scripts))
        if changes or arguments.all:
            rows.append((page.relative_to(RESULTS), oldest, git("log", "-1", "--format=%cs", oldest),
                         ", ".join(f"{name} {lines}" for name, lines in changes.items()) or "-"))
    print(table(("page", "commit", "of", "lines of code changed since"), rows))


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()


def oldest_of(commits):
    """The one that has most commits behind it since."""
    counts = {commit: git("rev-list", "--count", f"{commit}..HEAD") for commit in set(commits)}
    known = {commit: int(count) for commit, count in counts.items() if count}
    return max(known, key=known.get, default=None)


def made_by(name):
    """A script and the scripts that it imports, as a frozen set."""
    found, waiting = set(), [name]
    while waiting:
        name = waiting.pop()
        path = SCRIPTS / f"{name}.py"
        if name in found or not path.exists():
            continue
        found.add(name)
        waiting += re.findall(r"^(?:import|from) (\w+)", path.read_text(encoding="utf-8"), re.M)
    return frozenset(found)


def changed(commit, scripts):
    """Lines added or removed since a commit, by folder of the package and by script, most first."""
    lines = {}
    for line in git("diff", "--numstat", commit, "--", "pybundle", str(SCRIPTS)).splitlines():
        added, removed, path = line.split("\t")
        parts = path.split("/")
        name = parts[-1] if parts[0] == "asv_benchmarks" else parts[1]
        counts = name[:-3] in scripts if parts[0] == "asv_benchmarks" else (
            path.endswith(CODE) and name not in NOT_MEASURED)
        if counts and added != "-":
            lines[name] = lines.get(name, 0) + int(added) + int(removed)
    return dict(sorted(lines.items(), key=lambda item: -item[1]))


if __name__ == "__main__":
    main()
