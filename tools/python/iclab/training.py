"""Training from Python: the command's session, with a callback for progress, ended cleanly by Ctrl-C."""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import queue
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Union

from . import _arguments as arguments
from . import _library as library
from . import _registry as registry
from ._devices import Device, Handle, open_device
from ._pictures import Drawing
from .errors import DivergedError, InputError, InterruptedTraining
from .evaluation import Evaluation, evaluate
from .own_data import task_of_data
from .own_tasks import Task
from .recipes import Recipe, Source
from .runs import Run



@dataclass(frozen=True)
class Progress:
    """What a training reports after each few steps: icl_session_progress in include/iclab/session.h. Where `starts` is
    not 0, these are steps of the runs of train.starts, counted together."""

    step: int
    total_steps: int
    start: int
    starts: int
    loss: float
    learning_rate: float
    skipped_steps: int
    dropped_sequences: int
    evaluation: float
    adjusted: bool
    evaluated: bool
    steps_per_second: float
    seconds_left: float


Report = Optional[Callable[[Progress], Any]]
ProgressCallback = Union[bool, Report]


class _Bar:
    """progress=True: a bar of tqdm, and a new one where the steps are counted anew."""

    def __init__(self) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError as failure:
            raise InputError(f"progress = True: {failure}: expected the package tqdm, or a function") from None
        self._create, self._bar = tqdm, None

    def __call__(self, progress: Progress) -> None:
        bar = self._bar
        if bar is None or progress.total_steps != bar.total or progress.step < bar.n:
            self.close()
            bar = self._bar = self._create(total=progress.total_steps, initial=0, unit="step")
        bar.set_postfix(loss=f"{progress.loss:.4g}", refresh=False)
        bar.update(progress.step - bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def _report_to(progress: ProgressCallback) -> Report:
    if progress is True:
        return _Bar()
    arguments.function("progress", progress or None)
    return progress or None


def train(
    recipe: Source | None = None,
    *,
    task: Task | None = None,
    data: Any = None,
    out: str | os.PathLike[str] | None = None,
    device: str | Device | None = None,
    until_step: int | None = None,
    seed: int | None = None,
    init: str | os.PathLike[str] | None = None,
    progress: ProgressCallback = None,
    evaluate: bool = True,
    **overrides: Any,
) -> Run:
    """Trains a model in a run folder, evaluates it beside the reference predictors, and writes its report: the same
    numbers as `iclab train`. Keywords change keys of the recipe (Recipe): steps=1000 is train.steps, with a schedule of
    that length.

    task: one of your own (Task), in place of the recipe's. data: what a task is made of: the path of a text, as
    task.file has it; arrays as task_of_data takes them, inputs or (inputs, targets). With one of these the recipe may
    be left out: then it is "text-quick" for a text, else a sequence model of two layers of attention, which trains for
    1,000 steps on batches of 64.

    out: the folder; runs/RECIPE-seedN, numbered if it exists, where it is left out. until_step: end behind this step of
    the recipe's schedule, as --steps of the command does. init: the model file to start from. progress: True shows a
    bar, for which tqdm is needed; a function is called in this thread with a Progress after each few steps, and what it
    raises ends the training as Ctrl-C does, after the steps in flight and a checkpoint. Ctrl-C raises
    InterruptedTraining.
    """
    made = _recipe_for(recipe, task, data).changed(**overrides)
    report = _report_to(progress)
    if init is not None:
        made.set(**{"train.init": os.fspath(init)})
    if seed is not None:
        made.set(**{"train.seed": seed})
    if made["train.horizon"] == 0:
        made.set(**{"train.horizon": made["train.steps"]})
    if until_step is not None:
        made.set(**{"train.steps": arguments.count("until_step", until_step, 1, arguments.LARGEST_COUNT)})
    folder = None if out is None else pathlib.Path(os.path.abspath(out))
    return _Session(made, folder, open_device(device), is_resumed=False).run(report, evaluate)


# A task of one's own begins from this without a recipe: small enough to see a result within a minute.
_BEGINNING = {
    "model.family": "sequence",
    "model.layers": 2,
    "train.batch": 64,
    "train.learning_rate": 0.003,
    "train.warmup": 50,
    "train.steps": 1000,
    "eval.sequences": 4096,
    "eval.every": 100,
    "eval.every_sequences": 512,
}


def _recipe_for(recipe: Source | None, task: Task | None, data: Any) -> Recipe:
    if task is not None and data is not None:
        raise InputError("task and data: expected one of them")
    if isinstance(data, (str, os.PathLike)):
        return Recipe("text-quick" if recipe is None else recipe, task__file=os.path.abspath(data))
    if data is not None:
        task = task_of_data(*data) if isinstance(data, tuple) else task_of_data(data)
    if task is None:
        if recipe is None:
            raise InputError("recipe = None: expected a recipe, a task or data")
        return Recipe(recipe)
    if not isinstance(task, Task):
        raise InputError(f"task = {task!r}: expected an iclab.Task")
    if recipe is not None:
        made = Recipe(recipe).without_task()
    else:
        made = Recipe({**_BEGINNING, **task.recipe})
        made.name = task.name
    made.set(**{"task.family": task.name})
    return made


def resume(
    folder: str | os.PathLike[str],
    *,
    device: str | Device | None = None,
    until_step: int | None = None,
    progress: ProgressCallback = None,
    evaluate: bool = True,
) -> Run:
    """Goes on with a run from its checkpoint, with its recipe; with the bits of a run that was never stopped.
    until_step: end behind this step, as in train."""
    recipe = Recipe.of_run(folder)
    report = _report_to(progress)
    held = recipe["train.steps"]
    if until_step is not None and until_step != held:
        end = arguments.count("until_step", until_step, 1, arguments.LARGEST_COUNT)
        recipe.set(**{"train.horizon": recipe["train.horizon"] or held, "train.steps": end})
    chosen = pathlib.Path(os.path.abspath(folder))
    return _Session(recipe, chosen, open_device(device), is_resumed=True).run(report, evaluate)


def _free_folder(recipe: Recipe) -> pathlib.Path:
    first = pathlib.Path.cwd() / "runs" / f"{pathlib.Path(recipe.name).stem}-seed{recipe['train.seed']}"
    folder, copy = first, 2
    while folder.exists():
        folder, copy = first.with_name(f"{first.name}-{copy}"), copy + 1
    return folder


@dataclass
class _Ended:
    """How the work in the thread ended."""

    raised: BaseException | None = None


@dataclass
class _Session:
    recipe: Recipe
    chosen: pathlib.Path | None
    device: Device
    is_resumed: bool
    folder: pathlib.Path = field(init=False)
    claim: Handle = field(default_factory=lambda: Handle("icl_run_claim_release"))
    trainer: Handle = field(init=False)
    start: float = field(default_factory=time.monotonic)
    first_step: float = 0.0
    end: float | None = None
    step_memory: float = 0.0

    def run(self, progress: Report, evaluate: bool) -> Run:
        try:
            return self._run(progress, evaluate)
        finally:
            self.claim.release()
            if isinstance(progress, _Bar):
                progress.close()

    def _run(self, progress: Report, evaluate: bool) -> Run:
        events: queue.SimpleQueue[Union[Progress, _Ended]] = queue.SimpleQueue()
        stop = ctypes.c_int(0)
        report = library.callback("icl_session_params", "report", lambda _, at: events.put(_progress_at(at)))
        params = library.struct(
            "icl_session_params",
            backend=self.device.pointer,
            recipe=self.recipe.pointer,
            folder=None if self.chosen is None else library.encoded(self.chosen),
            resume=self.is_resumed,
            stop=ctypes.addressof(stop),
            report=library.address_of(report),
        )
        self.trainer = Handle("icl_trainer_destroy", self.device)
        with self.device:
            self._prepare(params)
        params.folder = library.encoded(self.folder)

        def work() -> None:
            ended = _Ended()
            try:
                with self.device:
                    library.call("icl_session_train", ctypes.byref(params), self.trainer)
            except BaseException as raised:  # handed to the thread that waits
                ended.raised = raised
            events.put(ended)

        ended, raised_here = _wait(threading.Thread(target=work, name="iclab training"), events, stop, progress)
        self.end = time.monotonic()
        return self._finish(ended.raised, raised_here, evaluate)

    # ---- Before ----

    def _claim(self, folder: pathlib.Path) -> None:
        """So that nothing else trains there."""
        self.claim = Handle("icl_run_claim_release")
        library.call("icl_run_claim_take", library.encoded(folder), self.claim.slot)
        self.folder = folder

    def _create(self) -> None:
        """A folder that holds a run is refused; one that was not asked for gives way to the next."""
        while True:
            folder = self.chosen or _free_folder(self.recipe)
            try:
                self._claim(folder)
                library.call("icl_run_create", library.encoded(folder), self.recipe)
                registry.write_sources(folder, self.recipe.text("task.family"), self.recipe.text("model.mixer"))
                return
            except InputError:
                self.claim.release()
                if self.chosen is not None:
                    raise

    def _prepare(self, params: Any) -> None:
        if self.is_resumed:
            assert self.chosen is not None
            self._claim(self.chosen)
        library.call("icl_session_prepare", ctypes.byref(params), self.trainer.slot)
        done = library.function("icl_trainer_progress")(self.trainer).step
        if done > self.recipe["train.steps"]:
            raise InputError(f"{self.chosen}: already at step {done}: expected until_step to be no smaller")
        memory = library.struct("icl_session_memory")
        library.call("icl_session_measure_memory", self.trainer, self.recipe, ctypes.byref(memory))
        step = memory.step
        self.step_memory = library.function("icl_step_memory_of")(ctypes.byref(step), step.slices)
        self.memory = library.function("icl_session_memory_of")(ctypes.byref(memory))
        if self.is_resumed:
            library.call("icl_run_write_recipe", library.encoded(self.folder), self.recipe)
        else:
            self._create()
        self.first_step = time.monotonic()
        self._write_facts("running")

    def _facts(self, status: str) -> Any:
        facts = library.function("icl_run_facts_collect")(
            self.device, self.recipe, self.trainer
        )
        facts.recipe_name = self.recipe.name.encode()
        facts.command_line = f"iclab.{'resume' if self.is_resumed else 'train'} in Python".encode()
        facts.ranks = 1
        facts.step_memory = self.step_memory
        facts.memory = self.memory
        facts.startup_seconds = self.first_step - self.start
        facts.training_seconds = (self.end or time.monotonic()) - self.first_step
        facts.status = status.encode()
        return facts

    def _write_facts(self, status: str) -> None:
        library.call("icl_run_write_facts", library.encoded(self.folder), ctypes.byref(self._facts(status)))

    # ---- Behind ----

    def _finish(self, ended: BaseException | None, raised_here: BaseException | None, evaluate: bool) -> Run:
        run = None
        if isinstance(ended, (InterruptedTraining, DivergedError)) or ended is None:
            status = {type(None): "finished", DivergedError: "diverged"}.get(type(ended), "interrupted")
            with self.device:
                self._write_facts(status)
                if ended is None:
                    library.call("icl_trainer_round_parameters", self.trainer)
            run = Run(self.folder)
        if ended is not None and not isinstance(ended, InterruptedTraining):
            raise ended
        if raised_here is not None and not isinstance(raised_here, KeyboardInterrupt):
            raise raised_here
        if ended is not None or raised_here is not None:
            words = f"{ended or 'stopped behind the last step'}; iclab.resume({os.fspath(self.folder)!r}) goes on"
            raise InterruptedTraining(words, run) from None
        assert run is not None
        if evaluate:
            self._evaluate(run)
        return run

    def _evaluate(self, run: Run) -> None:
        facts = self._facts("finished")
        drawing = Drawing("icl_run_report")
        report = library.struct(
            "icl_run_report",
            folder=library.encoded(self.folder),
            recipe=self.recipe.pointer,
            facts=ctypes.addressof(facts),
            trainer=self.trainer.pointer.value,
            draw=library.address_of(drawing.callback),
        )
        with self.device:
            handle = evaluate(self.device, self.trainer, self.recipe)
        evaluation = run.remember(Evaluation.from_library(handle.pointer))
        self._keep(evaluation, facts)
        report.evaluation = handle.pointer.value
        with self.device:
            drawing.call("icl_run_report_write", ctypes.byref(report))

    def _keep(self, evaluation: Evaluation, facts: Any) -> None:
        """result.json and its CSV, as the command leaves them."""
        result, seed = Handle("icl_result_destroy"), ctypes.c_uint64(facts.seed)
        library.call("icl_result_create", result.slot)
        for line in evaluation.lines:
            library.call("icl_result_add", result, b"rows", line.encode())
        about = library.struct(
            "icl_result_facts",
            command=b"train",
            command_line=facts.command_line,
            recipe_name=facts.recipe_name,
            backend=facts.backend,
            seed=ctypes.addressof(seed),
        )
        summary = {
            "steps": facts.steps,
            "seed": facts.seed,
            "skipped_steps": facts.skipped_steps,
            "dropped_sequences": facts.dropped_sequences,
            "training_seconds": facts.training_seconds,
            "sequences": evaluation.sequences,
        }
        polished = {key: value for key, value in Run(self.folder).facts.items() if key.startswith("polish_")}
        text = json.dumps({**summary, **polished}).encode()
        library.call("icl_result_write", result, library.encoded(self.folder), ctypes.byref(about), text)


def _progress_at(address: int) -> Progress:
    values = library.at("icl_session_progress", address)
    return Progress(**{name: getattr(values, name) for name in Progress.__dataclass_fields__})


def _wait(
    thread: threading.Thread,
    events: queue.SimpleQueue[Union[Progress, _Ended]],
    stop: ctypes.c_int,
    progress: Report,
) -> tuple[_Ended, BaseException | None]:
    """Hands progress on until the work has ended. What is raised meanwhile asks it to stop."""
    raised: BaseException | None = None
    thread.start()
    while True:
        try:
            event = events.get(timeout=1)
            if isinstance(event, _Ended):
                thread.join()
                return event, raised
            if progress is not None and raised is None:
                progress(event)
        except queue.Empty:
            if not thread.is_alive() and events.empty():  # the end was taken when an interrupt came
                return _Ended(raised), raised
        except BaseException as interrupt:  # Ctrl-C, or the callback's own
            stop.value = 1
            raised = raised or interrupt
