#!/usr/bin/env python3
"""symbols.py NM SHARED ARCHIVE MAP HEADER...: one list of functions, in four places.

The version script, the headers, the shared library and the static one must name the same
functions, and the version script's node must be the version of the headers.
"""

import re
import subprocess
import sys

import declared


def defined(nm, *arguments):
    lines = subprocess.run([nm, "--defined-only", *arguments], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.splitlines()
    names = set()
    for line in lines:
        words = line.split()
        if len(words) == 3 and words[1] != "A":  # A: the version node itself
            names.add(words[2].split("@")[0])
    return names


def main(nm, shared, archive, version_script, *headers):
    with open(version_script, encoding="utf-8") as file:
        script = file.read()
    listed = re.findall(r"^\s+(solsend_\w+);$", script, flags=re.MULTILINE)
    in_headers = declared.functions(headers)
    wrong = []

    def compare(names, where):
        for name in sorted(set(listed) - set(names)):
            wrong.append(f"{name} is in the version script but not in {where}")
        for name in sorted(set(names) - set(listed)):
            wrong.append(f"{name} is in {where} but not in the version script")

    compare(in_headers, "the headers")
    compare(defined(nm, "-D", shared), "the shared library")
    compare(defined(nm, "-g", archive), "the static library")
    if sorted(listed) != listed or len(set(listed)) != len(listed):
        wrong.append("the version script is not in order, or names a function twice")
    if len(set(in_headers)) != len(in_headers):
        wrong.append("a header declares a function twice")
    if "local:\n    *;" not in script or "*;" in script.split("local:")[0]:
        wrong.append("the version script must list every function and hide the rest")

    version = dict(re.findall(r"#define SOLSEND_VERSION_(\w+) (\d+)",
                              "\n".join(declared.text(header) for header in headers)))
    node = f"SOLSEND_{version['MAJOR']}.{version['MINOR']}"
    if not re.search(rf"^{re.escape(node)} \{{", script, flags=re.MULTILINE):
        wrong.append(f"the version script has no node {node}, the version of the headers")

    for line in wrong:
        print(line)
    print(f"{len(listed)} functions, {len(wrong)} differences")
    return 1 if wrong or not listed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
