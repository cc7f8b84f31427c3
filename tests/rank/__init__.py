"""Tests of what runs in the ranks."""
