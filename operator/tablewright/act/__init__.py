"""Carries decisions out: tables, MaintenanceRuns, Jobs and status. Every action may be repeated without harm."""
