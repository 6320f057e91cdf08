// all_reduce of float32 over two ranks, once through a Communicator and once by a library's own call, in the same
// processes, turn by turn: what the communicator costs over MPI and Gloo, and how shm does beside the faster of both.
// One JSON object per size from rank 0: {"ours", "bytes", "ours_us": [...], "raw_us": [...]}, an entry per pair.
// library_overhead.py starts it and judges what comes out.
//
//   mpirun -n 2 library_overhead --ours mpi|gloo|shm|shm-in-place
//
// shm-in-place: of buffers that the communicator allocated. All use one buffer of that kind for both sides.
// MPI's own call is the same library in the same process, so thread level and connections are the same. Gloo's is
// gloo::allreduce over a full mesh of its own making (TCP on the loopback), its ring or its bcube, whichever is faster.

#include <fmt/format.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/types.h>
#include <mpi.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/json.h"
#include "mlbench/comm/gloo/gloo.h"
#include "mlbench/comm/mpi/mpi.h"
#include "mlbench/comm/shm/shm.h"
#include "mlbench/comm/test_stores.h"

namespace mlbench {
namespace {

using Values = std::span<float>;
using AllReduce = std::function<void(Values)>;

constexpr auto kTimeout = std::chrono::seconds(30);

struct Plan {
  std::vector<int64_t> sizes = {8, 1024, 65536, 4 << 20};
  int pairs = 21;
  double seconds = 0.1;  // per side of a pair
};

// Microseconds per call.
double measure(const AllReduce& all_reduce, Values values, int calls) {
  const auto start = std::chrono::steady_clock::now();
  for (int call = 0; call < calls; ++call) all_reduce(values);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / calls;
}

using Buffers = std::function<std::shared_ptr<std::byte>(size_t bytes)>;

std::shared_ptr<std::byte> on_heap(size_t bytes) {
  return {static_cast<std::byte*>(std::calloc(1, (bytes + 63) / 64 * 64)), std::free};
}

// `control` keeps the ranks together.
void compare(const std::string& name, const Plan& plan, comm::Communicator& control, comm::Communicator& comm,
             const Buffers& buffers, const std::vector<AllReduce>& raws) {
  const AllReduce ours = [&](Values values) { comm.all_reduce(view_of(values), comm::ReduceOp::kSum); };
  for (const int64_t bytes : plan.sizes) {
    const auto memory = buffers(static_cast<size_t>(bytes));
    const Values values(reinterpret_cast<float*>(memory.get()), static_cast<size_t>(bytes) / sizeof(float));
    const auto calls_of = [&](const AllReduce& all_reduce) {
      measure(all_reduce, values, 20);
      auto calls = static_cast<float>(plan.seconds * 1e6 / measure(all_reduce, values, 20));
      control.broadcast(view_of(std::span(&calls, 1)), 0);
      return std::max(10, static_cast<int>(calls));
    };
    // The library's fastest way, by one turn of each.
    std::vector<float> turns;
    for (const AllReduce& raw : raws) turns.push_back(static_cast<float>(measure(raw, values, calls_of(raw))));
    control.broadcast(view_of(std::span(turns)), 0);
    const auto fastest = static_cast<size_t>(std::min_element(turns.begin(), turns.end()) - turns.begin());
    const AllReduce& raw = raws[fastest];

    const int calls = calls_of(raw);
    Json ours_us = Json::array(), raw_us = Json::array();
    for (int pair = 0; pair < plan.pairs; ++pair) {
      for (const bool own : {pair % 2 == 0, pair % 2 != 0}) {
        control.barrier();
        (own ? ours_us : raw_us).push_back(measure(own ? ours : raw, values, calls));
      }
    }
    if (comm.rank() == 0) {
      fmt::print("{}\n", Json{{"ours", name},
                              {"bytes", bytes},
                              {"calls", calls},
                              {"raw_variant", fastest},
                              {"stack", comm.description()},
                              {"ours_us", ours_us},
                              {"raw_us", raw_us}}
                             .dump());
      std::fflush(stdout);
    }
  }
}

AllReduce raw_mpi() {
  return [](Values values) {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  };
}

std::vector<AllReduce> raw_gloo(int rank, const std::string& folder) {
  gloo::transport::tcp::attr address;
  address.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(address);
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, 2);
  context->setTimeout(kTimeout);
  context->connectFullMesh(store, device);
  std::vector<AllReduce> ways;
  for (const auto algorithm : {gloo::AllreduceOptions::Algorithm::RING, gloo::AllreduceOptions::Algorithm::BCUBE}) {
    ways.emplace_back([context, algorithm](Values values) {
      gloo::AllreduceOptions call(context);
      call.setAlgorithm(algorithm);
      call.setOutput(values.data(), values.size());
      call.setReduceFunction(
          [](void* out, const void* a, const void* b, size_t count) { gloo::sum<float>(out, a, b, count); });
      gloo::allreduce(call);
    });
  }
  return ways;
}

int run(int argc, char** argv) {
  CLI::App app{"The communicator beside the libraries' own calls."};
  Plan plan;
  std::string ours = "mpi", folder;
  app.add_option("--ours", ours)->check(CLI::IsMember({"mpi", "gloo", "shm", "shm-in-place"}))->capture_default_str();
  app.add_option("--folder", folder, "Empty, where the ranks find each other")->required();
  app.add_option("--sizes", plan.sizes, "Bytes, multiples of 4")->delimiter(',')->capture_default_str();
  app.add_option("--pairs", plan.pairs)->capture_default_str();
  app.add_option("--seconds", plan.seconds, "Per side of a pair")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (rank == nullptr) throw UserError("start it by mpirun -n 2");
  comm::CommOptions options;
  options.rank = std::atoi(rank);
  options.size = 2;
  options.timeout = kTimeout;
  const std::filesystem::path own = std::filesystem::path(folder) / "ours";  // beside the keys of Gloo's own
  std::filesystem::create_directories(own);
  options.store = std::make_shared<comm::FileStore>(own);
  comm::Communicator mpi(comm::mpi_backend::make(options));
  if (ours == "mpi") {
    compare(ours, plan, mpi, mpi, on_heap, {raw_mpi()});
    return 0;
  }
  const auto make = ours == "gloo" ? comm::gloo_backend::make : comm::shm_backend::make;
  comm::Communicator comm(make(options));
  std::vector<AllReduce> raws = raw_gloo(options.rank, folder);
  if (ours != "gloo") raws.push_back(raw_mpi());
  const Buffers shared = [&](size_t bytes) { return comm.allocate(bytes); };
  compare(ours, plan, mpi, comm, ours == "shm-in-place" ? shared : on_heap, raws);
  mpi.barrier();
  return 0;
}

}  // namespace
}  // namespace mlbench

int main(int argc, char** argv) try { return mlbench::run(argc, argv); } catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
