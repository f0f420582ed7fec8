"""Errors caused by the user or the environment: one class per kind of error, one sentence per message.

A message says what was found, what was expected and what to do; the command line prints it without a traceback and
exits with status 2. Programs compare the `code`, which is stable; messages may be reworded. `docs/errors.md` lists all.
"""

import difflib
import re
from collections.abc import Iterable


class MosoError(Exception):
    """An error caused by the user or the environment; the message is one clear sentence.

    Attributes:
        code: The kind of fault in kebab-case, such as `ratio-out-of-range`.

    Example:
        >>> RatioOutOfRange.code
        'ratio-out-of-range'
    """

    code = "unclassified"

    def __init_subclass__(cls) -> None:
        words = re.findall("[A-Z][a-z]*", cls.__name__.removesuffix("Error"))
        cls.code = "-".join(words).lower()


class SampleError(MosoError):
    """A fault that one sample brought about, the `index`-th of those given; who knows its name says it with `of`.

    >>> error = SampleError(ValuesNotFinite, "the gradient of {sample} is not finite", 5)
    >>> error.of("sample 105 at step 3")
    ValuesNotFinite('the gradient of sample 105 at step 3 is not finite')
    """

    def __init__(self, kind: type[MosoError], template: str, index: int) -> None:
        super().__init__(template.replace("{sample}", f"sample {index}"))
        self.kind, self.template, self.index, self.code = kind, template, index, kind.code

    def of(self, sample: str) -> MosoError:
        """Return an error of the same kind and cause that names the sample."""
        error = self.kind(self.template.replace("{sample}", sample))
        error.__cause__ = self.__cause__
        return error


# Names and values


class UnknownName(MosoError):
    """A name is not known; the message lists the nearest ones."""


class NameTaken(MosoError):
    """A name belongs to something else already; give yours another."""


class SettingInvalid(MosoError):
    """A flag, setting or argument has a value that makes no sense; give one that the message names."""


class SettingMissing(MosoError):
    """A flag, setting or argument is needed and was not given."""


class SettingsConflict(MosoError):
    """Two flags, settings or arguments exclude each other, or one belongs to another that was not given."""


class RatioOutOfRange(MosoError):
    """The ratio is no share in [0, 1), or would remove every sample."""


class WrongType(MosoError):
    """An argument is an object of another type than the one that is needed."""


# Data


class DatasetNameInvalid(MosoError):
    """The name of a data set is not of the form SOURCE:PLACE?OPTIONS that its source takes."""


class FileMissing(MosoError):
    """A file or folder is not where it was looked for; check the path, or fetch the data."""


class FileUnreadable(MosoError):
    """A file is there and cannot be read as what it should be: cut off, of another format, or not UTF-8."""


class FileDamaged(FileUnreadable):
    """A file of a run is not what was written: a checksum differs; the command that wrote it does that piece again."""


class FileUnsafe(MosoError):
    """A file asks for code to be run, which no data file needs; it was not run."""


class CodeUntrusted(MosoError):
    """A file names code to run (`package.module:factory`), which was not run; `--trust` allows it."""


class DownloadFailed(MosoError):
    """Something could not be fetched over the network; fetch it once where there is a connection."""


class DataEmpty(MosoError):
    """There are no samples, rows, images or texts where some are needed."""


class DataAmbiguous(MosoError):
    """Several columns or files could be meant; name one."""


class DataChanged(MosoError):
    """The data is not what it was when the run or the experiment was made; use the old data, or a new run."""


class DataInMemory(MosoError):
    """The run was made from data or a network of the caller's process, which nobody else can open again."""


class DatasetRandom(MosoError):
    """A data set gives another sample at every fetch; give the samples without augmentation."""


class ColumnMissing(MosoError):
    """A table has no column of this name; name one of those it has."""


class ColumnType(MosoError):
    """A column holds values of another type than the one that is needed."""


class SplitMissing(MosoError):
    """The data has no such split (train, test); give one, or hold a share of the training data out."""


class LabelsMissing(MosoError):
    """Some or all samples have no label where labels are needed."""


class LabelInvalid(MosoError):
    """A label or target is not a class, a whole number or a number as it must be."""


class ClassesMismatch(MosoError):
    """Splits, files or arguments do not speak of the same classes."""


class ClassesRequired(MosoError):
    """What was asked for is about classes, and the samples have numbers to predict."""


class TooFewClasses(MosoError):
    """There is only one class where at least two are needed."""


class TooFewSamples(MosoError):
    """There are too few samples to be split, held out, partitioned or left out as asked."""


class PicturesRequired(MosoError):
    """What was asked for needs pictures, and the inputs are something else."""


class ShapeMismatch(MosoError):
    """An array has another shape than the one that is needed."""


class LengthMismatch(MosoError):
    """Arrays or files that speak of the same samples have different lengths."""


class IdsNotUnique(MosoError):
    """Two samples have one id, or a list names a sample twice."""


class SampleUnknown(MosoError):
    """A list or argument names a sample that is not there, or leaves out one that is."""


class ValuesNotFinite(MosoError):
    """Inputs, features, scores or gradients hold NaN or infinite values; look at the sample that is named."""


# Networks and training


class ModelNameInvalid(MosoError):
    """The name of a network is of no form that is known; `moso models` lists them."""


class ModelUnsuitable(MosoError):
    """A network does not fit the data or the method: its inputs, its outputs, its layers or its parameters."""


