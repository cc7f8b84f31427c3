"""Tests of a job's life after it was queued."""
