"""Access to artifacts: grants, prices and licences."""
