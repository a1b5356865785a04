"""The collective beside numpy's own mean. A failing test names its seed."""

from __future__ import annotations

import numpy as np
import pytest

from atp.collective import Collective, Magnitude, Options, Region, Uniform, strict_ends
from atp.collective.peers import Peers
from atp.collective.values import Array
from ranks import TYPES, arrays, options, run, successes, sums


Shape = int | tuple[int, ...]


def reduced(ranks: int, seed: int, shape: Shape, dtype: str, each: Options) -> list[list[Array]]:
    """What each rank got, after a check that all ranks got the same bits."""

    def one(collective: Collective) -> list[Array]:
        mine = arrays(collective.rank, seed, shape, dtype)
        return [collective.all_reduce("array", array).result() for array in mine]

    outcomes = successes(run(ranks, one, lambda rank: each))
    for outcome in outcomes[1:]:
        for here, first in zip(outcome, outcomes[0], strict=True):
            assert here.tobytes() == first.tobytes()
    return outcomes


def means(ranks: int, seed: int, shape: Shape, dtype: str) -> list[Array]:
    return [total / ranks for total in sums(ranks, seed, shape, dtype)]


@pytest.mark.parametrize("elements", [0, 1, 2, 15, 349, 350, 351, 5_000, 70_001])
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_exact_means_are_numpy_s(ranks: int, elements: int) -> None:
    seed = 100 * ranks + elements
    outcomes = reduced(ranks, seed, elements, "float32", options(groups=Uniform(1.0)))
    for got, mean in zip(outcomes[0], means(ranks, seed, elements, "float32"), strict=True):
        np.testing.assert_allclose(got, mean, rtol=1e-6, atol=1e-6)


def test_ranks_that_need_no_mean_leave_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """No rank waits for the mean of an empty part, so the others may leave before their reports
    have come to rank 0."""
    take_reports = Peers.take_reports

    def take_late_at_rank_0(self: Peers, peer: int, wait_s: float = 0.0) -> None:
        is_hello = peer not in self._confirmed
        if is_hello or 0 in self.jobs or self._inbox.has_left(peer):
            take_reports(self, peer, wait_s)

    monkeypatch.setattr(Peers, "take_reports", take_late_at_rank_0)

    def one(collective: Collective) -> Array:
        return collective.all_reduce("array", np.empty(0)).result()

    for got in successes(run(3, one, lambda rank: options(groups=Uniform(1.0)))):
        assert got.shape == (0,)


@pytest.mark.parametrize("shape", [(), (1,), (7, 50), (0, 5), (5, 0), (2, 3, 700)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_shapes(dtype: str, shape: tuple[int, ...]) -> None:
    outcomes = reduced(2, 5, shape, dtype, options(groups=Uniform(1.0)))
    for got, mean in zip(outcomes[0], means(2, 5, shape, dtype), strict=True):
        assert got.shape == shape and got.dtype == dtype
        np.testing.assert_allclose(got, mean, rtol=1e-3, atol=1e-3)


def test_an_order_of_memory_that_is_not_c_s() -> None:
    def one(collective: Collective) -> Array:
        return collective.all_reduce("array", np.arange(6.0).reshape(2, 3).T).result()

    for got in successes(run(2, one, lambda rank: options(groups=Uniform(1.0)))):
        assert (got == np.arange(6.0).reshape(2, 3).T).all()


@pytest.mark.parametrize(("dtype", "wire", "error"), TYPES)
def test_types(dtype: str, wire: str | None, error: float) -> None:
    each = options(groups=Uniform(1.0), wire=wire)
    outcomes = reduced(3, 7, 4_000, dtype, each)
    for got, mean in zip(outcomes[0], means(3, 7, 4_000, dtype), strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got, mean, rtol=error, atol=error)


def test_two_ranks_are_exact_to_the_bit() -> None:
    outcomes = reduced(2, 3, 10_000, "float32", options(groups=Uniform(1.0)))
    first, second = (arrays(rank, 3, 10_000, "float32") for rank in range(2))
    for got, one, other in zip(outcomes[0], first, second, strict=True):
        half = np.float32(2)
        assert got.tobytes() == (one / half + other / half).tobytes()


def test_an_array_of_several_pieces() -> None:
    outcomes = reduced(2, 4, 1_000_000, "float32", options(groups=Uniform(1.0)))
    for got, mean in zip(outcomes[0], means(2, 4, 1_000_000, "float32"), strict=True):
        np.testing.assert_allclose(got, mean, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("elements", [1, 20_000])
def test_sixteen_ranks(elements: int) -> None:
    outcomes = reduced(16, 1, elements, "float32", options(groups=Uniform(1.0)))
    for got, mean in zip(outcomes[0], means(16, 1, elements, "float32"), strict=True):
        np.testing.assert_allclose(got, mean, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("missing", ["zero", "mean", "feedback", "hadamard"])
@pytest.mark.parametrize("msr", [0.0, 0.3, 0.9])
def test_replicas_are_the_same_at_every_rate(msr: float, missing: str, seed: int) -> None:
    each = options(groups=Uniform(msr), missing=missing)
    outcomes = reduced(2 + seed, seed, 30_000, "float32", each)
    for got in outcomes[0]:
        assert np.isfinite(got).all()


def test_exact_regions_arrive_at_msr_0() -> None:
    regions = [Region(5_000, "weight"), Region(10, "bias", exact=True), Region(4_990, "more")]

    def one(collective: Collective) -> Array:
        array = np.full(10_000, collective.rank + 1.0, np.float32)
        return collective.all_reduce("array", array, regions).result()

    for got in run(3, one, lambda rank: options(groups=Uniform(0.0))):
        assert not isinstance(got, BaseException), got
        assert (got[5_000:5_010] == 2.0).all()


def test_a_floor_of_one_makes_a_step_exact() -> None:
    each = options(groups=Magnitude((10.0,), (0.0, 0.5)), msr_floor=strict_ends(3, first=1, last=1))
    outcomes = reduced(2, 5, 40_000, "float32", each)
    exact = means(2, 5, 40_000, "float32")
    for step in (0, 2):
        np.testing.assert_allclose(outcomes[0][step], exact[step], rtol=1e-6, atol=1e-6)


def test_what_was_lost_comes_with_a_later_step() -> None:
    """With error feedback, the sum over all steps misses no more than the last step's loss."""
    steps, elements = 20, 35_000

    def one(collective: Collective) -> tuple[Array, Array]:
        random = np.random.default_rng(collective.rank)
        got, mine = np.zeros(elements), np.zeros(elements)
        for _ in range(steps):
            array = random.standard_normal(elements).astype(np.float32)
            mine += array
            got += collective.all_reduce("array", array).result()
        return got, mine

    def error(missing: str) -> float:
        both = successes(run(2, one, lambda rank: options(groups=Uniform(0.5), missing=missing)))
        missed = both[0][0] - (both[0][1] + both[1][1]) / 2
        return float(np.sqrt(np.mean(missed**2)))

    without, with_feedback = error("zero"), error("feedback")
    assert with_feedback < 0.7 * without, (with_feedback, without)


def test_several_arrays_at_once() -> None:
    def one(collective: Collective) -> list[float]:
        pending = [
            collective.all_reduce(f"array {at}", np.full(1_000 * (at + 1), float(at), np.float32))
            for at in range(6)
        ]
        return [float(done.result().mean()) for done in pending]

    for got in run(3, one, lambda rank: options(groups=Uniform(1.0))):
        assert got == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
