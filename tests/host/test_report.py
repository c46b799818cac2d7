# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""The tables and verdicts of scripts/bench, and the page of scripts/report that shows all
results."""

import contextlib
import html.parser
import importlib.machinery
import importlib.util
import io
import os
import re
import sys
import tempfile
import unittest
from unittest import mock

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "kit"))
from mrfd import beside  # noqa: E402
from mrfd import onmodel  # noqa: E402
from mrfd import plots  # noqa: E402
from mrfd import products  # noqa: E402
from mrfd import report  # noqa: E402
from mrfd import results  # noqa: E402
from mrfd.cases import Case  # noqa: E402


def load(name):
    path = os.path.join(TOP, "scripts", name)
    loader = importlib.machinery.SourceFileLoader(f"mrfd_{name}_program", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


bench = load("bench")
scoreboard = load("scoreboard")
KIB = 1024


def result(**changes):
    """Results in which every aim is met, by both measures, but for the changes:
    (ratio by the clock, ratio by instructions) by "operation/memory/bytes"."""
    results = {}
    for n in 4 * KIB, 64 * KIB, 64 << 20:
        for memory in ("memory", "dma-buf", "VRAM", "memory again", "dma-buf bounced",
                       "VRAM bounced"):
            ratio = 2 if "bounced" in memory and n >= 64 * KIB else 0.9
            for operation in "bandwidth", "latency":
                results[operation, memory, n] = (10.0, ratio, 100.0, ratio)
        for memory in "memory", "dma-buf", "memfd":
            for operation in "reg", "rereg access", "rereg PD", "rereg translation":
                results[operation, memory, n] = (10.0, 0.4, 100.0, 0.4)
    for key, (clock, instructions) in changes.items():
        operation, memory, n = key.split("/")
        results[operation, memory, int(n)] = (10.0, clock, 100.0, instructions)
    return results


class Scoreboard(unittest.TestCase):
    def status(self, failing, case="rxe/rdma-core/test_a: test"):
        """Its exit status if the case fails on these stacks."""
        def run(device, title, *_):
            failed = {case} if title in failing else set()
            return {"test_a": [1, 0, len(failed)]}, failed
        with tempfile.TemporaryDirectory() as out, mock.patch.object(scoreboard, "OUT", out), \
                mock.patch.object(scoreboard, "run", run), \
                mock.patch.object(scoreboard.report, "write", lambda: out), \
                mock.patch.object(sys, "argv", ["scoreboard"]), \
                contextlib.redirect_stdout(io.StringIO()), \
                contextlib.redirect_stderr(io.StringIO()):
            return scoreboard.main()

    def test_scoreboard_fails_if_our_stack_fails(self):
        self.assertEqual(self.status(()), 0)
        self.assertEqual(self.status(("stock", "library", "connectx-stock")), 0)
        self.assertEqual(self.status(("ours",)), 1)
        self.assertEqual(self.status(("connectx",)), 1)

    def test_scoreboard_knows_what_is_expected_to_fail(self):
        with mock.patch.object(scoreboard.expected, "lines", lambda name: [("a: b", "why")]):
            self.assertEqual(self.status(("connectx",), "a: b"), 0)
            self.assertEqual(self.status(("connectx",), "a: c"), 1)


class Bench(unittest.TestCase):
    def verdicts(self, results):
        return re.findall(r"  (met|missed)", "\n".join(bench.aims(results)))

    def test_good_results_meet_all_aims(self):
        self.assertEqual(self.verdicts(result()), ["met"] * 10)

    def test_each_aim_can_be_missed_by_each_measure(self):
        for n, (key, bad) in enumerate((("latency/VRAM/4096", 1.01),
                                        ("bandwidth/dma-buf bounced/65536", 0.99),
                                        ("reg/dma-buf/67108864", 1.1),
                                        ("rereg PD/memfd/4096", 0.51),
                                        ("rereg translation/memory/65536", 1.2))):
            good = result()[(*key.split("/")[:2], int(key.split("/")[2]))][1]
            for measure in 0, 1:
                ratios = (bad, good) if measure == 0 else (good, bad)
                wanted = ["met"] * 10
                wanted[2 * n + measure] = "missed"
                with self.subTest(key=key, measure=measure):
                    self.assertEqual(self.verdicts(result(**{key: ratios})), wanted)

    def test_small_bounce_may_be_faster(self):
        self.assertEqual(self.verdicts(result(**{"latency/VRAM bounced/4096": (.5, .5)})),
                         ["met"] * 10)

    def test_table_has_both_ratios(self):
        lines = list(bench.table("reg", result(**{"reg/memfd/65536": (1.25, 0.75)})))
        self.assertRegex("\n".join(lines), r"(?m)^ +64 KiB +10\.0 us .* 1\.25 \(0\.75\)$")

    def test_plot_has_a_line_for_each_memory(self):
        script = plots.script("set terminal dumb", "light", plots.PLOTS["bandwidth"],
                                   result())
        self.assertEqual(script.count(" with linespoints "), 5)
        self.assertIn(f"{64 * KIB} {64 * KIB / 10:.4f}", script)


class Beside(unittest.TestCase):
    """The ConnectX model beside Soft-RoCE."""

    GOOD = {"loopback": (10.0, 1.0), "guests": (5.0, 1.0)}  # rates and latencies, just enough
    OWN = {"UMR": (400, 4.99, 30.0), "ALLOC_PD 800": (30, 10.0, 11.0),
           "CREATE_QP 500": (10, 19.99, 90.0), "interrupt": (900, 50.0, 99.0)}

    @staticmethod
    def numbers(**places):
        """Results in which the model's rates and latencies are so many times Soft-RoCE's."""
        found = {("loopback", "registration", device): (4096, 50.0) for device in beside.DEVICES}
        for where, (rate, latency) in places.items():
            for operation, size, times in ("write", 1 << 20, 1 / rate), ("latency", 8, latency):
                found[where, operation, "rxe0"] = (size, 1000.0)
                found[where, operation, "mlx5_0"] = (size, 1000.0 * times)
        return found

    def verdicts(self, own=None, **places):
        lines = beside.aims(self.numbers(**{**self.GOOD, **places}), {**self.OWN, **(own or {})})
        return re.findall(r"  (met|missed)", "\n".join(lines))

    def test_good_results_meet_all_aims(self):
        self.assertEqual(self.verdicts(), ["met"] * 7)

    def test_each_aim_can_be_missed(self):
        for missed, change in (
                ((0,), {"loopback": (9.99, 1.0)}), ((1,), {"guests": (4.99, 1.0)}),
                ((2,), {"loopback": (10.0, 1.01)}), ((3,), {"guests": (5.0, 1.01)}),
                ((4,), {"own": {"UMR": (1, 5.0, 5.0)}}),
                ((6,), {"own": {"CREATE_QP 500": (1, 20.0, 20.0)}}),
                ((5, 6), {"own": {"QUERY_QP 50b": (1000, 21.1, 22.0)}})):
            with self.subTest(change=change):
                wanted = ["missed" if n in missed else "met" for n in range(7)]
                self.assertEqual(self.verdicts(**change), wanted)

    def test_tables_have_rates_and_times(self):
        text = "\n".join(beside.table(self.numbers(**self.GOOD)))
        self.assertRegex(text, r"(?m)^1 MiB writes in loopback +1048\.6 MB/s +10485\.8 MB/s "
                               r"+10\.00$")
        self.assertRegex(text, r"(?m)^1 MiB writes between two guests .* 5\.00$")
        self.assertRegex(text, r"(?m)^8 B .* in loopback +1000\.0 us +1000\.0 us +1\.00$")
        self.assertEqual(len(re.findall(r"(?m)^registration of 4 KiB", text)), 1)
        text = "\n".join(beside.own_table(self.OWN))
        self.assertRegex(text, r"(?m)^UMR .* +400 +4\.99 us +30\.00 us$")
        self.assertRegex(text, r"(?m)^all commands +40 +12\.50 us +90\.00 us$")
        self.assertLess(text.index("CREATE_QP"), text.index("ALLOC_PD"))

    def test_numbers_are_read_from_program_and_model(self):
        found = beside.numbers("guests", "operation,memory,bytes,us,ratio\n"
                                         "write,rxe0,1048576,20.50,1.000\n")
        self.assertEqual(found, {("guests", "write", "rxe0"): (1048576, 20.5)})
        own = beside.own_time(
            "connectx: listening on /tmp/connectx, guid 0200000000000001\n"
            "connectx: executed                                  count      mean us   longest us\n"
            "connectx: ENABLE_HCA 104                                1        24.91        24.91\n"
            "connectx: UMR                                        1400         2.50        31.00\n"
            "connectx: 5 doorbells, 4 work requests; packets out 3 (300 bytes), in 2 (200 bytes)\n"
            "connectx: 0.04 s of CPU time in 2.00 s\n")
        self.assertEqual(own, {"ENABLE_HCA 104": (1, 24.91, 24.91), "UMR": (1400, 2.5, 31.0)})

    def test_numbers_are_written_to_csv(self):
        with tempfile.TemporaryDirectory() as out:
            beside.write_csv(out, self.numbers(**self.GOOD), self.OWN)
            with open(f"{out}/beside.csv", encoding="utf-8") as file:
                self.assertIn("guests,write,mlx5_0,1048576,200.0\n", file.read())
            with open(f"{out}/own-time.csv", encoding="utf-8") as file:
                self.assertIn("UMR,400,4.99,30.0\n", file.read())

    def test_failed_program_raises_boot_error(self):
        guest = mock.Mock(status=3, why=None, command=["/x/beside"], output=b"a write fails")
        with self.assertRaisesRegex(products.BootError,
                                    "beside failed: exit status 3\na write fails"):
            beside.text_of(guest)


class OnModel(unittest.TestCase):
    """The ConnectX model with a GPU."""

    HEAD = ",".join(onmodel.HEAD) + "\n"

    @staticmethod
    def numbers(**changes):
        """Results in which every aim is just met, but for the ratios that are given."""
        found = {}
        for n in 4 * KIB, 1 << 20, 64 << 20:
            for memory in "memory", "dma-buf", "memfd", "VRAM", "GPU system":
                if memory == "VRAM" and n > 1 << 20:
                    continue
                for operation, ratio in (("reg", 1.0), ("dereg", 1.0), ("rereg access", 0.5),
                                         ("rereg PD", 0.5), ("rereg translation", 1.0)):
                    found[operation, memory, n] = (100.0, ratio, ratio - 0.1, ratio + 0.2)
        for memory in "VRAM", "GPU system":
            for operation in onmodel.MOVING:
                found[operation, memory, 4 * KIB] = (20.0, 1.0, 0.9, 1.1)
        for memory, ratio in ("memory", 1.0), ("VRAM", 1.0), ("VRAM bounced", 1.01):
            found["write", memory, 1 << 20] = (1000.0, ratio, ratio, ratio)
        for key, ratio in changes.items():
            operation, memory, n = key.split("/")
            found[operation, memory, int(n)] = (100.0, ratio, ratio, ratio)
        return found

    def verdicts(self, **changes):
        lines = onmodel.aims(self.numbers(**changes), bench.size)
        return re.findall(r"  (met|missed)", "\n".join(lines))

    def test_good_results_meet_all_aims(self):
        self.assertEqual(self.verdicts(), ["met"] * 4)

    def test_each_aim_can_be_missed(self):
        for n, (key, bad) in enumerate((("rereg access/VRAM/4096", 0.51),
                                        ("rereg PD/memfd/1048576", 0.51),
                                        ("rereg translation/GPU system/67108864", 1.01),
                                        ("write/VRAM bounced/1048576", 1.0))):
            with self.subTest(key=key):
                self.assertEqual(self.verdicts(**{key: bad}),
                                 ["missed" if i == n else "met" for i in range(4)])

    def test_verdict_has_worst_ratio_spread_and_place(self):
        text = "\n".join(onmodel.aims(self.numbers(**{"rereg PD/memfd/1048576": 0.7}),
                                      bench.size))
        self.assertIn("  missed 0.70 (0.70-0.70), most: rereg PD, memfd, 1 MiB", text)

    def test_tables_have_ratios_and_their_spread(self):
        text = "\n".join(onmodel.table(self.numbers(**{"write after move/VRAM/4096": 9.5}),
                                       bench.size))
        self.assertRegex(text, r"(?m)^ +4 KiB +100\.0 us( +0\.50 \(0\.40-0\.70\)){5}$")
        self.assertRegex(text, r"(?m)^ +64 MiB +100\.0 us( +1\.00 \S+){3} +- +1\.00 \S+$")
        self.assertRegex(text, r"(?m)^ +4 KiB +write after move +100\.0 us  9\.50 \(9\.50-9\.50\)"
                               r" +20\.0 us  1\.00 ")
        self.assertRegex(text, r"(?m)^ +VRAM bounced +1048\.6 MB/s .* to VRAM: 1\.01 \(")

    def test_numbers_are_read_from_programs(self):
        found = onmodel.numbers(self.HEAD + "move with MR,GPU system,4096,300.50,2.1,1.9,2.8\n")
        self.assertEqual(found, {("move with MR", "GPU system", 4096): (300.5, 2.1, 1.9, 2.8)})
        with open(f"{TOP}/tests/bench/samples.c", encoding="utf-8") as file:
            self.assertIn(f'"{self.HEAD[:-1]}\\n"', file.read())
        with open(f"{TOP}/tests/bench/moving.c", encoding="utf-8") as file:
            source = file.read()
        for operation in onmodel.MOVING:
            self.assertIn(f'{{ "{operation}", ', source)
        with open(f"{TOP}/tests/bench/dm.c", encoding="utf-8") as file:
            self.assertEqual(set(re.findall(r'"(dm [a-z ]+)"', file.read())), set(onmodel.DM))

    def test_numbers_survive_the_csv_file(self):
        with tempfile.TemporaryDirectory() as out:
            onmodel.write_csv(out, self.numbers())
            with open(f"{out}/model.csv", encoding="utf-8") as file:
                text = file.read()
            self.assertEqual(onmodel.numbers(text), self.numbers())

    def test_plots_have_a_line_for_each_memory(self):
        for name, lines in ("model-register", 5), ("model-rereg", 10):
            for theme in plots.THEMES:
                script = plots.script("set terminal dumb", theme, plots.PLOTS[name],
                                      self.numbers())
                self.assertEqual(script.count(" with linespoints "), lines)


class Page(html.parser.HTMLParser):
    """Check that each tag that is opened is closed; collect the text and the links."""
    VOID = {"meta", "img", "source", "link", "wbr"}
    OPTIONAL = {"th", "td", "tr", "li", "dt", "dd", "p"}

    def __init__(self, page):
        super().__init__()
        self.open, self.words, self.links = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("src", "srcset", "href")]
        if tag not in self.VOID | self.OPTIONAL:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.OPTIONAL and self.open.pop() != tag:
            raise AssertionError(f"</{tag}> closes something else")

    def handle_data(self, data):
        self.words.append(data)


class Report(unittest.TestCase):
    @contextlib.contextmanager
    def made_of(self, files):
        """The page made of a build directory with these files."""
        with tempfile.TemporaryDirectory() as build:
            for name, text in files.items():
                os.makedirs(os.path.join(build, os.path.dirname(name)), exist_ok=True)
                with open(os.path.join(build, name), "w", encoding="utf-8") as file:
                    file.write(text)
            with mock.patch.multiple(report, BUILD=build, OUT=f"{build}/report"):
                with open(report.write(), encoding="utf-8") as file:
                    page = file.read()
            parsed = Page(page)
            self.assertEqual(parsed.open, [])
            yield parsed, " ".join(parsed.words), build

    @staticmethod
    def left(kernel, cases, why=""):
        """The text of the results of a run."""
        with tempfile.TemporaryDirectory() as directory:
            run = results.Run(f"{directory}/check", kernel)
            for case in cases:
                run.add(case)
            run.close(why)
            with open(f"{directory}/check.jsonl", encoding="utf-8") as file:
                return file.read()

    def test_empty_report_names_the_commands(self):
        with self.made_of({}) as (_, words, _):
            for command in "scoreboard", "bench", "check", "demo":
                self.assertIn(f"make {command}", words)

    def test_skips_and_failures_have_their_reasons(self):
        left = self.left("base", [Case("rdma-core/test_a", "one", "ok"),
                                  Case("rdma-core/test_a", "two", "skip", "no <XRC> here"),
                                  Case("rdma-core/test_a", "three", "not ok", "it broke"),
                                  Case("rdma-core/test_a", "four", "not ok", "", ["# said"])])
        with self.made_of({f"scoreboard/{side}.jsonl": left
                           for side in ("stock", "library", "ours")}) as (_, words, _):
            self.assertIn("No scoreboard yet", words)
        with self.made_of({f"scoreboard/{side}.jsonl": left
                           for sides in scoreboard.SIDES.values()
                           for side, *_ in sides}) as (_, words, _):
            for text in "no <XRC> here", "it broke", ": said", "1 skipped and 2 failed":
                self.assertEqual(words.count(text), 2)  # of ours on each device

    def test_each_kernel_has_its_last_run(self):
        case = [Case("access/data", "one", "ok", device="rxe")]
        with self.made_of({"results/check.jsonl": self.left("base", case),
                           "results/check-debug.jsonl": self.left("debug", case, "interrupted"),
                           "results/check-selected.jsonl": self.left("other", case),
                           }) as (_, words, _):
            self.assertIn("On the base kernel", words)
            self.assertIn("On the debug kernel", words)
            self.assertIn("ended early: interrupted", words)
            self.assertNotIn("On the other kernel", words)

    def test_linked_files_are_beside_the_page(self):
        plots = {f"bench/{name}{dark}.svg": "<svg/>" for name in report.PLOTS
                 for dark in ("", "-dark")}
        with self.made_of({"bench/summary.txt": "the table", "demo/screen.png": "a picture",
                           "demo/film.png": "more", **plots}) as (page, words, build):
            self.assertIn("the table", words)
            links = [link for link in page.links if not link.startswith("#")]
            self.assertEqual(len(links), 2 * len(report.PLOTS) + 2)
            for link in links:
                self.assertTrue(os.path.exists(f"{build}/report/{link}"), link)


if __name__ == "__main__":
    unittest.main()
