"""Our libnvidia-ml.so.1 in this process, by its C interface. SLUICE_BUILD names the build folder."""
import ctypes
import os

BUILD = os.environ["SLUICE_BUILD"]
LIBRARY = f"{BUILD}/lib/sluice/libnvidia-ml.so.1"
SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION = 0, 1, 2, 3, 4
NOT_FOUND, INSUFFICIENT_SIZE, DRIVER_NOT_LOADED, GPU_IS_LOST, VERSION_MISMATCH = 6, 7, 9, 15, 25
u32, u64 = ctypes.c_uint, ctypes.c_ulonglong


class Memory(ctypes.Structure):
    _fields_ = [("total", u64), ("free", u64), ("used", u64)]


class MemoryV2(ctypes.Structure):
    _fields_ = [("version", u32), ("total", u64), ("reserved", u64), ("free", u64), ("used", u64)]


class Utilization(ctypes.Structure):
    _fields_ = [("gpu", u32), ("memory", u32)]


class Process(ctypes.Structure):
    _fields_ = [("pid", u32), ("used", u64), ("gpu_instance", u32), ("compute_instance", u32)]


class ProcessV1(ctypes.Structure):
    _fields_ = [("pid", u32), ("used", u64)]


class Sample(ctypes.Structure):
    _fields_ = [("pid", u32), ("time_us", u64), ("sm", u32), ("memory", u32), ("encoder", u32), ("decoder", u32)]


class Pci(ctypes.Structure):
    _fields_ = [("bus_id_legacy", ctypes.c_char * 16), ("domain", u32), ("bus", u32), ("device", u32), ("device_id", u32),
                ("subsystem_id", u32), ("bus_id", ctypes.c_char * 32)]


class Uuid(ctypes.Structure):
    _fields_ = [("version", u32), ("type", u32), ("value", ctypes.c_char * 44)]


class Error(Exception):
    def __init__(self, name, code):
        super().__init__(f"{name} gave {code}")
        self.code = code


class Nvml:
    """call("nvmlX", ...) raises unless it gives SUCCESS, code("nvmlX", ...) returns what it gives."""

    def __init__(self, path=LIBRARY):
        self.library = ctypes.CDLL(path)

    def code(self, name, *arguments):
        return getattr(self.library, name)(*arguments)

    def call(self, name, *arguments):
        code = self.code(name, *arguments)
        if code != SUCCESS:
            raise Error(name, code)

    def value(self, name, out, *arguments):
        """Of a function whose last argument is where its answer goes."""
        self.call(name, *arguments, ctypes.byref(out))
        return out.value if hasattr(out, "value") else out

    def text(self, name, *arguments, size=96):
        out = ctypes.create_string_buffer(size)
        self.call(name, *arguments, out, size)
        return out.value.decode()

    def count(self):
        return self.value("nvmlDeviceGetCount_v2", u32())

    def device(self, index=0):
        return ctypes.c_void_p(self.value("nvmlDeviceGetHandleByIndex_v2", ctypes.c_void_p(), index))

    def memory(self, device=None):
        return self.value("nvmlDeviceGetMemoryInfo", Memory(), device or self.device())

    def utilization(self, device=None):
        return self.value("nvmlDeviceGetUtilizationRates", Utilization(), device or self.device()).gpu

    def processes(self, device=None, name="nvmlDeviceGetComputeRunningProcesses_v3", kind=Process):
        device, count, room = device or self.device(), u32(0), (kind * 64)()
        code = self.code(name, device, ctypes.byref(count), None)
        assert code == (INSUFFICIENT_SIZE if count.value else SUCCESS), code
        count = u32(64)
        self.call(name, device, ctypes.byref(count), room)
        return {one.pid: one.used for one in room[:count.value]}
