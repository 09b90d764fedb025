"""Builds the Python package by Meson (PEP 517): `pip install ./tools/python` from a clone, or an sdist of it.

A wheel holds the package, the shared library, its headers, the command and the recipes:

    iclab/*.py  iclab_model.py  iclab/_native/{lib,bin,include,share}

The sources are those two folders above, in a clone as in an sdist, which mirrors it. Settings of pip:

    --config-settings build-dir=DIR      keep the build there, or take the one that is there as it is configured
    --config-settings setup-args="-D…"   further arguments of meson setup
    --config-settings targets="…"        compile these targets alone: at least what is installed
"""

import base64
import csv
import hashlib
import io
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = [*sorted((HERE / "iclab").glob("*.py")), HERE / "iclab" / "py.typed", HERE / "iclab_model.py"]

# What the build needs of a clone. Tests and pictures stay behind.
SOURCES = ("meson.build", "meson_options.txt", "LICENSE", "README.md", "src", "cl", "include", "tools", "subprojects")
LEFT_OUT = ("tools/gallery/",)

METADATA = """\
Metadata-Version: 2.1
Name: iclab
Version: {version}
Summary: In-context learning experiments on any OpenCL device and on plain C
License: MIT
Requires-Python: >=3.9
Requires-Dist: numpy>=1.22
Provides-Extra: sklearn
Requires-Dist: scikit-learn>=1.2; extra == "sklearn"
Provides-Extra: torch
Requires-Dist: torch; extra == "torch"
Description-Content-Type: text/markdown

{description}"""
ENTRY_POINTS = "[console_scripts]\niclab = iclab.reproductions:main\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: iclab\nRoot-Is-Purelib: false\nTag: {tag}\n"


def version():
    text = (ROOT / "meson.build").read_text(encoding="utf-8")
    return re.search(r"version: '([^']*)'", text)[1]


def metadata():
    description = (HERE / "README.md").read_text(encoding="utf-8")
    return METADATA.format(version=version(), description=description)


def tag():
    return "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())


# ---- Meson ----


def run(*command, **options):
    print("+", shlex.join(map(str, command)), flush=True)
    subprocess.run([str(word) for word in command], check=True, **options)


def meson():
    """As a command, or as a module of the interpreter that pip prepared."""
    found = shutil.which("meson")
    return [found] if found else [sys.executable, "-m", "mesonbuild.mesonmain"]


def required():
    """From PyPI, what is not installed."""
    return [package for package in ("meson>=1.0", "ninja") if not shutil.which(re.match(r"\w+", package)[0])]


def build(folder, arguments, targets):
    if not (ROOT / "meson.build").is_file():
        raise SystemExit(f"{ROOT}: no meson.build: expected the folder tools/python of a clone or an sdist of iclab")
    if not (folder / "build.ninja").exists():
        options = ["-Dtests=disabled", "-Dmpi=disabled", "-Ddefault_library=shared", "-Dprefix=/iclab", "-Dlibdir=lib"]
        run(*meson(), "setup", *options, *arguments, folder, ROOT)
    run(*meson(), "compile", "-C", folder, *targets)


def install(folder, target):
    """Installs a build below `target` and returns the prefix there."""
    run(*meson(), "install", "-C", folder, "--destdir", target, "--no-rebuild", "--quiet")
    listed = subprocess.run([*meson(), "introspect", str(folder), "--buildoptions"], check=True, capture_output=True)
    prefix = next(option["value"] for option in json.loads(listed.stdout) if option["name"] == "prefix")
    return target / prefix.lstrip("/")


def native_files(prefix):
    """Pairs of a name below _native and a file."""
    library = sorted(path for path in prefix.rglob("libiclab*") if re.search(r"\.so\.\d+$|\.\d+\.dylib$", path.name))
    if not library:
        raise SystemExit(f"{prefix}: the build installed no shared library")
    yield f"lib/{library[0].name}", library[0]
    yield "bin/iclab", prefix / "bin" / "iclab"
    for folder in ("include/iclab", "share/iclab/recipes", "share/iclab/data", "share/iclab/sweeps"):
        for path in sorted((prefix / folder).rglob("*")):
            if path.is_file():
                yield str(path.relative_to(prefix)), path


