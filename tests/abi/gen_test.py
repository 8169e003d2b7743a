#!/usr/bin/python3
"""The generator: its output for one function of each shape, and the mistakes in a specification that must fail the build.

usage: gen_test.py CUDA_INCLUDE [STUB] [unittest options]
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "protocol", "gen"))

import check
import emit_proc_table
import main
from header import Header
from model import SpecError

INCLUDE = ""
STUB = ""
HEADER = None


def header():
    global HEADER
    if HEADER is None:
        HEADER = Header(INCLUDE)
    return HEADER


def model(spec_dir=main.SPEC_DIR):
    return main.Model(INCLUDE, STUB, spec_dir, header())


class Golden(unittest.TestCase):
    """A change of the generator that changes what programs send must be seen in review."""

    def test_output_for_each_shape_is_as_reviewed(self):
        current = model()
        for name in main.GOLDEN:
            with self.subTest(name), open(os.path.join(main.GOLDEN_DIR, name + ".txt"), encoding="utf-8") as golden:
                self.assertEqual(golden.read(), current.show(name), "protocol/gen/main.py --golden writes the new one")

    def test_coverage_document_is_current(self):
        with open(os.path.join(ROOT, "docs", "coverage.md"), encoding="utf-8") as document:
            self.assertEqual(document.read(), model().coverage(),
                             "run: python3 protocol/gen/main.py --coverage-to docs/coverage.md")


class Opcodes(unittest.TestCase):
    """A shim in an old container image meets a newer server: a number must never get another meaning."""

    def test_numbers_are_only_appended(self):
        run = subprocess.run(["git", "-C", ROOT, "show", "HEAD:protocol/opcodes.lock"], capture_output=True, text=True, check=False)
        if run.returncode != 0:
            self.skipTest("not a git checkout")
        with open(main.LOCK, encoding="utf-8") as lock:
            self.assertTrue(lock.read().startswith(run.stdout), "opcodes.lock may only grow at its end")

    def test_name_without_number_fails(self):
        with tempfile.NamedTemporaryFile("w", suffix=".lock") as lock:
            lock.write("1 copy_h2d\n")
            lock.flush()
            with self.assertRaisesRegex(SpecError, "opcodes.lock has no number for"):
                model().opcodes(lock.name)

    def test_lock_gives_new_names_the_next_numbers(self):
        with tempfile.NamedTemporaryFile("w", suffix=".lock") as lock:
            lock.write("7 copy_h2d\n")
            lock.flush()
            self.assertEqual(check.extend_lock(lock.name, ["copy_d2h", "copy_h2d", "launch"]), 2)
            self.assertEqual(check.read_lock(lock.name), {"copy_h2d": 7, "copy_d2h": 8, "launch": 9})

    def test_number_that_occurs_twice_fails(self):
        with tempfile.NamedTemporaryFile("w", suffix=".lock") as lock:
            lock.write("7 copy_h2d\n7 copy_d2h\n")
            lock.flush()
            with self.assertRaisesRegex(SpecError, "occurs twice"):
                check.read_lock(lock.name)


class Mistakes(unittest.TestCase):
    """Each mistake would otherwise become a wrong stub in every program."""

    def refused(self, row, old, new, message):
        with tempfile.TemporaryDirectory() as folder:
            spec_dir = shutil.copytree(main.SPEC_DIR, os.path.join(folder, "cuda"))
            path = os.path.join(spec_dir, row + ".api")
            with open(path, encoding="utf-8") as source:
                text = source.read()
            changed = re.sub(old, new, text, count=1, flags=re.S)
            self.assertNotEqual(text, changed, "the edit of this test no longer applies")
            with open(path, "w", encoding="utf-8") as out:
                out.write(changed)
            with self.assertRaisesRegex(SpecError, message):
                model(spec_dir).files()

    def test_function_in_no_row(self):
        self.refused("init", r"fn cuDriverGetVersion\n.*?\n\n", "", "in no row: cuDriverGetVersion")

    def test_function_in_two_rows(self):
        self.refused("init", r"row init\n", "row init\n\nfn cuMemFree_v2\n  class called\n", "already in")

    def test_function_that_cuda_does_not_have(self):
        self.refused("init", r"row init\n", "row init\n\nfn cuInvented\n  class called\n", "no function cuInvented")

    def test_parameter_that_does_not_exist(self):
        self.refused("event", r"hEvent destroy", "hEvnt destroy", "has no parameter hEvnt")

    def test_unknown_word(self):
        self.refused("event", r"hEvent destroy", "hEvent destroyed", "unknown word destroyed")

    def test_pointer_without_direction(self):
        self.refused("copy", r"fn cuMemcpyHtoD_v2\n.*?\n\n", "fn cuMemcpyHtoD_v2\n  class posted\n\n", "srcHost` needs a direction")

    def test_pointers_inside_a_struct(self):
        self.refused("copy", r"fn cuMemcpy2D_v2\n.*?\n\n", "fn cuMemcpy2D_v2\n  class called\n  pCopy in\n\n", "has pointers")

    def test_output_of_a_posted_function(self):
        self.refused("context", r"fn cuCtxGetLimit\n  class called", "fn cuCtxGetLimit\n  class posted", "nobody waits")

    def test_device_ordinal_sent_as_it_is(self):
        self.refused("device", r"fn cuDeviceGraphMemTrim\n.*?\n\n", "fn cuDeviceGraphMemTrim\n  class called\n\n",
                     "number devices differently")

    def test_hand_written_body_without_reason(self):
        self.refused("event", r"(fn cuEventQuery\n[^#]*)#[^\n]*", r"\1", "say why")

    def test_unsupported_without_reason(self):
        self.refused("memory", r"(fn cuMemBatchDecompressAsync\n[^#]*)#[^\n]*", r"\1", "say why")

    def test_local_function_without_body(self):
        self.refused("event", r"(fn cuEventQuery\n  class local\n)  body shim\n", r"\1", "needs `body shim`")

    def test_carrier_that_does_not_exist(self):
        self.refused("copy", r"carried_by copy_h2d\n", "carried_by copy_up\n", "is no record")

    def test_carrier_with_other_parameters(self):
        self.refused("memset", r"carried_by cuMemsetD8Async", "carried_by cuMemsetD16Async", "same parameters")

    def test_old_name_that_is_not_exported(self):
        self.refused("event", r"also cuEventDestroy\n", "also cuEventErase\n", "no other exported name")

    def test_reply_of_a_posted_record(self):
        self.refused("session", r"record goodbye\n  class posted", "record goodbye\n  class posted\n  reply\n  x u32", "must be called")

    def test_unknown_field_type(self):
        self.refused("session", r"opcode u32", "opcode u33", "unknown type u33")

    def test_unknown_class(self):
        self.refused("session", r"class posted", "class sent", "class must be one of")

    def test_row_name_that_is_not_the_file_name(self):
        self.refused("session", r"row session", "row sessions", "must be called session")


class Arrays(unittest.TestCase):
    """Counts come from the application on one side and from the wire on the other: both are bounded."""

    def test_array_parameters_are_bounded_on_both_sides(self):
        with tempfile.TemporaryDirectory() as folder:
            spec_dir = shutil.copytree(main.SPEC_DIR, os.path.join(folder, "cuda"))
            path = os.path.join(spec_dir, "virtual_memory.api")
            with open(path, encoding="utf-8") as source:
                text = source.read()
            text = re.sub(r"fn cuMemSetAccess\n.*?\n\n", "fn cuMemSetAccess\n  class called\n  desc in array[count]\n\n", text, flags=re.S)
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
            current = model(spec_dir)
            entry = next(e for e in current.entries if e.name == "cuMemSetAccess")
            self.assertIn("is_extent(desc, count, sizeof(CUmemAccessDesc))", main.emit_shim.entry_source(*current.item(entry)))
            self.assertIn("load_array(call.blob(0), count, &desc)", main.emit_server.handler_source(*current.item(entry)))


class ProcTable(unittest.TestCase):
    """Runtimes find every driver function through cuGetProcAddress by name and version."""

    def find(self, name, version, per_thread=False):
        current = model()
        rows = [r for r in emit_proc_table.proc_rows(header().versions(), current.exported) if r.name == name and r.version <= version]
        best = rows[-1] if rows else None
        return best and (best.per_thread if per_thread and best.per_thread else best.symbol)

    def setUp(self):
        if not os.path.exists(STUB):
            self.skipTest("no stub library: the list of exported names is incomplete")

    def test_newest_version_not_above_the_wanted_one(self):
        self.assertEqual(self.find("cuMemAlloc", 13000), "cuMemAlloc_v2")
        self.assertEqual(self.find("cuMemAlloc", 2000), "cuMemAlloc")
        self.assertEqual(self.find("cuGetProcAddress", 11080), "cuGetProcAddress")
        self.assertEqual(self.find("cuGetProcAddress", 12000), "cuGetProcAddress_v2")
        self.assertEqual(self.find("cuCtxSynchronize", 12090), "cuCtxSynchronize")
        self.assertEqual(self.find("cuCtxSynchronize", 13000), "cuCtxSynchronize_v2")
        self.assertIsNone(self.find("cuMemAllocAsync", 11010))

    def test_per_thread_forms(self):
        self.assertEqual(self.find("cuMemcpy", 13000, True), "cuMemcpy_ptds")
        self.assertEqual(self.find("cuStreamQuery", 13000, True), "cuStreamQuery_ptsz")
        self.assertEqual(self.find("cuInit", 13000, True), "cuInit")

    def test_every_exported_name_can_be_found(self):
        current = model()
        rows = emit_proc_table.proc_rows(header().versions(), current.exported)
        self.assertEqual(set(current.exported) - {r.symbol for r in rows} - {r.per_thread for r in rows}, set())


if __name__ == "__main__":
    INCLUDE = sys.argv.pop(1)
    STUB = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else ""
    unittest.main()
