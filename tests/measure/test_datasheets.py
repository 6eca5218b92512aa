"""The table of stated peaks."""

import pytest

from tbd.measure import datasheets
from tbd.measure.events import Absent


def test_a_device_is_found_by_the_beginning_of_its_name():
    assert datasheets.sheet("Tesla V100-SXM2-16GB").bandwidth == 900
    assert datasheets.tflops("NVIDIA H100 80GB HBM3", "tf32") == 494.5


def test_what_the_table_has_not_is_absent_with_its_name():
    with pytest.raises(Absent, match="NVIDIA GeForce"):
        datasheets.sheet("NVIDIA GeForce RTX 4090")
    with pytest.raises(Absent, match="T4 .* states no peak in bf16"):
        datasheets.tflops("Tesla T4", "bf16")


@pytest.mark.parametrize("name", datasheets.SHEETS)
def test_every_sheet_has_a_source_and_orders_its_precisions(name):
    """Coarser numbers are never slower, and peaks are dense: half of what a sheet states with sparsity."""
    sheet = datasheets.SHEETS[name]
    assert "datasheet" in sheet.source and sheet.bandwidth > 0
    found = [sheet.tflops[precision] for precision in ("fp64", "fp32", "tf32", "bf16") if precision in sheet.tflops]
    assert found == sorted(found)
