#pragma once

// The handlers of /api/v1/runs; the routes are in run_api.cpp. Internal to run_*.cpp.

#include "mlbench/master/http/services.h"

namespace mlbench::master::run_handlers {

// run_submission.cpp
Response create_runs(Services& services, const Request& request);
Response preview_runs(Services& services, const Request& request);
Response retry(Services& services, const Call& call);
Response clone(Services& services, const Call& call);

// run_compare.cpp
Response compare(const Services& services, const Request& request);
Response scaling(const Services& services, const Request& request);

// run_logs.cpp
Response list_logs(const Services& services, const Call& call);
Response read_log(Services& services, const Call& call);

// run_series.cpp
Response series(Services& services, const Call& call);
Response add_points(Services& services, const Call& call);

// run_timeline.cpp
Response timeline(const Services& services, const Call& call);
Response timeline_summary(const Services& services, const Call& call);

}  // namespace mlbench::master::run_handlers
