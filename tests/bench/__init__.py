"""Tests of the bandwidth room."""
