"""The library's C declarations as ctypes has them, read from the public headers.

The headers that lie beside the library are the one source: what a struct holds, what a function takes and what a
constant is stands nowhere else, and the test `python abi` compares the result with a compiler's. The headers are plain
enough for a small reader: no macros but numbers, one declaration between semicolons.
"""

from __future__ import annotations

import ctypes
import pathlib
import re
from typing import Any

_PLAIN: dict[str, Any] = {
    "void": None,
    "bool": ctypes.c_bool,
    "char": ctypes.c_char,
    "int": ctypes.c_int,
    "long": ctypes.c_long,
    "unsigned": ctypes.c_uint,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "size_t": ctypes.c_size_t,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "sig_atomic_t": ctypes.c_int,
}
_QUALIFIERS = re.compile(r"\b(const|volatile|struct|enum)\b")
_DECLARATOR = re.compile(r"(?P<stars>[*\s]*)(?P<name>\w*)\s*(?P<arrays>(\[[^\]]*\]\s*)*)$")


def _split(text: str, separator: str) -> list[str]:
    """Parts between separators that stand in no bracket."""
    parts, depth, begin = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "({[") - (letter in ")}]")
        if letter == separator and depth == 0:
            parts.append(text[begin:i].strip())
            begin = i + 1
    return [*parts, text[begin:].strip()]


class Declarations:
    """Structs, constants and signatures of a folder of headers."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.constants: dict[str, int] = {}
        self.enums: set[str] = set()
        self.bodies: dict[str, str] = {}
        self.functions: dict[str, tuple[str, str]] = {}
        self._structs: dict[str, Any] = {}
        text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.h")))
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
        self._read_constants(text)
        text = re.sub(r"^\s*#(\\\n|.)*$", "", text, flags=re.MULTILINE)
        text = re.sub(r"\bICL_C_(BEGIN|END)\b|\bICL_API\b|\bICL_PRINTF\([^)]*\)", " ", text)
        declarations = _split(re.sub(r"\s+", " ", text), ";")
        for declaration in declarations:
            self._read_enum(declaration)
        for declaration in declarations:
            self._read(declaration)

    def _read_constants(self, text: str) -> None:
        for name, value in re.findall(r"^#define (ICL_\w+) +(.+?) *$", text, re.MULTILINE):
            self._define(name, value)

    def _define(self, name: str, value: str) -> None:
        """A constant whose value is a number made of numbers; others are left out."""
        value = re.sub(r"\((size_t|uint32_t|uint64_t)\)", "", value)
        words = set(re.findall(r"[A-Za-z_]\w*", value))
        if name.isidentifier() and words <= self.constants.keys() and re.fullmatch(r"[\w\s+*/<()-]+", value):
            self.constants[name] = int(eval(value, {"__builtins__": {}}, self.constants))  # noqa: S307

    def _read_enum(self, declaration: str) -> None:
        for match in re.finditer(r"\benum (\w*) ?\{([^}]*)\}", declaration):
            self.enums.add(match[1])
            before = "-1"
            for entry in filter(None, _split(match[2], ",")):
                name, _, value = (part.strip() for part in entry.partition("="))
                self._define(name, value or f"{before} + 1")
                before = name

    def _read(self, declaration: str) -> None:
        struct = re.match(r"(?:typedef )?struct (\w+) \{(.*)\}[^{}]*$", declaration)
        function = re.match(r"([\w\s]+?[\s*]+)(icl_\w+)\((.*)\)$", declaration)
        if struct:
            self.bodies[struct[1]] = struct[2]
        elif function:
            self.functions[function[2]] = (function[1].replace("typedef ", ""), function[3])

    # ---- Types ----

    def type_of(self, base: str, stars: str = "", arrays: str = "", decays: bool = False) -> Any:
        """Of "const char" and "*". Pointers are addresses, but for texts, which the library borrows."""
        name = _QUALIFIERS.sub("", base).strip()
        kind: Any
        if len(stars) > (name == "char" and "const" in base) or (decays and arrays):
            kind = ctypes.c_void_p
        elif stars:
            kind = ctypes.c_char_p
        elif name in _PLAIN:
            kind = _PLAIN[name]
        else:
            kind = ctypes.c_int if name in self.enums else self.struct(name)
        if not decays:
            for size in reversed(re.findall(r"\[([^\]]*)\]", arrays)):
                kind = kind * int(eval(size, {"__builtins__": {}}, self.constants))  # noqa: S307
        return kind

    def _declared(self, text: str, decays: bool) -> list[tuple[str, Any]]:
        """ "double *a, b[4]" as names and types."""
        if text.startswith("enum {"):
            text = re.sub(r"enum \{[^}]*\}", "int", text)
        first, *others = _split(text, ",")
        pointer = re.match(r".*?\(\*(?:const )?(\w+)\)\s*[(\[]", text)
        if pointer:
            return [(pointer[1], ctypes.c_void_p)]
        words = re.match(r"((?:(?:const|volatile|struct|enum)\s+)*\w+(?:\s+(?:const|volatile)\b)*)(.*)$", first)
        assert words, text
        found = []
        for declarator in [words[2], *others]:
            stars = re.sub(r"\bconst\b", "", declarator)
            match = _DECLARATOR.match(stars.strip())
            assert match, text
            kind = self.type_of(words[1], re.sub(r"\s", "", match["stars"]), match["arrays"], decays)
            found.append((match["name"], kind))
        return found

    def struct(self, name: str) -> Any:
        """The ctypes class of a struct, which has its members alone: another attribute cannot be set."""
        if name not in self._structs:
            fields = [
                field
                for line in filter(None, _split(self.bodies[name], ";"))
                for field in self._declared(line, decays=False)
            ]
            self._structs[name] = type(name, (ctypes.Structure,), {"_fields_": fields, "__slots__": ()})
        return self._structs[name]

    def _parameters(self, text: str) -> list[Any]:
        parts = [] if text.strip() in ("", "void") else _split(text, ",")
        return [self._declared(part, decays=True)[0][1] for part in parts if part != "..."]

    def _result(self, text: str) -> Any:
        kind, stars = re.match(r"([\w\s]*\w)([\s*]*)$", text.strip()).groups()  # type: ignore[union-attr]
        return self.type_of(kind, stars.replace(" ", ""))

    def signature(self, function: str) -> tuple[Any, list[Any]]:
        """Type of the result, and those of the parameters; without those of "..."."""
        result, parameters = self.functions[function]
        return self._result(result), self._parameters(parameters)

    def callback(self, name: str, member: str = "") -> Any:
        """The type of a callback: of a function type, or of a struct's member. A struct that holds one int, as
        icl_variable, comes back as that int, in the same register; ctypes has no structs there."""
        if member:
            match = re.search(rf"([\w\s]+[\s*]+)\(\*{member}\)\s*\((.*?)\)\s*(;|$)", self.bodies[name])
            assert match, (name, member)
            result = self._result(match[1])
            is_variable = isinstance(result, type) and issubclass(result, ctypes.Structure)
            return ctypes.CFUNCTYPE(ctypes.c_int if is_variable else result, *self._parameters(match[2]))
        result, parameters = self.signature(name)
        return ctypes.CFUNCTYPE(result, *parameters)
