"""A dense CRF as a layer for PyTorch, and the CRF regulariser of weakly supervised training.

>>> import torch, relaxcrf.torch                                            # doctest: +SKIP
>>> layer = relaxcrf.torch.DenseCRF()                                       # doctest: +SKIP
>>> beliefs = layer(logits, images)      # B x L x H x W, B x C x H x W     # doctest: +SKIP

The filters run on the CPU: tensors on another device are moved there and back. Batches run side by side in threads.
"""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Optional, Sequence

import numpy as np
import torch

from . import _core
from ._functions import get_num_threads
from ._grad import _MEMORY, _NEGLIGIBLE_BELIEF, positions
from .errors import ArgumentError, ShapeError

__all__ = ["DenseCRF", "DenseCRFLoss", "dense_crf"]


def _side_by_side(work: Callable, count: int) -> list:
    """The results of `work` for every image of a batch; native code releases the interpreter."""
    threads = get_num_threads()
    if count == 1 or threads == 1:
        return [work(k, threads) for k in range(count)]
    workers = min(count, threads)
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda k: work(k, max(1, threads // workers)), range(count)))


_noted = set()


def _to_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor on the CPU, with a note the first time a device is met."""
    if tensor.device.type != "cpu" and tensor.device.type not in _noted:
        _noted.add(tensor.device.type)
        warnings.warn(
            f"relaxcrf filters on the CPU: tensors on {tensor.device} are moved there and the results back", stacklevel=4
        )
    return tensor.detach().cpu()


def _array(tensor: torch.Tensor, dtype: Any) -> np.ndarray:
    return np.ascontiguousarray(tensor.numpy().astype(dtype, copy=False))


class _Unrolled(torch.autograd.Function):
    """Mean-field updates. Inputs are logits B x N x L, weights, costs or None, and the features of each kernel."""

    @staticmethod
    def forward(ctx: Any, logits: Any, weights: Any, costs: Any, options: tuple, *features: Any) -> Any:
        updates, normalization, filter, converged = options
        dtype = np.float64 if logits.dtype == torch.float64 else np.float32
        energies = _array(-_to_cpu(logits), dtype)
        numbers = [float(w) for w in _to_cpu(weights)]
        given = ("potts", []) if costs is None else ("matrix", [float(c) for c in _to_cpu(costs).double().reshape(-1)])
        rows = [_array(_to_cpu(f), dtype) for f in features]
        negligible = 0.0 if filter == "exact" else _NEGLIGIBLE_BELIEF

        def run(k: int, threads: int) -> Any:
            own = [f[k if len(f) > 1 else 0] for f in rows]
            parts = (normalization, filter, updates, converged, negligible, _MEMORY, threads)
            found = _core.Unrolled(energies[k], own, numbers, given, *parts)
            return found, found.beliefs()

        found = _side_by_side(run, len(energies))
        ctx.runs = [run for run, _ in found] if any(ctx.needs_input_grad) else []
        ctx.like = (logits, weights, costs, features)
        return torch.from_numpy(np.stack([beliefs for _, beliefs in found])).to(logits)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Any) -> tuple:
        logits, weights, costs, features = ctx.like
        dtype = np.float64 if logits.dtype == torch.float64 else np.float32
        given = _array(_to_cpu(gradient), dtype)
        asked = ["rows" if needed else "none" for needed in ctx.needs_input_grad[4:]]
        found = _side_by_side(lambda k, threads: ctx.runs[k].gradients(given[k], asked, threads), len(given))
        of_logits = torch.from_numpy(np.stack([-f["unary"] for f in found])).to(logits)
        of_weights = torch.from_numpy(np.sum([f["weights"] for f in found], axis=0)).to(weights)
        of_costs = None
        if costs is not None:
            entries = np.sum([f["costs"] for f in found], axis=0)
            np.fill_diagonal(entries, 0.0)
            of_costs = torch.from_numpy((entries + entries.T) / 2).to(costs)
        of_features = []
        for m, (tensor, needed) in enumerate(zip(features, ctx.needs_input_grad[4:])):
            if not needed:
                of_features.append(None)
                continue
            rows = np.stack([f["features"][m] for f in found])
            rows = rows.sum(0, keepdims=True) if len(tensor) == 1 else rows
            of_features.append(torch.from_numpy(rows).to(tensor))
        return (of_logits, of_weights, of_costs, None, *of_features)


def dense_crf(
    logits: torch.Tensor,
    features: Sequence[torch.Tensor],
    weights: torch.Tensor,
    costs: Optional[torch.Tensor] = None,
    *,
    updates: int = 5,
    normalization: str = "symmetric",
    filter: Optional[str] = None,
    converged: bool = False,
) -> torch.Tensor:
    """Beliefs after mean-field updates on points with any features.

    Parameters
    ----------
    logits : tensor
        B x L x N: higher is better. Beliefs start at their softmax.
    features : sequence of tensors
        For every kernel B x N x D, or 1 x N x D for the whole batch: features divided by their standard deviations.
    weights : tensor
        One per kernel. Every pair counts twice, once from each end.
    costs : tensor, optional
        L x L, symmetric with zeros on the diagonal; Potts costs without.
    updates, normalization, filter, converged
        As for `relaxcrf.grad`. Double precision uses the exact filter, whose cost is quadratic.

    Returns
    -------
    tensor
        B x L x N, differentiable with respect to all tensors.
    """
    if logits.dim() != 3:
        raise ShapeError(f"logits have shape {tuple(logits.shape)}, but must be batch x labels x points")
    points = logits.shape[2]
    features = list(features)
    for f in features:
        if f.dim() != 3 or f.shape[1] != points or f.shape[0] not in (1, logits.shape[0]):
            raise ShapeError(
                f"features have shape {tuple(f.shape)}, but must be {logits.shape[0]} (or 1) x {points} x dimensions"
            )
    if weights.shape != (len(features),):
        raise ShapeError(f"weights have shape {tuple(weights.shape)}, but there are {len(features)} kernels")
    if costs is not None and costs.shape != (logits.shape[1], logits.shape[1]):
        raise ShapeError(f"costs have shape {tuple(costs.shape)}, but there are {logits.shape[1]} labels")
    if not logits.dtype.is_floating_point:
        raise ArgumentError(f"logits are {logits.dtype}, but must be floating-point numbers")
    filter = filter or ("exact" if logits.dtype == torch.float64 else "lattice-classic")
    options = (int(updates), normalization, filter, bool(converged))
    rows = logits.transpose(1, 2)
    return _Unrolled.apply(rows, weights, costs, options, *features).transpose(1, 2).contiguous()


def _inverse_softplus(value: float) -> float:
    return float(np.log(np.expm1(value))) if value < 30 else value


class DenseCRF(torch.nn.Module):
    """A dense CRF with a Gaussian and a bilateral kernel, as a layer.

    Parameters
    ----------
    labels : int, optional
        With a number of labels, a cost for every pair of them is learned; Potts costs without.
    gaussian : tuple
        Standard deviation in pixels, and weight. None leaves the kernel out.
    bilateral : tuple
        Standard deviations in pixels and in the image's own units, and weight. Published values such as 3 are for images
        from 0 to 255.
    updates : int
        Mean-field updates.
    learn_widths : bool
        Whether standard deviations are parameters too; gradients then take about three times as long.
    normalization, filter, converged
        As for `dense_crf`.

    Weights, widths and costs stay positive whatever the optimiser does: `weights`, `widths` and `costs` are what the
    parameters stand for.
    """

    def __init__(
        self,
        labels: Optional[int] = None,
        *,
        gaussian: Optional[tuple] = (1.0, 0.75),
        bilateral: Optional[tuple] = (67.0, 3.0, 1.0),
        updates: int = 5,
        learn_widths: bool = False,
        normalization: str = "symmetric",
        filter: Optional[str] = None,
        converged: bool = False,
    ) -> None:
        super().__init__()
        kernels = [k for k in (gaussian, bilateral) if k is not None]
        if not kernels:
            raise ArgumentError("expected gaussian, bilateral or both: without kernels there is nothing to refine")
        if any(v <= 0 for k in kernels for v in k):
            raise ArgumentError(f"kernels are {kernels}, but widths and weights must be positive")
        self.has_gaussian, self.has_bilateral = gaussian is not None, bilateral is not None
        self.updates, self.normalization, self.filter, self.converged = updates, normalization, filter, converged
        self.raw_weights = torch.nn.Parameter(torch.tensor([_inverse_softplus(k[-1]) for k in kernels]))
        widths = [_inverse_softplus(v) for k in kernels for v in k[:-1]]
        self.raw_widths = torch.nn.Parameter(torch.tensor(widths), requires_grad=learn_widths)
        self.raw_costs = None
        if labels is not None:
            self.raw_costs = torch.nn.Parameter(torch.full((labels, labels), _inverse_softplus(1.0)))

    @property
    def weights(self) -> torch.Tensor:
        """Kernel weights."""
        return torch.nn.functional.softplus(self.raw_weights)

    @property
    def widths(self) -> torch.Tensor:
        """Standard deviations: of the Gaussian kernel, then of positions and colours of the bilateral one."""
        return torch.nn.functional.softplus(self.raw_widths)

    @property
    def costs(self) -> Optional[torch.Tensor]:
        """Label costs, symmetric with zeros on the diagonal; None for Potts costs."""
        if self.raw_costs is None:
            return None
        costs = torch.nn.functional.softplus(self.raw_costs)
        costs = (costs + costs.T) / 2
        return costs - torch.diag(torch.diag(costs))

    def forward(
        self, logits: torch.Tensor, images: Optional[torch.Tensor] = None, features: Optional[torch.Tensor] = None
    ) -> torch.Tensor:
        """Beliefs, shaped as the logits: B x L x H x W (or D x H x W), with images B x C x H x W.

        For points, logits are B x L x N, and `features` B x N x D take the place of positions and colours, already
        divided by their standard deviations: one kernel with the last weight.
        """
        weights, widths, costs = (None if t is None else t.to(logits) for t in (self.weights, self.widths, self.costs))
        options = {
            "updates": self.updates,
            "normalization": self.normalization,
            "filter": self.filter,
            "converged": self.converged,
        }
        if features is not None:
            return dense_crf(logits, [features], weights[-1:], costs, **options)
        if logits.dim() < 4:
            raise ShapeError(f"logits have shape {tuple(logits.shape)}, but must be batch x labels x height x width")
        shape = tuple(logits.shape[2:])
        if self.has_bilateral and (images is None or images.shape[0] != logits.shape[0] or tuple(images.shape[2:]) != shape):
            got = None if images is None else tuple(images.shape)
            raise ShapeError(f"images have shape {got}, but must be {logits.shape[0]} x channels x {shape}")
        places = torch.from_numpy(positions(shape, np.float64))[None].to(logits)
        rows = [places / widths[0]] if self.has_gaussian else []
        if self.has_bilateral:
            colors = images.to(logits).flatten(2).transpose(1, 2) / widths[-1]
            rows.append(torch.cat([(places / widths[-2]).expand(len(colors), -1, -1), colors], 2))
        return dense_crf(logits.flatten(2), rows, weights, costs, **options).unflatten(2, shape)

    def extra_repr(self) -> str:
        """What the layer is, for print."""
        weights, widths = self.weights.tolist(), self.widths.tolist()
        return f"weights={weights}, widths={widths}, updates={self.updates}"


class _Regularizer(torch.autograd.Function):
    """The mean over a batch of `sum_l s_l' K (1 - s_l) / N`. Inputs are S, B x N x L, and features, B x N x D."""

    @staticmethod
    def forward(ctx: Any, beliefs: Any, features: Any, filter: str) -> Any:
        rows, given = _array(_to_cpu(beliefs), np.float32), _array(_to_cpu(features), np.float32)

        def run(k: int, threads: int) -> tuple:
            values = np.concatenate([rows[k], np.ones((len(rows[k]), 1), np.float32)], axis=1)
            product = _core.filter(given[k], values, filter, False, threads)
            gradient = product[:, -1:] - 2 * product[:, :-1]
            value = np.einsum("nl,nl->", rows[k].astype(np.float64), (product[:, -1:] - product[:, :-1]).astype(np.float64))
            return value, gradient

        found = _side_by_side(run, len(rows))
        scale = 1.0 / (rows.shape[0] * rows.shape[1])
        ctx.gradient = torch.from_numpy(np.stack([g for _, g in found]) * np.float32(scale)).to(beliefs)
        return beliefs.new_tensor(scale * sum(value for value, _ in found))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Any) -> tuple:
        return ctx.gradient * gradient, None, None


class DenseCRFLoss(torch.nn.Module):
    """The regulariser of weakly supervised training: neighbours of similar colour should have similar beliefs.

    ``weight / (B N) * sum_l s_l' K (1 - s_l)`` over a batch of softmax outputs, with K the bilateral kernel without
    normalisation. It is added to a loss on the few labelled pixels.

    Parameters
    ----------
    weight : float
        Factor of the loss.
    sigma_rgb, sigma_xy : float
        Standard deviations, in the images' units and in pixels.
    scale : float
        Images and beliefs are first resized by this factor, which saves time; `sigma_xy` shrinks with them.
    """

    def __init__(self, weight: float = 1.0, sigma_rgb: float = 15.0, sigma_xy: float = 100.0, scale: float = 1.0) -> None:
        super().__init__()
        if min(sigma_rgb, sigma_xy, scale) <= 0:
            raise ArgumentError(f"sigma_rgb, sigma_xy and scale are {sigma_rgb}, {sigma_xy}, {scale}, but must be positive")
        self.weight, self.sigma_rgb, self.sigma_xy, self.scale = weight, sigma_rgb, sigma_xy, scale

    def forward(self, images: torch.Tensor, beliefs: torch.Tensor, mask: Optional[torch.Tensor] = None) -> torch.Tensor:
        """The loss of beliefs B x L x H x W (after softmax) on images B x C x H x W.

        Pixels where `mask` (B x H x W) is zero take no part.
        """
        if images.dim() != 4 or beliefs.dim() != 4 or images.shape[0] != beliefs.shape[0]:
            raise ShapeError(
                f"images have shape {tuple(images.shape)} and beliefs {tuple(beliefs.shape)}, but must be B x C x H x W "
                "and B x L x H x W"
            )
        if self.scale != 1.0:
            resize = torch.nn.functional.interpolate
            images = resize(images, scale_factor=self.scale, mode="nearest")
            beliefs = resize(beliefs, scale_factor=self.scale, mode="bilinear", align_corners=False)
            mask = mask if mask is None else resize(mask[:, None].to(beliefs), scale_factor=self.scale)[:, 0]
        if images.shape[2:] != beliefs.shape[2:]:
            raise ShapeError(f"images are {tuple(images.shape[2:])}, but beliefs are {tuple(beliefs.shape[2:])}")
        if mask is not None:
            beliefs = beliefs * mask[:, None]
        shape = tuple(beliefs.shape[2:])
        places = torch.from_numpy(positions(shape))[None] / (self.sigma_xy * self.scale)
        colors = images.detach().float().cpu().flatten(2).transpose(1, 2) / self.sigma_rgb
        features = torch.cat([places.expand(len(colors), -1, -1), colors], 2)
        return self.weight * _Regularizer.apply(beliefs.flatten(2).transpose(1, 2), features, "lattice")
