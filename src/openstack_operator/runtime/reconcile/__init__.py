"""A pass over a resource: gather, plan, apply, prune, report."""
