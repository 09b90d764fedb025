"""Facts about the machine, and nothing about its owner."""

import getpass
import os
import pathlib
import platform
import re
import shutil
import socket
import subprocess

from gpu_report import document

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
IMPERSONAL = {"root", "localhost", "user", "iclab"}
# What can change which device is found, which kernels it gets, or how fast it is.
VARIABLES = re.compile(
    r"^(ICLAB_(?!PEERS)|(OCL|OPENCL|POCL|RUSTICL|MESA|ROC|HSA|HIP|CUDA|NEO|IGC|SYCL|OMP)_)|_VISIBLE_DEVICES$"
)


def personal_names():
    """User and host, as far as they say something."""
    names = {socket.gethostname(), socket.gethostname().split(".")[0]}
    try:
        names.add(getpass.getuser())
    except (KeyError, OSError):
        pass
    return {name for name in names if len(name) > 1 and name not in IMPERSONAL}


def without_paths(text, work, build):
    """The folders of this machine by what they are for."""
    folders = [(str(work), "WORK"), (str(build), "BUILD"), (str(ROOT), "SOURCES"), (str(pathlib.Path.home()), "~")]
    for folder, name in sorted(folders, key=lambda pair: -len(pair[0])):
        if len(folder) > 1:
            text = text.replace(folder, name)
    return re.sub(r"/(home|Users)/[^/\s'\":]+", "~", text)


def without_names(text):
    """What a command said, without the names of user and host. Our own words and the names of devices do not go through
    this: a host named "gpu" would take words from them."""
    for name in personal_names():
        text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "NAME", text)
    return text


def system_name():
    if platform.system() == "Darwin":
        return f"macOS {platform.mac_ver()[0]}"
    try:
        release = pathlib.Path("/etc/os-release").read_text(encoding="utf-8")
        found = re.search(r'^PRETTY_NAME="?([^"\n]*)', release, re.MULTILINE)
    except OSError:
        found = None
    return f"{found[1] if found else platform.system()}, {platform.system()} {platform.release()} {platform.machine()}"


def output_of(*command):
    """What the command prints, or nothing where it is not there, fails or hangs."""
    if not shutil.which(command[0]):
        return ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def source_state():
    """The commit of the sources around this script, as far as git knows it."""
    if not (ROOT / ".git").exists():
        return "not a git checkout"
    commit = output_of("git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--dirty=, with changes")
    return commit.strip() or "unknown"


def facts(version, device, host):
    """The table of facts. DEVICE and HOST are rows of `iclab devices --json`, or None where the list failed."""
    rows = [["iclab", version], ["sources", source_state()], ["system", system_name()]]
    rows = [[name, document.escape(value)] for name, value in rows]
    if host:
        cores, memory = host["compute_units"], document.size(host["global_memory"])
        rows.append(["CPU", f"{document.escape(host['name'])}, {cores} cores used by iclab, memory {memory}"])
    if device:
        total, buffer, local = (
            document.size(device[key]) for key in ("global_memory", "max_allocation", "local_memory")
        )
        shared = ", shared with the host" if device["unified_memory"] else ""
        rows += [
            ["device", f"**{document.escape(device['name'])}** ({device['kind']}, {device['spec']})"],
            ["platform", document.escape(device["platform"])],
            ["driver", document.escape(device["driver"])],
            ["memory", f"{total}, largest buffer {buffer}, local {local}{shared}"],
            ["compute units, largest work-group", f"{device['compute_units']}, {device['max_work_group']} work-items"],
            ["double precision", "yes" if device["fp64"] else "no"],
        ]
    else:
        rows.append(["device", "unknown: see the part devices"])
    return document.table([("fact", False), ("value", False)], rows)


def surroundings():
    """Variables that matter, and what clinfo knows."""
    variables = [f"{name}={value}" for name, value in sorted(os.environ.items()) if VARIABLES.search(name)]
    blocks = [f"Variables that may matter: {', '.join(f'`{v}`' for v in variables) if variables else 'none'}."]
    known = output_of("clinfo")
    if known:
        lines = "\n".join(known.splitlines()[:600]).replace("```", "'''")
        blocks.append(f"<details><summary>clinfo</summary>\n\n```text\n{lines}\n```\n\n</details>")
    else:
        blocks.append("`clinfo` is not installed or failed; with it, this report says more about the driver.")
    return "\n\n".join(blocks)
