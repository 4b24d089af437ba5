"""Each way to install the operator from a registry: installed, upgraded, uninstalled."""
