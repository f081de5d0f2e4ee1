"""`python -m crosstraj`: the command line where no script is installed."""

import sys

from crosstraj.cli import main

sys.exit(main())
