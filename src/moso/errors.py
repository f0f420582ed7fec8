"""What can go wrong through no fault of ours: one class per kind of fault, one sentence per error.

Every `MosoError` is written for the person who caused it: what was found, what was expected, what to
do. The command line prints it without a traceback and exits with 2. Its `code`, made from the name of its class, is
stable: programs and tests look at it, because a sentence may be worded better one day. `docs/errors.md` lists all.
"""

import difflib
import re
from collections.abc import Iterable


class MosoError(Exception):
    """The user's or the surroundings' fault; the message is one clear sentence.

    Attributes:
        code: The kind of fault in kebab-case, such as `ratio-out-of-range`.

    Example:
        >>> raise RatioOutOfRangeError("ratio 1.2 is outside [0, 1)")
        Traceback (most recent call last):
        ...
        moso.errors.RatioOutOfRangeError: ratio 1.2 is outside [0, 1)
        >>> RatioOutOfRangeError.code
        'ratio-out-of-range'
    """

    code = "unclassified"

    def __init_subclass__(cls) -> None:
        words = re.findall("[A-Z][a-z]*", cls.__name__.removesuffix("Error"))
        cls.code = "-".join(words).lower()


class SampleError(MosoError):
    """Something that one sample brought about; `index` counts the samples that were given, from 0.

    Whoever knows the sample's name says it with `of`.

    >>> str(SampleError("the gradient of {sample} is not finite", 5).of("sample 105 at step 3"))
    'the gradient of sample 105 at step 3 is not finite'
    """

    def __init__(self, template: str, index: int) -> None:
        super().__init__(template.replace("{sample}", f"sample {index}"))
        self.template, self.index = template, index

    def of(self, sample: str) -> MosoError:
        """The same error with the sample's name, and with the same cause."""
        error = MosoError(self.template.replace("{sample}", sample))
        error.code, error.__cause__ = self.code, self.__cause__
        return error


# Names and values


class UnknownNameError(MosoError):
    """A name is not known; the message lists the nearest ones."""


class NameTakenError(MosoError):
    """A name belongs to something else already; give yours another."""


class SettingInvalidError(MosoError):
    """A flag, setting or argument has a value that makes no sense; give one that the message names."""


class SettingMissingError(MosoError):
    """A flag, setting or argument is needed and was not given."""


class SettingsConflictError(MosoError):
    """Two flags, settings or arguments exclude each other, or one belongs to another that was not given."""


class RatioOutOfRangeError(MosoError):
    """The ratio is no share in [0, 1), or would remove every sample."""


class WrongTypeError(MosoError):
    """An argument is an object of another type than the one that is needed."""


# Data


class DatasetNameInvalidError(MosoError):
    """The name of a data set is not of the form SOURCE:PLACE?OPTIONS that its source takes."""


class FileMissingError(MosoError):
    """A file or folder is not where it was looked for; check the path, or fetch the data."""


class FileUnreadableError(MosoError):
    """A file is there and cannot be read as what it should be: cut off, of another format, or not UTF-8."""


class FileUnsafeError(MosoError):
    """A file asks for code to be run, which no data file needs; it was not run."""


class DownloadFailedError(MosoError):
    """Something could not be fetched over the network; fetch it once where there is a connection."""


class DataEmptyError(MosoError):
    """There are no samples, rows, images or texts where some are needed."""


class DataAmbiguousError(MosoError):
    """Several columns or files could be meant; name one."""


class DataChangedError(MosoError):
    """The data is not what it was when the run or the experiment was made; use the old data, or a new run."""


class DataInMemoryError(MosoError):
    """The run was made from data or a network of the caller's process, which nobody else can open again."""


class DatasetRandomError(MosoError):
    """A data set gives another sample at every fetch; give the samples without augmentation."""


class ColumnMissingError(MosoError):
    """A table has no column of this name; name one of those it has."""


class ColumnTypeError(MosoError):
    """A column holds values of another type than the one that is needed."""


class SplitMissingError(MosoError):
    """The data has no such split (train, test); give one, or hold a share of the training data out."""


class LabelsMissingError(MosoError):
    """Some or all samples have no label where labels are needed."""


class LabelInvalidError(MosoError):
    """A label or target is not a class, a whole number or a number as it must be."""


class ClassesMismatchError(MosoError):
    """Splits, files or arguments do not speak of the same classes."""


class ClassesRequiredError(MosoError):
    """What was asked for is about classes, and the samples have numbers to predict."""


class TooFewClassesError(MosoError):
    """There is only one class where at least two are needed."""


class TooFewSamplesError(MosoError):
    """There are too few samples to be split, held out, partitioned or left out as asked."""


class PicturesRequiredError(MosoError):
    """What was asked for needs pictures, and the inputs are something else."""


class ShapeMismatchError(MosoError):
    """An array has another shape than the one that is needed."""


