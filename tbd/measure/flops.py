"""Floating-point work: what was achieved, and how much of what the device can do."""

from tbd.measure.events import Absent, Array, MatrixProduct, MemoryCopy


def achieved_tflops(flops: Array | None, window_s: float) -> float:
    """sum(model FLOPs of the steps in the window) / window / 10^12, in TFLOP/s.

    Model FLOPs: by the specification's formula, 2 a multiply-accumulate, no recomputation counted (PaLM,
    arXiv 2204.02311, appendix B), over the batches' padded shapes.
    """
    if flops is None or not flops.sum() > 0:
        raise Absent("the worker wrote no FLOPs of its steps")
    return float(flops.sum() / window_s / 1e12)


def peak_tflops_measured(products: list[MatrixProduct], precision: str | None) -> float:
    """2 n^3 / min(seconds) / 10^12, in TFLOP/s: the best matrix product on this device in the run's precision.

    The minimum, since a peak is what the device can do and noise only ever adds time; of several sizes the best. It is
    also the cautious choice: a median would make the peak smaller and the utilisation larger.
    """
    rates = [
        2 * float(product.size) ** 3 / float(product.seconds.min()) / 1e12
        for product in products
        if product.precision == precision and product.size and len(product.seconds) and product.seconds.min() > 0
    ]
    if not rates:
        raise Absent(f"no matrix product in {precision or 'the precision'} of the run was timed (measure.peak)")
    return max(rates)


def bandwidth_measured(copies: list[MemoryCopy]) -> float:
    """2 bytes / min(seconds) / 10^9, in GB/s: a copy reads and writes every byte (STREAM's Copy, McCalpin 1995).

    The minimum, as for the peak of arithmetic.
    """
    rates = [
        2 * copy.bytes / float(copy.seconds.min()) / 1e9
        for copy in copies
        if copy.bytes and len(copy.seconds) and copy.seconds.min() > 0
    ]
    if not rates:
        raise Absent("no copy within the device's memory was timed (measure.peak)")
    return max(rates)


def mfu(achieved: float, peak: float) -> float:
    """Model FLOPs utilisation: achieved_tflops / peak_tflops_measured (PaLM, arXiv 2204.02311, appendix B).

    Raises Absent above 1: the peak was then not the device's peak, and the figure would be wrong.
    """
    share = achieved / peak
    if share > 1:
        raise Absent(
            f"achieved {achieved:.4g} TFLOP/s is more than the measured peak of {peak:.4g}: "
            "the peak was disturbed (on a GPU measure.peak_max_age_days=0 measures it anew), or the network does less "
            "work than its formula says"
        )
    return share
