import json
import os
import sys

import titantrace
from oumi.performance.telemetry import TelemetryTracker

with TelemetryTracker().timer("of the command"):
    print(json.dumps([sys.argv[1:], os.path.basename(os.path.dirname(sys.argv[0])), titantrace.dump()]))
