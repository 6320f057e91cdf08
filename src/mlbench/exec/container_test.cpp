#include "mlbench/exec/container.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/paths.h"
#include "mlbench/exec/test_fake_podman.h"

namespace mlbench::exec {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::ThrowsMessage;

LaunchRequest in_container() {
  LaunchRequest request;
  request.run_name = "r-2";
  request.backend = "gloo";
  request.guard = "/opt/mlbench-guard";
  request.workers = 2;
  request.log_dir = "/home/x/runs/r-2/logs";
  return request;
}

std::vector<std::string> join(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Container, TheCommandIsExact) {
  LaunchRequest request = in_container();
  request.working_directory = "/home/x/my work";
  ContainerOptions options{.engine = "docker", .image = "registry.example/team/image:1"};
  options.name = "mlbench-r-2-0";
  options.folders = {{"/home/x/runs/r-2", true}, {"/data", false}};
  options.variables = {"RANK", "MY_TOKEN"};
  options.cores = {0, 1, 4};
  options.cpus = 2.5;
  options.memory_bytes = int64_t{4} << 30;
  EXPECT_THAT(container_command(options, request, "direct", {"python3", "train.py", "a b"}),
              ElementsAreArray({"docker",
                                "run",
                                "--rm",
                                "--name",
                                "mlbench-r-2-0",
                                "--network",
                                "host",
                                "--ipc",
                                "host",
                                "--user",
                                (std::to_string(geteuid()) + ":" + std::to_string(getegid())).c_str(),
                                "--security-opt",
                                "label=disable",
                                "--cpuset-cpus",
                                "0-1,4",
                                "--cpus",
                                "2.5",
                                "--memory",
                                "4294967296",
                                "--volume",
                                "/opt/mlbench-guard:/opt/mlbench-guard:ro",
                                "--volume",
                                "/home/x/runs/r-2:/home/x/runs/r-2",
                                "--volume",
                                "/data:/data:ro",
                                "--env",
                                "RANK",
                                "--env",
                                "MY_TOKEN",
                                "--workdir",
                                "/home/x/my work",
                                "--entrypoint",
                                "/opt/mlbench-guard",
                                "registry.example/team/image:1",
                                "direct",
                                "python3",
                                "train.py",
                                "a b"}));
}

TEST(Container, PodmanKeepsTheUsersNumber) {
  ContainerOptions options{.engine = "podman", .image = "i"};
  // podman gets no option for cores: its containers are children of this process and have its cores.
  options.cores = {0};
  std::vector<std::string> expected = {
      "podman",    "run",    "--rm",
      "--network", "host",   "--ipc",
      "host",      "--user", std::to_string(geteuid()) + ":" + std::to_string(getegid())};
  if (geteuid() != 0) expected = join(expected, {"--userns", "keep-id"});
  expected = join(expected, {"--security-opt", "label=disable", "--volume", "/opt/mlbench-guard:/opt/mlbench-guard:ro",
                             "--entrypoint", "/opt/mlbench-guard", "i", "openmpi", "true"});
  EXPECT_EQ(container_command(options, in_container(), "openmpi", {"true"}), expected);
}

TEST(Container, GpusAreNamedAsEachEngineTakesThem) {
  const auto words = [](const char* engine, std::vector<std::string> gpus) {
    const ContainerOptions options{.engine = engine, .image = "i", .gpus = std::move(gpus)};
    return command_line({}, container_command(options, in_container(), "direct", {"true"}));
  };
  EXPECT_THAT(words("podman", {"1"}), HasSubstr(" --device nvidia.com/gpu=1 --volume "));
  EXPECT_THAT(words("podman", {"0", "GPU-7f"}),
              HasSubstr(" --device nvidia.com/gpu=0 --device nvidia.com/gpu=GPU-7f --volume "));
  EXPECT_THAT(words("podman", {kAllGpus}), HasSubstr(" --device nvidia.com/gpu=all --volume "));
  EXPECT_THAT(words("docker", {"1"}), HasSubstr(" --gpus device=1 --volume "));
  EXPECT_THAT(words("docker", {"0", "2"}), HasSubstr(" --gpus '\"device=0,2\"' --volume "));
  EXPECT_THAT(words("docker", {kAllGpus}), HasSubstr(" --gpus all --volume "));
  for (const char* engine : {"podman", "docker"}) EXPECT_THAT(words(engine, {}), testing::Not(HasSubstr("gpu")));
}

TEST(Container, WhatCannotBeIsRefused) {
  const ContainerOptions options{.engine = "podman", .image = "i"};
  LaunchRequest request = in_container();
  request.by_mpirun = true;
  EXPECT_THAT([&] { container_command(options, request, "openmpi", {"true"}); },
              ThrowsMessage<UserError>(HasSubstr("--image with --backend mpi: on other hosts")));
  ContainerOptions docker{.engine = "docker", .image = "i", .below_mpirun = true};
  EXPECT_THAT([&] { container_command(docker, request, "openmpi", {"true"}); },
              ThrowsMessage<UserError>(HasSubstr("install podman, or use gloo")));
  request = in_container();
  request.guard = "/opt/a:b/mlbench-guard";
  EXPECT_THAT([&] { container_command(options, request, "direct", {"true"}); },
              ThrowsMessage<UserError>(HasSubstr("/opt/a:b/mlbench-guard has a colon")));
}

TEST(Container, NamesAreOfOneRunAlone) {
  LaunchRequest request = in_container();
  const std::string name = container_name(request, 1);
  EXPECT_THAT(name, testing::MatchesRegex("mlbench-r-2-[0-9a-f]+-1"));
  request.segment = 2;
  EXPECT_EQ(container_name(request, 1), name);
  request.log_dir = "/home/y/runs/r-2/logs";
  EXPECT_NE(container_name(request, 1), name) << "a run of the same name in another home";
}

TEST(Container, ThereIsPodmanOrDockerOrAnErrorThatSaysWhatToInstall) {
  const std::string path = environment_variable("PATH").value_or("");
  const TemporaryFolder folder;
  setenv("PATH", folder.path().c_str(), 1);
  EXPECT_THAT([] { container_engine(); }, ThrowsMessage<UserError>(HasSubstr("Debian: podman, or docker.io")));
  for (const char* engine : {"docker", "podman"}) {
    write_file_atomically(folder / engine, "#!/bin/sh\n");
    std::filesystem::permissions(folder / engine, std::filesystem::perms::owner_all);
    EXPECT_EQ(container_engine(), engine);
  }
  setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace mlbench::exec
