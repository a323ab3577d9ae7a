"""Tests that wait for the nightly tier (scripts/test --all), so that the default one stays under ten minutes."""
import os
import unittest

IS_ON = "TITAN_NIGHTLY" in os.environ
REASON = "only with scripts/test --all, or where TITAN_NIGHTLY is set"

# For what is covered by day in another way: the same rule by a neighbouring case, or the same path with fewer rounds.
at_night = unittest.skipUnless(IS_ON, REASON)
