"""`python -m crosstraj`: the command line where no script is installed."""

import sys

from crosstraj.cli.main import main

sys.exit(main())
