# SPDX-License-Identifier: GPL-2.0-or-later
"""Read what checkpatch.pl printed about each patch of a series.

    checkpatch.py OUTPUT...

Beside each file OUTPUT write OUTPUT.findings: the findings that are not in the table
ALLOWED.  Print how often each entry of the table was used.  An output that has neither
a finding nor checkpatch's line for a clean patch is a finding too: checkpatch did not run.
"""

import collections
import re
import sys

# Type of the finding, what its text matches, and why it is allowed.
ALLOWED = [
    ("FILE_PATH_CHANGES", r".", "the directory of the new file has a section in the kernel's "
     "MAINTAINERS; scripts/check-series checks that"),
    ("OPEN_ENDED_LINE", r"(UVERBS_HANDLER\([A-Z_]*\)|DECLARE_UVERBS_[A-Z_]*"
     r"|ADD_UVERBS_ATTRIBUTES_SIMPLE)\($",
     "the form of every uverbs handler, DECLARE_UVERBS_ table and added attribute"),
    ("UNKNOWN_COMMIT_ID", r"6619ccf1bb1d|8700e3e7c485|32a577b4c3a9|3902b429ca14|cdd0b85675ae|570d2b99d00d"
     r"|544c7f62cf32|89c1905d9c14|26a8ea80929c|1c5ecae3a93f|90da7dc8206a|ef3642c4f54d|cea85fa5dbc2"
     r"|dc2316eba73f|13ef5539def7|158e71bb69e3|1efe8c0670d6|2fae67ab63db|3576b0df1588|5b2e45049dc0"
     r"|6e0954b11c05|717cf9357325|7e6edb9b2e0b|9284bc34c773|932f1eef09ec|a833a693a490|bfe0cc6eb249"
     r"|d03fb5c6599e|682358fd35de|de8f847a5114|e126ba97dba9|f605f26ea196|c3e1bf626eb3|011199f46f44"
     r"|11d5a4745e00|444e2a19d7fd|b54c2a25ace5|db72438c9319|6f2487bfafce|e73242aa14d2|a926a903b7dc"
     r"|3aa31a8bb11e",
     "a commit of mainline that a Fixes: names; the source from Debian has no history"),
    ("OPEN_ENDED_LINE", r"umem_dmabuf = ib_umem_dmabuf_get_pinned\($",
     "a line of upstream that a patch moves"),
    ("PARENTHESIS_ALIGNMENT", r"umem_dmabuf = ib_umem_dmabuf_get_pinned_with_dma_device\(",
     "the same"),
    ("MACRO_ARG_REUSE", r"#define WRITE_BUFFER_DESC\(cmd\)",
     "the address of a local variable, of one of two structs with these fields"),
    ("MISSING_FIXES_TAG", r"stable@", "which commit brought the bug cannot be looked up in that "
     "source; a hash that nobody has checked is worse than none"),
    ("TYPO_SPELLING", r"may be misspelled.*renderD",
     "the name of the device file, /dev/dri/renderD128"),
    ("COMPARISON_TO_NULL", r"strstr\(buf, kernel_no_opt1\) != NULL",
     "the form of the line below it, which is libfabric's"),
    ("ENOSYS", r"(ret|errno) == ENOSYS",
     "user space compares with what an old kernel returned; the rule is for kernel code"),
]
CLEAN = "has no obvious style problems"


def findings(text):
    """(type, text) of each finding: a paragraph that begins with its level and type."""
    for paragraph in re.split(r"\n{2,}", text):
        match = re.match(r"(?:ERROR|WARNING|CHECK):([A-Z_]+):", paragraph)
        if match:
            yield match[1], paragraph


def excuse(kind, text):
    """Why this finding is allowed, or None."""
    for allowed, pattern, why in ALLOWED:
        if kind == allowed and re.search(pattern, text, re.MULTILINE | re.DOTALL):
            return f"{kind}: {why}"
    return None


def judge(text):
    """The findings that count, and the excuses of those that do not."""
    found = list(findings(text))
    excuses = [excuse(*finding) for finding in found]
    bad = [finding[1] for finding, why in zip(found, excuses) if not why]
    if not found and CLEAN not in text:
        bad.append("checkpatch did not check it:\n" + text)
    return bad, [why for why in excuses if why]


def main(outputs):
    used = collections.Counter()
    for output in outputs:
        with open(output, encoding="utf-8", errors="replace") as file:
            bad, excuses = judge(file.read())
        used.update(excuses)
        with open(output + ".findings", "w", encoding="utf-8") as file:
            file.writelines(text.rstrip("\n") + "\n" for text in bad)
    for why, times in sorted(used.items()):
        print(f"allowed {times} times: {why}")


if __name__ == "__main__":
    main(sys.argv[1:])
