#!/usr/bin/python3
"""The stand-ins of the CUDA-X libraries: programs that are linked to them start, and are told once what does not work."""
import glob
import os
import re
import subprocess
import sys
import unittest

LIB = os.environ["SLUICE_LIB"]
NAMES = os.environ["SLUICE_NAMES"]
GENUINE = os.environ["SLUICE_GENUINE"]
SLUICE = os.environ["SLUICE_PROGRAM"]
FILES = {"cublas": ("12", "13"), "cublasLt": ("12", "13"), "cudnn": ("9",), "cufft": ("11", "12"), "curand": ("10",), "cusolver": ("11", "12"),
         "cusolverMg": ("11", "12"), "cusparse": ("12",), "nccl": ("2",), "cupti": ("12", "13"), "nvToolsExt": ("1",)}
SONAMES = [(family, f"lib{family}.so.{version}") for family, versions in FILES.items() for version in versions]


def run(*command, **keys):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **keys)


def exported(library):
    """{(name, node)}; the node is empty where there is none."""
    symbols = [line.split() for line in run("nm", "-D", "--defined-only", "--with-symbol-versions", library).stdout.splitlines()]
    return {tuple(re.split("@+", fields[2] + "@")[:2]) for fields in symbols if len(fields) == 3 and fields[1] in "TWi"}


def listed(family):
    with open(os.path.join(NAMES, family + ".def"), encoding="utf-8") as source:
        return re.findall(r"^SLUICE_\w+\((\w+)\)", source.read(), re.M)


class Exports(unittest.TestCase):
    def test_every_listed_name_has_the_node_that_programs_ask_for(self):
        # Broken: the loader ends a program that is linked to the genuine library.
        for family, soname in SONAMES:
            with self.subTest(soname):
                path = os.path.join(LIB, soname)
                node = "" if family == "nccl" else soname
                names = listed(family)
                self.assertGreater(len(names), 20)
                self.assertEqual(exported(path), {(name, node) for name in names})
                self.assertIn(f"[{soname}]", run("readelf", "-d", path).stdout)

    def test_the_libraries_of_this_machines_toolkit_have_no_name_that_is_missing(self):
        found = [(family, soname) for family, soname in SONAMES if os.path.exists(os.path.join(GENUINE, soname))]
        if not found:
            self.skipTest("no genuine library here")
        for _, soname in found:
            with self.subTest(soname):
                missing = exported(os.path.join(GENUINE, soname)) - exported(os.path.join(LIB, soname))
                self.assertEqual(sorted(missing)[:10], [])


