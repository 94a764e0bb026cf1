"""Label costs by name, restricted models and the number of random roundings."""

import pickle

import numpy as np
import pytest

import relaxcrf

UNARY = np.random.default_rng(3).random((4, 6, 7)).astype(np.float32)
KERNELS = [relaxcrf.Gaussian(2, 0.5)]


@pytest.mark.parametrize("costs, power, most", [("quadratic", 2, np.inf), ("quadratic:3", 2, 3.0), ("linear:2", 1, 2.0)])
def test_named_costs_equal_their_matrix(costs, power, most):
    places = np.arange(4.0)
    matrix = np.minimum(np.abs(places[:, None] - places) ** power, most)
    labels = np.random.default_rng(4).integers(0, 4, (6, 7))
    named = relaxcrf.Model(UNARY, KERNELS, costs).energy(labels)
    assert np.isclose(named, relaxcrf.Model(UNARY, KERNELS, matrix).energy(labels), rtol=1e-5)


@pytest.mark.parametrize("costs", ["potts", "quadratic:3", [1.0, 2.0, 0.5, 1.0]])
def test_restricted_model_has_the_energies_of_the_labels_kept(costs):
    whole = relaxcrf.Model(UNARY, KERNELS, costs)
    part = whole.restrict([3, 1])
    assert part.labels == 2 and part.unary.shape == (2, 6, 7)
    labels = np.random.default_rng(5).integers(0, 2, (6, 7))
    assert np.isclose(part.energy(labels), whole.energy(np.array([3, 1])[labels]), rtol=1e-5)
    assert np.isclose(pickle.loads(pickle.dumps(part)).energy(labels), part.energy(labels), rtol=1e-5)


def test_labels_to_keep_are_checked():
    model = relaxcrf.Model(UNARY, KERNELS)
    with pytest.raises(relaxcrf.errors.ArgumentError):
        model.restrict([0, 4])
    with pytest.raises(relaxcrf.errors.ArgumentError, match="once"):
        model.restrict([1, 1])


def test_bound_of_costs_that_are_no_sum_of_cuts_says_so():
    result = relaxcrf.solve(relaxcrf.Model(UNARY, KERNELS, "quadratic"), "smooth-lp", roundings=0)
    assert result.lower_bound <= result.energy + 1e-4
    assert result.bound_source in ("smooth-lp with the largest sum of cuts below the label costs", "unary energies alone")
