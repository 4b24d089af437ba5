"""Tests that execute the programs of pods."""
