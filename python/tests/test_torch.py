"""The layer for PyTorch. Skipped, saying so, where torch is not installed."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import relaxcrf  # noqa: E402
import relaxcrf.torch  # noqa: E402


def tensors(batch=2, labels=3, shape=(5, 6), dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(batch, labels, *shape, generator=generator, dtype=dtype, requires_grad=True)
    images = 100 * torch.rand(batch, 3, *shape, generator=generator, dtype=dtype)
    return logits, images.requires_grad_()


def layer(**options):
    return relaxcrf.torch.DenseCRF(gaussian=(2.0, 0.6), bilateral=(4.0, 30.0, 0.8), **options)


def test_gradcheck_of_logits_images_and_all_parameters():
    crf = layer(labels=3, learn_widths=True, updates=3).double()
    logits, images = tensors()
    names = [name for name, _ in crf.named_parameters()]

    def run(logits, images, *parameters):
        return torch.func.functional_call(crf, dict(zip(names, parameters)), (logits, images))

    assert torch.autograd.gradcheck(run, (logits, images, *crf.parameters()), eps=1e-5, atol=1e-6, rtol=1e-5)


def test_gradcheck_of_points_with_features_and_of_the_fixed_point():
    logits, _ = tensors(shape=(11,))
    features = torch.randn(2, 11, 4, dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([0.7], dtype=torch.float64, requires_grad=True)
    run = lambda *given: relaxcrf.torch.dense_crf(given[0], [given[1]], given[2])
    assert torch.autograd.gradcheck(run, (logits, features, weights), eps=1e-5, atol=1e-6)
    once = relaxcrf.torch.dense_crf(logits, [features], weights, updates=200)
    expected = torch.autograd.grad(once.square().sum(), (logits, weights))
    fixed = relaxcrf.torch.dense_crf(logits, [features], weights, updates=200, converged=True)
    for a, b in zip(torch.autograd.grad(fixed.square().sum(), (logits, weights)), expected):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_beliefs_are_those_of_the_model():
    logits, images = tensors(shape=(20, 26), dtype=torch.float32)
    beliefs = layer()(logits, images)
    for k in range(2):
        image = images[k].detach().permute(1, 2, 0).numpy()
        kernels = [relaxcrf.Gaussian(2, 0.6), relaxcrf.Bilateral(image, 4, 30, 0.8)]
        model = relaxcrf.Model(-logits[k].detach().numpy(), kernels, filter="lattice-classic")
        expected = relaxcrf.solve(model, "mf5").probabilities
        np.testing.assert_allclose(beliefs[k].detach().numpy(), expected, atol=2e-3)


def test_volumes_no_grad_and_state_dict():
    crf = layer(labels=3, learn_widths=True)
    logits, images = tensors(batch=1, shape=(4, 5, 6), dtype=torch.float32)
    with torch.no_grad():
        beliefs = crf(logits, images)
    assert beliefs.shape == logits.shape and not beliefs.requires_grad
    torch.testing.assert_close(beliefs.sum(1), torch.ones(1, 4, 5, 6))
    other = relaxcrf.torch.DenseCRF(labels=3)
    other.load_state_dict(crf.state_dict())
    torch.testing.assert_close(other(logits, images), beliefs)
    torch.testing.assert_close(crf.weights, torch.tensor([0.6, 0.8]))
    assert "weights" in repr(crf)


class Refined(torch.utils.data.Dataset):
    """Images refined where they are loaded."""

    def __len__(self):
        return 4

    def __getitem__(self, k):
        logits, images = tensors(batch=1, dtype=torch.float32, seed=k)
        return layer()(logits.detach(), images.detach())[0].detach()


def test_layer_works_in_workers_of_a_data_loader():
    layer()(*tensors(dtype=torch.float32))  # threads exist before the workers are forked
    loaded = list(torch.utils.data.DataLoader(Refined(), num_workers=2))
    assert len(loaded) == 4 and all(torch.isfinite(b).all() for b in loaded)


def crf_loss_by_numpy(image, beliefs, sigma_rgb, sigma_xy):
    """The regulariser over all pairs, and its gradient."""
    channels, height, width = image.shape
    y, x = np.mgrid[:height, :width]
    rows = np.concatenate([np.stack([x.ravel(), y.ravel()], 1) / sigma_xy, image.reshape(channels, -1).T / sigma_rgb], 1)
    kernel = np.exp(-0.5 * ((rows[:, None] - rows[None]) ** 2).sum(-1))
    s = beliefs.reshape(len(beliefs), -1).T
    return (s * (kernel @ (1 - s))).sum() / len(s), (kernel @ (1 - 2 * s) / len(s)).T.reshape(beliefs.shape)


def test_crf_loss_agrees_with_numpy_over_all_pairs():
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:28, :34]
    images = np.stack([np.stack([3 * x + 20 * k, 4 * y, 2 * (x + y)]) for k in range(2)]).astype(np.float32)
    beliefs = torch.from_numpy(rng.dirichlet([1, 1], (2, 28, 34)).transpose(0, 3, 1, 2).astype(np.float32)).requires_grad_()
    loss = relaxcrf.torch.DenseCRFLoss(weight=2.0, sigma_rgb=25, sigma_xy=12)(torch.from_numpy(images), beliefs)
    loss.backward()
    expected = [crf_loss_by_numpy(i, b, 25, 12) for i, b in zip(images, beliefs.detach().numpy())]
    # The lattice is an approximation of the sum over all pairs, up to a factor that is nearly the same everywhere.
    value = np.mean([v for v, _ in expected]) * 2
    assert 0.5 < loss.item() / value < 1.2
    got, want = beliefs.grad.numpy().ravel(), np.stack([g for _, g in expected]).ravel()
    assert got @ want / np.sqrt((got @ got) * (want @ want)) > 0.98


def test_crf_loss_gradient_is_that_of_its_value():
    logits, images = tensors(dtype=torch.float32, shape=(12, 14))
    beliefs = logits.detach().softmax(1).requires_grad_()
    loss = relaxcrf.torch.DenseCRFLoss(sigma_xy=6)
    loss(images, beliefs).backward()
    direction = torch.randn_like(beliefs)
    with torch.no_grad():
        ahead, behind = (loss(images, beliefs + h * direction).item() for h in (1e-2, -1e-2))
    np.testing.assert_allclose((beliefs.grad * direction).sum().item(), (ahead - behind) / 2e-2, rtol=2e-3)


def test_sizes_that_do_not_fit_are_named():
    logits, images = tensors(dtype=torch.float32)
    with pytest.raises(relaxcrf.errors.ShapeError, match="images"):
        layer()(logits, images[:, :, :4])
    with pytest.raises(relaxcrf.errors.ShapeError, match="batch x labels"):
        layer()(logits[0], images)
    with pytest.raises(relaxcrf.errors.ShapeError, match="2 kernels"):
        relaxcrf.torch.dense_crf(logits.flatten(2), [torch.zeros(1, 30, 2)] * 2, torch.ones(1))
    with pytest.raises(relaxcrf.errors.ArgumentError, match="positive"):
        relaxcrf.torch.DenseCRF(gaussian=(0.0, 1.0))


def test_network_gains_by_the_layer_when_trained_with_it():
    import importlib.util
    import pathlib

    path = pathlib.Path(__file__).parents[1] / "examples" / "train_with_layer.py"
    spec = importlib.util.spec_from_file_location("train_with_layer", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    alone, with_layer = example.main(["--steps", "40", "--size", "32", "--batch", "4"])
    assert with_layer > alone + 0.005