class WeightsMismatch(MosoError):
    """Weights do not fit the network; the message names what is missing, left over or of another shape."""


class FactoryBroken(MosoError):
    """A factory `package.module:factory` of the user's own cannot be imported, called or used."""


class LossInvalid(MosoError):
    """A loss does not give one value per sample."""


class RiskInvalid(MosoError):
    """A risk of the user's own is no differentiable number of the network's parameters."""


class SamplesMixed(MosoError):
    """The loss of a sample depends on its neighbours in the batch, so a sample has no gradient of its own."""


class NetworkFailed(MosoError):
    """The network or its loss raises an error on a sample or a batch; the message and the cause say which and why."""


class OutOfMemory(MosoError):
    """A single sample does not fit into memory; use a smaller network, input or device share."""


class RecipeInvalid(MosoError):
    """A recipe has settings that are unknown, missing or contradict each other."""


class RecipeUnsuitable(MosoError):
    """A method cannot follow the training that the recipe describes; use another recipe or method."""


class TrainingDiverged(MosoError):
    """The loss or the weights are no longer finite; lower the learning rate or clip gradients."""


class NotDeterministic(MosoError):
    """Training, done again, does not give the same bits, so it cannot be differentiated."""


class NotDifferentiable(MosoError):
    """A second derivative that is needed does not exist, or cannot be inverted."""


class RecorderMisused(MosoError):
    """A recorder was called at the wrong time, or with an optimiser that it cannot follow."""


class TrajectoryIncomplete(MosoError):
    """Time steps that are needed were not recorded, or more were made than announced."""


class CheckpointMismatch(MosoError):
    """A checkpoint does not fit the network: names, shapes or frozen weights differ."""


# Scores and selection


class MethodImpossible(MosoError):
    """A method or selector cannot be in such a run; the message says why, and what to use."""


class EvidenceMissing(MosoError):
    """A score or selector needs something that was not given or recorded."""


class BudgetImpossible(MosoError):
    """As many samples as asked for cannot stay: decisions by hand, minima or classes want more or fewer."""


class DecisionInvalid(MosoError):
    """A file of decisions by hand says something else than keep or drop, or both."""


class SelectionAmbiguous(MosoError):
    """Several selections or none fit; say which by method, selector and ratio."""


class NothingToMeasure(MosoError):
    """There is nothing to compare: no wrong label, no difference, no retraining."""


class ExtensionBroken(MosoError):
    """A score, selector or metric of the user's own gives something of another shape than it must."""


class PluginBroken(MosoError):
    """An installed package declares an entry point that cannot be loaded or is of another kind."""


# Runs


class NotARun(MosoError):
    """The directory is no run directory, or is not empty; use another directory."""


class RunDiffers(MosoError):
    """The directory holds another run or training; use another directory, or delete it."""


class RunsIncomparable(MosoError):
    """Two runs are not over the same samples; compare runs of the same data."""


class RunLocked(MosoError):
    """Another process works in this run directory, or took it over; wait for it or use another directory."""


class FormatUnknown(MosoError):
    """A run directory was written in a format that this version does not read."""


class StageIncomplete(MosoError):
    """An earlier stage has not been done; run the command that the message names."""


class OutputExists(MosoError):
    """The file or folder to write is there already; give --overwrite or another place."""


class OutputInvalid(MosoError):
    """The place to write to is of the wrong kind, or its name does not say what to write."""


class NotWritable(MosoError):
    """The place to write to cannot be written; choose another."""


# Machines


class PackageMissing(MosoError):
    """A package that this needs is not installed; the message has the command."""


class PackageIncompatible(MosoError):
    """An installed package does not work with the installed torch; the message has the command."""


class DeviceUnavailable(MosoError):
    """This machine has no such device."""


class PortUnavailable(MosoError):
    """The page cannot be served on this host and port; give others."""


class ExecutorUnsuitable(MosoError):
    """This work cannot be done by this executor, or not as many processes share it."""


class WorkerLost(MosoError):
    """A worker process died; start again to go on, perhaps with fewer workers."""


class ClusterUnreachable(MosoError):
    """A cluster does not answer, or its machines do not see the run directory."""


class AddressInvalid(MosoError):
    """An address of a store (such as s3://bucket/run) is incomplete or of an unknown protocol."""


class StorageFailed(MosoError):
    """A store cannot be read or written; look at the address, its credentials and the network."""


def package_missing(package: str, extra: str, needed_by: str = "") -> PackageMissing:
    """Return an error for a package that is not installed, with the command that installs it.

    Args:
        package: Name of the package.
        extra: Extra of this distribution that brings the package.
        needed_by: What needs the package, if the caller did not ask for it by name.

    >>> str(package_missing("ray", "ray", "--executor ray"))
    '--executor ray needs ray, which is not installed; pip install "moso-prune[ray]" installs it'
    """
    found = f"{needed_by} needs {package}, which" if needed_by else package
    return PackageMissing(f'{found} is not installed; pip install "moso-prune[{extra}]" installs it')


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownName:
    """Return an error for a name that is not registered, with the nearest registered names.

    >>> str(unknown_name("selector", "balnced", ["top", "balanced"]))
    "unknown selector 'balnced'; nearest: balanced (known: balanced, top)"
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"nearest: {', '.join(near)} " if near else ""
    listed = ", ".join(names) if len(names) <= 30 or not near else f"{len(names)} names"
    return UnknownName(f"unknown {kind} {name!r}; {hint}(known: {listed})")
