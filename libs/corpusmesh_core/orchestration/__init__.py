"""Runs and tasks: a pure state machine that the Postgres adapter and the seeded simulation both drive."""