class LengthMismatchError(MosoError):
    """Arrays or files that speak of the same samples have different lengths."""


class IdsNotUniqueError(MosoError):
    """Two samples have one id, or a list names a sample twice."""


class SampleUnknownError(MosoError):
    """A list or argument names a sample that is not there, or leaves out one that is."""


class ValuesNotFiniteError(MosoError):
    """Inputs, features, scores or gradients hold NaN or infinite values; look at the sample that is named."""


# Networks and training


class ModelNameInvalidError(MosoError):
    """The name of a network is of no form that is known; `moso models` lists them."""


class ModelUnsuitableError(MosoError):
    """A network does not fit the data or the method: its inputs, its outputs, its layers or its parameters."""


class FactoryBrokenError(MosoError):
    """A factory `package.module:factory` of the user's own cannot be imported, called or used."""


class LossInvalidError(MosoError):
    """A loss does not give one value per sample."""


class RecipeInvalidError(MosoError):
    """A recipe has settings that are unknown, missing or contradict each other."""


class RecipeUnsuitableError(MosoError):
    """A method cannot follow the training that the recipe describes; use another recipe or method."""


class TrainingDivergedError(MosoError):
    """The loss or the weights are no longer finite; lower the learning rate or clip gradients."""


class NotDeterministicError(MosoError):
    """Training, done again, does not give the same bits, so it cannot be differentiated."""


class NotDifferentiableError(MosoError):
    """A layer has no second derivative, which the adjoint needs."""


class RecorderMisusedError(MosoError):
    """A recorder was called at the wrong time, or with an optimiser that it cannot follow."""


class TrajectoryIncompleteError(MosoError):
    """Time steps that are needed were not recorded, or more were made than announced."""


class CheckpointMismatchError(MosoError):
    """A checkpoint does not fit the network: names, shapes or frozen weights differ."""


# Scores and selection


class MethodImpossibleError(MosoError):
    """A method or selector cannot be in such a run; the message says why, and what to use."""


class EvidenceMissingError(MosoError):
    """A score or selector needs something that was not given or recorded."""


class BudgetImpossibleError(MosoError):
    """As many samples as asked for cannot stay: decisions by hand, minima or classes want more or fewer."""


class DecisionInvalidError(MosoError):
    """A file of decisions by hand says something else than keep or drop, or both."""


class SelectionAmbiguousError(MosoError):
    """Several selections or none fit; say which by method, selector and ratio."""


class NothingToMeasureError(MosoError):
    """There is nothing to compare: no wrong label, no difference, no retraining."""


class ExtensionBrokenError(MosoError):
    """A score, selector or metric of the user's own gives something of another shape than it must."""


class PluginBrokenError(MosoError):
    """An installed package declares an entry point that cannot be loaded or is of another kind."""


# Runs


class NotARunError(MosoError):
    """The directory is no run directory, or is not empty; use another --out."""


class RunDiffersError(MosoError):
    """The directory holds another run or training; use another --out, or delete it."""


class RunLockedError(MosoError):
    """Another process works in this run directory, or took it over; wait for it or use another --out."""


class FormatUnknownError(MosoError):
    """A run directory was written in a format that this version does not read."""


class StageIncompleteError(MosoError):
    """An earlier stage has not been done; run the command that the message names."""


class OutputExistsError(MosoError):
    """The file or folder to write is there already; give --overwrite or another place."""


class OutputInvalidError(MosoError):
    """The place to write to is of the wrong kind, or its name does not say what to write."""


class NotWritableError(MosoError):
    """The place to write to cannot be written; choose another."""


# Machines


class PackageMissingError(MosoError):
    """A package that this needs is not installed; the message has the command."""


class PackageIncompatibleError(MosoError):
    """An installed package does not work with the installed torch; the message has the command."""


class DeviceUnavailableError(MosoError):
    """This machine has no such device."""


class PortUnavailableError(MosoError):
    """The page cannot be served on this host and port; give others."""


class ExecutorUnsuitableError(MosoError):
    """This work cannot be done by this executor, or not as many processes share it."""


class WorkerLostError(MosoError):
    """A worker process died; start again to go on, perhaps with fewer workers."""


class ClusterUnreachableError(MosoError):
    """A cluster does not answer, or its machines do not see the run directory."""


class AddressInvalidError(MosoError):
    """An address of a store (such as s3://bucket/run) is incomplete or of an unknown protocol."""


class StorageFailedError(MosoError):
    """A store cannot be read or written; look at the address, its credentials and the network."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """An error for a name that is not registered, with the nearest ones that are.

    >>> str(unknown_name("selector", "balnced", ["top", "balanced"]))
    "unknown selector 'balnced'; nearest: balanced (known: balanced, top)"
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"nearest: {', '.join(near)} " if near else ""
    return UnknownNameError(f"unknown {kind} {name!r}; {hint}(known: {', '.join(names)})")
