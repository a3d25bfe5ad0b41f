"""What the public headers declare: exported functions and structs, read from their text."""

import re

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
FUNCTION = re.compile(r"\bSOLSEND_API\b[^;{]*?\b(solsend_\w+)\s*\(")
STRUCT = re.compile(r"typedef struct (\w+) \{(.*?)\} (\w+);", re.DOTALL)
MEMBER = re.compile(r"^(?P<kind>.*?[\s*])(?P<name>[A-Za-z_]\w*)(?P<array>\[[^\]]*\])?$", re.DOTALL)


def text(header):
    with open(header, encoding="utf-8") as file:
        return COMMENT.sub(" ", file.read())


def functions(headers):
    """Names of every function marked SOLSEND_API."""
    names = []
    for header in headers:
        code = re.sub(r"^\s*#.*(\\\n.*)*$", "", text(header), flags=re.MULTILINE)
        names += FUNCTION.findall(code)
    return names


def structs(headers):
    """(struct, [(type, member)]) of every complete public struct, in order."""
    found = []
    for header in sorted(headers):
        for tag, body, name in STRUCT.findall(text(header)):
            if tag != name:
                raise SystemExit(f"{header}: struct {tag} is called {name}")
            members = []
            for declaration in body.split(";"):
                declaration = " ".join(declaration.split())
                if not declaration:
                    continue
                match = MEMBER.match(declaration)
                if not match or "," in declaration:
                    raise SystemExit(f"{header}: cannot read '{declaration}' in {name}")
                members.append((match["kind"].strip(), match["name"]))
            found.append((name, members))
    return found
