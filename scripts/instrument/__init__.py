"""Instrumented copies of an op's sources: probes that say what was reached, and mutants behind a run-time switch."""
