"""What the C files of the tree define and use.

The files are read by patterns and not by a compiler, which the style of the house allows: a function's definition
begins in the first column and its last line ends with ") {". HOST, KERNEL and STRICT_KERNEL make one name for each
element type and instruction set; such a call is a name here. A name in capitals is a macro.
"""

import re

FOLDERS = (("src", ""), ("tools", "tools/"), ("include", ""))
NAME = r"(?:(?:HOST|(?:STRICT_)?KERNEL)\(\w+\)|\b\w+)"
DEFINITION = re.compile(
    rf"^(?!static\b|typedef\b|ALWAYS_INLINE\b)[A-Za-z][\w *()\n]*?[ *\n]({NAME})\([^;{{}}]*\) \{{", re.M
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.M)
OP_ROW = re.compile(r"\bOP\((\w+), \d")
OP_NAMES = re.compile(r"(?:(\b\w+_)##|\b(HOST)\()name\b")  # in a macro that ICL_EVERY_OP fills with each op


def read_files(root, folders=FOLDERS):
    """Each file's name as an #include has it, with its text; a file of the command as tools/NAME."""
    files = {}
    for folder, prefix in folders:
        for path in sorted((root / folder).rglob("*.[ch]")):
            files[prefix + path.relative_to(root / folder).as_posix()] = path.read_text()
    return files


def code_of(text):
    """Without comments and texts."""
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.S)


def public_functions(files):
    headers = [code_of(text) for name, text in files.items() if name.startswith("iclab/")]
    return {function for code in headers for function in re.findall(r"ICL_API[^;(]*?\b(icl_\w+)\(", code)}


def functions_of(code):
    """The functions with external linkage that a C file defines."""
    return {name for name in DEFINITION.findall(code) if not name.isupper()}


def bodies_of(code):
    """What a header does beside declaring: its macros, and what stands in braces."""
    parts, depth = DIRECTIVE.findall(code), 0
    for part in re.split(r"([{}])", DIRECTIVE.sub("", code)):
        depth += (part == "{") - (part == "}")
        if depth:
            parts.append(part)
    return " ".join(parts)


def names_of(code, ops):
    """The names in code; where a macro makes a name from each op's, those of all ops."""
    names = set(re.findall(NAME, code))
    for prefix, _ in OP_NAMES.findall(code):
        names |= {prefix + op if prefix else f"HOST({op})" for op in ops}
    return names


def read_uses(files):
    """For each function with external linkage the files that define it, and the other files that use it."""
    codes = {name: code_of(text) for name, text in files.items()}
    ops = {op for code in codes.values() for op in OP_ROW.findall(code)}
    definers, users = {}, {}
    for name, code in codes.items():
        for function in functions_of(code) if name.endswith(".c") else ():
            definers.setdefault(function, set()).add(name)
    for name, code in codes.items():
        for function in names_of(code if name.endswith(".c") else bodies_of(code), ops) & definers.keys():
            if name not in definers[function]:
                users.setdefault(function, set()).add(name)
    return definers, {function: users.get(function, set()) for function in definers}


def circles(uses):
    """The largest sets of names that reach one another, each sorted; uses[name] is what a name leads to."""

    def reached(name):
        found, waiting = set(), [name]
        while waiting:
            new = uses.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        return found

    reach = {name: reached(name) for name in uses}
    sets = {frozenset(other for other in reach[name] if name in reach.get(other, ())) for name in uses}
    return sorted(sorted(members) for members in sets if len(members) > 1)
