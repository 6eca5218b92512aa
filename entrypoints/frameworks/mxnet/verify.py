"""Prints MXNet's version; where a library of the system is missing, the package that has it."""

import sys

PACKAGES = {"libquadmath.so.0": "libquadmath0", "libgomp.so.1": "libgomp1"}  # Debian's and Ubuntu's names

try:
    import mxnet
except OSError as error:
    library = str(error).split(":")[0]  # the dynamic linker's "NAME: cannot open shared object file: ..."
    if library not in PACKAGES:
        raise
    sys.exit(f"MXNet needs the system's {library}: apt-get install {PACKAGES[library]}")
print(mxnet.__version__)
