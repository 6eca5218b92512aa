"""What CUDA's driver says of the devices that this process sees, for frameworks that don't tell it. Linux."""

import ctypes
import uuid


def device_uuid(number):
    """The UUID of the process's CUDA device of that number, as nvidia-smi and NVML write it: "GPU-1234abcd-...".

    The driver itself counts as CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER say (CUDA Driver API, cuDeviceGetUuid).
    """
    driver = ctypes.CDLL("libcuda.so.1")
    device, found = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    for name, arguments in [
        ("cuInit", (0,)),
        ("cuDeviceGet", (ctypes.byref(device), number)),
        ("cuDeviceGetUuid", (ctypes.byref(found), device)),
    ]:
        code = getattr(driver, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name} gave CUDA's error {code}")
    return f"GPU-{uuid.UUID(bytes=bytes(found))}"
