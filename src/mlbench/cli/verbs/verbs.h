#pragma once

// Each function adds a verb, or a group of verbs, to the app. They are in the order of `mlbench --help`.

namespace CLI {
class App;
}

namespace mlbench::cli {

struct Program;

void add_run(CLI::App& app, Program& program);
void add_resume(CLI::App& app, Program& program);
void add_stop(CLI::App& app, Program& program);
void add_status(CLI::App& app, Program& program);
void add_watch(CLI::App& app, Program& program);
void add_logs(CLI::App& app, Program& program);
void add_note(CLI::App& app, Program& program);
void add_download(CLI::App& app, Program& program);
void add_delete(CLI::App& app, Program& program);
void add_serve(CLI::App& app, Program& program);
void add_dashboard(CLI::App& app, Program& program);
void add_create_cluster(CLI::App& app, Program& program);
void add_delete_cluster(CLI::App& app, Program& program);
void add_clusters(CLI::App& app, Program& program);
void add_list(CLI::App& app, Program& program);
void add_data(CLI::App& app, Program& program);
void add_result(CLI::App& app, Program& program);
void add_charts(CLI::App& app, Program& program);
void add_compare(CLI::App& app, Program& program);
void add_score(CLI::App& app, Program& program);
void add_tune(CLI::App& app, Program& program);
void add_evaluate(CLI::App& app, Program& program);
void add_bench(CLI::App& app, Program& program);
void add_bench_storage(CLI::App& group, Program& program);  // called by add_bench()
void add_sweep(CLI::App& app, Program& program);
void add_study(CLI::App& app, Program& program);
void add_timeline(CLI::App& app, Program& program);
void add_schedule(CLI::App& app, Program& program);
void add_doctor(CLI::App& app, Program& program);

}  // namespace mlbench::cli
