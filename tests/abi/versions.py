#!/usr/bin/env python3
"""versions.py MESON SOURCE: configuring fails below each minimum version, and says which.

For every library with a minimum in meson.build, a pkg-config file that claims an older version is
put before the real one. The check at run time must ask for the same minimum.
"""

import os
import re
import subprocess
import sys
import tempfile

DEPENDENCY = re.compile(r"dependency\('(\w+)', version: '>= ([\d.]+)'\)")
AT_RUN_TIME = "lib/link/tls.c"


def older(version):
    major, minor, patch = (int(part) for part in version.split("."))
    if patch:
        return f"{major}.{minor}.{patch - 1}"
    return f"{major}.{minor - 1}.99" if minor else f"{major - 1}.99.99"


def refuses(meson, source, name, version):
    with tempfile.TemporaryDirectory() as scratch:
        with open(f"{scratch}/{name}.pc", "w", encoding="utf-8") as file:
            file.write(f"Name: {name}\nDescription: too old\nVersion: {older(version)}\nLibs:\n")
        run = subprocess.run(
            [meson, "setup", f"{scratch}/build", source, "-Dtests=false", "-Dtools=false",
             "-Dexamples=false"], env={**os.environ, "PKG_CONFIG_PATH": scratch}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    named = re.search(rf"ERROR:.*\b{name}\b.*{re.escape(older(version))}", run.stdout)
    if run.returncode and named:
        print(f"{name} {older(version)}: refused")
        return True
    print(f"{name} {older(version)}: not refused by name\n{run.stdout}")
    return False


def asked_at_run_time(source, minimums):
    with open(f"{source}/{AT_RUN_TIME}", encoding="utf-8") as file:
        code = file.read()
    numbers = [int(part) for part in minimums["libngtcp2"].split(".")]
    wanted = [f'gnutls_check_version("{minimums["gnutls"]}")',
              "ngtcp2_version(0x{:02x}{:02x}{:02x})".format(*numbers)]
    lost = [call for call in wanted if call not in code]
    for call in lost:
        print(f"{AT_RUN_TIME} does not call {call}")
    return not lost


def main(meson, source):
    with open(f"{source}/meson.build", encoding="utf-8") as file:
        minimums = dict(DEPENDENCY.findall(file.read()))
    if set(minimums) != {"libngtcp2", "libngtcp2_crypto_gnutls", "gnutls", "libsodium"}:
        print(f"meson.build has minimums for {sorted(minimums)}")
        return 1
    results = [refuses(meson, source, *minimum) for minimum in minimums.items()]
    results.append(asked_at_run_time(source, minimums))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
