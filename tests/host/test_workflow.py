# SPDX-License-Identifier: GPL-2.0-or-later
# runs: quick
"""The workflow file for a forge names commands, options and places that exist."""

import json
import os
import re
import subprocess
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
WORKFLOW = ".github/workflows/mrfd.yml"
# The program of the kit that a target of make runs with its variables as options.
CHECK = {"DEBUG": "--debug", "FULL": "--full", "KCSAN": "--kcsan", "SINCE": "--since"}


def run(*words):
    return subprocess.run(words, cwd=TOP, stdout=subprocess.PIPE, text=True, check=True).stdout


def workflow():
    """The file as GitHub reads it; the userland has a reader of YAML."""
    code = "import json, sys, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)"
    return json.loads(run("scripts/enter", "python3", "-c", code, WORKFLOW))


class Workflow(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.jobs = workflow()["jobs"]
        cls.steps = [step for job in cls.jobs.values() for step in job["steps"]]
        cls.commands = [step["run"] for step in cls.steps if "run" in step]

    def test_workflow_has_each_job(self):
        self.assertEqual(list(self.jobs), ["check", "debug", "full", "series", "update"])
        for name, job in self.jobs.items():
            self.assertTrue(any("make " in step.get("run", "") for step in job["steps"]), name)

    def test_make_targets_and_variables_exist(self):
        targets = run("make", "help")
        found = [words.split() for command in self.commands
                 for words in re.findall(r"(?:^|&& )make ([^&|;]*)", command)]
        self.assertIn(["check"], found)
        for target, *variables in found:
            self.assertRegex(targets, rf"(?m)^{target} ")
            for variable in variables:
                self.assertIn(CHECK[variable.partition("=")[0]], run("scripts/check", "--help"))

    def test_programs_have_the_named_options(self):
        found = [words.split() for command in self.commands
                 for words in re.findall(r"scripts/[^&|;)\"]*", command)]
        self.assertTrue(found)
        for program, *options in found:
            described = run(program, "--help")
            for option in options:
                self.assertIn(option, described)

    def test_each_time_of_the_schedule_starts_a_job(self):
        triggers = workflow()["true"]  # how YAML 1.1 reads "on"
        for time in triggers["schedule"]:
            self.assertTrue([name for name, job in self.jobs.items()
                             if f"github.event.schedule == '{time['cron']}'" in job.get("if", "")])

    def test_cache_of_the_kit_is_kept(self):
        kept = {step["with"]["path"] for step in self.steps
                if step.get("uses", "").startswith("actions/cache@")}
        cache = run("env", f"XDG_CACHE_HOME={workflow()['env']['XDG_CACHE_HOME']}", "bash", "-c",
                    '. kit/paths.sh; echo "$cache"').strip()
        self.assertEqual(kept, {cache})

    def test_results_and_logs_of_a_run_are_kept(self):
        text = run("bash", "-c", '. kit/paths.sh; echo "$build/results" "$logs" "$build/run"').split()
        for step in self.steps:
            if step.get("with", {}).get("name", "").startswith("results-"):
                self.assertEqual([os.path.join(TOP, path) for path in
                                  step["with"]["path"].split()], text)


if __name__ == "__main__":
    unittest.main()
