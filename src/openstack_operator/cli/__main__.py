"""`python -m openstack_operator.cli`."""

import sys

from .main import main

sys.exit(main())