# ---- Archives ----


class Wheel:
    """A wheel that is being written. Files have one date, so that the same contents are the same bytes."""

    def __init__(self, path, name):
        self.archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.name, self.record = name, []

    def add(self, name, data, is_executable=False):
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100755 if is_executable else 0o100644) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.archive.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append((name, f"sha256={digest}", len(data)))

    def close(self):
        text, name = io.StringIO(), f"{self.name}.dist-info/RECORD"
        csv.writer(text, lineterminator="\n").writerows([*self.record, (name, "", "")])
        self.archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), text.getvalue())
        self.archive.close()


def words(settings, name):
    """A setting of several words, which pip hands over as a list where it is given more than once."""
    value = settings.get(name, [])
    return shlex.split(value) if isinstance(value, str) else value


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    settings = config_settings or {}
    arguments, targets = words(settings, "setup-args"), words(settings, "targets")
    name = f"iclab-{version()}"
    file = f"{name}-{tag()}.whl"
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(settings.get("build-dir") or pathlib.Path(scratch) / "build").resolve()
        build(folder, arguments, targets)
        prefix = install(folder, pathlib.Path(scratch) / "installed")
        wheel = Wheel(pathlib.Path(wheel_directory) / file, name)
        for path in PACKAGE:
            wheel.add(str(path.relative_to(HERE)), path.read_bytes())
        for place, path in native_files(prefix):
            wheel.add(f"iclab/_native/{place}", path.read_bytes(), place.startswith(("bin/", "lib/")))
        wheel.add(f"{name}.dist-info/METADATA", metadata().encode())
        wheel.add(f"{name}.dist-info/WHEEL", WHEEL.format(tag=tag()).encode())
        wheel.add(f"{name}.dist-info/entry_points.txt", ENTRY_POINTS.encode())
        wheel.add(f"{name}.dist-info/LICENSE", (ROOT / "LICENSE").read_bytes())
        wheel.close()
    return file


def get_requires_for_build_wheel(config_settings=None):
    return required()


def get_requires_for_build_sdist(config_settings=None):
    return []


def tracked_files():
    """The sources: what git lists of a clone; of an sdist, which is without it, all files."""
    if (ROOT / ".git").exists():
        command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard", *SOURCES]
        listed = subprocess.run(command, check=True, capture_output=True).stdout
        names = [name for name in os.fsdecode(listed).split("\0") if name]
    else:
        folders = [ROOT / source for source in SOURCES]
        paths = [path for folder in folders for path in ([folder] if folder.is_file() else folder.rglob("*"))]
        names = [str(path.relative_to(ROOT)) for path in paths if path.is_file() and "__pycache__" not in path.parts]
    return sorted(name for name in names if not name.startswith(LEFT_OUT) and (ROOT / name).is_file())


def commit():
    """As .gitattributes fills the file .commit in: the library says what it was built from."""
    if not (ROOT / ".git").exists():
        return (ROOT / ".commit").read_bytes()
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%H %cs"]
    return subprocess.run(command, check=True, capture_output=True).stdout


def build_sdist(sdist_directory, config_settings=None):
    name = f"iclab-{version()}"
    project = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    project = project.replace('backend-path = ["."]', 'backend-path = ["tools/python"]')
    written = {"pyproject.toml": project.encode(), "PKG-INFO": metadata().encode(), ".commit": commit()}
    with tarfile.open(pathlib.Path(sdist_directory) / f"{name}.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for path in tracked_files():
            archive.add(ROOT / path, f"{name}/{path}")
        for path, data in written.items():
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return f"{name}.tar.gz"
