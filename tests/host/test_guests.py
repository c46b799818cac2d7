# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""Programs share a guest as long as no program fails, and a failure is reported for the
program that caused it.

This is kit/mrfd/pool.py, and kit/guest/run in the guest."""

import os
import sys
import threading
import time
import unittest
from unittest import mock

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))

from mrfd import products  # noqa: E402
from mrfd import cases  # noqa: E402
from mrfd import pool  # noqa: E402
from mrfd import programs  # noqa: E402
from mrfd.devices import RXE  # noqa: E402
from mrfd.machine import patience  # noqa: E402

# A program with one case, named after the boot in which it ran.
GOOD = 'echo 1..1; echo "ok 1 $(cat /proc/sys/kernel/random/boot_id)"'
PROVOKE = "echo {} >/sys/kernel/debug/provoke-crash/DIRECT; "


def setUpModule():
    """Do what takes long the first time before any test measures a time."""
    products.kernel_image()


def run(*scripts, limit=60, wanted=()):
    """The results of programs a, b, c...: a list of (name, result, reason) for each,
    and at the end one for the problems that belong to no program."""
    told = [[]]
    options = programs.guest_options("base", RXE)
    guests = pool.Guests(lambda case: told[-1].append((case.title, case.result, case.reason)))
    for name, script in zip("abc", scripts):
        reader = cases.Reader(name, cases.Tap, lambda case: None, wanted=wanted)
        guests.run(name, ["sh", "-c", script], options, reader, limit=limit)
        told.insert(-1, [(c.name, c.result, c.reason) for c in reader.cases])
    guests.end()
    return told


class Guests(unittest.TestCase):
    def test_passing_programs_share_a_guest(self):
        a, b, rest = run(GOOD, GOOD)
        self.assertEqual(a, b)
        self.assertEqual((a[0][1], rest), ("ok", []))

    def test_program_after_a_failure_gets_a_new_guest(self):
        a, b, rest = run(GOOD + "; exit 1", GOOD)
        self.assertEqual([r[1] for r in a], ["ok", "not ok"])
        self.assertEqual(b[0][1], "ok")
        self.assertNotEqual(a[0][0], b[0][0])
        self.assertEqual(rest, [])

    # runs: full
    def test_kernel_report_belongs_to_running_program(self):
        a, b, c, rest = run(GOOD, PROVOKE.format("WARNING") + GOOD, GOOD)
        self.assertEqual([r[1] for r in a + c], ["ok", "ok"])
        self.assertEqual(a[0][0], b[0][0])
        self.assertEqual([r[1] for r in b], ["ok", "not ok"])
        self.assertEqual(b[1][0], "kernel log")
        self.assertIn("WARNING: ", b[1][2])
        self.assertNotEqual(a[0][0], c[0][0])
        self.assertEqual(rest, [])

    # runs: full
    def test_hanging_program_is_ended_and_next_runs(self):
        a, b, rest = run(GOOD + "; sleep 1000", GOOD, limit=20)
        self.assertEqual([r[1:] for r in a], [("ok", ""), ("not ok", "still running after 20 s")])
        self.assertEqual((b[0][1], rest), ("ok", []))

    # runs: full
    def test_panic_is_reported_and_next_program_runs(self):
        a, b, rest = run(PROVOKE.format("PANIC"), GOOD)
        self.assertEqual(a[0], ("program", "not ok", "kernel panic: dumptest"))
        self.assertIn("kernel log", [r[0] for r in a])
        self.assertEqual((b[0][1], rest), ("ok", []))

    # runs: full
    def test_selected_case_hides_no_crash_or_report(self):
        one = "echo 1..1; echo ok 1 one; "
        a, b, c, rest = run(one, one + "kill -SEGV $$", PROVOKE.format("WARNING") + one,
                            wanted=["one"])
        self.assertEqual(a, [("one", "ok", "")])
        self.assertEqual(b, [("one", "ok", ""),
                             ("program", "not ok", "exit status 139 without a failed case")])
        self.assertEqual([r[:2] for r in c], [("one", "ok"), ("kernel log", "not ok")])
        self.assertEqual(rest, [])

    # runs: full
    def test_oops_ends_program_at_once_and_next_runs(self):
        began = time.monotonic()
        a, b, rest = run(f"({PROVOKE.format('EXCEPTION')}) & sleep 1000", GOOD, limit=500)
        self.assertLess(time.monotonic() - began, patience(120))
        head = "BUG: kernel NULL pointer dereference, address: 0000000000000000"
        self.assertEqual(a, [("program", "not ok", f"kernel oops: {head}"),
                             ("kernel log", "not ok", head)])
        self.assertEqual((b[0][1], rest), ("ok", []))

    # runs: full
    def test_processes_of_ended_program_are_killed(self):
        count = "echo 1..1; pidof sleep && echo not ok 1 x || echo ok 1 x"
        a, b, rest = run("setsid sleep 1000 & trap '' TERM; " + GOOD, count)
        self.assertEqual([r[1] for r in a + b + rest], ["ok", "ok"])

    # runs: full
    def test_program_that_removes_the_device_fails(self):
        a, b, rest = run("rdma link delete rxe0; " + GOOD, GOOD,
                         limit=300)  # the guest waits 60 s for its device
        self.assertEqual([(r[1], r[2]) for r in a], [
            ("ok", ""), ("not ok", "guest-run: cannot go on, rxe0 is gone")])
        self.assertEqual((b[0][1], rest), ("ok", []))

    # runs: full
    def test_busy_host_makes_stalls_be_reported_late(self):
        """A guest that gets a third of its CPUs must not report a stall after the time of a
        quiet one; the kernel takes at most 300 s and 60 s for the first two."""
        show = ("echo 1..1; echo ok 1 $(cat /sys/module/rcupdate/parameters/rcu_cpu_stall_timeout"
                " /proc/sys/kernel/watchdog_thresh /proc/sys/kernel/hung_task_timeout_secs)")
        for share, limits in (3, "180 60 180"), (9, "300 60 540"):
            load = os.cpu_count() * share
            with mock.patch("os.getloadavg", return_value=(load, load, load)):
                a, rest = run(show)
            self.assertEqual((a, rest), ([(limits, "ok", a[0][2])], []), share)

    # runs: full
    def test_late_kernel_report_is_told(self):
        told = []
        guests = pool.Guests(lambda case: told.append((case.title, case.reason)))
        guests.run("a", ["sh", "-c", GOOD], programs.guest_options("base", RXE),
                   cases.Reader("a", cases.Tap, lambda case: None))
        guests.guest._console += b"BUG: late\n"
        guests.end()
        self.assertEqual(told, [("guest of a to a: kernel log", "BUG: late")])

    def test_guest_that_dies_between_programs_is_replaced(self):
        told, ran = [], []
        guests = pool.Guests(lambda case: told.append((case.title, case.reason)))
        for name in "ab":
            reader = cases.Reader(name, cases.Tap, lambda case: None)
            guests.run(name, ["sh", "-c", GOOD], programs.guest_options("base", RXE), reader)
            ran += [(case.program, case.result) for case in reader.cases]
            if name == "a":
                guests.guest.stop()
        guests.end()
        self.assertEqual(ran, [("a", "ok"), ("b", "ok")])
        self.assertEqual(told, [("guest of a to a: end", "stopped")])


class Lane:
    """A stub of Guests that notes only that it was ended."""
    ended = False

    def end(self):
        self.ended = True


class Lanes(unittest.TestCase):
    def test_each_program_runs_once_and_two_at_a_time(self):
        both, ran, lanes = threading.Barrier(2, timeout=patience(30)), [], [Lane(), Lane()]

        def program(name, lane):
            both.wait()  # each program waits for another one
            ran.append((name, lane))
        left = iter("abcdef")
        pool.in_lanes([(lane, left) for lane in lanes], program)
        self.assertEqual(sorted(name for name, lane in ran), list("abcdef"))
        self.assertEqual([sum(lane is x for name, lane in ran) for x in lanes], [3, 3])
        self.assertTrue(all(lane.ended for lane in lanes))

    def test_programs_of_host_and_guests_have_lanes(self):
        class Some:
            def __init__(self, name, guest):
                self.name, self.guest = name, lambda: guest
        some = [Some("a", {"gpu": 0}), Some("b", None), Some("c", {"gpu": 1}), Some("d", {"gpu": 0}),
                *(Some(name, {"cpus": 1}) for name in "efg")]
        here, there = pool.lanes_of(some, "base")
        self.assertEqual([next(here).name for _ in "bg"], ["b", "g"])
        self.assertEqual([next(there).name for _ in "adce"], ["a", "d", "c", "e"])
        self.assertEqual([*(program.name for program in here), *there], ["f"])
        here, there = pool.lanes_of(some, "debug")
        self.assertEqual("".join(next(here).name for _ in "bgfec"), "bgfec")
        self.assertEqual("".join(program.name for program in there), "ad")
        self.assertEqual([*here], [])

    def test_error_in_one_lane_is_raised_at_once(self):
        release, ended = threading.Event(), []
        self.addCleanup(release.set)

        def program(name, lane):
            if name == "b":
                raise products.BootError("no QEMU")
            release.wait(30)
            ended.append(name)
        with self.assertRaisesRegex(products.BootError, "no QEMU"):
            pool.in_lanes([(Lane(), iter("a")), (Lane(), iter("b"))], program)
        self.assertEqual(ended, [])


if __name__ == "__main__":
    unittest.main()
