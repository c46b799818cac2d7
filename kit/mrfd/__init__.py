# SPDX-License-Identifier: GPL-2.0-or-later
"""The Python modules of the kit: guests, test programs, results."""
