from tbd.measure.figures import Figures
from tbd.tracking.spool import Spool


def page(spool: Spool, figures: Figures) -> str:
    return "<!doctype html>"
