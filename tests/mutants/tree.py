"""A copy of the sources, and its build folder: what is mutated, measured and built here is never the user's own."""

import os
import pathlib
import shutil
import subprocess


def run(command, **options):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **options)


def files_of(root):
    """The files of a repository that git tracks or would; of a plain folder, all but build folders."""
    top = run(["git", "-C", str(root), "rev-parse", "--show-toplevel"]).stdout.strip()
    if top and os.path.samefile(top, root):
        listed = run(["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]).stdout
        names = {name for name in listed.split("\0") if name}
    else:
        names = {path.relative_to(root).as_posix() for path in pathlib.Path(root).rglob("*")
                 if not path.relative_to(root).parts[0].startswith("build")}
    return {name for name in names if pathlib.Path(root, name).is_file()}


class Tree:
    def __init__(self, root, folder, build, options):
        self.root, self.folder, self.options = pathlib.Path(root), pathlib.Path(folder), options
        self.source = self.folder / "source"
        self.build = self.folder / build

    def synchronize(self):
        """Makes source what the user's tree is, and touches only what differs. As an archive of it would, the copy
        says which commit it is of."""
        wanted = files_of(self.root)
        commit = run(["git", "-C", str(self.root), "log", "-1", "--format=%H %cs"]).stdout
        self.source.mkdir(parents=True, exist_ok=True)
        for path in self.source.rglob("*"):
            name = path.relative_to(self.source)
            if name.parts[0] != "build" and path.is_file() and name.as_posix() not in wanted:
                path.unlink()
        for name in wanted:
            theirs, ours = self.root / name, self.source / name
            ours.parent.mkdir(parents=True, exist_ok=True)
            content = commit.encode() if name == ".commit" and commit else theirs.read_bytes()
            if not ours.is_file() or ours.read_bytes() != content:
                ours.write_bytes(content)
            shutil.copymode(theirs, ours)

    def configure(self):
        if (self.build / "build.ninja").is_file():
            result = self.ninja("build.ninja")
        else:
            environment = dict(os.environ, CC_LD="lld") if shutil.which("ld.lld") else None
            result = run(["meson", "setup", *self.options, str(self.build), str(self.source)], env=environment)
        if result.returncode:
            raise RuntimeError(f"{self.build} cannot be configured:\n{result.stdout[-2000:]}{result.stderr[-2000:]}")

    def ninja(self, *targets, jobs=1):
        return run(["nice", "-n", "5", "ninja", "-C", str(self.build), f"-j{jobs}", *targets])
