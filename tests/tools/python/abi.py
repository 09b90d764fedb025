"""What the Python package reads from the headers is what a compiler makes of them: every struct's size, the place and
size of every member, every constant, and every type that functions take and return by value.

Arguments: the folder tools/python, that of the public headers, then the compiler's command.
"""

import ctypes
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import tap

PROGRAM = """
#include <stddef.h>
#include <stdio.h>
#include <iclab/iclab.h>
int main(void) {{
{lines}
}}
"""


def load(folder):
    """The reader alone: the package would load the library."""
    spec = importlib.util.spec_from_file_location("declarations", f"{folder}/iclab/_declarations.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["declarations"] = module
    spec.loader.exec_module(module)
    return module.Declarations


def expectations(declared):
    """Expressions of C, and what they should be."""
    found = dict(declared.constants)
    for name in declared.bodies:
        kind = declared.struct(name)
        found[f"sizeof({name})"] = ctypes.sizeof(kind)
        for member, _ in kind._fields_:
            found[f"offsetof({name}, {member})"] = getattr(kind, member).offset
            found[f"sizeof((({name} *)0)->{member})"] = getattr(kind, member).size
    for result, parameters in declared.functions.values():
        for part in [result + " result", *re.split(r",(?![^(]*\))", parameters)]:
            named = re.fullmatch(r"\s*((?:const )?\w+) \w+\s*", part)
            if named and named[1] != "void":
                found[f"sizeof({named[1]})"] = ctypes.sizeof(declared.type_of(named[1]))
    return found


def compile_and_run(command, headers, lines):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "abi.c"
        source.write_text(PROGRAM.format(lines="\n".join(lines)), encoding="utf-8")
        program = f"{folder}/abi"
        made = subprocess.run(
            [*command, "-std=c11", f"-I{headers.parent}", str(source), "-o", program],
            check=False, capture_output=True, text=True,
        )
        if made.returncode != 0:
            print("\n".join("# " + line for line in made.stderr.splitlines()[:20]))
            return None
        return subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()


def check_layout(declared, command, headers):
    expected = expectations(declared)
    lines = [f'    printf("%lld\\n", (long long)({expression}));' for expression in expected]
    seen = compile_and_run(command, headers, lines)
    answered = seen is not None and len(seen) == len(expected)
    tap.ok(answered, f"{len(expected)} sizes, places and constants by the compiler")
    wrong = [f"{name}: {value}, in C {c}" for (name, value), c in zip(expected.items(), seen or []) if str(value) != c]
    tap.ok(not wrong and len(expected) > 800, "are those that Python has")
    for line in wrong[:20]:
        print("# " + line)
    text = "".join(path.read_text() for path in headers.glob("*.h"))
    text = re.sub(r"^\s*#(\\\n|.)*$", "", text, flags=re.MULTILINE)  # a macro declares what a program defines
    functions = re.findall(r"\bICL_API\b[^;]*?\b(icl_\w+)\(", text)
    missing = sorted(set(functions) - declared.functions.keys())
    for name in functions:
        declared.signature(name)
    tap.ok(not missing and functions, f"{len(functions)} functions have a signature {missing}")


def main():
    folder, headers, *command = sys.argv[1:]
    headers = pathlib.Path(headers) / "iclab"
    declared = load(folder)(headers)
    check_layout(declared, command, headers)
    tap.done()


if __name__ == "__main__":
    main()
