"""OpenCV's semi-global matching with two usual ways to make it dense: what `relaxcrf stereo` is compared with."""

import cv2
import numpy as np


def _range(disparities):
    """OpenCV takes multiples of 16 only."""
    return (disparities + 15) // 16 * 16


def _matcher(disparities, block, p1, p2, uniqueness, mode):
    return cv2.StereoSGBM_create(
        minDisparity=0,
        numDisparities=_range(disparities),
        blockSize=block,
        P1=p1,
        P2=p2,
        uniquenessRatio=uniqueness,
        mode=mode,
    )


def _pad(image, columns):
    """OpenCV matches no pixel of the first columns; columns in front of them become unmatched instead."""
    return cv2.copyMakeBorder(image, 0, 0, columns, 0, cv2.BORDER_REPLICATE)


def fill_from_lower(disparity):
    """Gives each hole the lower of its two neighbours in the row; NaN marks holes."""
    height, width = disparity.shape
    left, right = disparity.copy(), disparity.copy()
    for x in range(1, width):
        hole = np.isnan(left[:, x])
        left[hole, x] = left[hole, x - 1]
    for x in range(width - 2, -1, -1):
        hole = np.isnan(right[:, x])
        right[hole, x] = right[hole, x + 1]
    return np.nan_to_num(np.fmin(left, right), nan=0.0)


def sgbm_filled(left, right, disparities):
    columns = _range(disparities)
    matcher = _matcher(disparities, 5, 600, 2400, 5, cv2.STEREO_SGBM_MODE_HH)
    found = matcher.compute(_pad(left, columns), _pad(right, columns))[:, columns:].astype(np.float32) / 16
    found[found < 0] = np.nan
    return fill_from_lower(found)


def sgbm_wls(left, right, disparities):
    columns = _range(disparities)
    left, right = _pad(left, columns), _pad(right, columns)
    matcher = _matcher(disparities, 3, 8 * 3 * 9, 32 * 3 * 9, 10, cv2.STEREO_SGBM_MODE_HH)
    wls = cv2.ximgproc.createDisparityWLSFilter(matcher)
    wls.setLambda(8000)
    wls.setSigmaColor(1.5)
    first = matcher.compute(left, right)
    second = cv2.ximgproc.createRightMatcher(matcher).compute(right, left)
    return wls.filter(first, left, disparity_map_right=second)[:, columns:].astype(np.float32) / 16


ANCHORS = {"SGBM+fill": sgbm_filled, "SGBM+WLS": sgbm_wls}
