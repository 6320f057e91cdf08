// Names, paths, arguments and values of any bytes come out of each engine as they went in, or are refused. The tests
// use plain models of what the engines document that they take for their own, and the real shell.
// tests/engines/language_test.py tests the engines themselves.

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <sstream>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/process.h"
#include "mlbench/base/test_words.h"
#include "mlbench/base/text.h"
#include "mlbench/exec/container.h"
#include "mlbench/exec/kubernetes/manifest.h"
#include "mlbench/exec/kubernetes/test_kubelet.h"
#include "mlbench/exec/local/mpirun.h"
#include "mlbench/exec/mpirun/command.h"
#include "mlbench/exec/mpirun/programs.h"
#include "mlbench/exec/slurm/script.h"
#include "mlbench/guard/launcher_words.h"

namespace mlbench::exec {
namespace {

using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

constexpr const char* kGuardPath = "/opt/mlbench-guard";

// What a rank gets.
struct Arrived {
  Words command = {};
  Variables environment = {};
  std::string working_directory = {};
  std::vector<std::string> folders = {};
  bool operator==(const Arrived&) const = default;
};

LaunchRequest request_of(RandomWords& random, bool text) {
  LaunchRequest request;
  request.run_name = "r-2";
  request.backend = "gloo";
  request.rank_words = true;
  request.guard = kGuardPath;
  request.command = {"program"};
  const auto any = [&] { return text ? random.word() : random.bytes(); };
  for (int i = 0; i < 4; ++i) request.command.push_back(any());
  for (const char* name : {"VALUE", "PATH", "OMPI_MCA_x", "SBATCH_PARTITION", "HOME"})
    request.environment[name] = any();
  const auto path = [&] { return "/d" + (text ? random.text() : random.bytes()) + "x"; };
  request.working_directory = path();
  request.folders = {{path(), true}};
  request.log_dir = path() + "/logs";
  return request;
}

Arrived sent(const LaunchRequest& request) {
  return {request.command,
          request.environment,
          request.working_directory.string(),
          {request.folders.front().path.string()}};
}

std::string as_json_keeps_it(const std::string& text) {
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

// The command as the guard starts the rank.
Words behind_guard(const Words& words) {
  const auto guard = std::ranges::find(words, kGuardPath);
  if (guard == words.end() || guard + 1 == words.end()) return {"there is no guard"};
  const Words command(guard + 2, words.end());
  const bool shielded = *(guard + 1) == "openmpi" || *(guard + 1) == "slurm";
  return shielded ? guard::unshielded(command) : command;
}

Variables given(const Variables& variables, const LaunchRequest& request) {
  Variables found;
  for (const auto& [name, value] : variables) {
    const bool shield = name.starts_with(guard::kShield);
    const std::string own = shield ? name.substr(guard::kShield.size()) : name;
    if (request.environment.contains(own)) found[own] = value;
  }
  return found;
}

// ---- models --------------------------------------------------------------------------------------------------------

Arrived of_container(const Json& container, const Variables& secret, const LaunchRequest& request) {
  Variables known;
  for (const Json& one : container.at("env")) {
    const std::string name = one.at("name");
    if (one.contains("value")) known[name] = kubernetes::by_kubelet(one.at("value"), known);
    if (secret.contains(name)) known[name] = secret.at(name);
  }
  Arrived arrived{.environment = given(known, request), .working_directory = container.at("workingDir")};
  for (const Json& word : container.at("command")) arrived.command.push_back(kubernetes::by_kubelet(word, known));
  return arrived;
}

// What a launcher makes of its words: ":" begins another command, and the other words below are its own wherever they
// stand.
Arrived of_launcher(const Words& words, const Variables& environment, const LaunchRequest& request) {
  const auto guard = std::ranges::find(words, kGuardPath);
  for (const char* taken : {":", "--mca", "-mca", "--gmca", "-gmca", "--am", "-am", "--tune", "-tune"}) {
    if (std::find(guard, words.end(), taken) != words.end()) return {{std::string("the launcher takes ") + taken}};
  }
  Arrived arrived{.command = behind_guard(words)};
  Variables handed_on = environment;
  for (auto word = words.begin(); word != guard; ++word) {
    if (*word == "--wdir") arrived.working_directory = *(word + 1);
  }
  arrived.environment = given(handed_on, request);
  return arrived;
}

// What podman makes of its words. It splits `--volume HOST:CONTAINER[:OPTIONS]` at colons, and keeps words, values and
// paths as JSON.
Arrived of_podman(const Words& words, const Variables& environment, const LaunchRequest& request) {
  Arrived arrived;
  Variables within;
  size_t at = 2;
  for (; at < words.size() && words[at].starts_with("--"); at += words[at] == "--rm" ? 1 : 2) {
    if (words[at] == "--env") within[words[at + 1]] = as_json_keeps_it(environment.at(words[at + 1]));
    if (words[at] == "--workdir") arrived.working_directory = as_json_keeps_it(words[at + 1]);
    if (words[at] != "--volume") continue;
    const std::string& volume = words[at + 1];
    if (std::ranges::count(volume, ':') > 2) return {{"podman refuses the volume"}};
    const std::string host = volume.substr(0, volume.find(':'));
    if (host != kGuardPath) arrived.folders.push_back(as_json_keeps_it(host));
  }
  Words command = {kGuardPath};
  for (size_t word = at + 1; word < words.size(); ++word) command.push_back(as_json_keeps_it(words[word]));
  arrived.command = behind_guard(command);
  arrived.environment = given(within, request);
  return arrived;
}

// The folders of `mounts` without those that each container has.
std::vector<std::string> asked_for(const std::vector<std::string>& mounts) {
  std::vector<std::string> folders;
  std::ranges::copy_if(mounts, std::back_inserter(folders),
                       [](const std::string& path) { return path != kGuardPath && path != "/tmp"; });
  return folders;
}

// What Apptainer makes of `--bind SOURCE:DESTINATION[:OPTIONS][,...]` (its ParseBindPath): it splits at commas and at
// colons, takes ^ for neither, and cuts blanks off each part that no colon follows.
std::vector<std::string> by_apptainer(const std::string& text) {
  std::vector<std::string> folders;
  for (const std::string& bind : split_at(text, ',')) {
    if (bind.find_first_of("^\\") != std::string::npos) return {"Apptainer cuts the path"};
    std::vector<std::string> parts = split_at(bind, ':');
    std::string& last = parts.back();
    while (!last.empty() && std::isspace(static_cast<unsigned char>(last.back())) != 0) last.pop_back();
    if (parts.size() != 3 || parts[0] != parts[1] || (parts[2] != "ro" && parts[2] != "rw")) {
      return {"Apptainer takes the bind apart"};
    }
    folders.push_back(parts[1]);
  }
  return asked_for(folders);
}

// What pyxis makes of `--container-mounts=SOURCE:DESTINATION[:FLAGS][,...]` (its args.c): a script of bash that prints
// a table of mounts, with blanks between its columns.
std::vector<std::string> by_pyxis(const std::string& text) {
  std::string script;
  for (const std::string& mount : split_at(text, ',')) {
    const std::vector<std::string> parts = split_at(mount, ':');
    if (parts.size() < 2) return {"pyxis refuses the mount"};
    script += "echo \"" + parts[0] + " " + parts[1] + " x-create=auto,rbind" +
              (parts.size() > 2 ? "," + parts[2] : "") + "\"\n";
  }
  ProcessOptions bash;
  bash.arguments = {"/bin/bash", "-c", script};
  std::vector<std::string> folders;
  std::istringstream table(run_process(bash, std::chrono::seconds(30)).standard_output);
  for (std::string line; std::getline(table, line);) {
    std::istringstream columns(line);
    std::string source, destination, options, more;
    columns >> source >> destination >> options;
    if (columns >> more || source != destination || !options.starts_with("x-create=auto,rbind")) {
      return {"the table of mounts is wrong: " + line};
    }
    folders.push_back(destination);
  }
  return asked_for(folders);
}

// What sbatch makes of a value of "#SBATCH --KEY=VALUE": blanks end it, quotes hold it together, # begins a comment,
// and \ keeps what follows.
std::string by_sbatch(const std::string& text) {
  std::string value;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && i + 1 < text.size()) {
      value += text[++i];
    } else if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (quote == 0 && (c == '#' || std::isspace(static_cast<unsigned char>(c)) != 0)) {
      break;
    } else {
      value += c;
    }
  }
  return value;
}

// What sbatch makes of a file name for job 17 (its man page, "filename pattern").
std::string by_file_pattern(const std::string& name) {
  const bool escaped = name.find('\\') != std::string::npos;
  std::string out;
  for (size_t i = 0; i < name.size(); ++i) {
    if (escaped && name[i] == '\\') {
      out += name[++i];
    } else if (!escaped && name[i] == '%' && i + 1 < name.size()) {
      out += name[++i] == '%' ? "%" : "17";
    } else {
      out += name[i];
    }
  }
  return out;
}

// ---- engines -------------------------------------------------------------------------------------------------------

// What a program says that prints each of its words with a zero byte behind it.
Words said_by(const ProcessOptions& options) {
  const std::string said = run_process(options, std::chrono::seconds(30)).standard_output;
  Words words;
  std::istringstream parts(said);
  for (std::string word; std::getline(parts, word, '\0');) words.push_back(word);
  return words;
}

Arrived through_kubernetes(const LaunchRequest& request) {
  kubernetes::Options engine;
  engine.image = "worker:1";
  kubernetes::check(request, engine, {});
  Variables secret = request.environment;
  const kubernetes::Objects objects = kubernetes::objects_of(request, engine, {}, "mlbench-r-2-ab", secret);
  const Json job = Json::parse(objects.job.dump());
  Arrived arrived = of_container(job.at("spec").at("template").at("spec").at("containers").at(0), secret, request);
  // The guard, which the pod finds in PATH, and its launcher come first.
  arrived.command.erase(arrived.command.begin(), arrived.command.begin() + 2);
  return arrived;
}

Arrived through_a_job_of_others(const LaunchRequest& request) {
  kubernetes::Options engine;
  engine.image = "worker:1";
  const Json list = Json::parse(kubernetes::launched_by_others("job", request, nullptr, engine, {}).dump());
  Arrived arrived = of_container(list.at(1).at("spec").at("template").at("spec").at("containers").at(0), {}, request);
  arrived.environment["HOME"] = request.environment.at("HOME");  // which is the pod's own
  return arrived;
}

Arrived through_mpirun(const LaunchRequest& request) {
  mpirun::Options engine;
  engine.hosts = "localhost:2";
  const ProcessOptions options = mpirun::command(engine, request, {"localhost"});
  return of_launcher(options.arguments, options.environment, request);
}

Arrived through_local_mpirun(const LaunchRequest& request) {
  const ProcessOptions options = local::mpirun(request);
  Arrived arrived = of_launcher(options.arguments, options.environment, request);
  arrived.working_directory = options.working_directory;
  return arrived;
}

Arrived through_podman(const LaunchRequest& request) {
  const Variables variables = guard::shielded(request.environment);
  ContainerOptions options{.engine = "podman", .image = "image"};
  options.folders = request.folders;
  for (const auto& [name, value] : variables) options.variables.push_back(name);
  return of_podman(container_command(options, request, "direct", request.command), variables, request);
}

// Runs the script by the real bash, with an srun that prints its words. `image_of` adds what these say of a container.
Arrived through_slurm_with(const LaunchRequest& request, const slurm::Options& engine,
                           const std::function<void(Arrived&, const Words&)>& image_of) {
  const LaunchRequest theirs = slurm::on_hosts(request, engine);
  const std::string script = slurm::batch_script(theirs, engine);
  const auto value_of = [&](const std::string& key) {
    const std::string before = "#SBATCH --" + key + "=";
    const size_t begin = script.find("\n" + before) + 1 + before.size();
    return by_sbatch(script.substr(begin, script.find('\n', begin) - begin));
  };
  if (by_file_pattern(value_of("output")) != slurm::log_path(request).string()) return {{"another log file"}};
  const TemporaryFolder folder;
  write_file_atomically(folder / "srun", "#!/bin/sh\nprintf '%s\\0' \"$@\"\n");
  chmod((folder / "srun").c_str(), 0700);
  write_file_atomically(folder / "script", script);
  ProcessOptions bash;
  bash.arguments = {"/bin/bash", (folder / "script").string()};
  bash.environment = {{"PATH", folder.path().string() + ":/usr/bin:/bin"}};
  const Words srun = said_by(bash);
  Arrived arrived = of_launcher(srun, theirs.environment, request);
  arrived.working_directory = value_of("chdir");
  image_of(arrived, srun);
  return arrived;
}

Arrived through_slurm(const LaunchRequest& request) {
  return through_slurm_with(request, {}, [](Arrived&, const Words&) {});
}

// Apptainer takes its --pwd as it is, and hands on the words behind the image and the variables.
Arrived through_apptainer(const LaunchRequest& request) {
  slurm::Options engine;
  engine.image = "/images/one.sif";
  return through_slurm_with(request, engine, [&](Arrived& arrived, const Words& srun) {
    const auto image = std::ranges::find(srun, engine.image);
    for (auto word = std::ranges::find(srun, "apptainer"); word < image; ++word) {
      if (*word == "--bind") arrived.folders = by_apptainer(*(word + 1));
      if (*word == "--pwd") arrived.working_directory = *(word + 1);
    }
  });
}

// pyxis takes its --container-workdir as it is.
Arrived through_pyxis(const LaunchRequest& request) {
  slurm::Options engine;
  engine.image = "team/image";
  return through_slurm_with(request, engine, [](Arrived& arrived, const Words& srun) {
    const std::string mounts = "--container-mounts=", folder = "--container-workdir=";
    for (const std::string& word : Words(srun.begin(), std::ranges::find(srun, kGuardPath))) {
      if (word.starts_with(mounts)) arrived.folders = by_pyxis(word.substr(mounts.size()));
      if (word.starts_with(folder)) arrived.working_directory = word.substr(folder.size());
    }
  });
}

// Runs a plain command, which has no variables and folders, by the shell of the other host.
Arrived through_ssh(const LaunchRequest& request) {
  Words question = {"printf", "%s\\0"};
  question.insert(question.end(), request.command.begin(), request.command.end());
  const Words ssh = mpirun::on_host({"ssh"}, "h2", question);
  ProcessOptions shell;
  shell.arguments = {"/bin/sh", "-c", ssh.back()};
  Arrived arrived = sent(request);
  arrived.command = said_by(shell);
  return arrived;
}

struct Engine {
  const char* name;
  std::function<Arrived(const LaunchRequest&)> through;
  bool takes_bytes = false;  // whether the engine takes any bytes, not UTF-8 alone
  bool has_folders = false;  // whether the engine takes folders
  int tries = 1000;
};

const Engine kEngines[] = {
    {.name = "kubernetes", .through = through_kubernetes, .tries = 200},
    {.name = "emit", .through = through_a_job_of_others, .tries = 200},
    {.name = "mpirun", .through = through_mpirun, .takes_bytes = true},
    {.name = "local_mpirun", .through = through_local_mpirun, .takes_bytes = true},
    {.name = "podman", .through = through_podman, .has_folders = true},
    {.name = "slurm", .through = through_slurm, .takes_bytes = true, .tries = 60},
    {.name = "apptainer", .through = through_apptainer, .takes_bytes = true, .has_folders = true, .tries = 200},
    {.name = "pyxis", .through = through_pyxis, .takes_bytes = true, .has_folders = true, .tries = 200},
    {.name = "ssh", .through = through_ssh, .takes_bytes = true, .tries = 60},
};

class EngineLanguage : public testing::TestWithParam<Engine> {};

INSTANTIATE_TEST_SUITE_P(Engines, EngineLanguage, testing::ValuesIn(kEngines),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(EngineLanguage, WhatIsTypedComesOutOrIsRefused) {
  const Engine& engine = GetParam();
  int came = 0;
  for (int seed = 0; seed < engine.tries; ++seed) {
    RandomWords random(static_cast<uint32_t>(seed));
    const bool text = seed % 2 == 0;
    const LaunchRequest request = request_of(random, text);
    Arrived expected = sent(request);
    if (!engine.has_folders) expected.folders.clear();
    try {
      Arrived arrived = engine.through(request);
      if (!engine.has_folders) arrived.folders.clear();
      ASSERT_EQ(arrived.command, expected.command) << "seed " << seed;
      ASSERT_EQ(arrived.environment, expected.environment) << "seed " << seed;
      ASSERT_EQ(arrived.working_directory, expected.working_directory) << "seed " << seed;
      ASSERT_EQ(arrived.folders, expected.folders) << "seed " << seed;
      ++came;
    } catch (const UserError& error) {
      const std::string why = error.what();
      ASSERT_TRUE(why.find("UTF-8") != std::string::npos || why.find("colon") != std::string::npos ||
                  why.find("control character") != std::string::npos)
          << why;
    }
  }
  EXPECT_GT(came, engine.tries / 10) << "nearly all is refused";
}

// A public report: "kill -0 $$" became "kill -0 $" in a pod.
TEST(EngineWords, TheKubeletReplacesNothing) {
  RandomWords random(1);
  LaunchRequest request = request_of(random, true);
  request.environment = {{"PRICE", "a$$b$(HOME)c"}};
  request.command = {"sh", "-c", "kill -0 $$ && echo $(HOME) $(nobody)", "x$$(RANK)y", "a$b", "$", "$$"};
  request.environment["HOME"] = "/tmp";
  for (const auto& through : {through_kubernetes, through_a_job_of_others}) {
    const Arrived arrived = through(request);
    EXPECT_EQ(arrived.command, request.command);
    EXPECT_EQ(arrived.environment, request.environment);
  }
}

TEST(EngineWords, AFileThatApptainerOrPyxisMountsHasNoLanguageInItsPath) {
  RandomWords random(1);
  LaunchRequest request = request_of(random, true);
  request.working_directory = "/w";
  request.log_dir = "/logs";
  for (const char* path : {"/a,b", "/a:b", "/a\\b"}) {
    request.folders = {{path, true}};
    EXPECT_THROW(through_apptainer(request), UserError) << path;
    EXPECT_THROW(through_pyxis(request), UserError) << path;
  }
  request.folders = {{"/a^b", true}};
  EXPECT_THROW(through_apptainer(request), UserError);
  EXPECT_EQ(through_pyxis(request).folders, Words{"/a^b"});
  for (const char* path : {"/a b", "/a ", "/a$(id)b", "/a`id`b", "/a\"b", "/a\tb", "/a\nb"}) {
    request.folders = {{path, true}};
    EXPECT_THROW(through_pyxis(request), UserError) << path;
    EXPECT_EQ(through_apptainer(request).folders, Words{path});
  }
  request.folders = {{"/w", true}};
  request.working_directory = "/a, b:c$";
  EXPECT_EQ(through_apptainer(request).working_directory, request.working_directory);
  EXPECT_EQ(through_pyxis(request).working_directory, request.working_directory);
}

}  // namespace
}  // namespace mlbench::exec
