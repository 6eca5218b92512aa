"""What CUDA's driver says of the devices that this process sees, for frameworks that don't tell it. Linux."""

import ctypes
import uuid


def device_uuid(number):
    """The UUID of the process's CUDA device of that number, as nvidia-smi and NVML write it: "GPU-1234abcd-...".

    The driver itself counts as CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER say (CUDA Driver API, cuDeviceGetUuid).
    """
    driver, device = opened(number)
    found = (ctypes.c_ubyte * 16)()
    call(driver, "cuDeviceGetUuid", ctypes.byref(found), device)
    return f"GPU-{uuid.UUID(bytes=bytes(found))}"


def compute_capability(number):
    """(major, minor) of the process's CUDA device of that number; None where there is no such device, or no driver."""
    try:
        driver, device = opened(number)
    except (OSError, RuntimeError):
        return None
    found = []
    for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
        value = ctypes.c_int()
        call(driver, "cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
        found.append(value.value)
    return tuple(found)


def opened(number):
    """The driver, set up, and its handle of the device of that number."""
    driver, device = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    call(driver, "cuInit", 0)
    call(driver, "cuDeviceGet", ctypes.byref(device), number)
    return driver, device


def call(driver, name, *arguments):
    code = getattr(driver, name)(*arguments)
    if code != 0:
        raise RuntimeError(f"{name} gave CUDA's error {code}")