class Refusals(unittest.TestCase):
    def call(self, code, **environment):
        done = run(sys.executable, "-c", "import ctypes, os\nLIB = os.environ['LIB'] + '/'\n" + code,
                   env={**os.environ, "LIB": LIB, **environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split("\n")[:-1], [line for line in done.stderr.split("\n") if line]

    def test_each_function_fails_with_its_librarys_own_status(self):
        statuses = {"libcublas.so.13 cublasCreate_v2": 15, "libcublasLt.so.12 cublasLtMatmul": 15, "libcudnn.so.9 cudnnCreate": 3000,
                    "libcufft.so.11 cufftPlan1d": 16, "libcurand.so.10 curandCreateGenerator": 204, "libcusolver.so.11 cusolverDnCreate": 9,
                    "libcusolverMg.so.12 cusolverMgCreate": 9, "libcusparse.so.12 cusparseCreate": 10, "libnccl.so.2 ncclGetUniqueId": 2,
                    "libcupti.so.12 cuptiSubscribe": 27}
        for call, status in statuses.items():
            with self.subTest(call):
                library, name = call.split()
                out, log = self.call(f"print(ctypes.CDLL(LIB + '{library}').{name}(0, 0))")
                self.assertEqual(out, [str(status)])
                self.assertEqual(len(log), 1, log)
                self.assertIn(name, log[0])

    def test_a_library_warns_once_and_names_further_functions_only_when_asked(self):
        code = "l = ctypes.CDLL(LIB + 'libcufft.so.12')\nfor i in range(3): l.cufftPlan1d(), l.cufftDestroy()"
        _, log = self.call(code)
        self.assertEqual(len(log), 1, log)
        self.assertIn("cufftPlan1d is not supported: calls of cuFFT are not carried", log[0])
        _, log = self.call(code, SLUICE_LOG="info")
        self.assertEqual(len(log), 2, log)
        self.assertIn("cufftDestroy is not supported", log[1])

    def test_functions_without_a_status_give_something_that_can_be_used(self):
        out, _ = self.call("""
l = ctypes.CDLL(LIB + 'libcusparse.so.12'); l.cusparseGetErrorString.restype = ctypes.c_char_p; print(l.cusparseGetErrorString(1).decode())
l = ctypes.CDLL(LIB + 'libcudnn.so.9'); l.cudnnGetErrorString.restype = ctypes.c_char_p; print(l.cudnnGetErrorString(1).decode())
l.cudnnGetVersion.restype = ctypes.c_size_t; print(l.cudnnGetVersion())
text = ctypes.create_string_buffer(b'x' * 7, 8); l.cudnnGetLastErrorString(text, ctypes.c_size_t(8)); print(text.value.decode())
l = ctypes.CDLL(LIB + 'libcublas.so.12'); l.cublasSnrm2.restype = ctypes.c_float; print(l.cublasSnrm2(0, None, 1))
l.cublasDdot.restype = ctypes.c_double; print(l.cublasDdot(0, None, 1, None, 1))
""")
        text = "not carried to the server by Sluice"
        self.assertEqual(out, [text, text, "0", text[:7], "0.0", "0.0"])

    def test_annotations_for_a_profiler_go_nowhere_and_say_so(self):
        out, log = self.call("""
l = ctypes.CDLL(LIB + 'libnvToolsExt.so.1')
print(l.nvtxRangePushA(b'step'), l.nvtxRangePop(), l.nvtxRangeStartA(b'step'), l.nvtxMarkA(b'here'))""")
        self.assertEqual(out, ["-2 -2 0 0"])
        self.assertEqual(log, [])


class Programs(unittest.TestCase):
    def test_get_the_stand_in_wherever_they_look_for_the_library(self):
        for wanted in ("libcufft.so.11", "/no/such/folder/libcufft.so.11.4.1", "libcudnn.so.9", "libnccl.so"):
            with self.subTest(wanted):
                done = run(SLUICE, "run", "--local", "--", "/usr/bin/python3", "-c",
                           f"import ctypes; ctypes.CDLL('{wanted}'); print([line.split()[-1] for line in open('/proc/self/maps') if '/libcu' in line or '/libnccl' in line])")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"{LIB}/{os.path.basename(wanted).split('.so')[0]}.so.", done.stdout)


class Headers(unittest.TestCase):
    def test_the_statuses_are_those_of_the_headers(self):
        include = os.environ["SLUICE_INCLUDE"]
        wanted = {"CUBLAS_STATUS_NOT_SUPPORTED": 15, "CUFFT_NOT_SUPPORTED": 16, "CURAND_STATUS_ARCH_MISMATCH": 204, "CUSPARSE_STATUS_NOT_SUPPORTED": 10,
                  "CUSOLVER_STATUS_NOT_SUPPORTED": 9, "CUDNN_STATUS_NOT_SUPPORTED": 3000, "CUPTI_ERROR_NOT_SUPPORTED": 27, "ncclSystemError": 2}
        seen = 0
        for path in glob.glob(include + "/*.h"):
            with open(path, encoding="utf-8", errors="replace") as source:
                for name, value in re.findall(r"\b(\w+)\s*=\s*(0x[0-9a-fA-F]+|\d+)\s*[,}/]", source.read()):
                    if name in wanted:
                        seen += 1
                        self.assertEqual(int(value, 0), wanted[name], name)
        if seen == 0:
            self.skipTest("no headers of the CUDA-X libraries here")


if __name__ == "__main__":
    unittest.main()
