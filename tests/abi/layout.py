#!/usr/bin/env python3
"""Layout of the public structs.

layout.py generate OUT.c HEADER...   a program that prints offset, size and name of every member;
                                     it does not compile when a struct has padding
layout.py check PROGRAM EXPECTED     compares what it prints with the committed listing
layout.py update PROGRAM EXPECTED    writes the listing
"""

import difflib
import re
import subprocess
import sys

import declared

# A binding cannot spell a member that is a keyword of its language.
RUST = set("""abstract as async await become box break const continue crate do dyn else enum extern
    false final fn for gen if impl in let loop macro match mod move mut override priv pub ref return
    self static struct super trait true try type typeof union unsafe unsized use virtual where
    while yield""".split())
PYTHON = set("""and as assert async await break case class continue def del elif else except finally
    for from global if import in is lambda match nonlocal not or pass raise return try type while
    with yield""".split())
CXX = set("""alignas catch class concept const_cast constexpr delete explicit export friend mutable
    namespace new noexcept operator private protected public requires static_cast template this
    throw typeid typename using virtual""".split())

# Types whose size depends on the compiler or its flags have no place in a struct that others lay
# out by hand.
FIXED = re.compile(r"^(const )?((u?int(8|16|32|64)_t)|(.*\*)|char|solsend_\w+)$")


def objections(structs):
    for name, members in structs:
        for kind, member in members:
            if member in RUST | PYTHON | CXX:
                yield f"{name}.{member} is a keyword of Rust, Python or C++"
            if not FIXED.match(kind):
                yield f"{name}.{member}: {kind} has no fixed width"
        if "size" in [member for _, member in members[1:]]:
            yield f"{name}.size must be the first member"


def generate(out, *headers):
    structs = declared.structs(headers)
    wrong = list(objections(structs))
    if wrong or not structs:
        raise SystemExit("\n".join(wrong) or "no struct found")
    lines = ["#include <solsend/solsend.h>", "#include <stdio.h>", "",
             "#define SIZE(s, m) sizeof(((s *)0)->m)", "",
             "#define MEMBER(s, m) \\",
             '    printf("%6zu %5zu  %s\\n", offsetof(s, m), SIZE(s, m), #m)', ""]
    for name, members in structs:
        end = "0"
        for _, member in members:
            lines.append(f"_Static_assert(offsetof({name}, {member}) == {end},"
                         f' "padding before {name}.{member}");')
            end = f"offsetof({name}, {member}) + SIZE({name}, {member})"
        lines.append(f'_Static_assert(sizeof({name}) == {end}, "padding after {name}");')
    lines += ["", "int main(void)", "{"]
    for name, members in structs:
        lines.append(f'    printf("%s %zu\\n", "{name}", sizeof({name}));')
        lines += [f"    MEMBER({name}, {member});" for _, member in members]
    lines += ["    return 0;", "}", ""]
    with open(out, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    return 0


def listing(program):
    head = ("# Offset, size and name of every member of the public structs, by `meson compile"
            " abi-layout`.\n# Before 1.0 a change here needs a new minor version; after it,"
            " members are only appended.\n")
    return head + subprocess.run([program], check=True, text=True, stdout=subprocess.PIPE).stdout


def check(program, expected):
    got = listing(program)
    with open(expected, encoding="utf-8") as file:
        want = file.read()
    sys.stdout.writelines(difflib.unified_diff(want.splitlines(True), got.splitlines(True),
                                               "committed layout", "layout of this build"))
    if got != want:
        print("If it is meant: meson compile -C BUILD abi-layout, and name it in CHANGELOG.md")
    return int(got != want)


def update(program, expected):
    with open(expected, "w", encoding="utf-8") as file:
        file.write(listing(program))
    return 0


if __name__ == "__main__":
    verbs = {"generate": generate, "check": check, "update": update}
    sys.exit(verbs[sys.argv[1]](*sys.argv[2:]))
