#!/usr/bin/env python3
"""install.py MESON BUILD SOURCE CC NM SOLSEND: what somebody else's program gets.

Installs into a scratch directory and builds a program against it with nothing but pkg-config: with
the shared library, with the static one, and with the static one beside functions that have every
internal name of the library. examples/send_one.c is built too, and lands a transaction on the
`solsend` program's mock leader, both ways.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

PROBE = r"""
#include <solsend/solsend.h>
#include <stdio.h>

int main(void)
{
    uint8_t seed[32] = {7}, wire[SOLSEND_TX_BYTES_MAX], signature[64];
    solsend_key *key;
    solsend_transfer transfer;
    if (solsend_key_from_seed(&key, seed) < 0)
        return 1;
    solsend_transfer_init(&transfer, sizeof transfer);
    transfer.payer = key;
    int bytes = solsend_tx_transfer(wire, sizeof wire, &transfer);
    if (bytes <= 0 || solsend_tx_signature(wire, (size_t)bytes, signature) != 0)
        return 1;
    solsend_link *link = NULL;
    if (solsend_link_open(&link, "nonsense", NULL, NULL) != SOLSEND_ERR_BAD_URI || link != NULL)
        return 1;
    solsend_key_close(key);
    puts(solsend_build_info());
    return 0;
}
"""


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, text=True,
                          stdout=subprocess.PIPE, **options).stdout


def check(holds, text):
    if not holds:
        sys.exit(f"wrong: {text}")
    print(f"ok: {text}")


class Stage:
    """A staged install and what pkg-config says about it."""

    def __init__(self, meson, build, scratch):
        self.root = f"{scratch}/root"
        run(meson, "install", "-C", build, "--no-rebuild", "--destdir", self.root)
        found = [os.path.join(at, "libsolsend.pc") for at, _, files in os.walk(self.root)
                 if "libsolsend.pc" in files]
        check(len(found) == 1, "one libsolsend.pc is installed")
        self.pc = found[0]
        self.libdir = os.path.dirname(os.path.dirname(self.pc))
        self.environment = {**os.environ, "PKG_CONFIG_PATH": os.path.dirname(self.pc),
                            "PKG_CONFIG_SYSROOT_DIR": self.root}

    def flags(self, *arguments):
        return run("pkg-config", *arguments, "libsolsend", env=self.environment).split()

    def build(self, cc, source, program, *how):
        run(*cc, "-std=c11", "-Wall", "-Wextra", "-Werror", source, "-o", program,
            *self.flags("--cflags"), *self.flags(*how, "--libs"))


def installed_files(stage, source):
    with open(stage.pc, encoding="utf-8") as file:
        cflags = re.findall(r"^Cflags:(.*)$", file.read(), flags=re.MULTILINE)
    check([line.strip() for line in cflags] == ["-I${includedir}"],
          "the include path is the one above solsend/, so that users write <solsend/…>")
    include = stage.flags("--cflags-only-I")[0][2:]
    check(len(stage.flags("--cflags")) == 1, "no library below shows through in the flags")
    check(sorted(os.listdir(f"{include}/solsend")) ==
          sorted(name for name in os.listdir(f"{source}/include/solsend") if name.endswith(".h")),
          "every public header is installed, and nothing else")
    links = {name: os.readlink(f"{stage.libdir}/{name}") for name in os.listdir(stage.libdir)
             if os.path.islink(f"{stage.libdir}/{name}")}
    version = run("pkg-config", "--modversion", "libsolsend", env=stage.environment).strip()
    soname = "libsolsend.so." + ".".join(version.split(".")[:2 if version[:2] == "0." else 1])
    check(links == {"libsolsend.so": soname, soname: f"libsolsend.so.{version}"},
          f"libsolsend.so leads to {soname}, and that to {version}")
    return soname


def needed(program):
    return re.findall(r"NEEDED.*\[(.+)\]", run("readelf", "-d", program))


def colliding_names(nm, build, scratch):
    """A C file that defines every name that is internal to the library."""
    lines = run(nm, "-g", "--defined-only", f"{build}/lib/libsolsend_internal.a").splitlines()
    names = {words[2] for words in map(str.split, lines) if len(words) == 3}
    names = sorted(name for name in names if re.fullmatch(r"[A-Za-z]\w*", name) and
                   not name.startswith("solsend_"))
    path = f"{scratch}/collide.c"
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"void {name}(void);\nvoid {name}(void) {{}}\n" for name in names)
    check(len(names) > 10, f"the program defines {len(names)} internal names of its own")
    return path


def lands(solsend, program, scratch):
    """Runs send_one against a mock leader that keeps what it is sent."""
    seed = f"{scratch}/seed"
    with open(seed, "wb") as file:
        file.write(bytes(range(32)))
    mock = subprocess.Popen([solsend, "mock", "--listen", "127.0.0.1:0", "--profile", "agave-4.3",
                             "--quiet", "--json", "-"], text=True, stdout=subprocess.PIPE)
    try:
        uri = re.search(r"quic://[\d.:]+", mock.stdout.readline())
        check(uri is not None, "the mock says where it listens")
        output = run(program, seed, uri[0], timeout=30)
        mock.terminate()
        report = mock.communicate(timeout=10)[0]
    finally:
        mock.kill()
    accepted = json.loads(report)["counts"]["accepted"]
    check("acked" in output and accepted == 1,
          f"{os.path.basename(program)} landed one transaction: {', '.join(output.splitlines())}")


def main(meson, build, source, cc, nm, solsend):
    cc = cc.split()
    with tempfile.TemporaryDirectory() as scratch:
        stage = Stage(meson, build, scratch)
        soname = installed_files(stage, source)
        probe = f"{scratch}/probe.c"
        with open(probe, "w", encoding="utf-8") as file:
            file.write(PROBE)
        send_one = f"{source}/examples/send_one.c"

        stage.build(cc, probe, f"{scratch}/probe_shared")
        check(soname in needed(f"{scratch}/probe_shared"), f"the program asks for {soname}")
        there = {**os.environ, "LD_LIBRARY_PATH": stage.libdir}
        check("ngtcp2" in run(f"{scratch}/probe_shared", env=there), "it runs")
        stage.build(cc, send_one, f"{scratch}/send_one_shared")
        shutil.copytree(stage.libdir, f"{scratch}/kept", symlinks=True)

        for name in os.listdir(stage.libdir):  # leaves the linker nothing but the archive
            if ".so" in name:
                os.unlink(f"{stage.libdir}/{name}")
        stage.build(cc, probe, f"{scratch}/probe_static", "--static")
        check(soname not in needed(f"{scratch}/probe_static"), "the static program does not")
        check("ngtcp2" in run(f"{scratch}/probe_static"), "it runs")
        collide = colliding_names(nm, build, scratch)
        stage.build([*cc, collide], probe, f"{scratch}/probe_beside", "--static")
        check("ngtcp2" in run(f"{scratch}/probe_beside"), "it runs beside them")
        stage.build(cc, send_one, f"{scratch}/send_one_static", "--static")

        os.environ["LD_LIBRARY_PATH"] = f"{scratch}/kept"
        lands(solsend, f"{scratch}/send_one_shared", scratch)
        lands(solsend, f"{scratch}/send_one_static", scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
