"""All networks of the zoo by name; a new one is an entry in the file of its kind."""

from collections.abc import Sequence

from benchmarks.zoo import adapters, convolution, pictures, plain, recurrent, routed, sets, words
from benchmarks.zoo.problem import Network
from moso.errors import unknown_name

ZOO: dict[str, Network] = {
    **pictures.NETWORKS,
    **convolution.NETWORKS,
    **words.NETWORKS,
    **plain.NETWORKS,
    **adapters.NETWORKS,
    **recurrent.NETWORKS,
    **routed.NETWORKS,
    **sets.NETWORKS,
}


def find_networks(names: Sequence[str]) -> dict[str, Network]:
    """The networks of these names, or all.

    >>> list(find_networks(["gpt2"])), len(find_networks([])) >= 28
    (['gpt2'], True)
    """
    for name in names:
        if name not in ZOO:
            raise unknown_name("network", name, ZOO)
    return {name: network for name, network in ZOO.items() if not names or name in names}
