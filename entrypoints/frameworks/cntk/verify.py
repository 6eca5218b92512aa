"""Prints CNTK's version. Before that it gives CNTK the OpenMPI that it links to, by the names of 2016.

CNTK's libraries ask for libmpi.so.12 and libmpi_cxx.so.1, of OpenMPI 1.10. The calls that they make are the same up to
OpenMPI 4, whose libraries are libmpi.so.40 and libmpi_cxx.so.40: a link of the old name, in the folder where CNTK's
libraries look first, is enough. OpenMPI 5 has no libmpi_cxx. Python 3.6 syntax.
"""

import ctypes
import glob
import os
import sys
import warnings

LIBRARIES = {"libmpi.so.12": "libmpi.so.40", "libmpi_cxx.so.1": "libmpi_cxx.so.40"}
PACKAGES = (
    "apt-get install libopenmpi3 (Debian 10 to 12, Ubuntu 20.04 to 24.04), or another OpenMPI 4 with C++ bindings"
)


def path_of(library):
    """Where the dynamic linker finds a library; None where it finds none that works."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return None
    with open("/proc/self/maps") as lines:
        paths = {line.split(None, 5)[5].strip() for line in lines if "/" in line}
    return next((path for path in sorted(paths) if os.path.basename(path).startswith(library)), None)


def link(folder):
    """Makes the links in the folder of CNTK's libraries where the system hasn't the old names itself."""
    for old, new in LIBRARIES.items():
        if path_of(old) or path_of(os.path.join(folder, old)):
            continue
        found = path_of(new)
        if not found:
            sys.exit("CNTK needs OpenMPI, whose %s is not here: %s" % (new, PACKAGES))
        place = os.path.join(folder, old)
        if os.path.lexists(place):
            os.remove(place)  # it leads to nothing any more
        os.symlink(found, place)


def main():
    for folder in glob.glob(os.path.join(sys.prefix, "lib", "python3.6", "site-packages", "cntk", "libs")):
        link(folder)
    warnings.simplefilter("ignore")  # it knows no Linux but Ubuntu 16.04, and misses CUDA
    try:
        import cntk
    except ImportError as error:
        if "libpython3.6m" not in str(error):
            raise
        sys.exit(
            "CNTK needs a Python 3.6 built with --enable-shared: PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install "
            "--force 3.6.15 (%s)" % error
        )
    print(cntk.__version__)


if __name__ == "__main__":
    main()
