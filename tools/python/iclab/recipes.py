"""Recipes: what to train, from a name, a file or a mapping, with any key changed by a keyword."""

from __future__ import annotations

import ctypes
import os
import re
from typing import Any, Iterator, Mapping, Union

import numpy

from . import _library as library
from . import _registry as registry
from ._devices import Handle
from .errors import InputError
from .tables import Table

Source = Union[str, "os.PathLike[str]", Mapping[str, Any], "Recipe"]


def _known() -> list[Any]:
    """The library's keys: structs of static storage."""
    found: list[Any] = []
    while address := library.function("icl_recipe_known_key")(len(found)):
        found.append(library.at("icl_recipe_key", address))
    return found


_keys = {f"{library.words(key.section)}.{library.words(key.name)}": key for key in _known()}


def known_key(name: str) -> Any:
    """The library's row of a key."""
    return _keys[name]


def recipe_keys() -> Table:
    """Every key of a recipe with its default and what it is."""
    return Table.from_rows(
        [
            {"key": name, "default": library.words(key.default_value), "help": library.words(key.help)}
            for name, key in _keys.items()
        ]
    )


def _full_name(name: str) -> str:
    """ "task.noise" of "task.noise", "task__noise" or, where one section alone has it, "noise"."""
    name = name.replace("__", ".", 1)
    if "." in name:
        return name
    matches = [key for key in _keys if key.split(".")[1] == name]
    if len(matches) > 1:
        raise InputError(f"{name}: several keys have this name: expected one of " + ", ".join(matches))
    if not matches:
        names = sorted({key.split(".")[1] for key in _keys})
        array = (ctypes.c_char_p * len(names))(*map(str.encode, names))
        nearest = library.words(library.function("icl_nearest")(name.encode(), array, len(names)))
        raise InputError(f"{name}: unknown keyword or recipe key; the nearest is {nearest}")
    return matches[0]


def _written(value: Any) -> str:
    if isinstance(value, (bool, numpy.bool_)):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, numpy.ndarray)):
        return ",".join(map(_written, value))
    return str(value)


def assignment(name: str, value: Any) -> tuple[str, str]:
    """A key's full name, and a value as recipes write it."""
    return _full_name(name), _written(value)


class Recipe(Mapping[str, Any]):
    """A value for every key: recipe["task.noise"]. `source` is a recipe's name, the path of an INI file, a mapping of
    keys to values, or another recipe; keywords change keys: Recipe("quickstart", layers=2, task__noise="fixed:0.1").
    A key whose name stands in several sections takes its section before two underscores."""

    def __init__(self, source: Source | None = None, **overrides: Any) -> None:
        self._handle = Handle("icl_recipe_destroy")
        self.name = "recipe"
        if isinstance(source, Recipe):
            self.name = source.name
            library.call("icl_recipe_clone", source, self._handle.slot)
        else:
            library.call("icl_recipe_create_with", registry.current(), self._handle.slot)
        if isinstance(source, (str, os.PathLike)):
            self.name = os.fspath(source)
            path = library.take_text("icl_recipe_locate", library.encoded(source))
            library.call("icl_recipe_load", self, library.encoded(path))
        elif isinstance(source, Mapping) and not isinstance(source, Recipe):
            self.set(**source)
        elif source is not None and not isinstance(source, Recipe):
            raise InputError(f"recipe = {source!r}: expected a name, a path, a mapping of keys or a Recipe")
        self.set(**overrides)

    @classmethod
    def parse(cls, text: str, name: str = "recipe") -> Recipe:
        """Of an INI file's text."""
        made = cls()
        made.name = name
        library.call("icl_recipe_parse", made, library.encoded(text), library.encoded(name))
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Recipe.parse, (str(self), self.name)

    @classmethod
    def of_run(cls, folder: str | os.PathLike[str]) -> Recipe:
        """That of a run's folder."""
        made = cls()
        made.name = library.take_text("icl_run_read_recipe_name", library.encoded(folder))
        try:
            library.call("icl_run_read_recipe", library.encoded(folder), made)
        except InputError as failure:
            if not os.path.exists(os.path.join(folder, registry.SOURCES)):
                raise
            words = f"{failure}; {registry.SOURCES} there has the source of what Python trained it with: make it again"
            raise InputError(words) from None
        return made

    def without_task(self) -> Recipe:
        """The same model and training, for another task: all of [task] and the predictors are left out."""
        sections = re.split(r"^(?=\[)", str(self), flags=re.MULTILINE)
        made = Recipe.parse("".join(part for part in sections if not part.startswith("[task]")), self.name)
        made.set(**{"eval.predictors": library.words(known_key("eval.predictors").default_value)})
        return made

    @classmethod
    def of_model(cls, path: str | os.PathLike[str]) -> Recipe:
        """That of a model's file."""
        made = cls()
        made._handle = Handle("icl_recipe_destroy")
        library.call("icl_model_file_recipe", library.encoded(path), made._handle.slot)
        return made

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return self._handle.pointer

    @property
    def pointer(self) -> ctypes.c_void_p:
        return self._handle.pointer

    def set(self, **overrides: Any) -> None:
        """Changes keys."""
        for name, value in overrides.items():
            library.call("icl_recipe_override", self, library.encoded("=".join(assignment(name, value))))

    def changed(self, **overrides: Any) -> Recipe:
        """A copy with other values."""
        return Recipe(self, **overrides)

    def text(self, name: str) -> str:
        """The value of a key as it is written."""
        full = self._known_name(name)
        section, key = full.split(".")
        return library.words(library.function("icl_recipe_value")(self, section.encode(), key.encode()))

    @staticmethod
    def _known_name(name: str) -> str:
        """As mappings have it: a key that there is not is a KeyError, and not `in` the recipe."""
        try:
            full = _full_name(name)
        except InputError as failure:
            raise KeyError(str(failure)) from None
        if full not in _keys:
            raise KeyError(name)
        return full

    def __getitem__(self, name: str) -> Any:
        text, full, kinds = self.text(name), self._known_name(name), library.constants
        kind = _keys[full].type
        if kind == kinds["ICL_KEY_COUNT"]:
            return int(text)
        if kind == kinds["ICL_KEY_NUMBER"]:
            return float(text)
        return text == "true" if kind == kinds["ICL_KEY_FLAG"] else text

    def __iter__(self) -> Iterator[str]:
        return iter(_keys)

    def __len__(self) -> int:
        return len(_keys)

    def __str__(self) -> str:
        """The recipe as an INI file."""
        return library.take_text("icl_recipe_write", self)

    def __repr__(self) -> str:
        return f"<iclab recipe {self.name}>"
